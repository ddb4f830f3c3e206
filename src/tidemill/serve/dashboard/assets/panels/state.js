/* State: how large it is, what it consists of, and what is durable. */

import { lines } from "../charts/lines.js";
import { fill, h, put } from "../core/dom.js";
import { feed } from "../core/feed.js";
import { ago, bytes, count, counted, dayAndClock, duration } from "../core/format.js";
import { box, heading, table, tile } from "../core/parts.js";
import { every } from "../core/repeat.js";
import { get } from "../core/server.js";
import { sum } from "../core/sums.js";

const TABLES = [{ name: "State table", mono: true }, { name: "Used by", wide: true }, { name: "Runs", number: true }, { name: "Rows", number: true }, { name: "Bytes", number: true }, { name: "Not durable", number: true }, { name: "History", number: true }, { name: "Epochs" }];
const CHECKPOINTS = [{ name: "Epoch", number: true }, { name: "Durable since" }, { name: "Epochs in it", number: true }, { name: "After the one before", number: true }];

export async function state(room, signal) {
  const tiles = h("div", { class: "tiles" }), tables = h("div"), checkpoints = h("div"), note = h("span", { class: "quiet" });
  const size = lines("Bytes of state by epoch");
  room.append(
    heading("State"),
    tiles,
    h("div", { class: "columns" },
      box("Size", { note: "bytes that the newest epoch needs, by epoch" }, h("div", { class: "padded" }, size.element)),
      box("Checkpoints", { note: "the newest first" }, checkpoints)),
    box("State tables", { tools: note }, tables),
  );
  every(2000, signal, async () => {
    const found = await get("/v1/state", { signal });
    fill(tiles, tilesOf(found));
    size.show(found.history.map((s) => [s.epoch, s.bytes]), { whole: true, binary: true, format: bytes });
    fill(checkpoints, table("Checkpoints", CHECKPOINTS, rowsOf(found.checkpoints), "None since the server began."));
    put(note, `${counted(found.tables.length, "table")}; rows are counted before runs are merged`);
    fill(tables, table("State tables", TABLES, found.tables.map(row), "No state yet."));
  });
}

function tilesOf(found) {
  const buffered = sum(found.tables, (t) => t.buffered_bytes);
  const last = found.checkpoints.at(-1);
  const behind = found.epoch - found.durable_epoch;
  return [
    tile("State", bytes(sum(found.tables, (t) => t.bytes)), `for epoch ${count(found.epoch)}`),
    tile("History", bytes(sum(found.tables, (t) => t.history_bytes)), `back to epoch ${count(found.first_epoch)}`),
    tile("Not durable", bytes(buffered), behind ? `${counted(behind, "epoch")} after ${count(found.durable_epoch)}` : "all is durable", behind > 0 && feed.health?.status === "stopped" ? "warn" : ""),
    tile("Last checkpoint", last ? ago(last.at) : "–", `epoch ${count(found.durable_epoch)}`),
    tile("Runs", count(sum(found.tables, (t) => t.runs)), `in ${counted(found.tables.length, "table")}`),
  ];
}

function rowsOf(checkpoints) {
  const rows = checkpoints.map((c, i) => {
    const before = checkpoints[i - 1];
    return [count(c.epoch), h("span", { title: dayAndClock(c.at) }, ago(c.at)), before ? count(c.epoch - before.epoch) : "–", before ? duration((c.at - before.at) * 1000) : "–"];
  });
  return rows.reverse().slice(0, 6);
}

function row(t) {
  return [t.table, t.used_by.join(", "), count(t.runs), count(t.rows), bytes(t.bytes), t.buffered_bytes ? bytes(t.buffered_bytes) : "–", t.history_bytes ? bytes(t.history_bytes) : "–", t.first_epoch === null ? "–" : `${count(t.first_epoch)} to ${count(t.last_epoch)}`];
}
