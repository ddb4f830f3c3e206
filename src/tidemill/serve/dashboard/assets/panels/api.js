/* The HTTP interface, from its OpenAPI description: what each request takes and gives, and a command that sends it. */

import { fill, h } from "../core/dom.js";
import { box, heading, problem, table } from "../core/parts.js";
import { get } from "../core/server.js";

const METHODS = ["get", "post", "put", "patch", "delete"];

export async function api(room, signal) {
  const body = h("div");
  room.append(heading("HTTP API", h("a", { href: "/openapi.json", download: "openapi.json", onclick: save }, "openapi.json")), body);
  let found;
  try {
    found = await get("/openapi.json", { signal });
  } catch (error) {
    if (signal.aborted) return;
    fill(body, problem(error));
    return;
  }
  const groups = new Map();
  for (const [path, methods] of Object.entries(found.paths)) {
    for (const method of METHODS.filter((m) => m in methods)) {
      const group = methods[method].tags?.[0] ?? "other";
      if (!groups.has(group)) groups.set(group, []);
      groups.get(group).push(operation(path, method, methods[method], found));
    }
  }
  fill(body, h("p", { class: "quiet" }, `${found.info.title} ${found.info.version}. Errors are {"number", "what", "got", "hint"} with a status of 4xx. With tokens each request needs the header Authorization: Bearer TOKEN.`),
    [...groups].map(([name, operations]) => box(name, {}, operations)));

  /** The browser would ask for it without the token. */
  function save(event) {
    event.preventDefault();
    if (!found) return;
    const url = URL.createObjectURL(new Blob([JSON.stringify(found, null, 2)], { type: "application/json" }));
    const link = h("a", { href: url, download: "openapi.json" });
    link.click();
    URL.revokeObjectURL(url);
  }
}

function operation(path, method, described, whole) {
  const parameters = (described.parameters ?? []).map((p) => resolved(p, whole));
  const body = described.requestBody?.content?.["application/json"]?.schema;
  const answers = Object.entries(described.responses ?? {}).filter(([status]) => status.startsWith("2"));
  const refusals = Object.entries(described.responses ?? {}).filter(([status]) => !status.startsWith("2"));
  return h(
    "details",
    { class: "operation" },
    h("summary", {}, h("span", { class: `method ${method}` }, method.toUpperCase()), h("code", {}, path), h("span", { class: "quiet" }, described.summary ?? "")),
    h("div", { class: "padded" },
      described.description ? h("p", { class: "described" }, described.description) : null,
      parameters.length ? parametersTable(parameters, whole) : null,
      body ? [h("h3", {}, "Body"), fields(resolved(body, whole), whole)] : null,
      answers.map(([status, answer]) => [h("h3", {}, `Answer ${status}`), answerOf(answer, whole)]),
      refusals.length ? h("p", { class: "quiet" }, `Refusals: ${refusals.map(([status, r]) => `${status} ${r.description}`).join("; ")}.`) : null,
      h("h3", {}, "Command"),
      h("pre", { class: "text command" }, command(path, method, parameters, body && resolved(body, whole), whole))),
  );
}

function parametersTable(parameters, whole) {
  const columns = [{ name: "Parameter" }, { name: "In" }, { name: "Type" }, { name: "Default" }, { name: "Meaning", wide: true }];
  const rows = parameters.map((p) => [h("code", {}, p.name), p.in, typeOf(p.schema, whole), p.schema?.default === undefined ? (p.required ? "required" : "–") : String(p.schema.default), p.description ?? ""]);
  return table("Parameters", columns, rows);
}

function answerOf(answer, whole) {
  const kinds = Object.entries(answer.content ?? {});
  if (!kinds.length) return h("p", { class: "quiet" }, answer.description);
  return kinds.map(([media, { schema }]) => {
    const found = schema && resolved(schema, whole);
    return found?.properties ? fields(found, whole, false) : h("p", {}, h("code", {}, media), found ? ` ${typeOf(schema, whole)}` : "");
  });
}

function fields(schema, whole, sent = true) {
  const columns = [{ name: "Field" }, { name: "Type" }, ...(sent ? [{ name: "Default" }] : []), { name: "Meaning", wide: true }];
  const required = new Set(schema.required ?? []);
  const otherwise = (name, field) => (field.default === undefined ? (required.has(name) ? "required" : "–") : JSON.stringify(field.default));
  const rows = Object.entries(schema.properties ?? {}).map(([name, field]) => [h("code", {}, name), typeOf(field, whole), ...(sent ? [otherwise(name, field)] : []), field.description ?? ""]);
  return rows.length ? table("Fields", columns, rows) : h("p", {}, typeOf(schema, whole));
}

function resolved(schema, whole) {
  if (!schema?.$ref) return schema;
  return schema.$ref.slice(2).split("/").reduce((at, part) => at?.[part], whole) ?? {};
}

/** A type in a few words; objects of the description by their names. */
function typeOf(schema, whole) {
  if (!schema) return "any";
  if (schema.$ref) {
    const name = schema.$ref.split("/").at(-1);
    const found = resolved(schema, whole);
    return found.properties ? `${name} {${Object.keys(found.properties).join(", ")}}` : typeOf(found, whole);
  }
  const several = schema.anyOf ?? schema.oneOf;
  if (several) return several.map((s) => typeOf(s, whole)).join(" or ");
  if (schema.enum) return schema.enum.map((v) => JSON.stringify(v)).join(" or ");
  if (schema.const !== undefined) return JSON.stringify(schema.const);
  if (schema.type === "array") return `list of ${typeOf(schema.items, whole)}`;
  const limits = [schema.minimum !== undefined && `≥ ${schema.minimum}`, schema.maximum !== undefined && `≤ ${schema.maximum}`].filter(Boolean).join(", ");
  return `${schema.type ?? "any"}${limits ? ` ${limits}` : ""}`;
}

function command(path, method, parameters, body, whole) {
  const needed = parameters.filter((p) => p.in === "query" && p.required).map((p) => `${p.name}=…`).join("&");
  const url = `${location.origin}${path}${needed ? `?${needed}` : ""}`;
  const example = body && Object.fromEntries(Object.entries(body.properties ?? {}).filter(([name]) => body.required?.includes(name)).map(([name, field]) => [name, sample(field, whole)]));
  return [`curl ${method === "get" ? "" : `-X ${method.toUpperCase()} `}'${url}'`, body ? `-H 'Content-Type: application/json' -d '${JSON.stringify(example)}'` : ""].filter(Boolean).join(" \\\n  ");
}

function sample(field, whole) {
  const type = resolved(field, whole).type;
  return { array: ["…"], integer: 1, number: 1, boolean: true }[type] ?? "…";
}
