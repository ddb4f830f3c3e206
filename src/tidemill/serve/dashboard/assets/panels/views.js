/* All views: status, state, what an epoch costs. */

import { fill, h } from "../core/dom.js";
import { bytes, count } from "../core/format.js";
import { badge, box, heading, table } from "../core/parts.js";
import { every } from "../core/repeat.js";
import { get } from "../core/server.js";

const COLUMNS = [{ name: "View" }, { name: "Status" }, { name: "Created after epoch", number: true }, { name: "State", number: true }, { name: "Detail", wide: true }];

export async function views(room, signal) {
  const body = h("div");
  room.append(heading("Views", h("a", { href: "#/sql" }, "Create one with SQL")), box("All views", {}, body));
  every(2000, signal, async () => {
    const [found, sizes] = await Promise.all([get("/v1/views", { signal }), get("/v1/state", { signal })]);
    fill(body, viewsTable(found.views, sizes));
  });
}

/** A table of views; a view's state is that of the tables which it needs, shared ones included. */
export function viewsTable(found, sizes) {
  const rows = found.map((view) => [
    h("a", { href: `#/views/${encodeURIComponent(view.name)}` }, view.name),
    badge(view.status),
    count(view.created_at_epoch),
    bytes(sizes.tables.filter((t) => t.used_by.includes(view.name)).reduce((n, t) => n + t.bytes, 0)),
    view.detail,
  ]);
  return table("Views", COLUMNS, rows, "There are no views. CREATE MATERIALIZED VIEW … in the panel SQL makes one.");
}
