"""The merge iterator: several sorted runs as one, block by block, forward or backward."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from tidemill.state.lookup.lookup import lower_bound
from tidemill.state.lookup.merge_chunks import key_of, run_bytes
from tidemill.state.merge.merge import MergeOp, Rows, merge

_GROWTH = 2
_MOST = 1 << 16
_MOST_BYTES = 16 << 20
"""About how much is merged at once, of all runs together."""

Shape = Callable[[int, Rows], Rows]


def iterate(
    runs: Sequence[Rows],
    ops: Sequence[MergeOp],
    drop_zero: bool,
    low: bytes = b"",
    high: bytes | None = None,
    reverse: bool = False,
    block: int = 64,
    shape: Shape | None = None,
) -> Iterator[Rows]:
    """Merge runs lazily, block by block.

    ``block`` rows of each run are taken, and those up to the first end of any of these are merged. Later blocks are
    larger, so that a full scan costs about as much as a merge, and one that stops early little more than what it has
    consumed. The size of blocks is bounded.

    Parameters
    ----------
    runs : sequence of Rows
        Oldest first; each sorted, its keys unique.
    ops : sequence of MergeOp
        How to combine the values of a key that several runs have.
    drop_zero : bool
        Whether to leave out keys whose weight (first column) is 0 after combining.
    low, high : bytes
        Keys ``low <= key < high``; a ``high`` of None is above all.
    reverse : bool
        Whether to begin at the end.
    block : int
        Rows to take of each run at first, fewer where rows are large.
    shape : callable, optional
        ``shape(i, rows)`` gives rows taken of run ``i`` the value columns that ``ops`` combine; keys stay.

    Yields
    ------
    Rows
        Not empty, keys unique; ascending, or with ``reverse`` descending, within a block and from block to block.
    """
    starts = [lower_bound(run, low) if low else 0 for run in runs]
    stops = [len(run) if high is None else lower_bound(run, high) for run in runs]
    ranges = zip(range(len(runs)), runs, starts, stops, strict=True)
    left = [(i, run, start, stop) for i, run, start, stop in ranges if start < stop]
    size, count = sum(map(run_bytes, runs)), sum(map(len, runs))
    while left:
        block = min(block, max(1, _MOST_BYTES * count // (max(1, size) * len(left))))
        taken, left = (_last if reverse else _first)(left, block)
        rows = merge([rows if shape is None else shape(i, rows) for i, rows in taken], ops, drop_zero)
        if len(rows):
            yield rows.take(np.arange(len(rows) - 1, -1, -1)) if reverse else rows
        block = min(_GROWTH * block, _MOST)


_Part = tuple[int, Rows, int, int]
"""The number of a run, the run, and a range of its rows."""
_Taken = list[tuple[int, Rows]]


def _first(parts: list[_Part], block: int) -> tuple[_Taken, list[_Part]]:
    """The rows up to a key that no row beyond the first of each part can come before, and what is left."""
    ends = [min(start + block, stop) for _, _, start, stop in parts]
    cut = [key_of(run, end - 1) for (_, run, _, stop), end in zip(parts, ends, strict=True) if end < stop]
    if cut:
        beyond = min(cut) + b"\0"  # the smallest key above it
        for n, (_, run, start, _) in enumerate(parts):
            ends[n] = start + lower_bound(run.slice(start, ends[n]), beyond)
    taken = [(i, run.slice(start, end)) for (i, run, start, _), end in zip(parts, ends, strict=True)]
    left = [(i, run, end, stop) for (i, run, _, stop), end in zip(parts, ends, strict=True) if end < stop]
    return taken, left


def _last(parts: list[_Part], block: int) -> tuple[_Taken, list[_Part]]:
    """As :func:`_first`, from the end."""
    begins = [max(stop - block, start) for _, _, start, stop in parts]
    ranges = list(zip(parts, begins, strict=True))
    cut = [key_of(run, begin) for (_, run, start, _), begin in ranges if begin > start]
    if cut:
        from_here = max(cut)
        for n, (_, run, _, stop) in enumerate(parts):
            begins[n] += lower_bound(run.slice(begins[n], stop), from_here)
    taken = [(i, run.slice(begin, stop)) for (i, run, _, stop), begin in zip(parts, begins, strict=True)]
    left = [(i, run, start, begin) for (i, run, start, _), begin in zip(parts, begins, strict=True) if start < begin]
    return taken, left


def after(prefix: bytes) -> bytes | None:
    """The smallest key above all that start with a prefix; None when there is none."""
    kept = prefix.rstrip(b"\xff")
    return kept[:-1] + bytes([kept[-1] + 1]) if kept else None
