/* Talks to the server: JSON answers, numbered errors, server-sent events, and the token that it may want.

   EventSource cannot send an Authorization header, so events are read from the body of a fetch. */

import { parseExact } from "./exact_json.js";

const TOKEN = "tidemill.token";

/** What the server answered to a request that it refused: number, what, got, hint, and perhaps line and column. */
export class Refused extends Error {
  constructor(status, problem) {
    super(`${problem.number}: ${problem.what}`);
    Object.assign(this, { status, ...problem });
  }
}

/** The server did not answer. */
export class Unreachable extends Error {}

export const session = new EventTarget();

/** The token of this tab; it is forgotten when the tab is closed. */
export function token() {
  return sessionStorage.getItem(TOKEN);
}

export function setToken(text) {
  if (text) sessionStorage.setItem(TOKEN, text);
  else sessionStorage.removeItem(TOKEN);
  session.dispatchEvent(new Event("token"));
}

async function send(path, options) {
  const headers = new Headers(options.headers);
  const known = token();
  if (known) headers.set("Authorization", `Bearer ${known}`);
  let response;
  try {
    response = await fetch(path, { ...options, headers, credentials: "omit", cache: "no-store" });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    session.dispatchEvent(new CustomEvent("reached", { detail: false }));
    throw new Unreachable("The server does not answer.");
  }
  session.dispatchEvent(new CustomEvent("reached", { detail: true }));
  if (response.ok || options.accept?.includes(response.status)) return response;
  const problem = await problemOf(response);
  if (response.status === 401 && known === token()) session.dispatchEvent(new CustomEvent("refused", { detail: { given: Boolean(known) } }));
  throw new Refused(response.status, problem);
}

async function problemOf(response) {
  const unknown = { number: `HTTP ${response.status}`, what: response.statusText || "the request failed", got: "", hint: "" };
  try {
    return { ...unknown, ...(await response.json()) };
  } catch {
    return unknown;  // an answer of a proxy, or a broken one
  }
}

/** The JSON answer to a GET. `accept` lists further statuses that have one. */
export async function get(path, { signal, accept } = {}) {
  return parseExact(await (await send(path, { signal, accept })).text());
}

/** The JSON answer to a statement. */
export async function execute(statement, { signal, epoch } = {}) {
  const body = JSON.stringify({ statement, ...(epoch === undefined ? {} : { epoch }) });
  const headers = { "Content-Type": "application/json" };
  return parseExact(await (await send("/v1/sql", { method: "POST", body, headers, signal })).text());
}

/** Events of a path, each `{kind, id, data}`, until the server ends them or the signal aborts. */
export async function* events(path, { signal, after } = {}) {
  const headers = after ? { "Last-Event-ID": after } : {};
  const response = await send(path, { signal, headers });
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    let part;
    try {
      part = await reader.read();
    } catch (error) {
      if (signal?.aborted) throw error;
      session.dispatchEvent(new CustomEvent("reached", { detail: false }));
      throw new Unreachable("The connection was lost.");
    }
    if (part.done) return;
    rest += part.value;
    const blocks = rest.split("\n\n");
    rest = blocks.pop();
    for (const block of blocks) yield eventOf(block);
  }
}

function eventOf(block) {
  const event = { kind: "message", id: "", data: null };
  for (const line of block.split("\n")) {
    const at = line.indexOf(": ");
    const value = line.slice(at + 2);
    if (line.startsWith("event: ")) event.kind = value;
    else if (line.startsWith("id: ")) event.id = value;
    else if (line.startsWith("data: ")) event.data = parseExact(value);
  }
  return event;
}

/** The path of something with a name. */
export function pathOf(before, name, after = "") {
  return `${before}/${encodeURIComponent(name)}${after}`;
}
