/* What can stand where the cursor is: tables, views, columns of those that the statement names, keywords, functions. */

import { KEYWORDS, tokens } from "./tokens.js";

const MOST = 12;
const BEFORE_RELATION = new Set(["FROM", "JOIN", "INTO", "VIEW", "TABLE", "DESCRIBE"]);

/** `{from, to, items: [{text, kind, detail}]}` for a text and a place in it. `asked`: also without a beginning. */
export function completions(text, caret, vocabulary, asked) {
  const before = text.slice(0, caret);
  const whole = tokens(text);
  const inside = whole.find((t) => t.at < caret && caret <= t.at + t.text.length);
  const nothing = { from: caret, to: caret, items: [] };
  if (inside && (inside.kind === "comment" || inside.kind === "literal" || inside.kind === "number")) return nothing;
  const [, owner, word] = /(?:([A-Za-z_]\w*|`[^`]*`)\.)?([A-Za-z_]\w*)?$/.exec(before) ?? [];
  const begun = (word ?? "").toLowerCase();
  if (!asked && !owner && begun.length < 2) return nothing;
  const from = caret - begun.length;
  const named = relationsIn(whole, vocabulary);
  const previous = whole.filter((t) => t.at + t.text.length <= from && t.kind !== "rest" && t.kind !== "comment").at(-1);
  const items = (owner ? columnsOf(owner, named) : candidates(named, vocabulary, BEFORE_RELATION.has(previous?.text.toUpperCase()), text))
    .filter((item) => item.text.toLowerCase().startsWith(begun));
  const found = [...new Map(items.map((item) => [item.text.toLowerCase(), item]).reverse()).values()].reverse();
  if (found.length === 1 && found[0].text.toLowerCase() === begun) return nothing;
  return { from, to: caret, items: found.slice(0, MOST) };
}

/** Tables and views that a statement names, by name and alias. */
function relationsIn(found, { relations }) {
  const named = new Map();
  const words = found.filter((t) => t.kind === "name" || t.kind === "keyword");
  words.forEach((word, i) => {
    const relation = relations.find((r) => r.name.toLowerCase() === bare(word.text));
    if (!relation) return;
    named.set(relation.name.toLowerCase(), relation);
    const alias = words[i + 1]?.text.toUpperCase() === "AS" ? words[i + 2] : words[i + 1];
    if (alias?.kind === "name") named.set(bare(alias.text), relation);
  });
  return named;
}

function columnsOf(owner, named) {
  return (named.get(bare(owner))?.columns ?? []).map((c) => ({ text: c.name, kind: "column", detail: c.type }));
}

function candidates(named, { relations, functions }, relationsOnly, text) {
  const tables = relations.map((r) => ({ text: r.name, kind: r.kind, detail: `${r.columns.length} columns` }));
  if (relationsOnly) return tables;
  const columns = [...new Set(named.values())].flatMap((r) => r.columns.map((c) => ({ text: c.name, kind: "column", detail: c.type })));
  const lower = /[a-z]/.test(text) && !/\b(SELECT|CREATE|SHOW|FROM)\b/.test(text) && /\b(select|create|show|from)\b/.test(text);
  const keywords = KEYWORDS.map((k) => ({ text: lower ? k.toLowerCase() : k, kind: "keyword", detail: "" }));
  return [...columns, ...tables, ...keywords, ...functions.map((f) => ({ text: f, kind: "function", detail: "" }))];
}

/** The text that stands for a name in a statement. */
export function written(item) {
  const plain = item.kind === "keyword" || item.kind === "function" || /^[A-Za-z_]\w*$/.test(item.text);
  return plain ? item.text : `\`${item.text.replaceAll("`", "``")}\``;
}

function bare(name) {
  return (name.startsWith("`") ? name.slice(1, -1) : name).toLowerCase();
}
