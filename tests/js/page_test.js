// The web page in Chromium, on the model that ships: a chat streams, the panel shows its rounds, stop works; it is safe with hostile
// text, usable without a mouse, and talks to nobody but its server.
import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { test } from 'node:test';
import { eventsOf, holdEvents, withPage } from './browser.js';
import { findLowContrast, findNameless } from './page_checks.js';
import { longContext, startServer } from './server.js';

const key = 'a key';
const url = await startServer(...longContext);
const lockedUrl = await startServer('--api-key', key);
const source = new URL('../../src/server/page/', import.meta.url);

const chats = '**/v1/chat/completions';
const sizes = { wide: { width: 1280, height: 800 }, narrow: { width: 390, height: 844 } };
const story = 'Tell me a story about a wolf.';

async function ask(page, text) {
  await page.fill('#prompt', text);
  await page.press('#prompt', 'Enter');
}

/// The last reply, once it is over.
async function reply(page) {
  await page.locator('.message.assistant:last-child .actions').waitFor();
  return page.locator('.message.assistant:last-child .prose').innerText();
}

/// Requests of the page get these fields too.
async function alter(page, fields) {
  await page.route(chats, (route) => {
    const body = { ...JSON.parse(route.request().postData()), ...fields };
    return route.continue({ postData: JSON.stringify(body) });
  });
}

/// The server's answer is this stream; returns what it was asked.
async function answerWith(page, ...streams) {
  const asked = [];
  await page.route(chats, (route) => {
    asked.push(JSON.parse(route.request().postData()));
    return route.fulfill({ contentType: 'text/event-stream', body: streams.shift() });
  });
  return asked;
}

test('every file is served as it is, to be kept until it changes', async () => {
  const policy = /^default-src 'self';.*base-uri 'none'.*frame-ancestors 'none'.*require-trusted-types-for 'script'/;
  for (const name of readdirSync(source)) {
    const address = name === 'index.html' ? `${url}/` : `${url}/page/${name}`;
    const response = await fetch(address);
    assert.equal(response.status, 200, name);
    const text = await response.text();
    assert.equal(text, readFileSync(new URL(name, source), 'utf8'));
    const type = { html: 'text/html', css: 'text/css', js: 'text/javascript', svg: 'image/svg+xml' }[name.split('.')[1]];
    assert.equal(response.headers.get('content-type').split(';')[0], type);
    assert.match(response.headers.get('content-security-policy'), policy);
    assert.equal(response.headers.get('cache-control'), 'no-cache');
    const again = await fetch(address, { headers: { 'If-None-Match': response.headers.get('etag') } });
    assert.equal(again.status, 304, name);
    // Nothing inline, nothing from elsewhere.
    assert.doesNotMatch(text.replaceAll('http://www.w3.org/2000/svg', ''), /https?:\/\/|\.innerHTML|\beval\(/, name);
    assert.doesNotMatch(text, /<script>|\son\w+="|\sstyle="/, name);
  }
});

test('a chat streams, and the panel shows its rounds', async () => {
  await withPage(url, async (page) => {
    await alter(page, { temperature: 0 });
    const events = await holdEvents(page);
    await ask(page, story);
    // The text grows with the events.
    for (const seen = new Set(); seen.size < 4;) {
      const text = (await events.pass()).trim();
      await page.waitForFunction((shown) => document.querySelector('.prose')?.textContent.trim() === shown, text);
      seen.add(text);
    }
    await events.passAll();
    const text = await reply(page);
    const alone = await fetch(`${url}/v1/chat/completions`, {
      method: 'POST',
      body: JSON.stringify({ messages: [{ role: 'user', content: story }], temperature: 0, enable_thinking: false }),
      headers: { 'Content-Type': 'application/json' },
    }).then((response) => response.json());
    assert.equal(text, alone.choices[0].message.content);

    const nRounds = Number(await page.getAttribute('#panel', 'data-rounds'));
    assert.ok(nRounds > 3);
    const rate = Number(await page.textContent('#rate'));
    // The first token is the prefill's.
    assert.ok(Math.abs(rate - (alone.usage.completion_tokens - 1) / nRounds) < 0.006);
    const strip = page.locator('#strip');
    assert.equal(await strip.getAttribute('aria-valuemax'), String(nRounds - 1));
    assert.match(await page.textContent('#round-caption'), new RegExp(`^Round ${nRounds}: `));
    assert.ok((await page.locator('#sources .name').count()) > 0, 'somebody drafted');
    assert.ok((await page.locator('.token.own').count()) > 0);
    assert.equal(await page.textContent('#hits'), '100 %');
    assert.match(await page.textContent('#memory'), /^[\d.]+ MB$/);
    assert.ok(await strip.evaluate((canvas) => {
      const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
      return data.some((byte) => byte !== 0);
    }), 'the strip is drawn');
    // Keys go through the rounds.
    await strip.press('Home');
    assert.match(await strip.getAttribute('aria-valuetext'), /^Round 1: /);
    await strip.press('ArrowRight');
    assert.match(await page.textContent('#round-caption'), /^Round 2: /);
    await strip.press('End');
    assert.equal(await strip.getAttribute('aria-valuenow'), String(nRounds - 1));
  });
});

test('stop ends the reply here and in the server; the next one works', async () => {
  await withPage(url, async (page) => {
    await alter(page, { ignore_eos: true, temperature: 0 });
    for (const stop of [() => page.keyboard.press('Escape'), () => page.click('#stop')]) {
      const events = await holdEvents(page);
      await ask(page, story);
      while ((await events.pass()).length < 40);
      await page.waitForFunction(() => document.querySelector('.is-running .prose')?.textContent.length > 20);
      assert.ok(await page.locator('#send').isHidden());
      await stop();
      assert.ok((await reply(page)).length > 20);
      assert.equal(await page.locator('.message:last-child .note').innerText(), 'Stopped.');
      assert.ok(await page.locator('#send').isVisible());
      await page.click('#new-chat');
    }
    for (let n = -1; n !== 0;) {
      const metrics = await fetch(`${url}/metrics`).then((response) => response.text());
      n = Number(/^foretoken:num_requests_running\S* (\d+)/m.exec(metrics)[1]);
    }
    await page.unroute(chats);
    await ask(page, 'What is the capital of Norway?');
    assert.ok((await reply(page)).length > 0);
  });
});

test('settings are sent, regenerate asks again, a conversation outlives the page', async () => {
  await withPage(url, async (page) => {
    const asked = [];
    page.on('request', (request) => {
      if (request.url().endsWith('/chat/completions')) asked.push(JSON.parse(request.postData()));
    });
    await page.click('#open-settings');
    const values = { temperature: '0.5', top_p: '0.9', top_k: '40', min_p: '0.05', seed: '7', max_tokens: '12', draft_tokens: '2' };
    for (const [id, value] of Object.entries(values)) await page.fill(`#${id}`, value);
    await page.fill('#system', 'Answer briefly.');
    await page.selectOption('#speculate', 'mtp');
    await page.keyboard.press('Escape');
    await page.click('.switch');
    await ask(page, 'Hi');
    await reply(page);
    const [{ messages, ...fields }] = asked;
    assert.deepEqual(messages, [{ role: 'system', content: 'Answer briefly.' }, { role: 'user', content: 'Hi' }]);
    const numbers = Object.fromEntries(Object.entries(values).map(([id, value]) => [id, Number(value)]));
    assert.deepEqual(fields, {
      ...numbers, speculate: 'mtp', enable_thinking: true, stream: true,
      stream_options: { include_usage: true, include_rounds: true },
    });
    const again = page.waitForRequest(chats);
    await page.click('text=Regenerate');
    await again;
    await reply(page);
    assert.deepEqual(asked[1], asked[0]);

    await page.reload();
    assert.equal(await page.locator('.message').count(), 2);
    assert.equal(await page.inputValue('#seed'), '7');
    assert.equal(await page.inputValue('#speculate'), 'mtp');
    await page.click('#new-chat');
    await page.reload();
    assert.equal(await page.locator('.message').count(), 0);
    assert.ok(await page.locator('#welcome').isVisible());
  });
});

test('a server with a key asks for it and keeps it in the tab', async () => {
  await withPage(lockedUrl, async (page) => {
    await page.fill('#key', 'wrong');
    await page.click('text=Unlock');
    await page.locator('#key-problem', { hasText: 'wrong' }).waitFor();
    await page.fill('#key', key);
    await page.click('text=Unlock');
    await page.locator('#model', { hasText: 'glm-mini' }).waitFor();
    await ask(page, 'What is the capital of Norway?');
    assert.ok((await reply(page)).length > 0);
    assert.ok(!(await page.evaluate(() => JSON.stringify(localStorage))).includes(key));
  });
});

test('hostile text stays text', async () => {
  const text = [
    '<img src=x onerror="alert(1)"> **bold** *it* `<b>code</b>` [a](javascript:alert(1))',
    '# Title', '- one', '- **two**', '', '1. first', '2. second', '', '> quote', '',
    '```js', 'const x = "<script>alert(1)</script>";', '```', '', `${'**a '.repeat(3000)}`, `x ${'`'.repeat(3000)}`,
  ].join('\n');
  await withPage(url, async (page) => {
    await answerWith(page, eventsOf({ reasoning_content: '<i>hm</i>' }, ...text.match(/.{1,700}/gs).map((content) => ({ content }))));
    await ask(page, '<b>me</b>');
    await reply(page);
    const found = await page.evaluate(() => {
      const count = (what) => document.querySelectorAll(`#transcript ${what}`).length;
      return ['img', 'script', 'b', 'i', 'a', 'strong', 'em', 'ul > li', 'ol > li', 'blockquote', 'h4', 'pre code'].map(count);
    });
    assert.deepEqual(found, [0, 0, 0, 0, 0, 2, 1, 2, 2, 1, 1, 1]);
    assert.equal(await page.innerText('pre code'), 'const x = "<script>alert(1)</script>";');
    assert.equal(await page.innerText('.message.user p'), '<b>me</b>');
    // Thoughts are folded until somebody asks.
    assert.ok(await page.locator('.thought').isHidden());
    await page.click('.thoughts summary');
    assert.equal(await page.innerText('.thought'), '<i>hm</i>');
  });
});

test('a tool call is shown, and its result goes back', async () => {
  const call = (fields) => ({ tool_calls: [{ index: 0, ...fields }] });
  await withPage(url, async (page) => {
    const asked = await answerWith(
      page,
      eventsOf(
        call({ id: 'call_1', type: 'function', function: { name: 'get_weather', arguments: '' } }),
        call({ function: { arguments: '{"city":' } }), call({ function: { arguments: '"Oslo"}' } }),
      ),
      eventsOf({ content: 'Sunny.' }),
    );
    await ask(page, 'The weather in Oslo?');
    await page.fill('[name=result]', '{"sky": "clear"}');
    assert.equal(await page.innerText('.call pre'), '{\n  "city": "Oslo"\n}');
    await page.click('text=Give the result');
    await page.locator('.prose', { hasText: 'Sunny.' }).waitFor();
    assert.deepEqual(asked[1].messages.slice(1), [
      {
        role: 'assistant', content: '',
        tool_calls: [{ id: 'call_1', type: 'function', function: { name: 'get_weather', arguments: '{"city":"Oslo"}' } }],
      },
      { role: 'tool', content: '{"sky": "clear"}', tool_call_id: 'call_1' },
    ]);
  });
});

test('a broken stream and a refusal are told', async () => {
  await withPage(url, async (page) => {
    await answerWith(page, 'data: {"choices":[{"index":0,"delta":{"content":"Half"}}]}\n\n', 'data: {"error":{"message":"out of luck"}}\n\n');
    await ask(page, 'a');
    assert.equal(await reply(page), 'Half');
    assert.match(await page.innerText('.message .problem'), /connection ended/);
    await page.click('text=Regenerate');
    await page.locator('.message .problem', { hasText: 'out of luck' }).waitFor();
  });
});

for (const [size, colorScheme, other] of [['wide', 'light', 'dark'], ['narrow', 'dark', 'light']]) {
  test(`${size}, ${colorScheme}: names, contrast, keys, sentences`, async () => {
    await withPage(url, async (page) => {
      assert.equal(await page.getAttribute('html', 'data-theme'), colorScheme);
      const check = async () => {
        assert.deepEqual(await page.evaluate(findNameless), []);
        assert.deepEqual(await page.evaluate(findLowContrast), []);
        const { width, scrollWidth } = await page.evaluate(() => ({
          width: innerWidth, scrollWidth: document.documentElement.scrollWidth,
        }));
        assert.ok(scrollWidth <= width, 'nothing is wider than the screen');
      };
      await check();
      await alter(page, { temperature: 0 });
      assert.equal(await page.evaluate(() => document.activeElement.id), 'prompt');
      await page.keyboard.type('Tell me a story');
      await page.keyboard.press('Shift+Enter');
      await page.keyboard.type('about a wolf.');
      await page.keyboard.press('Enter');
      await reply(page);
      assert.equal(await page.innerText('.message.user p'), 'Tell me a story\nabout a wolf.');
      const spoken = await page.locator('#spoken p').allInnerTexts();
      assert.ok(spoken.length > 0 && spoken.every((text) => /[.!?"]$/.test(text)), spoken.join('|'));
      await check();
      if (size === 'narrow') {
        await page.click('#ribbon');
        assert.ok(await page.locator('#panel').isVisible());
        await check();
        await page.keyboard.press('Escape');
        assert.ok(await page.locator('#panel').isHidden());
      }
      await page.click('#open-settings');
      await check();
      await page.keyboard.press('Escape');
      await page.click('#toggle-theme');
      await check();
      await page.click('#open-settings');
      await check();
      await page.reload();
      assert.equal(await page.getAttribute('html', 'data-theme'), other);
      // From the top, Tab reaches all there is, in the order of the screen.
      await page.focus('.skip');
      const order = ['Skip to the message'];
      for (let i = 0; i < 14 && order.at(-1) !== 'thinking'; ++i) {
        await page.keyboard.press('Tab');
        order.push(await page.evaluate(() => document.activeElement.id || document.activeElement.textContent));
      }
      assert.deepEqual(order.filter((id) => !['Copy', 'Regenerate'].includes(id)), [
        'Skip to the message', 'new-chat', 'open-settings', 'toggle-panel', 'toggle-theme', 'scroll', 'prompt', 'send', 'thinking',
      ]);
    }, { viewport: sizes[size], colorScheme, reducedMotion: 'reduce' });
  });
}
