/* A chart of the rows of a view: bars by a name, or a line over a time or number. Of a view of one row it shows the
   values over the epochs, and of one with too many rows for the page how many there are. */

import { bars } from "../charts/bars.js";
import { lines } from "../charts/lines.js";
import { fill, h } from "../core/dom.js";
import { cell, count, isNumeric, isTime } from "../core/format.js";
import { box, select } from "../core/parts.js";

const BARS = 20;
const POINTS = 600;
const SINCE = "by epoch, since this page was opened";

/** `{element, show(rows, epoch)}`. */
export function rowsChart() {
  const room = h("div", { class: "padded" }), tools = h("span", { class: "pair" }), note = h("span", { class: "quiet" });
  const line = lines("Chart of the rows");
  const past = new Map();  // by column its values at the epochs seen so far; the number of rows has -1
  let by = null, value = null, columns = "", last = null;

  function choose(rows) {
    const ids = JSON.stringify([rows.columns, rows.types]);
    if (ids === columns) return;
    columns = ids;
    past.clear();
    const numeric = rows.types.flatMap((type, i) => (isNumeric(type) ? [i] : []));
    const time = rows.types.findIndex(isTime);
    by = time >= 0 ? time : Math.max(0, rows.types.findIndex((type) => !isNumeric(type)));
    value = numeric.find((i) => i !== by) ?? null;
    const option = (i) => [String(i), rows.columns[i]];
    if (value === null || rows.columns.length < 2) fill(tools);
    else {
      fill(tools,
        select("Value", numeric.map(option), String(value), (v) => { value = Number(v); draw(); }),
        select("by", rows.columns.map((_, i) => option(i)), String(by), (v) => { by = Number(v); draw(); }));
    }
    if (value === null) value = numeric[0] ?? null;
  }

  function draw() {
    const { rows } = last;
    const single = rows.complete && rows.total === 1 && value !== null;
    tools.hidden = !rows.complete;
    if (!rows.complete) {
      fill(note, `number of rows ${SINCE}`);
      over(past.get(-1), { whole: true, steps: true });
    } else if (single) {
      fill(note, SINCE);
      over(past.get(value) ?? [], { whole: true, steps: true });
    } else if (value === null) {
      fill(note);
      fill(room, h("p", { class: "quiet none" }, "No column is numeric."));
    } else if (isTime(rows.types[by]) || (isNumeric(rows.types[by]) && rows.kept.length > BARS)) {
      const time = isTime(rows.types[by]);
      fill(note);
      over(pointsOf(rows, time ? secondsOf : Number), { time });
    } else {
      drawBars(rows);
    }
  }

  function drawBars(rows) {
    const found = new Map();
    for (const { values, count: times } of rows.kept) {
      const number = numberOf(values[value]);
      if (!Number.isFinite(number)) continue;
      const label = values[by] === null ? null : cell(values[by], rows.types[by]);
      const before = found.get(label);
      if (before || times > 1) found.set(label, { sum: (before?.sum ?? 0) + number * times, several: true });
      else found.set(label, { sum: number, text: cell(values[value], rows.types[value]) });
    }
    const all = [...found].sort((a, b) => Math.abs(b[1].sum) - Math.abs(a[1].sum));
    const summed = all.some(([, v]) => v.several);
    fill(note, [summed && "sums", all.length > BARS && `the ${BARS} greatest of ${count(all.length)}`].filter(Boolean).join(", "));
    fill(room, bars(`${rows.columns[value]} by ${rows.columns[by]}`, all.slice(0, BARS).map(([label, v]) => [label, v.sum, v.several ? cell(v.sum, "double") : v.text])));
  }

  function remember(column, epoch, number) {
    const found = past.get(column) ?? [];
    if (found.at(-1)?.[0] === epoch) found.pop();
    past.set(column, [...found, [epoch, number]].slice(-POINTS));
  }

  function pointsOf(rows, position) {
    return rows.kept.map((e) => [e.values[by] === null ? NaN : position(e.values[by]), numberOf(e.values[value])])
      .filter(([x, y]) => Number.isFinite(x) && Number.isFinite(y)).sort((a, b) => a[0] - b[0]);
  }

  function over(points, options) {
    if (line.element.parentNode !== room) fill(room, line.element);
    line.show(points, options);
  }

  return {
    element: box("Chart", { tools: [note, tools], kind: "rows-chart" }, room),
    show(rows, epoch) {
      last = { rows, epoch };
      choose(rows);
      remember(-1, epoch, rows.total);
      if (rows.total === 1 && rows.kept.length === 1) rows.types.forEach((type, i) => isNumeric(type) && remember(i, epoch, numberOf(rows.kept[0].values[i])));
      draw();
    },
  };
}

function numberOf(value) {
  return value === null || typeof value === "boolean" ? NaN : Number(value);
}

/** A date or time as seconds since 1970; one without a zone as if it were of UTC, as the axis shows it. */
function secondsOf(text) {
  return Date.parse(/Z$|T.*[+-]\d\d:\d\d$/.test(text) || text.length <= 10 ? text : `${text.replace(" ", "T")}Z`) / 1000;
}
