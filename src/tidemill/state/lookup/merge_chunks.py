"""Merging sorted runs that are together larger than memory, a range of keys at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from tidemill.state.lookup.lookup import lower_bound
from tidemill.state.merge.merge import MergeOp, Rows, merge
from tidemill.state.runs.mapped import Mapped


def merge_chunks(runs: Sequence[Rows], ops: Sequence[MergeOp], drop_zero: bool, target_bytes: int) -> Iterator[Rows]:
    """What :func:`tidemill.state.merge.merge.merge` gives, in parts that are made when they are asked for.

    Parameters
    ----------
    runs : sequence of Rows
        At least one, oldest first, all of the same columns; each sorted, its keys unique.
    ops : sequence of MergeOp
        How to combine the values of equal keys.
    drop_zero : bool
        Whether to drop keys whose first column, an int64 ``SUM``, is 0 after combining.
    target_bytes : int
        The rows that go into a part are at most so many bytes, unless they are of one key.

    Yields
    ------
    Rows
        Not empty; sorted, keys unique, all greater than those of the part before.
    """
    left = [[run for run in runs if len(run)]]
    while left:
        part = left.pop()
        if not part:
            continue
        sizes = list(map(run_bytes, part))
        if sum(sizes) <= target_bytes:  # else nothing of files is read for it
            sizes = [run.nbytes if isinstance(run, Mapped) else size for run, size in zip(part, sizes, strict=True)]
        if sum(sizes) > target_bytes:
            before, behind = _cut(part)
            if before and behind:
                left += [behind, before]
                continue
        merged = merge(part, ops, drop_zero)
        if len(merged):
            yield merged


def _cut(runs: Sequence[Rows]) -> tuple[list[Rows], list[Rows]]:
    """The rows before a key and the others: a key in the middle of the largest run that has any before it."""
    longer = [run for run in runs if len(run) > 1]
    if longer:
        largest = max(longer, key=run_bytes)
        key = key_of(largest, len(largest) // 2)
    else:
        key = max(key_of(run, 0) for run in runs)
    places = [lower_bound(run, key) for run in runs]
    before = [run.slice(0, at) for run, at in zip(runs, places, strict=True) if at]
    return before, [run.slice(at, len(run)) for run, at in zip(runs, places, strict=True) if at < len(run)]


def run_bytes(run: Rows) -> int:
    """Bytes of some rows, more or less: nothing of a file is read for it."""
    return run.estimate if isinstance(run, Mapped) else run.nbytes


def key_of(run: Rows, row: int) -> bytes:
    """The key of a row."""
    return run.take_keys(np.array([row]))[0]
