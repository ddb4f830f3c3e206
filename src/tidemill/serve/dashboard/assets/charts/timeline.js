/* Epochs as bars of their phases, the newest at the right. */

import { h, put, s } from "../core/dom.js";
import { clock, count, counted, duration, quantile } from "../core/format.js";
import { chart, ticks } from "./frame.js";

export const PHASES = ["admit", "run", "seal"];
const LEFT = 56;
const BOTTOM = 20;
const TOP = 8;

/** `{element, show(epochs)}`. The arrow keys go from epoch to epoch; a line below tells about the chosen one. */
export function timeline(height = 190) {
  let epochs = [];
  let chosen = null;
  const drawn = chart("Duration of the newest epochs by phase", height, draw, { tabindex: "0", class: "chart timeline" });
  const about = h("p", { class: "about quiet", "aria-live": "polite" });
  const legend = h("div", { class: "legend" }, PHASES.map((phase, i) => h("span", { class: `key series-${order(i)}` }, phase)));
  drawn.svg.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!step || !epochs.length) return;
    event.preventDefault();
    const at = chosen === null ? epochs.length : epochs.findIndex((e) => e.epoch === chosen);
    choose(epochs[Math.min(epochs.length - 1, Math.max(0, at + step))].epoch);
  });

  function choose(epoch) {
    chosen = epoch;
    drawn.update();
    tell();
  }

  function tell() {
    const found = epochs.find((e) => e.epoch === chosen) ?? epochs.at(-1);
    put(about, found ? description(found) : "No epoch has been sealed since the server began.");
  }

  function draw(svg, width) {
    if (!epochs.length) return;
    const room = width - LEFT - 8;
    const slots = Math.max(1, Math.min(120, Math.floor(room / 7), Math.max(epochs.length, 30)));
    const shown = epochs.slice(-slots);
    const totals = shown.map((e) => e.milliseconds.total);
    const usual = quantile(totals, 0.9);
    const longest = Math.max(...totals, 1);
    const top = longest > 4 * usual ? 2 * usual : longest * 1.05;  // one slow epoch must not flatten all others
    const y = (ms) => height - BOTTOM - (Math.min(ms, top) / top) * (height - BOTTOM - TOP);
    for (const tick of ticks(0, top, 4)) {
      svg.append(s("line", { class: "grid", x1: LEFT, x2: width - 8, y1: y(tick), y2: y(tick) }));
      svg.append(s("text", { class: "tick", x: LEFT - 8, y: y(tick) + 4, "text-anchor": "end" }, duration(tick)));
    }
    const slot = room / slots;
    const offset = slots - shown.length;
    shown.forEach((epoch, i) => {
      const x = LEFT + (offset + i) * slot;
      const bar = s("g", { class: epoch.epoch === chosen ? "bar chosen" : "bar" });
      bar.append(s("rect", { class: "target", x, y: TOP, width: slot, height: height - BOTTOM - TOP }));
      let below = 0;
      PHASES.forEach((phase, p) => {
        const size = epoch.milliseconds[phase];
        const from = y(below), to = y(below + size);
        bar.append(s("rect", { class: `series-${order(p)}`, x: x + slot * 0.12, y: to, width: slot * 0.76, height: Math.max(0, from - to) }));
        below += size;
      });
      if (below > top) bar.append(s("path", { class: "cut", d: `M${x} ${TOP + 7}l${slot} -4` }));
      bar.addEventListener("pointerenter", () => { chosen = epoch.epoch; tell(); mark(svg, bar); });
      svg.append(bar);
    });
    for (const [q, name] of [[0.5, "p50"], [0.99, "p99"]]) {
      const value = quantile(totals, q);
      if (!shown.length || value > top) continue;
      svg.append(s("line", { class: `quantile ${name}`, x1: LEFT, x2: width - 8, y1: y(value), y2: y(value) }));
    }
    if (shown.length) {
      svg.append(s("text", { class: "tick", x: LEFT + offset * slot, y: height - 5 }, `epoch ${count(shown[0].epoch)}`));
      if (shown.length > 3) svg.append(s("text", { class: "tick", x: width - 8, y: height - 5, "text-anchor": "end" }, count(shown.at(-1).epoch)));
    }
  }

  return {
    element: h("div", { class: "padded" }, drawn.element, h("div", { class: "below" }, legend, about)),
    show(found) {
      epochs = found;
      drawn.update();
      tell();
    },
  };
}

function mark(svg, bar) {
  for (const other of svg.querySelectorAll(".chosen")) other.classList.remove("chosen");
  bar.classList.add("chosen");
}

/** Colours: the phase that takes longest has the first one. */
function order(phase) {
  return [2, 1, 3][phase];
}

function description(epoch) {
  const parts = PHASES.map((phase) => `${phase} ${duration(epoch.milliseconds[phase])}`).join(" · ");
  return `Epoch ${count(epoch.epoch)}, ${clock(epoch.sealed_at)}: ${duration(epoch.milliseconds.total)} = ${parts}; ${counted(epoch.rows_in, "row")}`;
}
