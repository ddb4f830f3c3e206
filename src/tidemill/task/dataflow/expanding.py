"""Rows that become several rows each: how many are made at once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

_Int64s = npt.NDArray[np.int64]

MOST_ROWS = 1 << 18
"""Rows that are made at once, fewer where they are large."""


def owners_of(offsets: _Int64s, start: int, stop: int) -> _Int64s:
    """For each of the places ``start`` to ``stop - 1`` its row; row i has those from ``offsets[i]`` on."""
    first = int(np.searchsorted(offsets, start, side="right")) - 1
    last = int(np.searchsorted(offsets, stop, side="left"))
    bounds = np.clip(offsets[first : last + 1], start, stop)
    return np.repeat(np.arange(first, last), np.diff(bounds))


def widths(columns: list[pa.Array[Any]], rows: int) -> _Int64s:
    """About how many bytes each row has: texts as they are, other columns by the average."""
    found = np.full(rows, 16, np.int64)
    for values in columns:
        if isinstance(values, pa.StringArray | pa.BinaryArray):
            found += pc.binary_length(values).fill_null(0).to_numpy(zero_copy_only=False)
        found += 0 if pa.types.is_string(values.type) else values.nbytes // max(1, rows)
    return found


def pieces(counts: _Int64s, widths: _Int64s, most_bytes: int) -> Iterator[tuple[int, int]]:
    """Ranges of the rows that come out, of about so many bytes each, and no more than ``MOST_ROWS``."""
    ends, sizes = np.cumsum(counts), np.cumsum(counts * widths)
    row, start = 0, 0
    while row < len(counts):
        before = int(sizes[row] - (int(ends[row]) - start) * widths[row])
        stop_row = int(np.searchsorted(sizes, before + most_bytes, side="right"))
        if stop_row > row:
            stop = int(ends[stop_row - 1])
        else:  # one row gives more than that
            stop = min(int(ends[row]), start + max(1, most_bytes // int(widths[row])))
        stop = min(stop, start + MOST_ROWS)
        if stop > start:
            yield start, stop
        start = stop
        row = int(np.searchsorted(ends, start, side="right"))
