// Chromium for the tests of one file: pages that report whatever goes wrong in them.
import assert from 'node:assert/strict';
import { after } from 'node:test';
import { chromium } from 'playwright-core';

const browser = await chromium.launch({
  executablePath: '/usr/bin/chromium',
  args: [
    '--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking',
    '--disable-component-update', '--disable-sync',
  ],
});
after(() => browser.close());

/// Runs `use` with a fresh page at `url`; then nothing may have been logged as an error, refused by the page's policy or asked of
/// another host. `options`: of playwright's newContext().
export async function withPage(url, use, options = {}) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 800 }, ...options });
  const page = await context.newPage();
  page.setDefaultTimeout(30_000);
  const problems = [];
  page.on('pageerror', (error) => problems.push(error.message));
  page.on('console', (message) => {
    // A refused key is logged by the browser itself.
    if (message.type() === 'error' && !message.text().includes('401')) problems.push(message.text());
  });
  page.on('request', (request) => {
    if (!request.url().startsWith(`${url}/`)) problems.push(`asked for ${request.url()}`);
  });
  try {
    await page.goto(url);
    await use(page);
    assert.deepEqual(problems, []);
  } finally {
    await context.close();
  }
}

/// The next chat's events wait for the test. Returns pass(), which lets one through, once it is there, and says what text there
/// is by now; and passAll().
export async function holdEvents(page) {
  await page.evaluate(() => {
    const ask = globalThis.fetch;
    let begin;
    globalThis.held = new Promise((resolve) => (begin = resolve));
    globalThis.fetch = async (path, options) => {
      const response = await ask(path, options);
      if (path !== '/v1/chat/completions') return response;
      globalThis.fetch = ask;
      const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
      const encoder = new TextEncoder();
      let toPage;
      const body = new ReadableStream({ start: (controller) => (toPage = controller), cancel: () => reader.cancel() });
      options.signal.addEventListener('abort', () => toPage.error(options.signal.reason));
      let rest = '';
      let text = '';
      const pass = async () => {
        while (!rest.includes('\n\n')) {
          const { done, value } = await reader.read();
          if (done) return null;
          rest += value;
        }
        const end = rest.indexOf('\n\n') + 2;
        const event = rest.slice(0, end);
        rest = rest.slice(end);
        const { choices } = event.startsWith('data: {') ? JSON.parse(event.slice('data: '.length)) : { choices: [] };
        text += choices.map(({ delta }) => delta.content ?? '').join('');
        toPage.enqueue(encoder.encode(event));
        return text;
      };
      const passAll = async () => {
        while ((await pass()) !== null);
        toPage.close();
      };
      begin({ pass, passAll });
      return new Response(body, response);
    };
  });
  return {
    pass: () => page.evaluate(async () => (await held).pass()),
    passAll: () => page.evaluate(async () => (await held).passAll()),
  };
}

/// The body of a stream with these deltas of a chat.
export function eventsOf(...deltas) {
  const chunks = deltas.map((delta) => ({ choices: [{ index: 0, delta, finish_reason: null }] }));
  chunks.push({ choices: [{ index: 0, delta: {}, finish_reason: 'stop' }] });
  return `${chunks.map((chunk) => `data: ${JSON.stringify(chunk)}\n\n`).join('')}data: [DONE]\n\n`;
}
