/* The rows of a view as a table that changes in place: rows that came in the newest epochs are marked for a moment. */

import { fill, h } from "../core/dom.js";
import { cell, isNumeric } from "../core/format.js";
import { scrolled } from "../core/parts.js";

/** `{element, show(rows, flash)}`; `sort(column)` is called when a head is pressed. */
export function rowsTable(label, sort) {
  const head = h("tr"), body = h("tbody");
  const element = scrolled(label, h("table", { class: "rows" }, h("thead", {}, head), body));
  let known = new Map(), columns = "";

  function heads(rows) {
    const ids = JSON.stringify([rows.columns, rows.order, rows.descending]);
    if (ids === columns) return;
    columns = ids;
    known = new Map();
    const before = document.activeElement?.dataset?.column;
    fill(head, rows.columns.map((name, i) => {
      const chosen = i === rows.order;
      const mark = chosen ? (rows.descending ? " ▼" : " ▲") : "";
      return h("th", { scope: "col", class: isNumeric(rows.types[i]) ? "number" : null, "aria-sort": chosen ? (rows.descending ? "descending" : "ascending") : null },
        h("button", { type: "button", class: "sort", "data-column": name, title: rows.types[i], onclick: () => sort(name) }, name, h("span", { "aria-hidden": "true" }, mark)));
    }));
    if (before !== undefined) [...head.querySelectorAll("button")].find((b) => b.dataset.column === before)?.focus();
  }

  return {
    element,
    show(rows, flash) {
      heads(rows);
      const now = new Map();
      let before = null, left = rows.wanted;
      for (const entry of rows.kept) {
        if (left <= 0) break;
        const times = Math.min(entry.count, left);
        left -= times;
        const id = `${times} ${entry.key}`;
        const line = known.get(id) ?? made(entry.values, rows.types, times, flash);
        now.set(id, line);
        const next = before ? before.nextSibling : body.firstChild;
        if (next !== line) body.insertBefore(line, next);
        before = line;
      }
      while (body.lastChild !== before) body.lastChild.remove();
      known = now;
    },
  };
}

function made(values, types, times, flash) {
  const line = h("tr", { class: flash ? "came" : null }, values.map((value, i) => h("td", { class: value === null ? (isNumeric(types[i]) ? "number null" : "null") : isNumeric(types[i]) ? "number" : null }, cell(value, types[i]))));
  if (times > 1) line.lastChild.append(h("span", { class: "times", title: `${times} equal rows` }, ` ×${times}`));
  return line;
}
