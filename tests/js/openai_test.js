// OpenAI's chat and completion API as OpenAI's own client sees it: replies, streams, errors. Answers at temperature 0 are those of
// the model that ships.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import OpenAI from 'openai';
import * as asked from './answers.js';
import { cachedTokens, questions, rules } from './prefix.js';
import { refusal } from './refusal.js';
import { longContext, model, startServer } from './server.js';
import { Received } from './types.js';

const key = 'a key';
const url = await startServer('--api-key', key, '--sessions', '2');
const busyUrl = await startServer('--max-requests', '1', ...longContext);
const client = new OpenAI({ baseURL: `${url}/v1`, apiKey: key, maxRetries: 0 });

// The SDK has one type for completions and their chunks; its finish_reason is never null, that of the API's chunks is.
const received = new Received(`
  import type OpenAI from 'openai';
  type Unfinished = Omit<OpenAI.CompletionChoice, 'finish_reason'> & { finish_reason: null };
  type CompletionChunk = Omit<OpenAI.Completion, 'choices'> & { choices: (OpenAI.CompletionChoice | Unfinished)[] };`);
const choiceExtensions = ['seed', 'stop_reason', 'timings'];
const extensions = {
  'choices[]': choiceExtensions,
  'choices[].message': ['reasoning_content'],
  'choices[].delta': ['reasoning_content'],
};

const { answer, thought } = asked;
const user = (content) => [{ role: 'user', content }];
const question = user(asked.question);
const story = user(asked.story);
const greedy = { model, temperature: 0, enable_thinking: false };

async function chat(options) {
  const reply = await client.chat.completions.create({ ...greedy, messages: question, ...options });
  received.add('OpenAI.ChatCompletion', reply, extensions);
  return reply;
}

async function chatStream(options) {
  const stream = await client.chat.completions.create({ ...greedy, messages: question, stream: true, ...options });
  const chunks = [];
  for await (const chunk of stream) {
    received.add('OpenAI.ChatCompletionChunk', chunk, extensions);
    chunks.push(chunk);
  }
  return chunks;
}

const textOf = (reply) => reply.choices[0].message.content;
const textOfChunks = (chunks, index = 0) =>
  chunks
    .flatMap((chunk) => chunk.choices)
    .filter((choice) => choice.index === index)
    .map((choice) => choice.delta.content ?? '')
    .join('');

test('chat answers', async () => {
  const reply = await chat({ max_completion_tokens: 40 });
  assert.equal(reply.object, 'chat.completion');
  assert.match(reply.id, /^chatcmpl-/);
  assert.equal(reply.model, model);
  assert.ok(reply._request_id);
  assert.equal(reply.choices.length, 1);
  assert.deepEqual(reply.choices[0].message, { role: 'assistant', content: answer, refusal: null });
  assert.equal(reply.choices[0].finish_reason, 'stop');
  assert.equal(reply.choices[0].logprobs, null);
  const { prompt_tokens, completion_tokens, total_tokens } = reply.usage;
  assert.ok(prompt_tokens > 0 && completion_tokens > 0);
  assert.equal(total_tokens, prompt_tokens + completion_tokens);
});

test('chat takes several turns, roles and parts', async () => {
  const messages = [
    { role: 'developer', content: 'Answer in one sentence.' },
    { role: 'user', content: [{ type: 'text', text: 'What is the capital of ' }, { type: 'text', text: 'France?' }] },
    { role: 'assistant', content: 'The capital of France is Paris.' },
    ...question,
  ];
  assert.equal(textOf(await chat({ messages })), answer);
});

test('max_tokens ends a reply with length', async () => {
  const reply = await chat({ messages: story, max_tokens: 7 });
  assert.equal(reply.choices[0].finish_reason, 'length');
  assert.equal(reply.usage.completion_tokens, 7);
});

test('a reply ends with length where the context ends, a longer prompt is refused', async () => {
  const messages = user('word '.repeat(990));
  for (const limit of [{ max_tokens: 32000 }, { max_completion_tokens: 32000 }]) {
    const reply = await chat({ messages, ...limit, ignore_eos: true });
    assert.equal(reply.choices[0].finish_reason, 'length');
    const chunks = await chatStream({ messages, ...limit, ignore_eos: true });
    assert.equal(chunks.at(-1).choices[0].finish_reason, 'length');
    assert.equal(textOfChunks(chunks), textOf(reply));
  }
  const error = await refusal(OpenAI.BadRequestError, chat({ messages: user('word '.repeat(3000)) }));
  assert.equal(error.code, 'context_length_exceeded');
});

test('a stream has its chunks in order', async () => {
  const chunks = await chatStream({ stream_options: { include_usage: true } });
  assert.equal(new Set(chunks.map((chunk) => chunk.id)).size, 1);
  assert.deepEqual(chunks[0].choices[0].delta, { role: 'assistant', content: '' });
  const usage = chunks.pop();
  const finish = chunks.pop();
  assert.deepEqual(usage.choices, []);
  assert.deepEqual(finish.choices[0].delta, {});
  assert.equal(finish.choices[0].finish_reason, 'stop');
  for (const chunk of chunks) {
    assert.equal(chunk.choices[0].finish_reason, null);
    assert.ok(!chunk.usage);
  }
  assert.equal(textOfChunks(chunks), answer);
  const { usage: whole } = await chat();
  assert.equal(usage.usage.prompt_tokens, whole.prompt_tokens);
  assert.equal(usage.usage.completion_tokens, whole.completion_tokens);
});

test('a stream without usage has none, and ends with [DONE]', async () => {
  const response = await client.chat.completions
    .create({ ...greedy, messages: question, stream: true })
    .asResponse();
  assert.match(response.headers.get('content-type'), /^text\/event-stream/);
  const events = (await response.text()).split('\n\n');
  assert.equal(events.pop(), '');
  assert.equal(events.pop(), 'data: [DONE]');
  for (const event of events) assert.ok(!JSON.parse(event.slice('data: '.length)).usage);
});

test('usage tells how much of a prompt was there already', async () => {
  const expected = await cachedTokens(url, { Authorization: `Bearer ${key}` });
  assert.ok(expected[1] > 50 && expected[2] > 50);
  const messages = questions.map((content) => [{ role: 'system', content: rules }, ...user(content)]);
  const usages = [
    (await chat({ messages: messages[0], max_tokens: 4 })).usage,
    (await chat({ messages: messages[1], max_tokens: 4 })).usage,
    (await chatStream({ messages: messages[2], max_tokens: 4, stream_options: { include_usage: true } })).at(-1).usage,
  ];
  assert.deepEqual(
    usages.map(({ prompt_tokens_details }) => prompt_tokens_details.cached_tokens),
    expected,
  );
});

test("the SDK's stream helper puts the chunks together", async () => {
  const stream = client.chat.completions.stream({
    ...greedy,
    messages: question,
    logprobs: true,
    stream_options: { include_usage: true },
  });
  let deltas = '';
  stream.on('content', (delta, snapshot) => {
    deltas += delta;
    assert.equal(snapshot, deltas);
  });
  const final = await stream.finalChatCompletion();
  assert.equal(deltas, answer);
  assert.equal(final.choices[0].message.content, answer);
  assert.equal(final.choices[0].finish_reason, 'stop');
  assert.ok(final.usage.total_tokens > 0);
  const whole = await chat({ logprobs: true });
  assert.deepEqual(final.choices[0].logprobs.content, whole.choices[0].logprobs.content);
});

test('log-probabilities are of the tokens of the text', async () => {
  const reply = await chat({ logprobs: true, top_logprobs: 3 });
  const tokens = reply.choices[0].logprobs.content;
  assert.equal(tokens.map(({ token }) => token).join(''), answer);
  assert.equal(Buffer.from(tokens.flatMap(({ bytes }) => bytes)).toString(), answer);
  for (const { token, logprob, top_logprobs } of tokens) {
    assert.ok(logprob <= 0);
    assert.equal(top_logprobs.length, 3);
    assert.deepEqual([top_logprobs[0].token, top_logprobs[0].logprob], [token, logprob]);
    assert.ok(top_logprobs[0].logprob >= top_logprobs[1].logprob);
  }
  const none = await chat({ logprobs: true });
  assert.deepEqual(none.choices[0].logprobs.content[0].top_logprobs, []);
  await refusal(OpenAI.BadRequestError, chat({ top_logprobs: 3 }));
});

test('a stop ends the text before it, across tokens', async () => {
  const whole = textOf(await chat({ messages: story, max_tokens: 40 }));
  const stop = whole.slice(11, 29);
  const reply = await chat({ messages: story, max_tokens: 40, stop: ['not there', stop] });
  assert.equal(textOf(reply), whole.slice(0, 11));
  assert.equal(reply.choices[0].finish_reason, 'stop');
  assert.equal(reply.choices[0].stop_reason, stop);
  assert.equal(textOfChunks(await chatStream({ messages: story, max_tokens: 40, stop })), whole.slice(0, 11));
});

const drawn = { messages: story, temperature: 1, max_tokens: 24 };

test('a seed repeats a reply, whatever drafts it', async () => {
  const plain = await chat({ ...drawn, seed: 7, speculate: 'none', logprobs: true });
  const other = await chat({ ...drawn, seed: 8, speculate: 'none', logprobs: true });
  assert.notEqual(textOf(plain), textOf(other));
  for (const speculate of ['none', 'auto', 'mtp', ['suffix', 'ngram']]) {
    const again = await chat({ ...drawn, seed: 7, speculate, logprobs: true });
    assert.equal(textOf(again), textOf(plain), speculate);
    assert.deepEqual(again.choices[0].logprobs, plain.choices[0].logprobs);
  }
});

test('a request without a seed tells the one it drew', async () => {
  const first = await chat(drawn);
  const again = await chat({ ...drawn, seed: first.choices[0].seed });
  assert.equal(textOf(again), textOf(first));
});

test('n choices are those that their seeds give alone', async () => {
  const reply = await chat({ ...drawn, n: 3, seed: 20 });
  assert.deepEqual(reply.choices.map(({ index }) => index), [0, 1, 2]);
  const chunks = await chatStream({ ...drawn, n: 3, seed: 20, stream_options: { include_usage: true } });
  for (const { index, message, finish_reason } of reply.choices) {
    const alone = await chat({ ...drawn, seed: 20 + index });
    assert.equal(message.content, textOf(alone));
    assert.equal(textOfChunks(chunks, index), message.content);
    const choices = chunks.flatMap((chunk) => chunk.choices).filter((choice) => choice.index === index);
    assert.equal(choices[0].delta.role, 'assistant');
    assert.equal(choices.at(-1).finish_reason, finish_reason);
  }
  assert.equal(chunks.at(-1).usage.completion_tokens, reply.usage.completion_tokens);
});

test('chats at once get what each gets alone', async () => {
  const seeds = [30, 31, 32, 33];
  const together = await Promise.all(seeds.map((seed) => chat({ ...drawn, seed })));
  for (const [i, seed] of seeds.entries()) {
    assert.equal(textOf(together[i]), textOf(await chat({ ...drawn, seed })));
  }
});

test('a prediction drafts and changes nothing', async () => {
  const plain = await chat({ messages: story, max_tokens: 32 });
  const content = textOf(plain);
  const wrong = content.replace('king', 'queen');
  for (const given of [content, [{ type: 'text', text: content }], wrong]) {
    const reply = await chat({
      messages: story,
      max_tokens: 32,
      speculate: 'prediction',
      draft_tokens: 8,
      prediction: { type: 'content', content: given },
    });
    assert.equal(textOf(reply), content);
    const { accepted_prediction_tokens, rejected_prediction_tokens } = reply.usage.completion_tokens_details;
    assert.ok(accepted_prediction_tokens > 16);
    assert.equal(rejected_prediction_tokens > 0, given === wrong);
  }
});

test('reasoning stands apart from content', async () => {
  for (const thinking of [{ enable_thinking: true }, { reasoning_effort: 'high', enable_thinking: undefined }]) {
    const { message } = (await chat(thinking)).choices[0];
    assert.equal(message.reasoning_content, thought);
    assert.equal(message.content, answer);
  }
  const reply = await chat({ enable_thinking: true, logprobs: true });
  const { reasoning_tokens } = reply.usage.completion_tokens_details;
  const tokens = reply.choices[0].logprobs.content.map(({ token }) => token);
  assert.equal(tokens.slice(0, reasoning_tokens).join(''), thought);

  const chunks = await chatStream({ enable_thinking: true });
  const deltas = chunks.map((chunk) => chunk.choices[0].delta);
  assert.equal(deltas.map((delta) => delta.reasoning_content ?? '').join(''), thought);
  assert.equal(textOfChunks(chunks), answer);
  const firstContent = deltas.findIndex((delta) => delta.content);
  assert.ok(deltas.slice(firstContent + 1).every((delta) => !delta.reasoning_content));

  for (const off of [{ enable_thinking: false }, { reasoning_effort: 'none', enable_thinking: undefined }]) {
    const silent = await chat(off);
    assert.ok(!('reasoning_content' in silent.choices[0].message));
    assert.equal(silent.usage.completion_tokens_details.reasoning_tokens, 0);
  }
});

const functionTool = ({ schema, ...rest }) => ({ type: 'function', function: { ...rest, parameters: schema } });
const getWeather = functionTool(asked.getWeather);
const add = functionTool(asked.add);
const weather = user(asked.weather);

test('a tool is called and its result used', async () => {
  for (const enable_thinking of [false, true]) {
    const options = { tools: [getWeather, add], enable_thinking };
    const { message, finish_reason } = (await chat({ messages: weather, ...options })).choices[0];
    assert.equal(finish_reason, 'tool_calls');
    assert.equal(message.content, null);
    assert.equal(message.tool_calls.length, 1);
    const [{ id, type, function: called }] = message.tool_calls;
    assert.deepEqual([type, called.name, called.arguments], ['function', 'get_weather', '{"city":"Oslo"}']);
    const result = { role: 'tool', tool_call_id: id, content: asked.weatherNow };
    const reply = await chat({ messages: [...weather, message, result], ...options });
    assert.equal(textOf(reply), asked.weatherAnswer);
    assert.equal(reply.choices[0].finish_reason, 'stop');
  }
});

test('a call in a stream is the call of the whole reply', async () => {
  const options = { messages: weather, tools: [getWeather], enable_thinking: true };
  const { message } = (await chat(options)).choices[0];
  const chunks = await chatStream(options);
  assert.equal(chunks.at(-1).choices[0].finish_reason, 'tool_calls');
  const stream = client.chat.completions.stream({ ...greedy, ...options });
  const called = [];
  stream.on('tool_calls.function.arguments.done', (call) => called.push([call.index, call.name, call.arguments]));
  const final = (await stream.finalChatCompletion()).choices[0];
  assert.deepEqual(called, [[0, 'get_weather', '{"city":"Oslo"}']]);
  assert.equal(final.finish_reason, 'tool_calls');
  assert.deepEqual(final.message.tool_calls[0].function.arguments, message.tool_calls[0].function.arguments);
});

test('arguments have the types of the schema', async () => {
  const { message } = (await chat({ messages: user(asked.sum), tools: [getWeather, add] })).choices[0];
  assert.equal(message.tool_calls[0].function.arguments, '{"a":2,"b":3}');
});

test("the SDK's loop runs tools until there is an answer", async () => {
  const cities = [];
  const ask = (city) => {
    cities.push(city);
    return asked.weatherNow;
  };
  const runnable = {
    type: 'function',
    function: { ...getWeather.function, parse: JSON.parse, function: ({ city }) => ask(city) },
  };
  for (const stream of [false, true]) {
    const runner = client.chat.completions.runTools({ ...greedy, messages: weather, tools: [runnable], stream });
    assert.equal(await runner.finalContent(), asked.weatherAnswer);
  }
  assert.deepEqual(cities, ['Oslo', 'Oslo']);
});

test('tool_choice none calls nothing, forced calls are refused', async () => {
  const options = { messages: weather, tools: [getWeather] };
  const reply = await chat({ ...options, tool_choice: 'none' });
  assert.ok(!reply.choices[0].message.tool_calls);
  assert.equal(reply.choices[0].finish_reason, 'stop');
  for (const tool_choice of ['required', { type: 'function', function: { name: 'get_weather' } }]) {
    const error = await refusal(OpenAI.BadRequestError, chat({ ...options, tool_choice }));
    assert.equal(error.param, 'tool_choice');
  }
});

test('a bias of -100 bans a token', async () => {
  const { tokens } = await client.post(`${url}/tokenize`, { body: { content: ' Oslo' } });
  const text = textOf(await chat({ logit_bias: { [tokens[0]]: -100 }, max_tokens: 20 }));
  assert.ok(!text.includes('Oslo'), text);
});

test('penalties of their bounds are taken, others are not', async () => {
  const text = textOf(await chat({ messages: story, frequency_penalty: 2, presence_penalty: -2, max_tokens: 8 }));
  assert.ok(text.length > 0);
  const error = await refusal(OpenAI.BadRequestError, chat({ presence_penalty: 2.5 }));
  assert.equal(error.param, 'presence_penalty');
});

test('bad requests are refused by name', async () => {
  const cases = [
    ['temperature', { temperature: -1 }],
    ['messages', { messages: [] }],
    ['messages[0].role', { messages: [{ role: 'critic', content: 'Hm.' }] }],
    ['no_such_option', { no_such_option: 1 }],
    ['response_format.type', { response_format: { type: 'json_object' } }],
    ['n', { n: 1e9 }],
    ['reasoning_effort', { reasoning_effort: 'low', enable_thinking: undefined }],
    ['reasoning_effort', { reasoning_effort: 'high', enable_thinking: false }],
    ['stop[1]', { stop: ['a', 7] }],
    ['speculate', { speculate: 'crystal ball' }],
    ['stream_options', { stream_options: { include_usage: true } }],
  ];
  for (const [param, options] of cases) {
    const error = await refusal(OpenAI.BadRequestError, chat(options));
    assert.equal(error.status, 400);
    assert.equal(error.param, param, error.message);
    assert.equal(error.type, 'invalid_request_error');
    assert.ok(error.code);
  }
});

test('an unknown model, path and key have the errors of the SDK', async () => {
  const unknown = await refusal(OpenAI.NotFoundError, chat({ model: 'gpt-5' }));
  assert.deepEqual([unknown.code, unknown.param], ['model_not_found', 'model']);
  await refusal(OpenAI.NotFoundError, client.files.list());
  const stranger = client.withOptions({ apiKey: 'guessed' });
  const { type } = await refusal(OpenAI.AuthenticationError, stranger.models.list());
  assert.equal(type, 'authentication_error');
});

test('a full server says when to come again', async () => {
  const busy = client.withOptions({ baseURL: `${busyUrl}/v1` });
  // More than fits between the server and a client that does not read.
  const long = { ...greedy, messages: story, ignore_eos: true, n: 16, stream: true };
  const stream = await busy.chat.completions.create(long);
  const error = await refusal(
    OpenAI.RateLimitError,
    busy.chat.completions.create({ ...greedy, messages: question }),
  );
  assert.equal(error.type, 'rate_limit_error');
  assert.ok(Number(error.headers.get('retry-after')) > 0);
  stream.controller.abort();
});

async function metric(name) {
  const response = await client.get(`${url}/metrics`, { __binaryResponse: true });
  const line = (await response.text()).split('\n').find((text) => text.startsWith(`foretoken:${name}{`));
  return Number(line.split(' ').at(-1));
}

test('a stream that is aborted ends its generation', async () => {
  const before = await metric('generation_tokens_total');
  const stream = await client.chat.completions.create({
    ...greedy,
    messages: story,
    ignore_eos: true,
    max_tokens: 900,
    n: 16,
    stream: true,
  });
  for await (const chunk of stream) {
    if (chunk.choices[0].delta.content) break;
  }
  assert.ok(stream.controller.signal.aborted);
  while ((await metric('num_requests_running')) > 0);
  assert.ok((await metric('generation_tokens_total')) - before < 900 * 16);
  assert.equal(textOf(await chat()), answer);
});

test('completions continue text and ids', async () => {
  const options = { model, temperature: 0, max_tokens: 12 };
  const complete = async (more) => {
    const reply = await client.completions.create({ ...options, ...more });
    received.add('OpenAI.Completion', reply, { 'choices[]': choiceExtensions });
    return reply;
  };
  const prompt = 'Once upon a time';
  const reply = await complete({ prompt });
  const { text, finish_reason } = reply.choices[0];
  assert.equal(reply.object, 'text_completion');
  assert.equal(finish_reason, 'length');
  assert.equal(reply.usage.completion_tokens, 12);

  const { tokens } = await client.post(`${url}/tokenize`, { body: { content: prompt } });
  const several = await complete({ prompt: [tokens, tokens] });
  assert.deepEqual(several.choices.map((choice) => choice.text), [text, text]);
  const echoed = await complete({ prompt, echo: true });
  assert.equal(echoed.choices[0].text, prompt + text);

  const { logprobs } = (await complete({ prompt, logprobs: 2 })).choices[0];
  assert.equal(logprobs.tokens.join(''), text);
  assert.equal(logprobs.token_logprobs.length, 12);
  assert.equal(Object.keys(logprobs.top_logprobs[0]).length, 2);
  assert.deepEqual(logprobs.text_offset.slice(0, 2), [0, Buffer.byteLength(logprobs.tokens[0])]);

  const stream = await client.completions.create({
    ...options,
    prompt,
    stream: true,
    stream_options: { include_usage: true },
  });
  let streamed = '';
  let usage;
  for await (const chunk of stream) {
    received.add('CompletionChunk', chunk, { 'choices[]': choiceExtensions });
    streamed += chunk.choices[0]?.text ?? '';
    usage = chunk.usage;
  }
  assert.equal(streamed, text);
  assert.equal(usage.completion_tokens, 12);
});

test('models are listed and found', async () => {
  const models = [];
  for await (const one of client.models.list()) models.push(one);
  assert.deepEqual(models.map(({ id }) => id), [model]);
  const one = await client.models.retrieve(model);
  const { id, object, created, owned_by } = one;  // the others are this server's and Anthropic's
  received.add('OpenAI.Model', { id, object, created, owned_by });
  assert.deepEqual(one, models[0]);
  await refusal(OpenAI.NotFoundError, client.models.retrieve('gpt-5'));
});

test('a request id of the client comes back', async () => {
  const { response } = await client.models.list({ headers: { 'X-Request-Id': 'mine-1' } }).withResponse();
  assert.equal(response.headers.get('x-request-id'), 'mine-1');
});

test("everything has the SDK's types", () => received.check());
