/* The plan of a view: the graph, and what the chosen step did. */

import { fill, h, put } from "../core/dom.js";
import { count, counted, duration } from "../core/format.js";
import { box, choice, problem, scrolled, table } from "../core/parts.js";
import { every } from "../core/repeat.js";
import { get, pathOf } from "../core/server.js";
import { drawing } from "./drawing.js";

const STEPS = [{ name: "Step", number: true }, { name: "Superstep", number: true }, { name: "Operation", wide: true }, { name: "From" }, { name: "Rows in", number: true }, { name: "Rows out", number: true }, { name: "Batches", number: true }, { name: "Task time", number: true }, { name: "Cost" }];

export async function planTab(room, signal, name) {
  const note = h("span", { class: "quiet" }), graph = h("div"), about = h("div", { "aria-live": "polite" }), steps = h("div");
  let kind = "total", found = null, drawn = null, shape = "", selected = null;
  const tools = choice("Counters", [["total", "All epochs"], ["newest", "Newest epoch"]], "total", (value) => { kind = value; show(); });
  room.append(box("Plan", { note: "rows flow downwards; bars show the share of task time", tools: [note, tools] }, graph, about), box("Steps", {}, steps));

  const counters = (step) => step[kind];

  function show() {
    if (!found) return;
    const now = JSON.stringify(found.steps.map((s) => [s.step, s.text, s.inputs]));
    if (now !== shape) {
      shape = now;
      drawn = found.steps.length ? drawing(found.steps, `Plan of ${name}`, (step) => { selected = step; tell(); }) : null;
      fill(graph, drawn ? scrolled(`Plan of ${name}`, drawn.element) : h("p", { class: "quiet empty" }, "The plan has no steps."));
      drawn?.select(selected ?? found.steps.at(-1).step);
    }
    drawn?.show(found.steps, counters);
    put(note, found.epochs ? `${counted(found.epochs, "epoch")}, ${count(found.first_epoch)} to ${count(found.last_epoch)}` : "no epoch has run it since the server began");
    fill(steps, table("Steps", STEPS, found.steps.map(row)));
    tell();
  }

  function row(step) {
    const did = counters(step);
    return [
      `#${step.step}`, String(step.superstep), step.text, step.inputs.map((i) => `#${i.step}${i.port ? `.${i.port}` : ""}`).join(", ") || "–",
      count(did?.rows_in), count(did?.rows_out), count(did?.batches), duration(did?.milliseconds), step.cost,
    ];
  }

  function tell() {
    const step = found.steps.find((s) => s.step === selected);
    fill(about, step ? details(step) : null);
  }

  every(2000, signal, async () => {
    found = await get(pathOf("/v1/queries", name, "/graph"), { signal });
    show();
  }, (error) => fill(graph, problem(error)));
}

function details(step) {
  const from = step.inputs.map((i) => `#${i.step}${i.exchange ? `, exchanged ${i.exchange}` : ""}`);
  const rows = [
    ["Operation", step.text],
    ["Cost of a change", step.cost],
    ["Input", from.join("; ") || "a source"],
    ["State", step.tables.map((t) => `${t.table} (${t.use})`).join("; ") || "none"],
    ["Views", step.views.join(", ")],
  ];
  return h("dl", { class: "details" }, rows.map(([term, text]) => h("div", {}, h("dt", {}, term), h("dd", {}, text))));
}
