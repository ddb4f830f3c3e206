/* Queues: the rows of each table that each view has still to take. */

import { fill, h, put } from "../core/dom.js";
import { bytes, count, counted, duration } from "../core/format.js";
import { badge, box, heading, missing, problem, table } from "../core/parts.js";
import { every } from "../core/repeat.js";
import { get } from "../core/server.js";

const PATH = "/v1/queues";
const COLUMNS = [{ name: "Table" }, { name: "View" }, { name: "State" }, { name: "Waiting", number: true }, { name: "Files", number: true }, { name: "To read", number: true }, { name: "Lag", number: true }, { name: "Read up to epoch", number: true }, { name: "Priority", number: true }];

export async function queues(room, signal) {
  const body = h("div"), note = h("span", { class: "quiet" });
  room.append(heading("Queues"), box("Tables and the views that read them", { tools: note }, body));
  every(2000, signal, async () => {
    const found = await get(PATH, { signal });
    put(note, `epoch ${count(found.epoch)}, ${counted(found.queues.length, "queue")}`);
    fill(body, table("Queues", COLUMNS, found.queues.map(row), "No view reads a table."));
  }, (error) => {
    fill(body, error.status === 404 ? missing("its queues", PATH) : problem(error));
    return ![403, 404].includes(error.status);
  });
}

function row(queue) {
  return [
    queue.table,
    queue.view === null ? "–" : h("a", { href: `#/views/${encodeURIComponent(queue.view)}` }, queue.view),
    badge(queue.state),
    queue.waiting_bytes ? bytes(queue.waiting_bytes) : "–",
    queue.waiting_files ? count(queue.waiting_files) : "–",
    queue.lag_bytes ? bytes(queue.lag_bytes) : "–",
    queue.lag_seconds === null ? "–" : duration(queue.lag_seconds * 1000),
    count(queue.epoch),
    count(queue.priority),
  ];
}
