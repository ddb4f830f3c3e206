/* Epochs: how long each phase took, and what each epoch did. */

import { timeline } from "../charts/timeline.js";
import { fill, h, put } from "../core/dom.js";
import { feed } from "../core/feed.js";
import { bytes, clock, count, counted, duration, quantile } from "../core/format.js";
import { box, heading, table, tile } from "../core/parts.js";
import { sum } from "../core/sums.js";

const SHOWN = 100;

const COLUMNS = [
  { name: "Epoch", number: true }, { name: "Sealed" }, { name: "Total", number: true }, { name: "Admit", number: true }, { name: "Run", number: true }, { name: "Seal", number: true },
  { name: "Rows in", number: true }, { name: "Input", number: true }, { name: "Splits", number: true }, { name: "Written", number: true }, { name: "History rows", number: true },
  { name: "Malformed", number: true }, { name: "Late", number: true }, { name: "Warnings", wide: true },
];

export async function epochs(room, signal) {
  const chart = timeline(230);
  const tiles = h("div", { class: "tiles" }), body = h("div"), note = h("span", { class: "quiet" });
  room.append(heading("Epochs"), tiles, box("Phases", { note: "admit, run and seal, stacked; dashed lines are p50 and p99" }, chart.element), box("Newest epochs", { tools: note }, body));
  let newest = null;
  feed.follow(signal, () => {
    const found = feed.epochs;
    if (newest === (found.at(-1)?.epoch ?? 0)) return;
    newest = found.at(-1)?.epoch ?? 0;
    chart.show(found);
    fill(tiles, tilesOf(found));
    put(note, found.length > SHOWN ? `the newest ${SHOWN} of ${count(found.length)} that the server has reports of` : "");
    fill(body, table("Newest epochs", COLUMNS, found.slice(-SHOWN).reverse().map(row), "No epoch has been sealed since the server began."));
  });
}

function tilesOf(found) {
  const totals = found.map((e) => e.milliseconds.total);
  const spent = sum(found, (e) => e.milliseconds.total) || 1;
  const share = (phase) => `${Math.round((100 * sum(found, (e) => e.milliseconds[phase])) / spent)} %`;
  return [
    tile("Epochs", count(found.length), "with a report"),
    tile("p50", duration(quantile(totals, 0.5)), "from admission to seal"),
    tile("p99", duration(quantile(totals, 0.99)), `longest ${duration(quantile(totals, 1))}`),
    tile("Time in phases", share("run"), `run; admit ${share("admit")}, seal ${share("seal")}`),
    tile("Rows", count(sum(found, (e) => e.rows_in)), `${bytes(sum(found, (e) => e.bytes_in))} read`),
  ];
}

function row(epoch) {
  const ms = epoch.milliseconds;
  const failed = Object.entries(epoch.failed).map(([view, error]) => `${view}: ${error}`);
  const notes = [...failed, ...epoch.warnings];
  return [
    count(epoch.epoch), clock(epoch.sealed_at), duration(ms.total), duration(ms.admit), duration(ms.run), duration(ms.seal),
    count(epoch.rows_in), bytes(epoch.bytes_in), count(epoch.splits), bytes(epoch.bytes_out), count(epoch.backfilled), count(epoch.rows_malformed), count(epoch.late),
    notes.length ? h("details", {}, h("summary", {}, counted(notes.length, "warning")), notes.map((t) => h("p", { class: "mono" }, t))) : "",
  ];
}
