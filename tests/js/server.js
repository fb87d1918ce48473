// `foretoken serve` with the model that ships, for the tests of one file.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { after } from 'node:test';

export const model = 'glm-mini';

const servers = new Map();

/// For replies that must not be over before a test has done something to them: seconds of them.
export const longContext = ['--context', '4096'];

/// Starts it, stops it after the tests of this file; then its exit status must be 0. Returns its address.
export async function startServer(...options) {
  const program = process.env.FT_PROGRAM;
  assert.ok(program, 'FT_PROGRAM names no program; ctest sets it');
  const context = options.includes('--context') ? [] : ['--context', '1024'];
  const server = spawn(program, ['serve', '--port', '0', '--quiet', ...context, ...options], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const ended = once(server, 'exit');
  process.once('exit', () => server.kill('SIGKILL'));
  let isInterrupted = false;
  // Once: a second signal would end it before it has stopped.
  const interruptOnce = () => {
    if (!isInterrupted) server.kill('SIGINT');
    isInterrupted = true;
  };
  after(async () => {
    interruptOnce();
    assert.deepEqual(await ended, [0, null], 'exit status and signal of the server');
  });
  // The line is written in one piece.
  const line = await Promise.race([once(server.stdout, 'data').then(String), ended]);
  assert.match(String(line), /^http:\/\/127\.0\.0\.1:\d+\n$/);
  const url = line.trim();
  servers.set(url, interruptOnce);
  return url;
}

/// As Ctrl-C does.
export function interrupt(url) {
  servers.get(url)();
}
