// What the SDKs see of a server that stops: an error, never a reply that looks whole.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import Anthropic from '@anthropic-ai/sdk';
import OpenAI from 'openai';
import { story } from './answers.js';
import { interrupt, longContext, model, startServer } from './server.js';

const apiKey = 'any';
const url = await startServer('--stop-after', '0', '--sessions', '2', ...longContext);
const openai = new OpenAI({ baseURL: `${url}/v1`, apiKey, maxRetries: 0 });
const anthropic = new Anthropic({ baseURL: url, apiKey, maxRetries: 0 });

test('streams that the end of the server cuts end with an error', async () => {
  const messages = [{ role: 'user', content: story }];
  const long = { model, ignore_eos: true, stream: true };
  const streams = [
    await openai.chat.completions.create({ ...long, messages }),
    await openai.responses.create({ ...long, input: story }),
    // The other two have the server's sessions: this one waits.
    await anthropic.messages.create({ model, messages, max_tokens: 900, stream: true }),
  ];
  const events = streams.map((stream) => stream[Symbol.asyncIterator]());
  for (const event of events) await event.next();
  interrupt(url);
  const errors = [OpenAI.APIError, OpenAI.APIError, Anthropic.APIError];
  for (const [i, event] of events.entries()) {
    const rest = async () => {
      while (!(await event.next()).done);
    };
    await assert.rejects(rest, (error) => {
      assert.ok(error instanceof errors[i], error);
      assert.match(error.message, /the server is stopping/);
      return true;
    });
  }
});
