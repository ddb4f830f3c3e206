"""Which row of each group holds the smallest or greatest value, for every type a key can have."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from tidemill.kernels import types
from tidemill.kernels.columns import column
from tidemill.kernels.words import I64, I64_OUT, U8, U64, Bytes, Ints, Words, compare, is_valid, kernel
from tidemill.state.keys.encoding import nested_bodies
from tidemill.state.keys.layout import body_width, byte_strings, ordered_decimals, ordered_words, validity


@kernel(I64_OUT, I64, I64, types.int64, U64, U64, U8, types.int64, types.boolean)
def _winners_of_words(
    rows: Ints, ids: Ints, groups: int, high: Words, low: Words, bitmap: Bytes, offset: int, largest: bool
) -> Ints:
    """``low`` is empty for values of one word."""
    best = np.full(groups, -1, np.int64)
    for i in range(rows.size):
        row = rows[i]
        if not is_valid(bitmap, offset, row):
            continue
        group = ids[i]
        old = best[group]
        if old < 0:
            best[group] = row
        elif high[row] != high[old]:
            if (high[row] > high[old]) == largest:
                best[group] = row
        elif low.size > 0 and low[row] != low[old] and (low[row] > low[old]) == largest:
            best[group] = row
    return best


@kernel(I64_OUT, I64, I64, types.int64, I64, U8, U8, types.int64, types.boolean)
def _winners_of_bytes(
    rows: Ints, ids: Ints, groups: int, offsets: Ints, data: Bytes, bitmap: Bytes, offset: int, largest: bool
) -> Ints:
    best = np.full(groups, -1, np.int64)
    for i in range(rows.size):
        row = rows[i]
        if not is_valid(bitmap, offset, row):
            continue
        group = ids[i]
        old = best[group]
        if old < 0:
            best[group] = row
            continue
        order = compare(data, offsets[row], offsets[row + 1], data, offsets[old], offsets[old + 1])
        if order != 0 and (order > 0) == largest:
            best[group] = row
    return best


def winners(array: pa.Array[Any], rows: Ints, ids: Ints, groups: int, largest: bool) -> Ints:
    """Row of the extreme value of each group.

    Parameters
    ----------
    array : pa.Array
        Values of any type a key can have. NULLs never win; NaN is the greatest float.
    rows, ids : np.ndarray
        int64[m]: row ``rows[i]`` belongs to group ``ids[i]``. Among equal values the first wins.

    Returns
    -------
    np.ndarray
        int64[groups], -1 for a group without a value.

    Raises
    ------
    TidemillError
        TM1101 for a type without an order.
    """
    width = body_width(array.type)
    if width == 0:
        return np.full(groups, -1, np.int64)
    if width < 0:
        texts = byte_strings(array) if width == -1 else nested_bodies(array)
        return _winners_of_bytes(rows, ids, groups, *texts, *validity(array), largest)
    if width == 16:
        high, low = ordered_decimals(array)
    else:
        high, low = ordered_words(array), np.empty(0, np.uint64)
    return _winners_of_words(rows, ids, groups, high, low, *validity(array), largest)


def take_or_null(array: pa.Array[Any], rows: Ints) -> pa.Array[Any]:
    """The values of the given rows, NULL where the row is -1."""
    missing = rows < 0
    if missing.any():
        return array.take(column(rows, missing))
    return array.take(column(rows))
