// A small part of Markdown, as elements: paragraphs, headings, lists, quotes, code, bold, italic.
// The text comes from a model and may be hostile: it only ever becomes text nodes. No links.
import { copyButton, element } from './dom.js';

const kinds = [
  ['rule', /^ {0,3}([-*_])( *\1){2,} *$/],
  ['heading', /^(#{1,6}) +(.*)$/],
  ['quote', /^> ?(.*)$/],
  ['bullet', /^( *)[-*+] +(.*)$/],
  ['number', /^( *)(\d{1,9})[.)] +(.*)$/],
];

function kindOf(line) {
  if (line.trim() === '') return ['blank'];
  for (const [kind, pattern] of kinds) {
    const match = pattern.exec(line);
    if (match) return [kind, match];
  }
  return ['text'];
}

/// Blocks of a text: {kind, lines, ...}. A text that grows changes its last block, or adds some.
export function splitBlocks(text) {
  const blocks = [];
  let open = null;
  let fence = null;
  const start = (block) => {
    blocks.push(block);
    open = block;
  };
  for (const line of text.split('\n')) {
    if (fence) {
      if (line.trim().startsWith(fence) && line.trim().replaceAll(fence[0], '') === '') {
        fence = open = null;
      } else {
        open.lines.push(line);
      }
      continue;
    }
    const opening = /^ {0,3}(`{3,}|~{3,}) *([\w+#.-]*)[^`]*$/.exec(line);
    if (opening) {
      fence = opening[1];
      start({ kind: 'code', language: opening[2], lines: [] });
      continue;
    }
    const [kind, match] = kindOf(line);
    if (kind === 'blank') {
      open = open && (open.kind === 'bullet' || open.kind === 'number') ? open : null;
      if (open) open.isLoose = true;
    } else if (kind === 'rule') {
      start({ kind, lines: [] });
      open = null;
    } else if (kind === 'heading') {
      start({ kind, level: match[1].length, lines: [match[2]] });
      open = null;
    } else if (kind === 'quote') {
      if (open?.kind !== 'quote') start({ kind, lines: [] });
      open.lines.push(match[1]);
    } else if (kind === 'bullet' || kind === 'number') {
      if (open?.kind !== kind) start({ kind, lines: [], first: Number(match[2]) || 1 });
      open.isLoose = false;
      open.lines.push(match.at(-1));
    } else if (open?.kind === 'text') {
      open.lines.push(line);
    } else if ((open?.kind === 'bullet' || open?.kind === 'number') && !open.isLoose) {
      open.lines[open.lines.length - 1] += `\n${line.trim()}`;
    } else {
      start({ kind: 'text', lines: [line] });
    }
  }
  return blocks;
}

// Lengths are bounded, or a hostile text would take the square of its length.
const inlinePattern =
  /(?<!`)(`{1,8})(?!`)(.{1,1000}?)(?<!`)\1(?!`)|\*\*(?=\S)(.{0,1000}?\S)\*\*|\*(?=\S)([^*]{0,1000}[^*\s])\*(?!\*)/s;

/// Nodes of a line: text, code, strong, em.
function inline(text) {
  const out = [];
  while (text !== '') {
    const match = inlinePattern.exec(text);
    if (!match) break;
    if (match.index > 0) out.push(text.slice(0, match.index));
    if (match[2] !== undefined) out.push(element('code', { textContent: match[2] }));
    else if (match[3] !== undefined) out.push(element('strong', {}, ...inline(match[3])));
    else out.push(element('em', {}, ...inline(match[4])));
    text = text.slice(match.index + match[0].length);
  }
  if (text !== '') out.push(text);
  return out;
}

function codeBlock(block) {
  const text = block.lines.join('\n');
  return element(
    'div',
    { className: 'code-block' },
    element('div', { className: 'code-head' }, block.language || 'text', copyButton(() => text)),
    element('pre', { tabIndex: 0 }, element('code', { textContent: text })),
  );
}

function render(block) {
  switch (block.kind) {
    case 'code':
      return codeBlock(block);
    case 'rule':
      return element('hr');
    case 'heading':
      // The page's own headings are above those of a reply.
      return element(`h${Math.min(6, block.level + 3)}`, {}, ...inline(block.lines[0]));
    case 'quote':
      return element('blockquote', {}, ...inline(block.lines.join('\n')));
    case 'bullet':
    case 'number': {
      const items = block.lines.map((line) => element('li', {}, ...inline(line)));
      if (block.kind === 'bullet') return element('ul', {}, ...items);
      return element('ol', { start: block.first }, ...items);
    }
    default:
      return element('p', {}, ...inline(block.lines.join('\n')));
  }
}

/// Shows a text that grows in `parent`; blocks that did not change keep their elements.
export class MarkdownView {
  #parent;
  #shown = [];

  constructor(parent) {
    this.#parent = parent;
  }

  show(text) {
    const blocks = splitBlocks(text);
    const keys = blocks.map((block) => JSON.stringify(block));
    let same = 0;
    while (same < keys.length && keys[same] === this.#shown[same]) ++same;
    while (this.#parent.children.length > same) this.#parent.lastElementChild.remove();
    for (const block of blocks.slice(same)) this.#parent.append(render(block));
    this.#shown = keys;
  }
}
