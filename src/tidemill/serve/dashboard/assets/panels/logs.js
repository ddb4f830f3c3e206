/* The server's log, as it is written. */

import { fill, h, put } from "../core/dom.js";
import { clock, count } from "../core/format.js";
import { box, choice, heading, missing, problem, select } from "../core/parts.js";
import { every } from "../core/repeat.js";
import { get } from "../core/server.js";

const PATH = "/v1/logs";
const KEPT = 1000;
const KINDS = { debug: "muted", info: "good", warning: "warn", error: "bad", critical: "bad" };

export async function logs(room, signal) {
  const list = h("ol", { class: "log", "aria-label": "Log", tabindex: "0" });
  const note = h("span", { class: "quiet" });
  const body = h("div", {}, list);
  let level = "", after = 0, running = true, shown = 0;
  const again = () => { after = 0; shown = 0; list.replaceChildren(); };
  room.append(
    heading("Logs"),
    box("Entries", { note: "the newest first", tools: [
      select("Level", [["", "all"], ["info", "info and above"], ["warning", "warning and above"], ["error", "error"]], level, (value) => { level = value; again(); ask(); }),
      choice("Follow", [[true, "Follow"], [false, "Pause"]], true, (value) => { running = value; }),
      note,
    ] }, body),
  );

  async function ask() {
    const asked = level;
    const answer = await get(`${PATH}?after=${after}${level ? `&level=${level}` : ""}`, { signal });
    if (asked !== level) return;
    const entries = Array.isArray(answer) ? answer : answer.entries;
    for (const entry of entries) {
      after = Math.max(after, entry.number);
      list.prepend(line(entry));
      shown += 1;
    }
    while (list.childElementCount > KEPT) list.lastChild.remove();
    put(note, shown ? `${count(list.childElementCount)} shown` : "nothing yet");
  }

  every(1000, signal, () => (running ? ask() : null), (error) => {
    fill(body, error.status === 404 ? missing("its log", PATH) : problem(error));
    return error.status !== 404;
  });
}

function line(entry) {
  const seconds = typeof entry.time === "number" ? entry.time : Date.parse(entry.time) / 1000;
  const kind = String(entry.level).toLowerCase();
  const fields = Object.entries(entry.fields ?? {}).map(([name, value]) => h("span", { class: "log-field" }, `${name}=${typeof value === "string" ? value : JSON.stringify(value)}`));
  return h("li", {}, h("span", { class: "quiet" }, clock(seconds)), h("span", { class: `badge ${KINDS[kind] ?? "muted"}` }, kind), h("span", { class: "log-event" }, entry.event), h("span", { class: "log-text" }, entry.message, " ", fields));
}
