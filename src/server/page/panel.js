// The live panel: shows the Rounds of the reply that is running, or of the last one.
import { colourName, drawBars, drawCurve, drawOutline, drawStrip, palette, stripRoom } from './charts.js';
import { byId, element } from './dom.js';
import { describe, Rounds, tilesOf } from './rounds.js';

const ribbonStep = 8;
const tapeRounds = 9;
const nDriveBars = 40;
const calm = matchMedia('(prefers-reduced-motion: reduce)');

/// 1234567 → "1.2 MB".
function bytes(n) {
  const units = ['B', 'kB', 'MB', 'GB', 'TB'];
  let unit = 0;
  while (n >= 1000 && unit + 1 < units.length) {
    n /= 1000;
    ++unit;
  }
  return `${n >= 100 || unit === 0 ? n.toFixed(0) : n.toFixed(1)} ${units[unit]}`;
}

const count = new Intl.NumberFormat('en');

export class Panel {
  #rounds = new Rounds();
  #chosen = null; // index of the round to look at; null: the last one
  #colours = palette();
  #context = 0;
  #isWaiting = false;
  #lastDrawn_ms = 0;

  constructor() {
    const strip = byId('strip');
    strip.addEventListener('keydown', (event) => this.#onKey(event));
    strip.addEventListener('pointerdown', (event) => this.#onPointer(event));
    addEventListener('themechange', () => {
      this.#colours = palette();
      this.#draw();
    });
    new ResizeObserver(() => this.#draw()).observe(byId('panel'));
    this.#draw();
  }

  set context(nPositions) {
    this.#context = nPositions;
    this.#draw();
  }

  /// A new reply.
  begin() {
    this.#rounds = new Rounds();
    this.#chosen = null;
    this.state = 'waiting';
    this.#schedule();
  }

  /// "waiting", "reading 512 of 2,048", ...
  set state(text) {
    byId('state').textContent = text;
    byId('panel').classList.toggle('is-live', text !== 'idle');
  }

  add(rounds) {
    if (this.#rounds.list.length === 0) this.state = 'drafting';
    this.#rounds.add(rounds, performance.now());
    this.#schedule();
  }

  /// The reply is over.
  end() {
    this.state = 'idle';
    this.#draw();
  }

  // Pictures are drawn when the browser paints, and seldom where motion is not wanted.
  #schedule() {
    if (this.#isWaiting) return;
    this.#isWaiting = true;
    const pause_ms = calm.matches ? 500 : 60;
    const wait_ms = Math.max(0, this.#lastDrawn_ms + pause_ms - performance.now());
    setTimeout(() => requestAnimationFrame(() => this.#draw()), wait_ms);
  }

  get #index() {
    return this.#chosen ?? this.#rounds.list.length - 1;
  }

  // Of the strip's columns: few rounds are drawn large.
  get #step() {
    const n = this.#rounds.list.length;
    return n === 0 || n > 20 ? 12 : n > 12 ? 17 : 26;
  }

  // The first round in the strip: the last ones, or those around the chosen one.
  #first(room) {
    const n = this.#rounds.list.length;
    const last = this.#chosen === null ? n : Math.min(n, this.#chosen + Math.ceil(room / 2));
    return Math.max(0, last - room);
  }

  #choose(index) {
    const n = this.#rounds.list.length;
    if (n === 0) return;
    const clamped = Math.max(0, Math.min(n - 1, index));
    this.#chosen = clamped === n - 1 ? null : clamped;
    this.#draw();
  }

  #onKey(event) {
    const steps = { ArrowLeft: -1, ArrowDown: -1, ArrowRight: 1, ArrowUp: 1, PageUp: -20, PageDown: 20 };
    if (event.key === 'Home') this.#choose(0);
    else if (event.key === 'End') this.#choose(Infinity);
    else if (steps[event.key]) this.#choose(this.#index + steps[event.key]);
    else return;
    event.preventDefault();
  }

  #onPointer(event) {
    const room = stripRoom(event.currentTarget, this.#step);
    const column = Math.floor(event.offsetX / this.#step);
    this.#choose(this.#first(room) + column);
  }

  #draw() {
    this.#isWaiting = false;
    this.#lastDrawn_ms = performance.now();
    const { list, rates, rate, tokensPerSecond } = this.#rounds;
    const colours = this.#colours;
    byId('rate').textContent = rate === null ? '–' : rate.toFixed(2);
    byId('speed').textContent =
      tokensPerSecond === null ? '' : `${count.format(Math.round(tokensPerSecond))} tokens/s`;
    const curve = byId('curve');
    drawCurve(curve, rates, { floor: 1, label: '1 = without drafts', colours });
    curve.setAttribute(
      'aria-label',
      rate === null
        ? 'Tokens per forward, no rounds yet'
        : `Tokens per forward: ${rate.toFixed(2)} over the reply, ${rates.at(-1).toFixed(2)} of late`,
    );
    this.#drawStrips();
    this.#showTape();
    this.#showSources();
    this.#showExperts();
    this.#showMemory();
    byId('panel').dataset.rounds = list.length;
  }

  #drawStrips() {
    const { list, rate } = this.#rounds;
    const strip = byId('strip');
    const options = { tilesOf, colours: this.#colours };
    const step = this.#step;
    if (list.length === 0) {
      drawOutline(strip, { colours: this.#colours, step });
    } else {
      const first = this.#first(stripRoom(strip, step));
      drawStrip(strip, list, { ...options, step, first, chosen: this.#index });
    }
    strip.setAttribute('aria-valuemax', Math.max(0, list.length - 1));
    strip.setAttribute('aria-valuenow', Math.max(0, this.#index));
    strip.setAttribute(
      'aria-valuetext',
      list.length === 0 ? 'no rounds yet' : describe(list[this.#index]),
    );
    const ribbon = byId('ribbon-strip');
    const first = Math.max(0, list.length - stripRoom(ribbon, ribbonStep));
    drawStrip(ribbon, list, { ...options, step: ribbonStep, first, chosen: -1 });
    byId('ribbon').hidden = list.length === 0;
    byId('ribbon-rate').textContent = rate === null ? '' : `${rate.toFixed(2)} per forward`;
  }

  #showTape() {
    const { list } = this.#rounds;
    const last = this.#chosen === null ? list.length : Math.min(list.length, this.#chosen + 3);
    const from = Math.max(0, last - tapeRounds);
    const groups = list.slice(from, last).map((round, i) =>
      element(
        'span',
        { className: from + i === this.#index ? 'group is-chosen' : 'group' },
        ...tilesOf(round).map(tokenChip),
      ),
    );
    byId('tape').replaceChildren(...groups);
    byId('round-caption').textContent =
      list.length === 0 ? 'No round yet' : describe(list[this.#index]);
  }

  #showSources() {
    const rows = [...this.#rounds.bySource].map(([name, { drafted, accepted }]) => {
      const bar = element('i', { className: `share ${colourName(name)}` });
      bar.style.width = `${drafted === 0 ? 0 : (100 * accepted) / drafted}%`;
      const text = `${count.format(accepted)} of ${count.format(drafted)}`;
      return element(
        'li',
        {},
        element('span', { className: 'name', textContent: name }),
        element('span', { className: 'track', 'aria-hidden': 'true' }, bar),
        element('span', { className: 'counts', textContent: text }),
      );
    });
    const none = element('li', { className: 'none', textContent: 'Nobody has drafted yet.' });
    byId('sources').replaceChildren(...(rows.length > 0 ? rows : [none]));
  }

  #showExperts() {
    const rounds = this.#rounds;
    const isKnown = rounds.list.length > 0;
    const percent = 100 * rounds.hitRate;
    byId('arc').style.strokeDasharray = `${isKnown ? percent : 0} 100`;
    const text = !isKnown ? '–' : `${percent.toFixed(percent === 100 ? 0 : 1)} %`;
    byId('hits').textContent = text;
    const isResident = isKnown && !rounds.isStreamed;
    byId('hits-note').textContent = isResident ? 'experts: all in memory' : 'experts at hand';
    byId('ring').setAttribute('aria-label', `Experts at hand when asked for: ${text}`);
    drawBars(byId('drive'), rounds.reads, { n: nDriveBars, colours: this.#colours });
    const rate = isKnown ? `${bytes(rounds.driveRate)}/s` : '–';
    byId('drive-rate').textContent = rate;
    const all = bytes(rounds.bytesRead);
    byId('drive').setAttribute('aria-label', `Reads from the drive: ${rate}, ${all} in all`);
  }

  #showMemory() {
    const { memory, position } = this.#rounds;
    if (memory) {
      const whole = memory.budget_bytes || memory.anonymous_bytes || 1;
      const used = { cache: memory.expert_cache_bytes, kv: memory.kv_bytes };
      used.rest = Math.max(0, memory.anonymous_bytes - used.cache - used.kv);
      const bar = byId('memory-bar');
      for (const [name, n] of Object.entries(used)) {
        bar.querySelector(`.${name}`).style.width = `${Math.min(100, (100 * n) / whole)}%`;
      }
      const all = bytes(memory.anonymous_bytes);
      const budget = memory.budget_bytes ? ` of ${bytes(memory.budget_bytes)}` : '';
      byId('memory').textContent = all;
      byId('memory-note').textContent = `${budget} memory`.trim();
      const parts = `experts ${bytes(used.cache)}, caches ${bytes(used.kv)}`;
      bar.setAttribute('aria-label', `Memory: ${all}${budget}, of it ${parts}`);
    }
    if (this.#context === 0) return;
    byId('context-bar').querySelector('.kv').style.width = `${(100 * position) / this.#context}%`;
    byId('context').textContent = count.format(position);
    byId('context-note').textContent = `of ${count.format(this.#context)} positions`;
    byId('context-bar').setAttribute(
      'aria-label',
      `Context: ${count.format(position)} of ${count.format(this.#context)} positions`,
    );
  }
}

function tokenChip({ text, source, fate }) {
  const shown = text.replaceAll('\n', '↵').replaceAll('\t', '⇥') || '∅';
  const chip = element('span', { className: `token ${fate}`, textContent: shown });
  if (source !== null) chip.classList.add(colourName(source));
  return chip;
}
