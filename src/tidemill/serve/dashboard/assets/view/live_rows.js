/* The first rows of a view in an order, kept right by the changes of each epoch.

   More rows are kept than are wanted. A row that is added counts if it comes before the last one that is kept, or if
   all rows of the view are kept; one that is removed may leave too few, and then the rows have to be read anew. So a
   view of any size takes the memory of a few hundred rows. */

import { isNumeric } from "../core/format.js";

export const LEAST = 2000;
/** So many rows are asked for, or twice as many as are wanted, and twice that many are kept at most. */

export class LiveRows {
  /** `order` is the position of a column; `asked` how many rows it begins with at most. */
  constructor(columns, types, order, descending, wanted, asked) {
    Object.assign(this, { columns, types, order, descending, wanted, asked });
    this.kept = [];
    this.count = 0;
    this.total = 0;
    this.complete = false;
  }

  /** Begin with the first rows, of `total` ones. */
  start(rows, total) {
    [this.kept, this.count, this.total, this.complete] = [[], 0, total, rows.length >= total];
    for (const values of rows) this.#insert(values, 1);
  }

  /** Apply changes `{weight, ...columns}`; false when too few rows are left, so that they have to be read anew. */
  apply(changes) {
    const weight = this.columns.includes("weight") ? "__weight" : "weight";
    // What is removed comes first: of a group both rows have the same place, and either may be told first.
    for (const change of changes) if (change[weight] < 0 && !this.#remove(this.#values(change), -change[weight])) return false;
    for (const change of changes) if (change[weight] > 0) this.#add(this.#values(change), change[weight]);
    for (const change of changes) this.total += change[weight];
    this.#trim();
    return this.complete || this.count >= Math.min(this.wanted, this.total);
  }

  #values(change) {
    return this.columns.map((column) => change[column]);
  }

  #add(values, weight) {
    if (this.complete || (this.kept.length && this.#compare(values, this.kept.at(-1).values) <= 0)) this.#insert(values, weight);
  }

  #insert(values, weight) {
    const key = JSON.stringify(values);
    const at = this.#position(values, key);
    if (this.kept[at]?.key === key) this.kept[at].count += weight;
    else this.kept.splice(at, 0, { key, values, count: weight });
    this.count += weight;
  }

  #remove(values, weight) {
    const key = JSON.stringify(values);
    const at = this.#position(values, key);
    const entry = this.kept[at];
    if (entry?.key !== key) return !this.complete;
    const removed = Math.min(entry.count, weight);
    entry.count -= removed;
    this.count -= removed;
    if (entry.count === 0) this.kept.splice(at, 1);
    return removed === weight || !this.complete;
  }

  #trim() {
    while (this.kept.length > 1 && this.count - this.kept.at(-1).count >= this.asked * 2) {
      this.count -= this.kept.pop().count;
      this.complete = false;
    }
  }

  #position(values, key) {
    let low = 0, high = this.kept.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      const other = this.kept[middle];
      const found = this.#compare(other.values, values) || (other.key < key ? -1 : other.key > key ? 1 : 0);
      if (found < 0) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  #compare(a, b) {
    const first = compare(a[this.order], b[this.order], this.types[this.order], this.descending);
    if (first) return first;
    for (let i = 0; i < a.length; i += 1) {
      const found = i === this.order ? 0 : compare(a[i], b[i], this.types[i], false);
      if (found) return found;
    }
    return 0;
  }
}

/** As the server orders: NaN and then NULL last, in either direction. */
export function compare(a, b, type, descending) {
  if (a === null || b === null) return (a === null) - (b === null);
  let found;
  if (isNumeric(type)) {
    const [x, y] = [Number(a), Number(b)];
    if (Number.isNaN(x) || Number.isNaN(y)) return Number.isNaN(x) - Number.isNaN(y);
    found = x - y || exactly(a, b);
  } else {
    const [x, y] = typeof a === "object" ? [JSON.stringify(a), JSON.stringify(b)] : [a, b];
    found = x < y ? -1 : x > y ? 1 : 0;
  }
  return descending ? -found : found;
}

/** The order of numbers that are equal as doubles: BIGINT and DECIMAL come as texts then. */
function exactly(a, b) {
  if (typeof a !== "string" || typeof b !== "string" || !/^-?\d+$/.test(a) || !/^-?\d+$/.test(b)) return 0;
  const [x, y] = [BigInt(a), BigInt(b)];
  return x < y ? -1 : x > y ? 1 : 0;
}
