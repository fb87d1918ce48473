// The rounds of one reply: what was drafted, kept and measured. Numbers only, no pictures.

const windowRounds = 24;
const rateBucket_ms = 250;
const maxBuckets = 80;

export class Rounds {
  constructor() {
    this.list = [];
    this.bySource = new Map(); // name → {drafted, accepted}
    this.rates = []; // running tokens per forward, one per round
    this.nTokens = 0;
    this.hits = 0;
    this.misses = 0;
    this.bytesRead = 0;
    this.isStreamed = false;
    this.memory = null;
    this.position = 0;
    this.reads = []; // bytes per bucket of time, the last ones
    this.firstBucket = 0;
    this.busy_us = 0;
    this.started_ms = null;
  }

  /// Tokens per forward over the whole reply, or null.
  get rate() {
    return this.list.length === 0 ? null : this.nTokens / this.list.length;
  }

  /// In the time that the rounds took.
  get tokensPerSecond() {
    return this.busy_us === 0 ? null : (this.nTokens * 1e6) / this.busy_us;
  }

  /// Bytes per second of late.
  get driveRate() {
    const last = this.reads.slice(-4);
    return last.length === 0
      ? 0
      : last.reduce((sum, bytes) => sum + bytes, 0) / (last.length * rateBucket_ms * 1e-3);
  }

  get hitRate() {
    const asked = this.hits + this.misses;
    return asked === 0 ? 1 : this.hits / asked;
  }

  add(rounds, now_ms) {
    this.started_ms ??= now_ms;
    for (const round of rounds) this.#add(round, now_ms);
  }

  #add(round, now_ms) {
    this.list.push(round);
    this.nTokens += round.accepted + 1;
    this.busy_us += round.actual_us;
    this.position = round.position + round.accepted + 1;
    let firstDraft = 0;
    for (const { name, drafted } of round.sources) {
      const counts = this.bySource.get(name) ?? { drafted: 0, accepted: 0 };
      counts.drafted += drafted;
      counts.accepted += Math.max(0, Math.min(drafted, round.accepted - firstDraft));
      firstDraft += drafted;
      this.bySource.set(name, counts);
    }
    const from = Math.max(0, this.list.length - windowRounds);
    const late = this.list.slice(from);
    this.rates.push(late.reduce((sum, one) => sum + one.accepted + 1, 0) / late.length);
    const experts = round.experts;
    this.isStreamed = experts.mode === 'stream';
    this.hits += experts.hits;
    this.misses += experts.misses;
    this.bytesRead += experts.bytes_read;
    const bucket = Math.floor((now_ms - this.started_ms) / rateBucket_ms);
    while (this.firstBucket + this.reads.length <= bucket) this.reads.push(0);
    this.reads[bucket - this.firstBucket] += experts.bytes_read;
    while (this.reads.length > maxBuckets) {
      this.reads.shift();
      ++this.firstBucket;
    }
    this.memory = round.memory;
  }
}

/// The drafts and the model's own token of a round, in the order of the text:
/// {text, source or null, fate: 'accepted' | 'rejected' | 'own'}.
export function tilesOf(round) {
  const owners = round.sources.flatMap(({ name, drafted }) => Array(drafted).fill(name));
  const drafts = round.drafts.map((draft, i) => ({
    text: draft.text,
    source: owners[i] ?? null,
    fate: i < round.accepted ? 'accepted' : 'rejected',
  }));
  const own = { text: round.token.text, source: null, fate: 'own' };
  return [...drafts.slice(0, round.accepted), own, ...drafts.slice(round.accepted)];
}

const names = new Intl.ListFormat('en', { type: 'conjunction' });

/// A sentence for a caption.
export function describe(round) {
  const number = `Round ${round.round + 1}`;
  const time = `${(round.actual_us / 1000).toFixed(1)} ms`;
  if (round.drafts.length === 0) return `${number}: no draft · ${time}`;
  const who = names.format(round.sources.map((source) => source.name));
  return `${number}: ${who} drafted ${round.drafts.length}, ${round.accepted} accepted · ${time}`;
}
