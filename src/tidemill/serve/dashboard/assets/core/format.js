/* Numbers, sizes, times and values as texts. Units are always shown. */

const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const upTo = [0, 1, 2, 3].map((n) => new Intl.NumberFormat("en", { maximumFractionDigits: n }));

/** An integer with separators. */
export function count(n) {
  return n === null || n === undefined ? "–" : whole.format(n);
}

/** `1 row`, `2 rows`. */
export function counted(n, one, many = `${one}s`) {
  return `${count(n)} ${n === 1 ? one : many}`;
}

/** A number in at most five characters, such as 12.3k. */
export function brief(n) {
  for (const [limit, unit] of [[1e9, "G"], [1e6, "M"], [1e3, "k"]]) {
    if (Math.abs(n) >= limit * 10) return `${upTo[Math.abs(n) >= limit * 100 ? 0 : 1].format(n / limit)}${unit}`;
  }
  return upTo[Math.abs(n) >= 100 || Number.isInteger(n) ? 0 : Math.abs(n) >= 1 ? 2 : 3].format(n);
}

export function bytes(n) {
  if (n === null || n === undefined) return "–";
  for (const [limit, unit] of [[2 ** 40, "TiB"], [2 ** 30, "GiB"], [2 ** 20, "MiB"], [2 ** 10, "KiB"]]) {
    if (n >= limit) return `${upTo[n >= limit * 100 ? 0 : 1].format(n / limit)} ${unit}`;
  }
  return `${whole.format(n)} B`;
}

/** Milliseconds as `0.4 ms`, `12 ms` or `1.25 s`. */
export function duration(ms) {
  if (ms === null || ms === undefined || Number.isNaN(ms)) return "–";
  if (ms < 10) return `${upTo[1].format(ms)} ms`;
  if (ms < 1000) return `${whole.format(ms)} ms`;
  if (ms < 60_000) return `${upTo[ms < 10_000 ? 2 : 1].format(ms / 1000)} s`;
  if (ms < 3_600_000) return `${Math.floor(ms / 60_000)} min ${Math.floor(ms / 1000) % 60} s`;
  return `${Math.floor(ms / 3_600_000)} h ${Math.floor(ms / 60_000) % 60} min`;
}

/** A time of day; seconds since 1970. */
export function clock(seconds) {
  return new Date(seconds * 1000).toLocaleTimeString("en-GB");
}

export function dayAndClock(seconds) {
  const date = new Date(seconds * 1000);
  const day = [date.getFullYear(), date.getMonth() + 1, date.getDate()].map((n) => String(n).padStart(2, "0"));
  return `${day.join("-")} ${date.toLocaleTimeString("en-GB")}`;
}

/** How long ago, in the largest unit. */
export function ago(seconds) {
  const passed = Math.max(0, Date.now() / 1000 - seconds);
  if (passed < 1.5) return "now";
  if (passed < 90) return `${whole.format(passed)} s ago`;
  if (passed < 5400) return `${whole.format(passed / 60)} min ago`;
  if (passed < 172_800) return `${whole.format(passed / 3600)} h ago`;
  return `${whole.format(passed / 86_400)} d ago`;
}

/** The value at a quantile of numbers in any order; the nearest one that occurs. */
export function quantile(numbers, q) {
  if (!numbers.length) return NaN;
  const sorted = Float64Array.from(numbers).sort();
  return sorted[Math.min(sorted.length - 1, Math.ceil(q * sorted.length) - 1)];
}

const NUMERIC = /^(tinyint|smallint|int|bigint|float|double|decimal)/i;
const SCALE = /^decimal\(\d+, *(\d+)\)/i;
const FLOATING = /^(float|double)/i;

export function isNumeric(type) {
  return NUMERIC.test(type);
}

export function isTime(type) {
  return /^(date|timestamp)/i.test(type);
}

/** A value of a column as a text for people. Integers, decimals and times keep all their digits, times without zeros at the end. */
export function cell(value, type) {
  if (value === null || value === undefined) return "NULL";
  if (typeof value === "object") return JSON.stringify(value);
  if (FLOATING.test(type)) {
    const number = Number(value);
    if (!Number.isFinite(number)) return String(value);
    const size = Math.abs(number);
    if (size !== 0 && (size < 1e-4 || size >= 1e15)) return number.toExponential(4);
    return new Intl.NumberFormat("en", { maximumFractionDigits: size >= 1000 ? 2 : 4 }).format(number);
  }
  if (isNumeric(type)) return grouped(scaled(String(value), Number(SCALE.exec(type)?.[1] ?? 0)));
  if (isTime(type)) return String(value).replace("T", " ").replace(/\.(\d*?)0+(?=Z|[+-]\d|$)/, (_, digits) => (digits ? `.${digits}` : ""));
  return String(value);
}

/** A number with as many digits behind the point as its type has, never an exponent, so that points are aligned. */
function scaled(text, scale) {
  const match = /^(-?)(\d+)(?:\.(\d+))?(?:e([+-]?\d+))?$/i.exec(text);
  if (!match || !scale) return text;
  const [, sign, before, behind = "", exponent = "0"] = match;
  const power = Number(exponent);
  const digits = "0".repeat(Math.max(0, -power)) + before + behind + "0".repeat(Math.max(0, power));
  const point = before.length + Math.max(0, power);
  return `${sign}${digits.slice(0, point).replace(/^0+(?=\d)/, "")}.${digits.slice(point).slice(0, scale).padEnd(scale, "0")}`;
}

function grouped(text) {
  const match = /^(-?)(\d+)(\.\d+)?$/.exec(text);
  return match ? `${match[1]}${match[2].replace(/\B(?=(\d{3})+$)/g, ",")}${match[3] ?? ""}` : text;
}
