// The page: a conversation, and what the person does with it.
import { ApiError, getModel, setKey, streamChat } from './api.js';
import { byId, element } from './dom.js';
import { Panel } from './panel.js';
import { Settings } from './settings.js';
import { Speaker } from './speaker.js';
import { loadMessages, saveMessages } from './store.js';
import { goToEnd, messageView, ReplyView, watchScrolling } from './transcript.js';

const starters = [
  'Tell me a story about a wolf.',
  'What is the capital of Norway?',
  'What day comes after Tuesday?',
];

const compact = new Intl.NumberFormat('en', { notation: 'compact', maximumFractionDigits: 1 });

const settings = new Settings();
const panel = new Panel();
const speaker = new Speaker();
let messages = loadMessages();
let modelName = 'Model';
let running = null; // the AbortController of the reply that is running

function save() {
  saveMessages(messages.map(({ isRunning, ...message }) => message));
}

// --- the conversation on the screen ---

function showAll() {
  byId('transcript').replaceChildren();
  byId('welcome').hidden = messages.length > 0;
  messages.forEach((message, i) => {
    if (message.role === 'assistant') showReply(message, i === messages.length - 1);
    else byId('transcript').append(messageView(message));
  });
  goToEnd();
}

function showReply(message, isLast) {
  const view = new ReplyView(message, modelName);
  byId('transcript').append(view.element);
  if (!message.isRunning) view.finish(actions(message, isLast));
  return view;
}

function actions(message, isLast) {
  if (!isLast) return {};
  const waits = message.tool_calls?.length > 0;
  return { regenerate, answer: waits ? giveResult : undefined };
}

function showRunning(isRunning) {
  const [from, to] = isRunning ? [byId('send'), byId('stop')] : [byId('stop'), byId('send')];
  const hasFocus = document.activeElement === from;
  from.hidden = true;
  to.hidden = false;
  if (hasFocus) to.focus();
  byId('new-chat').disabled = isRunning;
}

// --- requests ---

function requestBody() {
  const turns = messages
    .filter((message) => !message.isRunning && !(message.isError && message.content === ''))
    .map(({ role, content, reasoning, tool_calls: calls, tool_call_id: id }) => {
      if (role === 'tool') return { role, content, tool_call_id: id };
      if (!calls?.length) return { role, content };
      const asked = calls.map((call) => ({
        id: call.id,
        type: 'function',
        function: { name: call.name, arguments: call.arguments },
      }));
      // What was thought before a call is still needed once its result is there.
      return { role, content, ...(reasoning ? { reasoning_content: reasoning } : {}), tool_calls: asked };
    });
  if (settings.system) turns.unshift({ role: 'system', content: settings.system });
  return { messages: turns, ...settings.fields };
}

function addDelta(message, delta) {
  if (delta.content) {
    message.content += delta.content;
    speaker.add(delta.content);
  }
  if (delta.reasoning_content) message.reasoning += delta.reasoning_content;
  for (const part of delta.tool_calls ?? []) {
    const call = (message.tool_calls[part.index] ??= { id: '', name: '', arguments: '' });
    if (part.id) call.id = part.id;
    call.name += part.function?.name ?? '';
    call.arguments += part.function?.arguments ?? '';
  }
}

function addChunk(message, chunk) {
  if (chunk.progress) panel.state = `reading ${chunk.progress[0]} of ${chunk.progress[1]}`;
  if (chunk.foretoken?.rounds) panel.add(chunk.foretoken.rounds);
  const choice = chunk.choices?.[0];
  if (!choice) return;
  addDelta(message, choice.delta);
  if (choice.finish_reason === 'length') message.note = 'It reached the most tokens it may have.';
  if (choice.timings) message.stats = statsOf(choice.timings);
}

function statsOf({ predicted_n: n, predicted_per_second: speed, draft_n, draft_n_accepted }) {
  const parts = [`${n} tokens`, `${Math.round(speed)} tokens/s`];
  if (draft_n > 0) parts.push(`${Math.round((100 * draft_n_accepted) / draft_n)} % of drafts accepted`);
  return parts.join(' · ');
}

async function reply() {
  const message = {
    role: 'assistant', content: '', reasoning: '', tool_calls: [], isRunning: true,
  };
  byId('welcome').hidden = true;
  running = new AbortController();
  const { signal } = running;
  showRunning(true);
  messages.push(message);
  const view = showReply(message, true);
  goToEnd();
  panel.begin();
  let wantsKey = false;
  try {
    for await (const chunk of streamChat(requestBody(), signal)) {
      addChunk(message, chunk);
      view.update();
    }
  } catch (error) {
    wantsKey = error instanceof ApiError && error.status === 401;
    message.isError = !signal.aborted;
    message.note = signal.aborted ? 'Stopped.' : problemOf(error);
    speaker.finish();
    speaker.say(message.note);
  }
  speaker.finish();
  running = null;
  message.isRunning = false;
  showRunning(false);
  panel.end();
  if (wantsKey) {
    messages.pop();
    view.element.remove();
    askForKey(reply);
    return;
  }
  save();
  view.finish(actions(message, true));
  goToEnd();
}

function problemOf(error) {
  if (error instanceof ApiError) return error.message;
  if (error instanceof SyntaxError) return `The tools in the settings are no JSON: ${error.message}`;
  return 'The server does not answer. Is it still running?';
}

// --- what a person does ---

function add(message) {
  messages.push(message);
  save();
  showAll();
  reply();
}

function send(text) {
  if (running || text.trim() === '') return;
  byId('prompt').value = '';
  fit();
  add({ role: 'user', content: text });
}

function giveResult(call, content) {
  if (running) return;
  messages.push({ role: 'tool', tool_call_id: call.id, content });
  const asked = messages.findLast((message) => message.tool_calls?.length > 0).tool_calls;
  const isAnswered = ({ id }) => messages.some((message) => message.tool_call_id === id);
  save();
  if (!asked.every(isAnswered)) return;
  showAll();
  reply();
}

function regenerate() {
  if (running || messages.at(-1)?.role !== 'assistant') return;
  messages.pop();
  showAll();
  reply();
}

function newChat() {
  if (running) return;
  messages = [];
  save();
  panel.begin();
  panel.end();
  showAll();
  byId('prompt').focus();
}

function askForKey(then) {
  const dialog = byId('key-dialog');
  const form = byId('key-form');
  byId('key-problem').textContent = byId('key').value === '' ? '' : 'That key is wrong.';
  form.onsubmit = (event) => {
    event.preventDefault();
    setKey(byId('key').value);
    dialog.close();
    if (modelName === 'Model') start();
    then();
  };
  if (!dialog.open) dialog.showModal();
}

// The field is as tall as what is in it.
function fit() {
  const prompt = byId('prompt');
  prompt.style.height = 'auto';
  prompt.style.height = `${Math.min(prompt.scrollHeight, 200)}px`;
}

function showPanel(isShown) {
  document.body.classList.toggle('hides-panel', !isShown);
  document.body.classList.toggle('shows-panel', isShown);
  byId('toggle-panel').setAttribute('aria-expanded', String(isShown));
}

function listen() {
  const prompt = byId('prompt');
  prompt.addEventListener('input', fit);
  prompt.addEventListener('keydown', (event) => {
    if (event.key !== 'Enter' || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    send(prompt.value);
  });
  byId('composer').addEventListener('submit', (event) => {
    event.preventDefault();
    send(prompt.value);
  });
  const stop = () => {
    running?.abort();
    prompt.focus();
  };
  byId('stop').addEventListener('click', stop);
  document.addEventListener('keydown', (event) => {
    if (event.key !== 'Escape' || document.querySelector('dialog[open]')) return;
    if (running) stop();
    else if (!isWide.matches) showPanel(false);
  });
  byId('new-chat').addEventListener('click', newChat);
  const isWide = matchMedia('(min-width: 900px)');
  showPanel(isWide.matches);
  isWide.addEventListener('change', () => showPanel(isWide.matches));
  byId('toggle-panel').addEventListener('click', () =>
    showPanel(!document.body.classList.contains('shows-panel')),
  );
  byId('close-panel').addEventListener('click', () => showPanel(false));
  byId('ribbon').addEventListener('click', () => showPanel(true));
  for (const text of starters) {
    const starter = element('button', { type: 'button', textContent: text });
    starter.addEventListener('click', () => send(text));
    byId('starters').append(element('li', {}, starter));
  }
  watchScrolling();
  addEventListener('pagehide', save);
}

async function start() {
  try {
    const model = await getModel();
    modelName = model.id;
    const { parameters, format, draft_sources: sources } = model.meta;
    byId('model').textContent = `${model.id} · ${compact.format(parameters)} · ${format}`;
    settings.sources = sources;
    panel.context = model.max_model_len;
  } catch (error) {
    if (error instanceof ApiError && error.status === 401) {
      askForKey(() => {});
      return;
    }
    byId('model').textContent = problemOf(error);
  }
}

listen();
showAll();
start();
byId('prompt').focus();
