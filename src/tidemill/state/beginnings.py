"""The first rows with each of some prefixes, over several runs, without reading the rest."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa

from tidemill.state.keys import Keys
from tidemill.state.merge import MergeOp, Rows, merge
from tidemill.state.searching import expand, locate, locate_prefixes, owners_of
from tidemill.state.words import Bools, Ints

Enough = Callable[[Ints, tuple[pa.Array, ...]], Bools]


def scan_beginnings(runs: Sequence[Rows], prefixes: Keys, ops: Sequence[MergeOp], reach: int, enough: Enough) -> Rows:
    """The rows that begin each prefix, as many as the caller wants.

    Parameters
    ----------
    runs : sequence of Rows
        At least one, oldest first; each sorted with unique keys.
    prefixes : Keys
        n prefixes, ascending, unique, none a prefix of another.
    ops : sequence of MergeOp
        How to combine the values of a key that several runs have. No key is dropped.
    reach : int
        Rows of each run and prefix to begin with; twice as many each time that is too few.
    enough : callable
        ``enough(owners, values)`` with the prefix of each row found (int64, ascending) and its combined values
        tells for each prefix whether these rows will do (bool[n]).

    Returns
    -------
    Rows
        Combined rows by prefix, then key: for each prefix all rows up to one of them, or all there are.

    Notes
    -----
    A key is certain once it does not lie behind the end of what was read of any run.
    """
    ranges = [locate_prefixes(r.keys.offsets, r.keys.data, prefixes.offsets, prefixes.data) for r in runs]
    reaches = np.full(len(prefixes), reach, np.int64)
    while True:
        ends = [np.minimum(lows + reaches, highs) for lows, highs in ranges]
        parts = [run.take(expand(lows, end)) for run, (lows, _), end in zip(runs, ranges, ends, strict=True)]
        rows = merge(parts, ops, drop_zero=False)
        owners = owners_of(rows.keys.offsets, rows.keys.data, prefixes.offsets, prefixes.data)
        certain = np.searchsorted(owners, np.arange(len(prefixes)), side="right")
        complete = np.ones(len(prefixes), np.bool_)
        for run, (_, highs), end in zip(runs, ranges, ends, strict=True):
            cut = np.flatnonzero(end < highs)
            if len(cut):
                last = run.keys.take(end[cut] - 1)
                found = locate(rows.keys.offsets, rows.keys.data, last.offsets, last.data)
                certain[cut] = np.minimum(certain[cut], found + 1)
                complete[cut] = False
        kept = np.flatnonzero(np.arange(len(owners)) < certain[owners])
        rows, owners = rows.take(kept), owners[kept]
        if complete.all():
            return rows
        satisfied = complete | enough(owners, rows.values)
        if satisfied.all():
            return rows
        reaches[~satisfied] *= 2
