/* One line over numbers, times or epochs. */

import { s } from "../core/dom.js";
import { brief } from "../core/format.js";
import { chart, ticks, timeLabel, timeTicks } from "./frame.js";

const LEFT = 58;
const RIGHT = 14;
const TOP = 10;
const BOTTOM = 22;

/** `{element, show(points, options)}`: points are `[x, y]` in the order of x; `time` says that x is in seconds. */
export function lines(label, height = 190) {
  let points = [], options = {};
  const drawn = chart(label, height, draw);

  function draw(svg, width) {
    if (!points.length) return;
    const xs = points.map((p) => p[0]), ys = points.map((p) => p[1]);
    const [x0, x1] = [least(xs), greatest(xs)];
    let [y0, y1] = [Math.min(0, least(ys)), Math.max(0, greatest(ys))];  // the area begins at 0
    if (y0 === y1) y1 = 1;
    const margin = (y1 - y0) * 0.06;
    if (y0 < 0) y0 -= margin;
    if (y1 > 0) y1 += margin;
    const x = (v) => (x1 === x0 ? (LEFT + width - RIGHT) / 2 : LEFT + ((v - x0) / (x1 - x0)) * (width - LEFT - RIGHT));
    const y = (v) => height - BOTTOM - ((v - y0) / (y1 - y0)) * (height - BOTTOM - TOP);
    const shown = options.format ?? brief;
    const unit = options.binary ? 1024 ** Math.max(0, Math.floor(Math.log(y1) / Math.log(1024))) : 1;  // round in KiB, MiB, ...
    for (const tick of ticks(y0 / unit, y1 / unit, 4).map((t) => t * unit)) {
      svg.append(s("line", { class: "grid", x1: LEFT, x2: width - RIGHT, y1: y(tick), y2: y(tick) }));
      svg.append(s("text", { class: "tick", x: LEFT - 8, y: y(tick) + 4, "text-anchor": "end" }, shown(tick)));
    }
    const most = Math.max(2, Math.floor((width - LEFT) / 85));
    const marks = options.time ? timeTicks(x0, x1, most) : ticks(x0, x1, most).filter((t) => !options.whole || Number.isInteger(t));
    const step = marks.length > 1 ? marks[1] - marks[0] : x1 - x0;
    for (const mark of marks.length ? marks : [x0]) {
      const anchor = x(mark) > width - 50 ? "end" : x(mark) < LEFT + 20 ? "start" : "middle";
      svg.append(s("text", { class: "tick", x: x(mark), y: height - 5, "text-anchor": anchor }, options.time ? timeLabel(mark, step, options.local) : brief(mark)));
    }
    const path = points.map(([a, b], i) => `${i ? (options.steps ? `H${x(a).toFixed(1)}V` : `L${x(a).toFixed(1)} `) : `M${x(a).toFixed(1)} `}${y(b).toFixed(1)}`).join("");
    svg.append(s("path", { class: "area", d: `${path}L${x(points.at(-1)[0]).toFixed(1)} ${y(0).toFixed(1)}L${x(x0).toFixed(1)} ${y(0).toFixed(1)}Z` }));
    svg.append(s("path", { class: "line", d: path }));
    if (points.length <= 60) for (const [a, b] of points) svg.append(s("circle", { class: "dot", cx: x(a), cy: y(b), r: points.length > 1 ? 2 : 4 }));
  }

  return {
    element: drawn.element,
    show(found, given = {}) {
      [points, options] = [found, given];
      drawn.update();
    },
  };
}

function least(values) {
  return values.reduce((a, b) => Math.min(a, b), Infinity);
}

function greatest(values) {
  return values.reduce((a, b) => Math.max(a, b), -Infinity);
}

/** A small line without axes, for a cell of a table. */
export function spark(label, values, width = 96, height = 22) {
  const top = greatest(values) || 1;
  const x = (i) => (values.length > 1 ? (i / (values.length - 1)) * (width - 2) + 1 : width / 2);
  const y = (v) => height - 2 - (v / top) * (height - 4);
  const path = values.map((v, i) => `${i ? "L" : "M"}${x(i).toFixed(1)} ${y(v).toFixed(1)}`).join("");
  return s("svg", { class: "spark", width, height, role: "img", "aria-label": label }, s("path", { class: "line", d: path || "M0 0" }));
}
