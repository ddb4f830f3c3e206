/* Rows and chart of a view, which follow its changes. */

import { fill, h, put } from "../core/dom.js";
import { count, counted } from "../core/format.js";
import { box, problem, select } from "../core/parts.js";
import { get, pathOf } from "../core/server.js";
import { follow } from "./follow.js";
import { rowsChart } from "./rows_chart.js";
import { rowsTable } from "./rows_table.js";

const REDRAWN = 200;  // milliseconds

export async function rowsTab(room, signal, name) {
  const asked = { order: null, descending: false, wanted: 100, where: "" };
  let current = null, newest = null, changed = false, waiting = false;
  const trouble = h("div"), note = h("span", { class: "quiet", "aria-live": "polite" });
  const chart = rowsChart();
  const rows = rowsTable(`Rows of ${name}`, (column) => {
    asked.descending = column === asked.order ? !asked.descending : false;
    asked.order = column;
    restart();
  });
  const where = h("input", { type: "search", placeholder: "a condition in SQL", "aria-label": "Condition in SQL", spellcheck: "false", autocomplete: "off" });
  const filter = h("form", { class: "filter", onsubmit: (event) => { event.preventDefault(); asked.where = where.value.trim(); restart(); } }, where, h("button", { type: "submit" }, "Filter"));
  where.addEventListener("search", () => { if (!where.value && asked.where) filter.requestSubmit(); });
  const limit = select("Rows", [25, 100, 500, 1000].map((n) => [String(n), String(n)]), "100", (n) => { asked.wanted = Number(n); restart(); });
  const live = box("Rows", { tools: [note, filter, limit], kind: "rows-box" }, trouble, rows.element);
  room.append(chart.element, live);

  /** Begin to follow, and end what was followed before. */
  function restart() {
    current?.abort();
    current = new AbortController();
    const both = AbortSignal.any([signal, current.signal]);
    let first = true;
    follow(name, { ...asked }, both, (found, epoch, moved) => {
      newest = { found, epoch };
      changed ||= moved && !first;
      first = false;
      plan();
    }, (error) => {
      if (!both.aborted) fill(trouble, error ? problem(error) : null);
    });
  }

  /** Draw soon: epochs may come faster than anybody reads. */
  function plan() {
    if (waiting) return;
    waiting = true;
    setTimeout(() => {
      waiting = false;
      if (signal.aborted) return;
      const { found, epoch } = newest;
      rows.show(found, changed);
      chart.show(found, epoch);
      changed = false;
      put(note, `${told(found)}, epoch ${count(epoch)}`);
    }, changed ? REDRAWN : 0);
  }

  try {
    const described = await get(pathOf("/v1/views", name, "/description"), { signal });
    asked.order = described.columns[0]?.name ?? null;
  } catch (error) {
    if (signal.aborted) return;
    fill(trouble, problem(error));
    return;
  }
  restart();
}

function told(rows) {
  if (rows.total <= rows.wanted) return counted(rows.total, "row");
  return `the first ${count(rows.wanted)} of ${counted(rows.total, "row")} by ${rows.columns[rows.order]}${rows.descending ? ", descending" : ""}`;
}
