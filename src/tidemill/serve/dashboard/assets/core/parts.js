/* What panels are put together from. */

import { h } from "./dom.js";

/** The head of a panel: its title and what stands beside it. */
export function heading(title, ...beside) {
  return h("div", { class: "heading" }, h("h1", {}, title), h("div", { class: "beside" }, beside));
}

/** A box with a title. */
export function box(title, { note, tools, kind } = {}, ...children) {
  return h(
    "section",
    { class: `box ${kind ?? ""}` },
    h("div", { class: "box-head" }, h("h2", {}, title), note ? h("span", { class: "quiet" }, note) : null, tools ? h("div", { class: "tools" }, tools) : null),
    children,
  );
}

/** A part that scrolls sideways within itself; it can be reached with the keyboard for that. */
export function scrolled(label, ...children) {
  return h("div", { class: "scrolled", role: "region", "aria-label": label, tabindex: "0" }, children);
}

/** A table. Columns are `{name, number, wide}`; cells are texts or nodes. */
export function table(label, columns, rows, empty = "Nothing yet.") {
  if (!rows.length) return h("p", { class: "quiet empty" }, empty);
  const head = columns.map((c) => h("th", { scope: "col", class: c.number ? "number" : null }, c.name));
  const body = rows.map((row) => h("tr", {}, row.map((value, i) => h("td", { class: classOf(columns[i]) }, value))));
  return scrolled(label, h("table", {}, h("thead", {}, h("tr", {}, head)), h("tbody", {}, body)));
}

function classOf(column) {
  return [column.number && "number", column.wide && "wide", column.mono && "mono"].filter(Boolean).join(" ") || null;
}

/** One number with its unit and what it means. */
export function tile(label, value, note, kind = "") {
  return h("div", { class: `tile ${kind}` }, h("div", { class: "tile-label" }, label), h("div", { class: "tile-value" }, value), h("div", { class: "tile-note" }, note ?? ""));
}

const KINDS = { fresh: "good", live: "good", ok: "good", running: "good", initialising: "busy", waiting: "busy", paused: "muted", failing: "warn", failed: "bad", stopped: "bad" };

/** A status as a word with a mark, never by colour alone. */
export function badge(status) {
  return h("span", { class: `badge ${KINDS[status] ?? "muted"}` }, status);
}

/** A numbered error, as the server gave it. */
export function problem(error) {
  return h(
    "div",
    { class: "problem", role: "alert" },
    h("p", {}, error.number ? h("strong", {}, `${error.number} `) : null, error.what ?? error.message),
    error.got ? h("p", { class: "mono" }, error.got) : null,
    error.hint ? h("p", { class: "hint" }, `Hint: ${error.hint}`) : null,
  );
}

/** Words in place of a panel whose route the server does not have. */
export function missing(what, path) {
  return h("p", { class: "quiet empty" }, `This server does not give ${what}: it answers 404 to `, h("code", {}, path), ". A newer one may.");
}

/** Choose among a few things: buttons of which one is pressed. */
export function choice(label, options, selected, chosen) {
  const buttons = options.map(([value, text]) =>
    h("button", { type: "button", "aria-pressed": String(value === selected), onclick: () => {
      for (const [i, button] of buttons.entries()) button.setAttribute("aria-pressed", String(options[i][0] === value));
      chosen(value);
    } }, text));
  return h("div", { class: "choice", role: "group", "aria-label": label }, buttons);
}

/** A select with a label. */
export function select(label, options, selected, chosen) {
  const field = h("select", { onchange: () => chosen(field.value) }, options.map(([value, text]) => h("option", { value, selected: value === selected }, text)));
  return h("label", { class: "field" }, h("span", {}, label), field);
}
