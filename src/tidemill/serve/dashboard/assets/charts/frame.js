/* A chart that is drawn anew when its width changes, so that texts keep their size. */

import { h, s } from "../core/dom.js";

/** `{element, update}`: `draw(svg, width)` fills an SVG of that width, in pixels; it is called again by `update()`. */
export function chart(label, height, draw, attributes = {}) {
  const svg = s("svg", { class: "chart", height, role: "img", "aria-label": label, ...attributes });
  const element = h("div", { class: "chart-box" }, svg);
  let width = 0;
  const update = () => {
    if (!width) return;
    svg.setAttribute("width", width);
    svg.replaceChildren();
    draw(svg, width);
  };
  new ResizeObserver(([entry]) => {
    const now = Math.floor(entry.contentRect.width);
    if (now === width) return;
    width = now;
    requestAnimationFrame(update);
  }).observe(element);
  return { element, svg, update };
}

/** About `most` round values that cover a range. */
export function ticks(low, high, most) {
  if (!(high > low)) return [low];
  const rough = (high - low) / most;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].map((m) => m * power).find((size) => size >= rough);
  const found = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + step * 1e-9; i += 1) found.push(i * step || 0);  // no -0
  return found;
}

const TIME_STEPS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200, 86_400, 172_800, 604_800, 1_209_600, 2_592_000, 7_776_000, 31_536_000];

/** Round times, in seconds since 1970, that cover a range. */
export function timeTicks(low, high, most) {
  const rough = (high - low) / most;
  const step = TIME_STEPS.find((size) => size >= rough) ?? Math.ceil(rough / 31_536_000) * 31_536_000;
  const found = [];
  for (let at = Math.ceil(low / step) * step; at <= high; at += step) found.push(at);
  return found;
}

/** A time on an axis whose ticks are so many seconds apart. */
export function timeLabel(seconds, step, local) {
  const text = new Date(seconds * 1000 - (local ? new Date(seconds * 1000).getTimezoneOffset() * 60_000 : 0)).toISOString();
  if (step >= 86_400) return text.slice(0, 10);
  return text.slice(11, step >= 60 ? 16 : 19);
}
