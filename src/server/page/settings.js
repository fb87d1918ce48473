// What requests ask for: the sheet of settings, and the fields of a request that come of them.
import { byId, element } from './dom.js';
import { loadSettings, saveSettings } from './store.js';

const numbers = ['temperature', 'top_p', 'top_k', 'min_p', 'seed', 'max_tokens', 'draft_tokens'];
const texts = ['system', 'speculate', 'tools'];

function toolsOf(text) {
  if (text.trim() === '') return undefined;
  const tools = JSON.parse(text);
  if (!Array.isArray(tools)) throw new SyntaxError('expected an array');
  return tools;
}

export class Settings {
  constructor() {
    const saved = loadSettings();
    for (const id of [...numbers, ...texts]) {
      if (typeof saved[id] === 'string') byId(id).value = saved[id];
    }
    this.#wanted = saved.speculate ?? '';
    byId('thinking').checked = saved.thinking === true;
    const sheet = byId('settings');
    for (const control of [sheet, byId('thinking')]) control.addEventListener('change', () => this.#save());
    byId('open-settings').addEventListener('click', () => sheet.showModal());
    sheet.addEventListener('click', (event) => {
      if (event.target === sheet) sheet.close(); // beside the sheet
    });
    // A closing that would leave what cannot be sent is refused.
    sheet.querySelector('form').addEventListener('submit', (event) => {
      if (!this.#check()) event.preventDefault();
    });
    sheet.addEventListener('close', () => this.#save());
  }
  #wanted;

  /// The sources of the model that is served. Source `prediction` needs a text that a chat has not.
  set sources(names) {
    const choices = names.filter((name) => name !== 'prediction');
    const select = byId('speculate');
    select.append(...choices.map((name) => element('option', { value: name, textContent: name })));
    select.value = this.#wanted;
    if (select.selectedIndex < 0) select.value = '';
  }

  get system() {
    return byId('system').value.trim();
  }

  /// Fields of a request; what is left empty is not in it. Throws SyntaxError if the tools are no
  /// JSON.
  get fields() {
    const out = { enable_thinking: byId('thinking').checked };
    for (const id of numbers) {
      const { value, validity } = byId(id);
      if (value !== '' && validity.valid) out[id] = Number(value);
    }
    if (byId('speculate').value !== '') out.speculate = byId('speculate').value;
    const tools = toolsOf(byId('tools').value);
    if (tools) out.tools = tools;
    return out;
  }

  #check() {
    let problem = '';
    try {
      toolsOf(byId('tools').value);
    } catch (error) {
      problem = `Tools: ${error.message}`;
    }
    byId('settings-problem').textContent = problem;
    return problem === '';
  }

  #save() {
    this.#check();
    const values = { thinking: byId('thinking').checked };
    for (const id of [...numbers, ...texts]) values[id] = byId(id).value;
    saveSettings(values);
  }
}
