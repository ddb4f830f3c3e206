/* One view: its rows as they change, a chart of them, its plan, its definition. */

import { fill, h } from "../core/dom.js";
import { count, counted } from "../core/format.js";
import { badge, box, heading, problem, table } from "../core/parts.js";
import { every } from "../core/repeat.js";
import { get, pathOf } from "../core/server.js";
import { planTab } from "../plan/tab.js";
import { rowsTab } from "../view/rows_tab.js";

const TABS = [["rows", "Rows", rowsTab], ["plan", "Plan", planTab], ["definition", "Definition", definitionTab]];

export async function view(room, signal, [name, chosen = "rows"]) {
  const status = h("span", { class: "beside" }), detail = h("div");
  const tab = TABS.find(([path]) => path === chosen) ?? TABS[0];
  const links = TABS.map(([path, title]) =>
    h("a", { href: `#/views/${encodeURIComponent(name)}/${path}`, "aria-current": path === tab[0] ? "page" : null }, title));
  const body = h("div");
  room.append(heading(name, status), detail, h("nav", { class: "tabs", "aria-label": "View" }, links), body);
  every(2000, signal, async () => {
    const found = (await get("/v1/views", { signal })).views.find((v) => v.name === name.toLowerCase());
    fill(status, found ? badge(found.status) : null);
    fill(detail, found?.detail ? h("p", { class: "mono view-detail" }, found.detail) : null);
  });
  await tab[2](body, signal, name);
}

async function definitionTab(room, signal, name) {
  let found;
  try {
    found = await get(pathOf("/v1/views", name, "/description"), { signal });
  } catch (error) {
    if (signal.aborted) return;
    fill(room, problem(error));
    return;
  }
  const columns = found.columns.map((c) => [c.name, h("span", { class: "mono" }, c.type), c.nullable ? "yes" : "no"]);
  fill(
    room,
    found.query ? box("Query", {}, h("pre", { class: "text" }, found.query)) : null,
    box("Columns", { note: counted(columns.length, "column") }, table("Columns", [{ name: "Column" }, { name: "Type" }, { name: "NULL" }], columns)),
    found.status ? h("p", { class: "quiet" }, `Created after epoch ${count(found.status.created_at_epoch)}.`) : null,
  );
}
