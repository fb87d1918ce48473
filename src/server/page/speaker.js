// Reads a reply to screen readers by the sentence, not by the token.
import { byId, element } from './dom.js';

const sentenceEnd = /[.!?…:]["'”’)\]]*\s|\n/;
const nKept = 4;

export class Speaker {
  #rest = '';

  add(text) {
    this.#rest += text;
    for (;;) {
      const match = sentenceEnd.exec(this.#rest);
      if (!match) return;
      const end = match.index + match[0].length;
      this.say(this.#rest.slice(0, end));
      this.#rest = this.#rest.slice(end);
    }
  }

  finish() {
    this.say(this.#rest);
    this.#rest = '';
  }

  say(text) {
    if (text.trim() === '') return;
    const region = byId('spoken');
    region.append(element('p', { textContent: text.trim() }));
    while (region.children.length > nKept) region.firstElementChild.remove();
  }
}
