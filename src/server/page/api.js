// Requests to the server this page came from, and the key they bring.
import { readEvents } from './sse.js';

const keyName = 'foretoken.key';
let key = storedKey();  // where the browser stores nothing, it lasts as long as the page

function storedKey() {
  try {
    return sessionStorage.getItem(keyName);
  } catch {
    return null;
  }
}

export class ApiError extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

export function setKey(text) {
  key = text;
  try {
    sessionStorage.setItem(keyName, key);
  } catch {
    // it is not kept
  }
}

async function request(path, options = {}) {
  const headers = { ...(options.body ? { 'Content-Type': 'application/json' } : {}) };
  if (key) headers.Authorization = `Bearer ${key}`;
  const response = await fetch(path, { ...options, headers });
  if (response.ok) return response;
  const text = await response.text();
  let message = `status ${response.status}`;
  try {
    message = JSON.parse(text).error.message;
  } catch {
    // not one of the API's own errors
  }
  throw new ApiError(response.status, message);
}

/// The one model that is served.
export async function getModel() {
  const list = await (await request('/v1/models')).json();
  return list.data[0];
}

/// Yields the chunks of a reply, and {progress: [done, total]} while the prompt is read.
export async function* streamChat(body, signal) {
  const response = await request('/v1/chat/completions', {
    method: 'POST',
    body: JSON.stringify({
      ...body,
      stream: true,
      stream_options: { include_usage: true, include_rounds: true },
    }),
    signal,
  });
  let isWhole = false;
  for await (const event of readEvents(response.body)) {
    const progress = /^prompt (\d+)\/(\d+)$/.exec(event.comment ?? '');
    if (progress) yield { progress: [Number(progress[1]), Number(progress[2])] };
    if (event.data === undefined) continue;
    if (event.data === '[DONE]') {
      isWhole = true; // what is left is the end of the connection's answer
      continue;
    }
    const chunk = JSON.parse(event.data);
    if (chunk.error) throw new ApiError(500, chunk.error.message);
    yield chunk;
  }
  if (!isWhole) throw new ApiError(0, 'The connection ended in the middle of the reply.');
}
