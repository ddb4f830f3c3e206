"""Looks up the rows of a table by key, a slice at a time: a frequent key may have more rows than fit into memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tidemill.state.keys.keys import Keys
from tidemill.state.lookup.levels import counts_with
from tidemill.state.lookup.merge_chunks import run_bytes
from tidemill.state.lookup.reader import TableReader
from tidemill.state.memory import MemoryBudget
from tidemill.state.merge.merge import Rows

_Int64s = npt.NDArray[np.int64]

SLICE_ROWS = 1 << 16
"""Most rows of a table that are read at once; a key with more rows comes in several blocks."""
SLICE_BYTES = 16 << 20
"""About how many bytes of joined rows are made at once, unless the memory budget is small."""
_LEAST_BYTES = 64 << 10
_PART = 8


class Matches(NamedTuple):
    """Rows that have one of the keys ``start`` to ``stop - 1``; ``found`` says which, counted from ``start``."""

    start: int
    stop: int
    found: _Int64s
    rows: Rows


def slice_bytes(budget: MemoryBudget) -> int:
    """How many bytes of output an operator may make at once."""
    return max(_LEAST_BYTES, min(SLICE_BYTES, budget.limit // _PART)) if budget.limit else SLICE_BYTES


def slice_rows(parts: Sequence[Rows]) -> int:
    """How many rows of some runs are read at once."""
    count, size = sum(map(len, parts)), sum(map(run_bytes, parts))
    return max(1, min(SLICE_ROWS, SLICE_BYTES * count // max(1, size)))


def matches(table: TableReader, keys: Keys, drop_zero: bool = True) -> Iterator[Matches]:
    """The rows with each of some keys (ascending, unique, none a prefix of another), in slices of ascending keys."""
    parts = table.parts()
    most = slice_rows(parts)
    if sum(map(len, parts)) <= most:
        yield Matches(0, len(keys), *table.scan(keys, drop_zero))
        return
    counts = counts_with(parts, keys)
    ends = np.cumsum(counts)
    start = 0
    while start < len(keys):
        before = int(ends[start - 1]) if start else 0
        stop = max(start + 1, int(np.searchsorted(ends, before + most, side="right")))
        if counts[start] > most:
            stop = start + 1
            for rows in table.iterate(prefix=keys[start], drop_zero=drop_zero, block=most):
                yield Matches(start, stop, np.zeros(len(rows), np.int64), rows)
        else:
            yield Matches(start, stop, *table.scan(keys.slice(start, stop), drop_zero))
        start = stop


def all_rows(table: TableReader) -> Iterator[Matches]:
    """All rows, as those of one key."""
    for rows in table.iterate(block=SLICE_ROWS):
        yield Matches(0, 1, np.zeros(len(rows), np.int64), rows)
