// Requests to the service, and its event streams. All addresses are relative to the page.

/** A response that refuses a request. */
export class Refused extends Error {
  constructor(status, text) {
    super(text);
    this.status = status;
  }
}

/** Send a request, and return the response. Throw `Refused` for an error response, and TypeError without a connection. */
export async function request(method, path, body, { headers = {}, signal } = {}) {
  const sent = body === undefined ? headers : { ...headers, "content-type": "application/json" };
  const response = await fetch(path, {
    method, signal, headers: sent, body: body === undefined ? undefined : JSON.stringify(body), cache: "no-store",
  });
  if (response.ok) return response;
  let text = `The service answered with status ${response.status}.`;
  try {
    text = (await response.json()).message ?? text;
  } catch {
    // The response has no problem details, for example because a proxy sent it.
  }
  throw new Refused(response.status, text);
}

/** Send a request, and return the JSON value of the response. */
export async function load(method, path, body) {
  const response = await request(method, path, body);
  return response.status === 204 ? null : parseJson(await response.text());
}

/** Parse JSON. A number that JavaScript would write in another way keeps its text, as `JSON.rawJSON`. */
export function parseJson(text) {
  return JSON.parse(text, (_name, value, { source } = {}) => {
    const isExact = typeof value !== "number" || source === undefined || String(value) === source;
    return isExact ? value : JSON.rawJSON(source);
  });
}

/** Yield the server-sent events of a response: `{name, data, id}`. */
export async function* readEvents(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let buffer = "";
  try {
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      buffer += value;
      const blocks = buffer.split("\n\n");
      buffer = blocks.pop();
      for (const block of blocks) {
        const event = parseEvent(block);
        if (event) yield event;
      }
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}

function parseEvent(block) {
  const fields = { event: "message", data: null, id: null };
  for (const line of block.split("\n")) {
    const [, name, value] = /^([a-z]+): ?(.*)$/.exec(line) ?? [];
    if (name) fields[name] = value;
  }
  return fields.data === null ? null : { name: fields.event, data: parseJson(fields.data), id: fields.id };
}

/** Return a random idempotency key. It also works on pages without https. */
export function newKey() {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** Wait for some milliseconds, or until the signal is aborted. */
export function pause(milliseconds, signal) {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, milliseconds);
    signal?.addEventListener("abort", () => { clearTimeout(timer); resolve(); }, { once: true });
  });
}
