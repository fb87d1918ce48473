// What outlives the page: the conversation and the settings.

function read(name, fallback) {
  try {
    return JSON.parse(localStorage.getItem(name)) ?? fallback;
  } catch {
    return fallback;
  }
}

function write(name, value) {
  try {
    localStorage.setItem(name, JSON.stringify(value));
  } catch {
    // A full or forbidden store: this tab still has everything.
  }
}

const isMessage = (message) =>
  ['user', 'assistant', 'tool'].includes(message?.role) && typeof message.content === 'string';

export function loadMessages() {
  const messages = read('foretoken.messages', []);
  return Array.isArray(messages) && messages.every(isMessage) ? messages : [];
}

export function saveMessages(messages) {
  write('foretoken.messages', messages);
}

export function loadSettings() {
  const settings = read('foretoken.settings', {});
  return typeof settings === 'object' ? settings : {};
}

export function saveSettings(settings) {
  write('foretoken.settings', settings);
}
