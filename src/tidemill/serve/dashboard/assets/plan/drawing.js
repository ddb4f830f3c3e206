/* Draws a plan: steps as boxes, rows as lines between them, supersteps as bands. */

import { put, s } from "../core/dom.js";
import { brief, count, duration } from "../core/format.js";
import { layout } from "./layout.js";

const SIZE = { width: 224, height: 74, gapX: 26, gapY: 34, top: 26 };
const LINE = 31;  // characters
const MARGIN = 14;

/** `{element, show(steps, counters), select(step)}`; `chosen(step)` is called when a step is chosen. */
export function drawing(steps, label, chosen) {
  const made = layout(steps, SIZE);
  const svg = s("svg", { class: "plan", width: made.width + 2 * MARGIN, height: made.height + MARGIN, role: "group", "aria-label": label });
  const room = s("g", { transform: `translate(${MARGIN} 4)` });
  svg.append(room);
  for (const band of made.bands) {
    room.append(s("rect", { class: "band", x: -MARGIN + 4, y: band.y + 2, width: made.width + 2 * MARGIN - 8, height: band.height - 4, rx: 6 }));
    room.append(s("text", { class: "band-name", x: -MARGIN + 12, y: band.y + 17 }, `superstep ${band.superstep}`));
  }
  for (const edge of made.edges) room.append(drawnEdge(edge));
  const nodes = new Map(steps.map((step) => [step.step, node(step, made.nodes.get(step.step))]));
  for (const drawn of nodes.values()) room.append(drawn.element);
  const order = steps.map((step) => step.step);
  let at = order[order.length - 1];

  function select(step, focus) {
    nodes.get(at)?.element.setAttribute("tabindex", "-1");
    nodes.get(at)?.element.setAttribute("aria-pressed", "false");
    at = step;
    const { element } = nodes.get(at);
    element.setAttribute("tabindex", "0");
    element.setAttribute("aria-pressed", "true");
    if (focus) element.focus();
    for (const line of room.querySelectorAll(".edge")) line.classList.toggle("of-chosen", line.dataset.to === String(at) || line.dataset.from === String(at));
    chosen(at);
  }

  for (const [step, drawn] of nodes) drawn.element.addEventListener("click", () => select(step, true));
  svg.addEventListener("keydown", (event) => {
    const place = order.indexOf(at);
    const next = { ArrowDown: place + 1, ArrowRight: place + 1, ArrowUp: place - 1, ArrowLeft: place - 1, Home: 0, End: order.length - 1 }[event.key];
    if (next === undefined) return;
    event.preventDefault();
    select(order[Math.min(order.length - 1, Math.max(0, next))], true);
  });

  return {
    element: svg,
    select: (step) => select(nodes.has(step) ? step : order[order.length - 1], false),
    /** Show what the steps did; `counters(step)` gives it, or null. */
    show(now, counters) {
      const spent = now.map((step) => counters(step)?.milliseconds ?? 0);
      const all = spent.reduce((a, b) => a + b, 0);
      now.forEach((step, i) => nodes.get(step.step).show(counters(step), all ? spent[i] / all : 0));
    },
  };
}

function node(step, { x, y }) {
  const rows = s("text", { class: "node-rows", x: 12, y: 64 });
  const time = s("text", { class: "node-time", x: SIZE.width - 12, y: 64, "text-anchor": "end" });
  const heat = s("rect", { class: "heat", x: 0, y: SIZE.height - 4, width: 0, height: 4 });
  const element = s(
    "g",
    { class: "node", transform: `translate(${x - SIZE.width / 2} ${y})`, tabindex: "-1", role: "button", "aria-pressed": "false", "data-step": step.step },
    s("rect", { class: "node-box", width: SIZE.width, height: SIZE.height, rx: 6 }),
    s("text", { class: "node-number", x: SIZE.width - 12, y: 18, "text-anchor": "end" }, `#${step.step}`),
    headAndRest(step.text).map((line, i) => s("text", { class: i ? "node-more" : "node-name", x: 12, y: 18 + 16 * i }, line)),
    heat, rows, time,
    s("title", {}, step.text),
  );
  return {
    element,
    show(counters, share) {
      put(rows, counters ? `${brief(counters.rows_in)} → ${brief(counters.rows_out)} rows` : "not run yet");
      put(time, counters ? duration(counters.milliseconds) : "");
      heat.setAttribute("width", (share * SIZE.width).toFixed(1));
      const spoken = counters ? `${count(counters.rows_in)} rows in, ${count(counters.rows_out)} out, ${duration(counters.milliseconds)}, ${Math.round(share * 100)} % of the time` : "not run yet";
      element.setAttribute("aria-label", `Step ${step.step}: ${step.text}; ${spoken}`);
    },
  };
}

function drawnEdge(edge) {
  const exchange = edge.input.exchange;
  const [first, ...rest] = edge.points;
  let [x, y] = first;
  let path = `M${x} ${y}`;
  for (const [nextX, nextY] of rest) {
    const middle = (y + nextY) / 2;
    path += x === nextX ? `V${nextY}` : `C${x} ${middle} ${nextX} ${middle} ${nextX} ${nextY}`;
    [x, y] = [nextX, nextY];
  }
  return s(
    "g",
    { class: exchange ? "edge exchange" : "edge", "data-from": edge.from, "data-to": edge.to },
    s("path", { d: path }),
    s("path", { class: "tip", d: `M${x - 4} ${y - 7}L${x} ${y - 1}L${x + 4} ${y - 7}Z` }),
    exchange ? s("text", { class: "edge-name", x: x + 8, y: y - 8 }, shortened(exchange, 28)) : null,
    s("title", {}, `#${edge.from} to #${edge.to}${exchange ? `, exchange ${exchange}` : ""}`),
  );
}

/** What a step is, and the rest of its text. */
function headAndRest(text) {
  const [, head, rest] = /^(.+? by \[[^\]]*\]|[^[]+?)((?: \[| where | of \[).*)?$/.exec(text) ?? [null, text, ""];
  return [shortened(head, LINE - 9), shortened((rest ?? "").trim(), LINE)];
}

function shortened(text, most) {
  return text.length > most ? `${text.slice(0, most - 1)}…` : text;
}
