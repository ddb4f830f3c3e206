/* Does things again and again while somebody looks. */

import { Refused, Unreachable } from "./server.js";

/** Wait; false when the signal aborts first. */
export function pause(milliseconds, signal) {
  return new Promise((resolve) => {
    if (signal.aborted) {
      resolve(false);
      return;
    }
    const timer = setTimeout(() => resolve(true), milliseconds);
    signal.addEventListener("abort", () => { clearTimeout(timer); resolve(false); }, { once: true });
  });
}

/** Wait until the page can be seen; false when the signal aborts first. */
export function seen(signal) {
  return new Promise((resolve) => {
    if (signal.aborted || document.visibilityState === "visible") {
      resolve(!signal.aborted);
      return;
    }
    const look = () => document.visibilityState === "visible" && done(true);
    const stop = () => done(false);
    const done = (found) => {
      document.removeEventListener("visibilitychange", look);
      signal.removeEventListener("abort", stop);
      resolve(found);
    };
    document.addEventListener("visibilitychange", look);
    signal.addEventListener("abort", stop);
  });
}

/** Call a function now and then every so often, until the signal aborts. What the server refuses goes to `refused`, which
    ends it by `false`; that the server does not answer is shown by the frame. */
export async function every(milliseconds, signal, action, refused = () => {}) {
  while (await seen(signal)) {
    try {
      await action();
    } catch (error) {
      if (signal.aborted) return;
      if (error instanceof Refused) {
        if (refused(error) === false) return;
      } else if (!(error instanceof Unreachable)) reportError(error);
    }
    if (!(await pause(milliseconds, signal))) return;
  }
}
