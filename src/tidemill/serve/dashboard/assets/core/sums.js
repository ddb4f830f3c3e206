/* Sums over epochs and tables. */

/** A sum over the epochs of the last minute, for each second of it. */
export function rate(epochs, amount) {
  const now = Date.now() / 1000;
  const recent = epochs.filter((e) => e.sealed_at > now - 60);
  const begun = Math.min(60, epochs.length ? now - epochs[0].sealed_at + epochs[0].milliseconds.total / 1000 : 60);
  return sum(recent, amount) / Math.max(1, begun);
}

export function sum(items, amount) {
  return items.reduce((total, item) => total + amount(item), 0);
}
