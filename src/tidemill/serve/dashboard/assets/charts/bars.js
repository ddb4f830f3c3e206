/* Labelled horizontal bars, negative ones to the left of zero. */

import { h } from "../core/dom.js";

/** Bars of `[label, value, text]`, in this order. */
export function bars(label, rows) {
  const values = rows.map((r) => r[1]);
  const [low, high] = [Math.min(0, ...values), Math.max(0, ...values)];
  const part = (v) => `${((v / (high - low || 1)) * 100).toFixed(2)}%`;
  return h(
    "ul",
    { class: "bars", "aria-label": label },
    rows.map(([name, value, text]) =>
      h(
        "li",
        {},
        h("span", { class: name === null ? "bar-label null" : "bar-label", title: name ?? "NULL" }, name ?? "NULL"),
        h("span", { class: "bar-room" }, h("span", { class: value < 0 ? "bar-fill negative" : "bar-fill", style: { left: part(Math.min(value, 0) - low), width: part(Math.abs(value)) } })),
        h("span", { class: "bar-value" }, text),
      )),
  );
}
