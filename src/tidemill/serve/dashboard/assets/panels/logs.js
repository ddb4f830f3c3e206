/* The server's log, as it is written. */

import { fill, h, put } from "../core/dom.js";
import { clock, count } from "../core/format.js";
import { box, choice, heading, missing, problem, select } from "../core/parts.js";
import { every } from "../core/repeat.js";
import { get } from "../core/server.js";

const PATH = "/v1/logs";
const KEPT = 1000;
const LOOK = 5;  // polls without an entry
const KINDS = { debug: "muted", info: "muted", warning: "warn", error: "bad", critical: "bad" };

export async function logs(room, signal) {
  const list = h("ol", { class: "log", "aria-label": "Log", tabindex: "0" });
  const note = h("span", { class: "quiet" });
  const body = h("div", {}, list);
  let level = "", after = null, running = true, quiet = 0;
  const again = () => { after = null; list.replaceChildren(); };
  room.append(
    heading("Logs"),
    box("Entries", { note: "the newest first", tools: [
      select("Level", [["", "all"], ["info", "info and above"], ["warning", "warning and above"], ["error", "error"]], level, (value) => { level = value; again(); }),
      choice("Follow", [[true, "Follow"], [false, "Pause"]], true, (value) => { running = value; }),
      note,
    ] }, body),
  );

  async function ask() {
    const query = new URLSearchParams({ ...(level && { level }), ...(after !== null && { after }) });
    const entries = await get(`${PATH}?${query}`, { signal });
    if (query.get("level") !== (level || null)) return;  // another one was chosen meanwhile
    if (list.parentNode !== body) fill(body, list);
    for (const entry of entries) {
      after = Math.max(after ?? 0, entry.number);
      list.prepend(line(entry));
    }
    while (list.childElementCount > KEPT) list.lastChild.remove();
    put(note, list.childElementCount ? `${count(list.childElementCount)} shown` : "nothing yet");
    quiet = entries.length ? 0 : quiet + 1;
    if (quiet % LOOK === LOOK - 1) await lookForRestart();
  }

  /** Numbers begin again with the server. */
  async function lookForRestart() {
    const [newest] = await get(`${PATH}?limit=1`, { signal });
    if (newest && after !== null && newest.number < after) again();
  }

  every(1000, signal, () => (running ? ask() : null), (error) => {
    fill(body, error.status === 404 ? missing("its log", PATH) : problem(error));
    return ![403, 404].includes(error.status);
  });
}

function line(entry) {
  const seconds = typeof entry.time === "number" ? entry.time : Date.parse(entry.time) / 1000;
  const kind = String(entry.level).toLowerCase();
  const fields = Object.entries(entry.fields ?? {}).flatMap(([name, value]) => [h("span", { class: "log-field" }, `${name}=${typeof value === "string" ? value : JSON.stringify(value)}`), " "]);
  return h("li", {}, h("span", { class: "quiet" }, clock(seconds)), h("span", { class: `badge ${KINDS[kind] ?? "muted"}` }, kind), h("span", { class: "log-event" }, entry.event), h("span", { class: "log-text" }, entry.message, " ", fields));
}
