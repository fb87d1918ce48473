// OpenAI's Responses API as OpenAI's own client sees it. Answers at temperature 0 are those of the model that ships.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import OpenAI from 'openai';
import * as asked from './answers.js';
import { cachedTokens, questions, rules } from './prefix.js';
import { refusal } from './refusal.js';
import { model, startServer } from './server.js';
import { Received } from './types.js';

const key = 'a key';
const url = await startServer('--api-key', key);
const client = new OpenAI({ baseURL: `${url}/v1`, apiKey: key, maxRetries: 0 });

const received = new Received("import type OpenAI from 'openai';");
// The first two are the API's; the SDK does not declare them.
const extensions = ['max_tool_calls', 'store', 'seed', 'stop_reason', 'system_fingerprint', 'timings'];

const { answer, question, story, thought } = asked;
const silent = { effort: 'none' };
const greedy = { model, temperature: 0, input: question, reasoning: silent };

async function create(options) {
  const response = await client.responses.create({ ...greedy, ...options });
  received.add('OpenAI.Responses.Response', response, { '': extensions });
  return response;
}

async function eventsOf(options) {
  const events = [];
  for await (const event of await client.responses.create({ ...greedy, stream: true, ...options })) {
    // `output_text` is the SDK's own: it adds it to whole responses, and its type of all of them has it.
    const known = event.response ? { ...event, response: { ...event.response, output_text: '' } } : event;
    received.add('OpenAI.Responses.ResponseStreamEvent', known, {
      response: extensions,
      'logprobs[]': ['bytes'],
      'logprobs[].top_logprobs[]': ['bytes'],
    });
    events.push(event);
  }
  assert.deepEqual(
    events.map((event) => event.sequence_number),
    events.map((_, i) => i),
  );
  return events;
}

// The types of events, neighbours of one type once.
const stepsOf = (events) => events.map(({ type }) => type).filter((type, i, all) => type !== all[i - 1]);

test('a response answers', async () => {
  const response = await create({ instructions: 'Answer in one sentence.', metadata: { of: 'a test' } });
  assert.match(response.id, /^resp_/);
  assert.ok(response._request_id);
  assert.deepEqual([response.object, response.status, response.model], ['response', 'completed', model]);
  assert.equal(response.output_text, answer);
  assert.equal(response.output.length, 1);
  const [message] = response.output;
  assert.deepEqual([message.type, message.role, message.status], ['message', 'assistant', 'completed']);
  assert.equal(response.instructions, 'Answer in one sentence.');
  assert.deepEqual(response.metadata, { of: 'a test' });
  assert.deepEqual([response.error, response.incomplete_details], [null, null]);
  const { input_tokens, output_tokens, total_tokens } = response.usage;
  assert.ok(input_tokens > 0 && output_tokens > 0);
  assert.equal(total_tokens, input_tokens + output_tokens);
});

test('input may be items: turns, roles and parts', async () => {
  const input = [
    { role: 'developer', content: 'Answer in one sentence.' },
    {
      role: 'user',
      content: [
        { type: 'input_text', text: 'What is the capital of ' },
        { type: 'input_text', text: 'France?' },
      ],
    },
    { role: 'assistant', content: 'The capital of France is Paris.' },
    { type: 'message', role: 'user', content: question },
  ];
  assert.equal((await create({ input })).output_text, answer);
});

test('a turn of the model goes back as it came', async () => {
  const first = await create({ input: 'What is the capital of France?', reasoning: undefined });
  const input = [
    { role: 'user', content: 'What is the capital of France?' },
    ...first.output,
    { role: 'user', content: question },
  ];
  assert.equal((await create({ input })).output_text, answer);
});

test('reasoning is an item of its own', async () => {
  for (const reasoning of [undefined, { effort: 'high' }]) {
    const response = await create({ reasoning });
    assert.deepEqual(
      response.output.map(({ type }) => type),
      ['reasoning', 'message'],
    );
    assert.deepEqual(response.output[0].content, [{ type: 'reasoning_text', text: thought }]);
    assert.equal(response.output_text, answer);
    assert.ok(response.usage.output_tokens_details.reasoning_tokens > 0);
  }
  assert.equal((await create()).usage.output_tokens_details.reasoning_tokens, 0);
});

test('max_output_tokens leaves a response incomplete', async () => {
  const response = await create({ input: story, max_output_tokens: 17 });
  assert.equal(response.status, 'incomplete');
  assert.deepEqual(response.incomplete_details, { reason: 'max_output_tokens' });
  assert.equal(response.usage.output_tokens, 17);
  const events = await eventsOf({ input: story, max_output_tokens: 17 });
  assert.equal(events.at(-1).type, 'response.incomplete');
});

test('usage tells how much of a prompt was there already', async () => {
  const expected = await cachedTokens(url, { Authorization: `Bearer ${key}` });
  assert.ok(expected[1] > 50 && expected[2] > 50);
  const options = (i) => ({ instructions: rules, input: questions[i], max_output_tokens: 4 });
  const usages = [
    (await create(options(0))).usage,
    (await create(options(1))).usage,
    (await eventsOf(options(2))).at(-1).response.usage,
  ];
  assert.deepEqual(
    usages.map(({ input_tokens_details }) => input_tokens_details.cached_tokens),
    expected,
  );
});

test('log-probabilities are of the tokens of the text', async () => {
  const options = { include: ['message.output_text.logprobs'], top_logprobs: 2 };
  for (const reasoning of [silent, undefined]) {
    const response = await create({ ...options, reasoning });
    const { logprobs } = response.output.at(-1).content[0];
    assert.equal(logprobs.map(({ token }) => token).join(''), answer);
    for (const { token, logprob, top_logprobs } of logprobs) {
      assert.ok(logprob <= 0);
      assert.deepEqual([top_logprobs[0].token, top_logprobs[0].logprob], [token, logprob]);
    }
    const events = await eventsOf({ ...options, reasoning });
    const streamed = events.filter(({ type }) => type === 'response.output_text.delta');
    assert.deepEqual(
      streamed.flatMap((event) => event.logprobs),
      logprobs,
    );
  }
});

test('a seed repeats a response, whatever drafts it', async () => {
  const drawn = { input: story, temperature: 1, max_output_tokens: 24 };
  const first = await create({ ...drawn, speculate: 'none' });
  for (const speculate of ['auto', 'mtp']) {
    const again = await create({ ...drawn, speculate, seed: first.seed });
    assert.equal(again.output_text, first.output_text);
  }
});

test('the events of a stream come in order', async () => {
  const events = await eventsOf({ reasoning: undefined });
  const item = (...inner) => ['response.output_item.added', ...inner, 'response.output_item.done'];
  const part = (...inner) => ['response.content_part.added', ...inner, 'response.content_part.done'];
  assert.deepEqual(stepsOf(events), [
    'response.created',
    'response.in_progress',
    ...item(...part('response.reasoning_text.delta', 'response.reasoning_text.done')),
    ...item(...part('response.output_text.delta', 'response.output_text.done')),
    'response.completed',
  ]);
  const textOf = (type) =>
    events
      .filter((event) => event.type === type)
      .map((event) => event.delta)
      .join('');
  assert.equal(textOf('response.reasoning_text.delta'), thought);
  assert.equal(textOf('response.output_text.delta'), answer);
  assert.equal(events.find(({ type }) => type === 'response.output_text.done').text, answer);
  const [created] = events;
  assert.deepEqual([created.response.status, created.response.output], ['in_progress', []]);
  const done = events.filter(({ type }) => type === 'response.output_item.done').map((event) => event.item);
  const { response } = events.at(-1);
  assert.deepEqual(response.output, done);
  for (const event of events.filter(({ item_id }) => item_id)) {
    assert.equal(event.item_id, done[event.output_index].id);
  }
});

test("the SDK's stream puts the events together", async () => {
  const stream = client.responses.stream({ ...greedy, reasoning: { effort: 'high' } });
  let text = '';
  stream.on('response.output_text.delta', ({ delta, snapshot }) => {
    text += delta;
    assert.equal(snapshot, text);
  });
  const final = await stream.finalResponse();
  assert.equal(text, answer);
  assert.equal(final.output_text, answer);
  assert.equal(final.status, 'completed');
  assert.ok(final.usage.total_tokens > 0);
});

const tool = ({ schema, ...rest }) => ({ type: 'function', strict: false, ...rest, parameters: schema });
const getWeather = tool(asked.getWeather);
const add = tool(asked.add);
const weather = { role: 'user', content: asked.weather };

test('a function is called and its result used', async () => {
  for (const reasoning of [silent, undefined]) {
    const options = { tools: [getWeather, add], reasoning };
    const first = await create({ input: [weather], ...options });
    assert.equal(first.status, 'completed');
    const call = first.output.at(-1);
    assert.deepEqual([call.type, call.name, call.arguments], ['function_call', 'get_weather', '{"city":"Oslo"}']);
    const result = { type: 'function_call_output', call_id: call.call_id, output: asked.weatherNow };
    const response = await create({ input: [weather, ...first.output, result], ...options });
    assert.equal(response.output_text, asked.weatherAnswer);
  }
});

test('arguments have the types of the schema', async () => {
  const { output } = await create({ input: asked.sum, tools: [getWeather, add] });
  assert.equal(output.at(-1).arguments, '{"a":2,"b":3}');
});

test('a call in a stream is the call of the whole response', async () => {
  const options = { input: [weather], tools: [getWeather] };
  const events = await eventsOf(options);
  assert.deepEqual(stepsOf(events), [
    'response.created',
    'response.in_progress',
    'response.output_item.added',
    'response.function_call_arguments.delta',
    'response.function_call_arguments.done',
    'response.output_item.done',
    'response.completed',
  ]);
  const done = events.find(({ type }) => type === 'response.function_call_arguments.done');
  assert.deepEqual([done.name, done.arguments], ['get_weather', '{"city":"Oslo"}']);
  const final = await client.responses.stream({ ...greedy, ...options }).finalResponse();
  assert.equal(final.output[0].arguments, '{"city":"Oslo"}');
  assert.deepEqual(final.output[0].parsed_arguments, null);
});

test('tool_choice none calls nothing, forced calls are refused', async () => {
  const options = { input: [weather], tools: [getWeather] };
  const response = await create({ ...options, tool_choice: 'none' });
  assert.deepEqual(response.output.map(({ type }) => type), ['message']);
  for (const tool_choice of ['required', { type: 'function', name: 'get_weather' }]) {
    const error = await refusal(OpenAI.BadRequestError, create({ ...options, tool_choice }));
    assert.equal(error.param, 'tool_choice');
  }
});

test('bad requests are refused by name', async () => {
  const cases = [
    ['temperature', { temperature: -1 }],
    ['input', { input: [] }],
    ['input[0].role', { input: [{ role: 'critic', content: 'Hm.' }] }],
    ['no_such_option', { no_such_option: 1 }],
    ['previous_response_id', { previous_response_id: 'resp_1' }],
    ['store', { store: true }],
    ['background', { background: true }],
    ['tools[0].type', { tools: [{ type: 'web_search' }] }],
    ['text.format.type', { text: { format: { type: 'json_object' } } }],
    ['input[0].call_id', { input: [{ type: 'function_call_output', call_id: 'call_1', output: '12' }] }],
  ];
  for (const [param, options] of cases) {
    const error = await refusal(OpenAI.BadRequestError, create(options));
    assert.equal(error.param, param, error.message);
    assert.equal(error.type, 'invalid_request_error');
  }
});

test('an unknown model and key have the errors of the SDK', async () => {
  const unknown = await refusal(OpenAI.NotFoundError, create({ model: 'gpt-5' }));
  assert.equal(unknown.code, 'model_not_found');
  const stranger = client.withOptions({ apiKey: 'guessed' });
  await refusal(OpenAI.AuthenticationError, stranger.responses.create(greedy));
});

test('a stream that is aborted leaves the server as it was', async () => {
  const stream = await client.responses.create({ ...greedy, input: story, ignore_eos: true, stream: true });
  for await (const event of stream) {
    if (event.type === 'response.output_text.delta') break;
  }
  assert.ok(stream.controller.signal.aborted);
  assert.equal((await create()).output_text, answer);
});

test("everything has the SDK's types", () => received.check());
