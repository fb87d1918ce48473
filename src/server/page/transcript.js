// The conversation as elements. Holds no state of its own but what is on the screen.
import { byId, copyButton, element } from './dom.js';
import { MarkdownView } from './markdown.js';

/// How near to its end the transcript must be to follow a reply that grows.
const followDistance_px = 80;

function button(text, onClick) {
  const out = element('button', { type: 'button', className: 'quiet', textContent: text });
  out.addEventListener('click', onClick);
  return out;
}

function prettyArguments(text) {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text; // not complete yet
  }
}

/// One message of the assistant, from its first token to its last.
export class ReplyView {
  #message;
  #markdown;
  #thoughts;
  #calls;
  #end;
  #isWaiting = false;

  constructor(message, name) {
    this.#message = message;
    const answer = element('div', { className: 'prose' });
    this.#markdown = new MarkdownView(answer);
    this.#thoughts = element(
      'details',
      { className: 'thoughts', hidden: true },
      element('summary', { textContent: 'Thinking' }),
      element('div', { className: 'thought' }),
    );
    this.#calls = element('div', { className: 'calls' });
    this.#end = element('footer');
    this.element = element(
      'article',
      { className: 'message assistant' },
      element('h3', { className: 'unseen', textContent: name }),
      this.#thoughts,
      answer,
      this.#calls,
      this.#end,
    );
    this.draw();
  }

  /// Soon; many calls are one.
  update() {
    if (this.#isWaiting) return;
    this.#isWaiting = true;
    requestAnimationFrame(() => this.draw());
  }

  draw() {
    this.#isWaiting = false;
    const { content, reasoning, tool_calls: calls = [], isRunning } = this.#message;
    this.element.classList.toggle('is-running', Boolean(isRunning));
    this.element.setAttribute('aria-busy', String(Boolean(isRunning)));
    this.#thoughts.hidden = !reasoning;
    this.#thoughts.lastElementChild.textContent = reasoning ?? '';
    const isThinking = isRunning && content === '' && calls.length === 0;
    this.#thoughts.firstElementChild.textContent = isThinking ? 'Thinking …' : 'Thoughts';
    this.#markdown.show(content);
    calls.forEach((call, i) => {
      if (this.#calls.children.length <= i) this.#calls.append(callCard());
      const card = this.#calls.children[i];
      card.querySelector('.call-name').textContent = call.name;
      card.querySelector('pre').textContent = prettyArguments(call.arguments);
    });
    stayAtEnd();
  }

  /// What stands below a reply that is over. `regenerate`: undefined if it is not the last one.
  finish({ regenerate, answer }) {
    this.draw();
    const { note, stats, isError, content, tool_calls: calls = [] } = this.#message;
    const parts = [];
    if (note) parts.push(element('p', { className: isError ? 'problem' : 'note', textContent: note }));
    const actions = element('div', { className: 'actions' });
    if (content !== '') actions.append(copyButton(() => this.#message.content));
    if (regenerate) actions.append(button('Regenerate', regenerate));
    if (stats) actions.append(element('span', { className: 'stats', textContent: stats }));
    this.#end.replaceChildren(...parts, actions);
    for (const form of this.#calls.querySelectorAll('form')) form.remove();
    if (!answer) return;
    calls.forEach((call, i) => this.#calls.children[i].append(resultForm(call, answer)));
  }
}

function callCard() {
  return element(
    'section',
    { className: 'call', 'aria-label': 'Tool call' },
    element('p', {}, 'calls ', element('strong', { className: 'call-name' })),
    element('pre', { tabIndex: 0 }),
  );
}

function resultForm(call, answer) {
  const input = element('textarea', { rows: 2, name: 'result', required: true, spellcheck: false });
  const form = element(
    'form',
    {},
    element('label', {}, `Result of ${call.name}`, input),
    element('button', { className: 'primary', textContent: 'Give the result' }),
  );
  form.addEventListener('submit', (event) => {
    event.preventDefault();
    form.remove();
    answer(call, input.value);
  });
  return form;
}

export function messageView({ role, content }) {
  const isTool = role === 'tool';
  return element(
    'article',
    { className: `message ${role}` },
    element('h3', { className: 'unseen', textContent: isTool ? 'Result of the tool' : 'You' }),
    element(isTool ? 'pre' : 'p', { textContent: content }),
  );
}

const scroll = () => byId('scroll');
let isFollowing = true;

/// Follows a reply, until a person scrolls up.
export function watchScrolling() {
  scroll().addEventListener('scroll', () => {
    const { scrollTop, scrollHeight, clientHeight } = scroll();
    isFollowing = scrollHeight - scrollTop - clientHeight < followDistance_px;
  });
}

export function goToEnd() {
  isFollowing = true;
  stayAtEnd();
}

function stayAtEnd() {
  if (isFollowing) scroll().scrollTop = scroll().scrollHeight;
}
