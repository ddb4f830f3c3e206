/* Reads JSON without losing digits: a double holds 15 of them, BIGINT and DECIMAL have up to 38. */

const LARGE = 4_000_000;

/** The value of a JSON text. Numbers that a double cannot hold exactly are given as their texts. */
export function parseExact(text) {
  // Telling each number's text takes five times as long, so answers of many megabytes are read as usual.
  return text.length > LARGE ? JSON.parse(text) : JSON.parse(text, exact);
}

function exact(_key, value, context) {
  if (typeof value !== "number" || context === undefined) return value;
  const source = context.source;
  return source.length > 15 && String(value) !== source ? source : value;
}
