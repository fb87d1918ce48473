// Requests that begin alike, and how much of their prompts the server should have already.
import { question, story, sum } from './answers.js';

/// What all of them begin with, and what no other test does.
export const rules = `You show tourists around. ${'Be brief, be kind, and never say a thing twice. '.repeat(6)}`;
export const questions = [question, story, sum];

/// Tokens of each one's prompt that need not be fed again: what it has in common with one before it, but the last, whose feeding
/// brings forth what follows. Counted by the server's tokenizer, not by its caches.
export async function cachedTokens(url, headers = {}) {
  const prompts = [];
  for (const content of questions) {
    const messages = [{ role: 'system', content: rules }, { role: 'user', content }];
    const response = await fetch(`${url}/tokenize`, {
      method: 'POST',
      headers: { 'Content-Type': 'application/json', ...headers },
      body: JSON.stringify({ messages, enable_thinking: false }),
    });
    prompts.push((await response.json()).tokens);
  }
  const shared = (one, other) => one.findIndex((token, i) => token !== other[i]);
  return prompts.map((prompt, i) => Math.max(0, ...prompts.slice(0, i).map((earlier) => shared(prompt, earlier) - 1)));
}
