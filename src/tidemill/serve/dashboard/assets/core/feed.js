/* The newest epochs and whether the mill works: one feed for all panels. */

import { get } from "./server.js";
import { every } from "./repeat.js";

const KEPT = 600;

class Feed extends EventTarget {
  epochs = [];
  health = null;

  /** Ask again and again until the signal aborts. */
  start(signal) {
    every(1000, signal, () => this.#ask(signal));
  }

  /** Forget everything: what comes may be another mill's. */
  forget() {
    this.epochs = [];
    this.health = null;
  }

  async #ask(signal) {
    const health = await get("/readyz", { signal, accept: [503] });
    const newest = this.epochs.at(-1)?.epoch ?? 0;
    if (health.epoch < newest) this.forget();  // the mill went back, or is another one
    const known = this.epochs.at(-1)?.epoch ?? 0;
    const added = health.epoch === known && this.health ? [] : await get(`/v1/epochs?after=${known}`, { signal });
    if (added.length) this.epochs = [...this.epochs, ...added].slice(-KEPT);
    this.health = health;
    this.dispatchEvent(new CustomEvent("news", { detail: { added } }));
  }

  /** Call a function now, if anything is known, and at all news until the signal aborts. */
  follow(signal, action) {
    this.addEventListener("news", () => action(), { signal });
    if (this.health) action();
  }
}

export const feed = new Feed();
