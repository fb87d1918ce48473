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

/// The body of a stream with these deltas of a chat.
export function eventsOf(...deltas) {
  const chunks = deltas.map((delta) => ({ choices: [{ index: 0, delta, finish_reason: null }] }));
  chunks.push({ choices: [{ index: 0, delta: {}, finish_reason: 'stop' }] });
  return `${chunks.map((chunk) => `data: ${JSON.stringify(chunk)}\n\n`).join('')}data: [DONE]\n\n`;
}
