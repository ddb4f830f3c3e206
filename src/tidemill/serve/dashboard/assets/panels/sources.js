/* Where rows come from: what is read, what waits, what went wrong. */

import { spark } from "../charts/lines.js";
import { fill, h } from "../core/dom.js";
import { feed } from "../core/feed.js";
import { ago, brief, bytes, count, counted, dayAndClock } from "../core/format.js";
import { badge, box, heading, table } from "../core/parts.js";
import { every } from "../core/repeat.js";
import { get } from "../core/server.js";
import { rate } from "../core/sums.js";

export async function sources(room, signal) {
  const body = h("div"), problems = h("div"), connections = h("div"), warnings = h("div");
  room.append(heading("Sources"), box("Tables", {}, body), problems, connections, box("Warnings", { note: "the newest first" }, warnings));
  every(2000, signal, async () => {
    const [found, warned] = await Promise.all([get("/v1/sources", { signal }), get("/v1/warnings", { signal })]);
    fill(body, sourcesTable(found.sources, feed.epochs));
    fill(problems, unreadable(found.sources));
    fill(connections, connected(found.sources));
    fill(warnings, table("Warnings", [{ name: "Time" }, { name: "Warning", wide: true }], warned.reverse().slice(0, 200).map((w) => [h("span", { title: dayAndClock(w.at) }, ago(w.at)), w.warning]), "No warnings."));
  });
}

const COLUMNS = [
  { name: "Table" }, { name: "Format" }, { name: "State" }, { name: "Rows read", number: true }, { name: "Rows/s", number: true },
  { name: "Newest epochs" }, { name: "Waiting", number: true }, { name: "Malformed", number: true },
];

/** A table of sources. Lag is what is listed and not read yet. */
export function sourcesTable(found, epochs) {
  const newest = epochs.slice(-60);
  const rows = found.map((source) => {
    const read = newest.map((e) => e.tables[source.table] ?? 0);
    return [
      [source.table, h("span", { class: "mono under" }, source.path)],
      source.format,
      stateOf(source),
      count(source.rows_read),
      brief(rate(epochs, (e) => e.tables[source.table] ?? 0)),
      spark(`Rows of the newest ${counted(read.length, "epoch")}, at most ${count(Math.max(0, ...read))}`, read),
      source.waiting_bytes || source.waiting_files ? `${bytes(source.waiting_bytes)} in ${counted(source.waiting_files, "file")}` : "–",
      source.malformed ? h("span", { class: "warned" }, count(source.malformed)) : "0",
    ];
  });
  return table("Sources", COLUMNS, rows, "There are no tables. CREATE TABLE … USING … in the panel SQL makes one.");
}

function stateOf(source) {
  if (source.unreadable.length) return h("span", { class: "badge bad" }, counted(source.unreadable.length, "unreadable file"));
  if (source.connections?.some((c) => c.last_error)) return h("span", { class: "badge warn" }, "connection errors");
  if (source.waiting_files || source.waiting_bytes) return h("span", { class: "badge busy" }, "reading");
  if (source.waiting_bytes === null) return h("span", { class: "badge muted" }, "no epoch yet");
  return h("span", { class: "badge good" }, "up to date");
}

function unreadable(found) {
  const rows = found.flatMap((source) => source.unreadable.map((file) => [source.table, h("span", { class: "mono" }, file.path), count(file.attempts), file.retry_at === null ? "set aside" : dayAndClock(file.retry_at), file.error]));
  if (!rows.length) return null;
  const columns = [{ name: "Table" }, { name: "File", wide: true }, { name: "Attempts", number: true }, { name: "Next attempt" }, { name: "Error", wide: true }];
  return box("Files that cannot be read", {}, table("Files that cannot be read", columns, rows));
}

function connected(found) {
  const rows = found.flatMap((source) => (source.connections ?? []).map((c) => [source.table, c.endpoint, c.peer ?? "–", badge(c.state ?? "unknown"), bytes(c.bytes), count(c.messages), count(c.errors), c.since === null ? "–" : ago(c.since), c.last_error ?? ""]));
  if (!rows.length) return null;
  const columns = [{ name: "Table" }, { name: "Endpoint" }, { name: "Peer" }, { name: "State" }, { name: "Bytes", number: true }, { name: "Messages", number: true }, { name: "Errors", number: true }, { name: "Since" }, { name: "Last error", wide: true }];
  return box("Connections", {}, table("Connections", columns, rows));
}
