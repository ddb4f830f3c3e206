/* Follows one view: its first rows, then its changes, across lost connections and restarts of the server. */

import { events, get, pathOf, Refused } from "../core/server.js";
import { pause, seen } from "../core/repeat.js";
import { LEAST, LiveRows } from "./live_rows.js";

const LONGEST_PAUSE = 5000;
const AGAIN = 300;
/** Milliseconds between two readings of the first rows: each reads the whole view on the server. */

/** Calls `shown(rows, epoch, changed)` for the first rows and after each change, and `told(error)` for trouble, or null
    when it is over. Ends with the signal. `asked` is `{order, descending, wanted, where}`; `order` names a column. */
export async function follow(name, asked, signal, shown, told) {
  let wait = 250;
  while (await seen(signal)) {
    try {
      const { rows, epoch } = await begin(name, asked, signal);
      shown(rows, epoch, false);
      told(null);
      wait = 250;
      await changes(name, asked, signal, rows, epoch, shown, told);
      await pause(AGAIN, signal);
    } catch (error) {
      if (signal.aborted) return;
      if (!document.hidden) told(error);
      if (error instanceof Refused && error.status === 404) return;
      if (!document.hidden && !(await pause(wait, signal))) return;
      wait = Math.min(wait * 2, LONGEST_PAUSE);
    }
  }
}

async function begin(name, { order, descending, wanted, where }, signal) {
  const most = Math.max(LEAST, wanted * 2);
  const query = new URLSearchParams({ rows: String(most), descending: String(descending) });
  if (order) query.set("order", order);
  if (where) query.set("where", where);
  const found = await get(pathOf("/v1/views", name, `/first?${query}`), { signal });
  const at = Math.max(0, found.columns.findIndex((c) => c.toLowerCase() === order?.toLowerCase()));
  const rows = new LiveRows(found.columns, found.types, at, descending, wanted, most);
  rows.start(found.rows, found.total);
  return { rows, epoch: found.epoch };
}

/** Take changes behind an epoch until the rows have to be read anew. */
async function changes(name, { where }, signal, rows, epoch, shown, told) {
  const query = new URLSearchParams({ from: String(epoch) });
  if (where) query.set("where", where);
  const path = pathOf("/v1/views", name, `/changes?${query}`);
  let after = "";
  for (;;) {
    // A browser keeps six connections to a server: pages that nobody sees give theirs back, and go on later.
    const connection = AbortSignal.any([signal, hidden()]);
    try {
      for await (const event of events(path, { signal: connection, after })) {
        if (event.id) after = event.id;
        if (event.kind === "trouble") told(event.data);
        else if (event.kind === "error") throw new Refused(410, event.data);
        else if (event.kind === "progress") shown(rows, event.data.epoch, false);
        else {
          const enough = rows.apply(event.data.changes);
          shown(rows, event.data.epoch, true);
          told(null);
          if (!enough) return;
        }
      }
      if (!(await pause(250, signal))) return;  // the server is being stopped
    } catch (error) {
      if (signal.aborted || !connection.aborted) throw error;
      if (!(await seen(signal))) return;
    }
  }
}

function hidden() {
  const controller = new AbortController();
  const look = () => {
    if (document.visibilityState === "visible") return;
    document.removeEventListener("visibilitychange", look);
    controller.abort();
  };
  document.addEventListener("visibilitychange", look);
  return controller.signal;
}
