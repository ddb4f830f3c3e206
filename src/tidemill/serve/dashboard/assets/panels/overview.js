/* The state of everything on one page. */

import { timeline } from "../charts/timeline.js";
import { fill, h, put } from "../core/dom.js";
import { feed } from "../core/feed.js";
import { ago, brief, bytes, count, counted, duration, quantile } from "../core/format.js";
import { box, heading, tile } from "../core/parts.js";
import { every } from "../core/repeat.js";
import { get } from "../core/server.js";
import { rate, sum } from "../core/sums.js";
import { sourcesTable } from "./sources.js";
import { viewsTable } from "./views.js";

export async function overview(room, signal) {
  const tiles = h("div", { class: "tiles" });
  const epochs = timeline(150);
  const viewsRoom = h("div"), sourcesRoom = h("div");
  const beside = h("span");
  let state = null;
  room.append(
    heading("Overview", beside),
    tiles,
    box("Epochs", { tools: h("a", { href: "#/epochs" }, "Details") }, epochs.element),
    box("Views", { tools: h("a", { href: "#/views" }, "All") }, viewsRoom),
    box("Sources", { tools: h("a", { href: "#/sources" }, "Details") }, sourcesRoom),
  );

  function show() {
    const { health, epochs: known } = feed;
    put(beside, known.length ? `Newest epoch sealed ${ago(known.at(-1).sealed_at)}` : "");
    epochs.show(known);
    fill(tiles, tilesOf(health, known, state));
  }

  feed.follow(signal, show);
  every(2000, signal, async () => {
    const [found, sources, sizes] = await Promise.all([get("/v1/views", { signal }), get("/v1/sources", { signal }), get("/v1/state", { signal })]);
    state = sizes;
    fill(viewsRoom, viewsTable(found.views, sizes));
    fill(sourcesRoom, sourcesTable(sources.sources, feed.epochs));
    if (feed.health) show();
  });
}

function tilesOf(health, epochs, state) {
  const recent = epochs.slice(-100);
  const totals = recent.map((e) => e.milliseconds.total);
  const behind = health.epoch - health.durable_epoch;
  return [
    tile("Mill", health.status === "ok" ? "running" : "stopped", health.status === "ok" ? "epochs run" : health.detail, health.status === "ok" ? "" : "bad"),
    tile("Epoch", count(health.epoch), behind ? `durable: ${count(health.durable_epoch)}, ${count(behind)} behind` : "durable"),
    tile("Epoch time, p50", duration(quantile(totals, 0.5)), `p99 ${duration(quantile(totals, 0.99))}`),
    tile("Rows read", `${brief(rate(epochs, (e) => e.rows_in))}/s`, "over the last minute"),
    tile("Input", `${bytes(rate(epochs, (e) => e.bytes_in))}/s`, waiting(epochs.at(-1))),
    tile("State", state ? bytes(sum(state.tables, (t) => t.bytes)) : "–", state ? `${counted(sum(state.tables, (t) => t.runs), "run")} in ${counted(state.tables.length, "table")}` : ""),
  ];
}

function waiting(epoch) {
  const total = sum(Object.values(epoch?.waiting ?? {}), ([, size]) => size);
  return total ? `${bytes(total)} wait` : "nothing waits";
}
