/* Any statement: an editor with completion, and its answer or its error at the place where it is. */

import { fill, h, put } from "../core/dom.js";
import { cell, count, counted, duration, isNumeric } from "../core/format.js";
import { box, heading, problem, scrolled } from "../core/parts.js";
import { every } from "../core/repeat.js";
import { execute, get } from "../core/server.js";
import { editor } from "../sql/editor.js";

const SHOWN = 1000;
const EXAMPLES = ["SHOW VIEWS", "SHOW TABLES", "SHOW SINKS"];

let last = "";  // what was typed, while the page is open

export async function sql(room, signal) {
  const answer = h("div", { class: "answer", "aria-live": "polite" });
  const note = h("span", { class: "quiet" });
  const typed = editor(last, (text) => { last = text; typed.mark(null); }, run);
  const button = h("button", { type: "button", class: "main", onclick: run }, "Run");
  const examples = EXAMPLES.map((text) => h("button", { type: "button", class: "small", onclick: () => { typed.set(text); run(); } }, text));
  room.append(
    heading("SQL"),
    box("Statement", { note: "Ctrl+Enter runs it, Ctrl+Space completes", tools: examples }, h("div", { class: "padded" }, typed.element, h("div", { class: "row" }, button, note))),
    answer,
  );
  let running = null;

  async function run() {
    const begin = /^\s*/.exec(typed.text())[0];
    const statement = typed.text().slice(begin.length);
    if (!statement) {
      put(note, "Type a statement.");
      return;
    }
    running?.abort();
    running = new AbortController();
    const both = AbortSignal.any([signal, running.signal]);
    const begun = performance.now();
    button.disabled = true;
    typed.mark(null);
    put(note, "Running…");
    try {
      const found = await execute(statement, { signal: both });
      put(note, `${duration(performance.now() - begun)}, epoch ${count(found.epoch)}`);
      fill(answer, shown(found));
      learn();
    } catch (error) {
      if (both.aborted) return;
      put(note, duration(performance.now() - begun));
      const at = placeIn(begin, error);
      typed.mark(at);
      const place = at ? `line ${at.line}, column ${at.column}` : "";
      fill(answer, box("Error", { note: place }, problem(error)));
    } finally {
      button.disabled = false;
    }
  }

  async function learn() {
    typed.learn(await get("/v1/vocabulary", { signal }));
  }

  every(15_000, signal, learn);
}

/** The place of an error in what was typed: the server counts from where the statement begins. */
function placeIn(begin, { line, column = 1 }) {
  if (!line) return null;
  const before = begin.split("\n");
  return { line: line + before.length - 1, column: line === 1 ? column + before.at(-1).length : column };
}

function shown(found) {
  if (found.plan !== undefined) return box("Plan", {}, scrolled("Plan", h("pre", { class: "text wide-text" }, found.plan)));
  if (found.rows === undefined) return box("Done", {}, h("p", { class: "empty" }, `The statement has been executed, and is durable, at epoch ${count(found.epoch)}.`));
  const rows = found.rows.slice(0, SHOWN);
  const note = rows.length < found.rows.length ? `the first ${count(SHOWN)} of ${counted(found.rows.length, "row")}` : counted(rows.length, "row");
  const head = found.columns.map((name, i) => h("th", { scope: "col", class: isNumeric(found.types[i]) ? "number" : null, title: found.types[i] }, name));
  const body = rows.map((row) => h("tr", {}, row.map((value, i) => h("td", { class: [isNumeric(found.types[i]) && "number", value === null && "null", String(value ?? "").length > 60 && "wide"].filter(Boolean).join(" ") || null }, cell(value, found.types[i])))));
  return box("Result", { note }, scrolled("Result", h("table", {}, h("thead", {}, h("tr", {}, head)), h("tbody", {}, body))));
}
