// Anthropic's Messages API as Anthropic's own client sees it. Answers at temperature 0 are those of the model that ships.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import Anthropic from '@anthropic-ai/sdk';
import * as asked from './answers.js';
import { cachedTokens, questions, rules } from './prefix.js';
import { refusal } from './refusal.js';
import { model, startServer } from './server.js';
import { Received } from './types.js';

const key = 'a key';
const url = await startServer('--api-key', key);
const client = new Anthropic({ baseURL: url, apiKey: key, maxRetries: 0 });

const received = new Received("import type Anthropic from '@anthropic-ai/sdk';");
const extensions = ['seed', 'timings'];

const { answer, thought } = asked;
const user = (content) => [{ role: 'user', content }];
const question = user(asked.question);
const story = user(asked.story);
const greedy = { model, max_tokens: 100, temperature: 0 };
const thinking = { type: 'adaptive' };

async function create(options) {
  const message = await client.messages.create({ ...greedy, messages: question, ...options });
  received.add('Anthropic.Message', message, { '': extensions });
  return message;
}

async function eventsOf(options) {
  const stream = await client.messages.create({ ...greedy, messages: question, stream: true, ...options });
  const events = [];
  for await (const event of stream) {
    received.add('Anthropic.RawMessageStreamEvent', event, { '': extensions });
    events.push(event);
  }
  return events;
}

const textOf = (message) => message.content.map((block) => block.text ?? '').join('');

async function refused(type, call) {
  const error = await refusal(type, call);
  assert.equal(error.error.type, 'error');
  assert.equal(error.error.request_id, error.requestID);
  received.add('Anthropic.ErrorResponse', error.error, { error: ['param', 'code', 'details'] });
  return error;
}

test('a message answers', async () => {
  const message = await create();
  assert.match(message.id, /^msg_/);
  assert.ok(message._request_id);
  assert.deepEqual([message.type, message.role, message.model], ['message', 'assistant', model]);
  assert.deepEqual(message.content, [{ type: 'text', text: answer, citations: null }]);
  assert.deepEqual([message.stop_reason, message.stop_sequence], ['end_turn', null]);
  assert.ok(message.usage.input_tokens + message.usage.cache_read_input_tokens > 0);
  assert.ok(message.usage.output_tokens > 0);
});

test('system prompts, blocks and turns are taken', async () => {
  const messages = [
    { role: 'user', content: [{ type: 'text', text: 'What is the capital of ' }, { type: 'text', text: 'France?' }] },
    { role: 'assistant', content: [{ type: 'text', text: 'The capital of France is Paris.' }] },
    ...question,
  ];
  for (const system of ['Answer in one sentence.', [{ type: 'text', text: 'Answer in one sentence.' }]]) {
    assert.equal(textOf(await create({ messages, system })), answer);
  }
});

test('usage tells how much of a prompt was there already', async () => {
  const expected = await cachedTokens(url, { 'X-Api-Key': key });
  assert.ok(expected[1] > 50 && expected[2] > 50);
  const options = (i) => ({ system: rules, messages: user(questions[i]), max_tokens: 4 });
  const usages = [
    (await create(options(0))).usage,
    (await create(options(1))).usage,
    (await eventsOf(options(2))).find(({ type }) => type === 'message_delta').usage,
  ];
  assert.deepEqual(
    usages.map(({ cache_read_input_tokens }) => cache_read_input_tokens),
    expected,
  );
  for (const [i, { input_tokens, cache_read_input_tokens }] of usages.entries()) {
    const { system, messages } = options(i);
    const count = await client.messages.countTokens({ model, system, messages });
    assert.equal(input_tokens + cache_read_input_tokens, count.input_tokens);
  }
});

test('max_tokens ends a message', async () => {
  const message = await create({ messages: story, max_tokens: 7 });
  assert.equal(message.stop_reason, 'max_tokens');
  assert.equal(message.usage.output_tokens, 7);
});

test('a stop sequence ends a message before it', async () => {
  const whole = textOf(await create({ messages: story, max_tokens: 40 }));
  const stop = whole.slice(11, 29);
  const message = await create({ messages: story, max_tokens: 40, stop_sequences: ['not there', stop] });
  assert.equal(textOf(message), whole.slice(0, 11));
  assert.deepEqual([message.stop_reason, message.stop_sequence], ['stop_sequence', stop]);
});

test('the model goes on where the last message ends', async () => {
  const begun = { role: 'assistant', content: 'The capital of' };
  assert.equal('The capital of' + textOf(await create({ messages: [...question, begun] })), answer);
});

test('thinking is a block of its own', async () => {
  for (const how of [thinking, { type: 'enabled', budget_tokens: 50 }]) {
    const message = await create({ thinking: how });
    assert.deepEqual(
      message.content.map(({ type }) => type),
      ['thinking', 'text'],
    );
    assert.equal(message.content[0].thinking, thought);
    assert.equal(message.content[1].text, answer);
    assert.ok(message.usage.output_tokens_details.thinking_tokens > 0);
  }
  const silent = await create({ thinking: { type: 'disabled' } });
  assert.deepEqual(silent.content, [{ type: 'text', text: answer, citations: null }]);
  assert.equal(silent.usage.output_tokens_details.thinking_tokens, 0);
});

test('the events of a stream come in order', async () => {
  const events = await eventsOf({ thinking });
  const steps = events.map(({ type, index }) => (index === undefined ? type : `${type} ${index}`));
  assert.deepEqual(
    steps.filter((step, i) => step !== steps[i - 1]),
    [
      'message_start',
      'content_block_start 0',
      'content_block_delta 0',
      'content_block_stop 0',
      'content_block_start 1',
      'content_block_delta 1',
      'content_block_stop 1',
      'message_delta',
      'message_stop',
    ],
  );
  const [{ message }] = events;
  assert.deepEqual([message.content, message.stop_reason], [[], null]);
  const deltas = events.filter(({ type }) => type === 'content_block_delta').map(({ delta }) => delta);
  assert.equal(deltas.map((delta) => delta.thinking ?? '').join(''), thought);
  assert.equal(deltas.map((delta) => delta.text ?? '').join(''), answer);
  const signed = deltas.filter(({ type }) => type === 'signature_delta');
  assert.equal(signed.length, 1);

  const end = events.at(-2);
  assert.equal(end.delta.stop_reason, 'end_turn');
  const whole = await create({ thinking });
  assert.equal(end.usage.output_tokens, whole.usage.output_tokens);
  assert.equal(signed[0].signature, whole.content[0].signature);
});

test("the SDK's stream puts the events together", async () => {
  const stream = client.messages.stream({ ...greedy, messages: question, thinking });
  let text = '';
  let thoughts = '';
  const blocks = [];
  stream.on('text', (delta, snapshot) => {
    text += delta;
    assert.equal(snapshot, text);
  });
  stream.on('thinking', (delta) => (thoughts += delta));
  stream.on('contentBlock', (block) => blocks.push(block.type));
  const final = await stream.finalMessage();
  assert.deepEqual([thoughts, text], [thought, answer]);
  assert.deepEqual(blocks, ['thinking', 'text']);
  const whole = await create({ thinking });
  assert.deepEqual(final.content, whole.content);
  assert.equal(final.stop_reason, whole.stop_reason);
  assert.equal(final.usage.output_tokens, whole.usage.output_tokens);
});

const tool = ({ schema, ...rest }) => ({ ...rest, input_schema: schema });
const getWeather = tool(asked.getWeather);
const add = tool(asked.add);
const weather = user(asked.weather);

test('a tool is called and its result used', async () => {
  for (const how of [{ type: 'disabled' }, thinking]) {
    const options = { tools: [getWeather, add], thinking: how };
    const first = await create({ messages: weather, ...options });
    assert.equal(first.stop_reason, 'tool_use');
    const call = first.content.at(-1);
    assert.deepEqual([call.type, call.name, call.input], ['tool_use', 'get_weather', { city: 'Oslo' }]);
    for (const content of [asked.weatherNow, [{ type: 'text', text: asked.weatherNow }]]) {
      const result = { role: 'user', content: [{ type: 'tool_result', tool_use_id: call.id, content }] };
      const turn = { role: 'assistant', content: first.content };
      const reply = await create({ messages: [...weather, turn, result], ...options });
      assert.equal(textOf(reply), asked.weatherAnswer);
      assert.equal(reply.stop_reason, 'end_turn');
    }
  }
});

test('inputs have the types of the schema', async () => {
  const message = await create({ messages: user(asked.sum), tools: [getWeather, add] });
  assert.deepEqual(message.content.at(-1).input, { a: 2, b: 3 });
});

test('a call in a stream is the call of the whole message', async () => {
  const options = { messages: weather, tools: [getWeather], thinking };
  const events = await eventsOf(options);
  assert.equal(events.at(-2).delta.stop_reason, 'tool_use');
  const start = events.find(({ content_block }) => content_block?.type === 'tool_use');
  assert.deepEqual(start.content_block.input, {});
  const json = events
    .filter(({ type, index }) => type === 'content_block_delta' && index === start.index)
    .map(({ delta }) => delta.partial_json);
  assert.deepEqual(JSON.parse(json.join('')), { city: 'Oslo' });

  const stream = client.messages.stream({ ...greedy, ...options });
  let input;
  stream.on('inputJson', (delta, snapshot) => (input = snapshot));
  const final = await stream.finalMessage();
  assert.deepEqual(input, { city: 'Oslo' });
  const withoutId = (block) => ({ ...block, id: undefined });
  assert.deepEqual(final.content.map(withoutId), (await create(options)).content.map(withoutId));
});

test("the SDK's loop runs tools until there is an answer", async () => {
  const cities = [];
  const run = ({ city }) => {
    cities.push(city);
    return asked.weatherNow;
  };
  const runnable = { ...getWeather, run, parse: (input) => input };
  for (const stream of [false, true]) {
    const runner = client.beta.messages.toolRunner({ ...greedy, messages: weather, tools: [runnable], stream });
    assert.equal(textOf(await runner.runUntilDone()), asked.weatherAnswer);
  }
  assert.deepEqual(cities, ['Oslo', 'Oslo']);
});

test('tool_choice none calls nothing, forced calls are refused', async () => {
  const options = { messages: weather, tools: [getWeather] };
  const message = await create({ ...options, tool_choice: { type: 'none' } });
  assert.equal(message.stop_reason, 'end_turn');
  for (const tool_choice of [{ type: 'any' }, { type: 'tool', name: 'get_weather' }]) {
    const error = await refused(Anthropic.BadRequestError, create({ ...options, tool_choice }));
    assert.match(error.message, /tool_choice/);
  }
});

test('tokens are counted as a message counts them', async () => {
  for (const options of [
    { messages: question },
    { messages: question, system: 'Be brief.', thinking },
    { messages: weather, tools: [getWeather] },
  ]) {
    const count = await client.messages.countTokens({ model, ...options });
    received.add('Anthropic.MessageTokensCount', count);
    const { usage } = await create({ ...options, max_tokens: 1 });
    assert.equal(count.input_tokens, usage.input_tokens + usage.cache_read_input_tokens);
  }
});

test('models are listed and found', async () => {
  const page = await client.models.list();
  assert.deepEqual([page.first_id, page.last_id, page.has_more], [model, model, false]);
  const models = [];
  for await (const one of page) models.push(one);
  assert.deepEqual(
    models.map(({ id }) => id),
    [model],
  );
  const one = await client.models.retrieve(model);
  assert.deepEqual(one, models[0]);
  assert.deepEqual([one.type, one.display_name], ['model', model]);
  assert.ok(Date.parse(one.created_at) <= Date.now());
  received.add('Anthropic.ModelInfo', one, {
    '': ['object', 'created', 'owned_by', 'max_model_len', 'meta'],
  });
  const unknown = await refused(Anthropic.NotFoundError, client.models.retrieve('other'));
  assert.deepEqual([unknown.type, unknown.errorCode], ['not_found_error', 'model_not_found']);
});

test('a seed repeats a message, whatever drafts it', async () => {
  const drawn = { messages: story, temperature: 1, max_tokens: 24 };
  const first = await create({ ...drawn, speculate: 'none' });
  for (const speculate of ['auto', 'mtp']) {
    const again = await create({ ...drawn, speculate, seed: first.seed });
    assert.equal(textOf(again), textOf(first));
  }
});

test('bad requests are refused by name', async () => {
  const image = { type: 'image', source: { type: 'url', url: 'https://example.org/a.png' } };
  const cases = [
    ['max_tokens', { max_tokens: undefined }],
    ['temperature', { temperature: 1.5 }],
    ['messages', { messages: [] }],
    ['messages[0].role', { messages: [{ role: 'critic', content: 'Hm.' }] }],
    ['messages[0].content[0].type', { messages: [{ role: 'user', content: [image] }] }],
    ['no_such_option', { no_such_option: 1 }],
    ['tools[0].type', { tools: [{ type: 'web_search_20250305', name: 'web_search' }] }],
    ['thinking.budget_tokens', { thinking: { type: 'enabled', budget_tokens: 5000 } }],
  ];
  for (const [param, options] of cases) {
    const error = await refused(Anthropic.BadRequestError, create(options));
    assert.equal(error.type, 'invalid_request_error');
    assert.equal(error.error.error.param, param, error.message);
  }
});

test('an unknown model and key have the errors of the SDK', async () => {
  const unknown = await refused(Anthropic.NotFoundError, create({ model: 'other' }));
  assert.deepEqual([unknown.type, unknown.errorCode], ['not_found_error', 'model_not_found']);
  const stranger = client.withOptions({ apiKey: 'guessed' });
  const denied = await refused(
    Anthropic.AuthenticationError,
    stranger.messages.create({ ...greedy, messages: question }),
  );
  assert.equal(denied.type, 'authentication_error');
});

test('errors of paths that are not of this API alone are those of the SDK too', async () => {
  const key = await refused(Anthropic.AuthenticationError, client.withOptions({ apiKey: 'guessed' }).models.list());
  assert.equal(key.type, 'authentication_error');
  // Without `x-api-key`, by the version alone.
  const bearer = new Anthropic({ baseURL: url, apiKey: null, authToken: 'guessed', maxRetries: 0 });
  await refused(Anthropic.AuthenticationError, bearer.models.list());
  const path = await refused(Anthropic.NotFoundError, client.beta.files.list());
  assert.equal(path.type, 'not_found_error');
  const method = await refused(Anthropic.APIError, client.delete('/v1/models'));
  assert.deepEqual([method.status, method.type], [405, 'invalid_request_error']);
  const origin = { headers: { Origin: 'https://elsewhere.example' } };
  const page = await refused(Anthropic.PermissionDeniedError, client.models.list({}, origin));
  assert.equal(page.type, 'permission_error');
});

test('a stream that is aborted leaves the server as it was', async () => {
  const stream = client.messages.stream({ ...greedy, messages: story, max_tokens: 900 });
  await stream.emitted('text');
  stream.abort();
  await assert.rejects(stream.finalMessage(), Anthropic.APIUserAbortError);
  assert.equal(textOf(await create()), answer);
});

test("everything has the SDK's types", () => received.check());
