"""The first rows with each of some prefixes, over several runs, without reading the rest."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa

from tidemill.kernels.words import Bools, Ints
from tidemill.state.keys.keys import Keys
from tidemill.state.lookup.levels import rows_with
from tidemill.state.merge.merge import MergeOp, Rows, merge
from tidemill.state.runs.searching import expand, locate, owners_of

Enough = Callable[[Ints, Rows, int], Bools]


def scan_beginnings(
    runs: Sequence[Rows],
    prefixes: Keys,
    ops: Sequence[MergeOp],
    reach: int,
    enough: Enough,
    shape: Callable[[int, Rows], Rows] | None = None,
) -> Rows:
    """The first rows with each prefix, as many as the caller needs.

    Parameters
    ----------
    runs : sequence of Rows
        At least one, oldest first; each sorted with unique keys.
    prefixes : Keys
        n prefixes, ascending, unique, none a prefix of another.
    ops : sequence of MergeOp
        How to combine the values of a key that several runs have. No key is dropped.
    reach : int
        Rows of each run and prefix to read first; four times as many in each further round.
    enough : callable
        ``enough(owners, rows, m)`` with the prefix of each row found (int64, ascending, below m) and these rows, their
        values combined, returns for each of m prefixes whether they suffice (bool[m]). Called again for the others.
    shape : callable, optional
        ``shape(i, rows)`` gives rows taken of run ``i`` the value columns that ``ops`` combine; keys stay.

    Returns
    -------
    Rows
        Combined rows by prefix, then key: for each prefix all rows up to one of them, or all there are.

    Notes
    -----
    A key is final if it is not after the last row read of any run that has more.
    """
    ranges = [rows_with(run, prefixes) for run in runs]
    asked = np.arange(len(prefixes))
    found: list[tuple[Rows, Ints]] = []
    while True:
        ends = [np.minimum(lows + reach, highs) for lows, highs in ranges]
        parts = [run.take(expand(lows, end)) for run, (lows, _), end in zip(runs, ranges, ends, strict=True)]
        if shape is not None:
            parts = [shape(i, part) for i, part in enumerate(parts)]
        rows = merge(parts, ops, drop_zero=False)
        owners = owners_of(rows.keys.offsets, rows.keys.data, prefixes.offsets, prefixes.data)
        certain = np.searchsorted(owners, np.arange(len(prefixes)), side="right")
        complete = np.ones(len(prefixes), np.bool_)
        for run, (_, highs), end in zip(runs, ranges, ends, strict=True):
            cut = np.flatnonzero(end < highs)
            if len(cut):
                last = run.take_keys(end[cut] - 1)
                places = locate(rows.keys.offsets, rows.keys.data, last.offsets, last.data)
                certain[cut] = np.minimum(certain[cut], places + 1)
                complete[cut] = False
        kept = np.flatnonzero(np.arange(len(owners)) < certain[owners])
        rows, owners = rows.take(kept), owners[kept]
        satisfied = complete if complete.all() else complete | enough(owners, rows, len(prefixes))
        if satisfied.all():
            found.append((rows, asked[owners]))
            return _in_order(found)
        # A few prefixes with many rows do not make the others be read again.
        done = np.flatnonzero(satisfied[owners])
        found.append((rows.take(done), asked[owners[done]]))
        left = np.flatnonzero(~satisfied)
        asked, prefixes = asked[left], prefixes.take(left)
        ranges = [(lows[left], highs[left]) for lows, highs in ranges]
        reach *= 4


def _in_order(found: list[tuple[Rows, Ints]]) -> Rows:
    """The rows of several rounds by prefix."""
    if len(found) == 1:
        return found[0][0]
    order = np.argsort(np.concatenate([owners for _, owners in found]), kind="stable")
    keys = Keys.concat([rows.keys for rows, _ in found])
    values = (pa.concat_arrays(parts) for parts in zip(*(rows.values for rows, _ in found), strict=True))
    return Rows(keys, tuple(values)).take(order)
