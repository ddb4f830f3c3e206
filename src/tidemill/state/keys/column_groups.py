"""Grouping rows by numbers that stand for the values of their columns, without writing a key for each row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidemill.kernels import types
from tidemill.kernels.words import I64, I64_OUT, Ints, inlined, kernel

_FEWEST = 512
"""Fewer rows are not worth a look at the ranges of their columns."""
_DENSE = 1 << 16
_MOST_CODES = 1 << 62
_INITIAL_SLOTS = 4096
_BLOCK = 64
_GREATEST = (1 << 63) - 1
_NAMED = (
    pa.types.is_string,
    pa.types.is_large_string,
    pa.types.is_binary,
    pa.types.is_large_binary,
    pa.types.is_decimal128,
)
"""Types whose equal values have equal bytes. Doubles are not among them: 0.0 is -0.0, and any NaN another one."""
_INTEGERS = frozenset((pa.int8(), pa.int16(), pa.int32(), pa.int64()))


@kernel(types.tuple_of((I64_OUT, I64_OUT)), I64, types.int64, types.int64)
def _group_dense(values: Ints, low: int, span: int) -> tuple[Ints, Ints]:
    """Groups of numbers ``low <= v < low + span``: as :func:`group_columns`. A table has the group of each number."""
    ids = np.empty(values.size, np.int64)
    firsts = np.empty(min(values.size, span), np.int64)
    numbered = np.zeros(span, np.int32)
    groups = 0
    for i in range(values.size):
        at = values[i] - low
        group = numbered[at]
        if group == 0:
            firsts[groups] = i
            groups += 1
            group = groups
            numbered[at] = group
        ids[i] = group - 1
    return ids, firsts[:groups].copy()


@inlined
def _place(value: int, mask: int) -> Any:
    """Where the slot of a number is, by Murmur3's finaliser."""
    code = np.uint64(value)
    code = (code ^ (code >> np.uint64(33))) * np.uint64(0xFF51AFD7ED558CCD)
    code = (code ^ (code >> np.uint64(33))) * np.uint64(0xC4CEB9FE1A85EC53)
    return np.int64(code ^ (code >> np.uint64(33))) & mask


@kernel(types.tuple_of((I64_OUT, I64_OUT)), I64)
def _group_sparse(values: Ints) -> tuple[Ints, Ints]:
    """Groups of any numbers: as :func:`group_columns`.

    Open addressing; a slot is a number and its group plus one, side by side. Slots of a block are read ahead: these
    reads miss the cache side by side, those of the probes would one after the other.
    """
    n = values.size
    ids = np.empty(n, np.int64)
    firsts = np.empty(n, np.int64)
    places = np.empty(_BLOCK, np.int64)
    ahead = np.empty(_BLOCK, np.int64)
    slots = np.zeros(2 * _INITIAL_SLOTS, np.int64)
    mask = _INITIAL_SLOTS - 1
    groups = 0
    for block in range(0, n, _BLOCK):
        if 2 * (groups + _BLOCK) > mask:
            mask = 4 * mask + 3
            slots = np.zeros(2 * (mask + 1), np.int64)
            for group in range(groups):
                at = _place(values[firsts[group]], mask)
                while slots[2 * at + 1] != 0:
                    at = (at + 1) & mask
                slots[2 * at] = values[firsts[group]]
                slots[2 * at + 1] = group + 1
        size = min(_BLOCK, n - block)
        for k in range(size):
            at = _place(values[block + k], mask)
            places[k] = at
            ahead[k] = slots[2 * at]
        for k in range(size):
            value = values[block + k]
            at = places[k]
            while True:
                group = slots[2 * at + 1]
                if group == 0:
                    slots[2 * at] = value
                    slots[2 * at + 1] = groups + 1
                    firsts[groups] = block + k
                    ids[block + k] = groups
                    groups += 1
                    break
                if slots[2 * at] == value:
                    ids[block + k] = group - 1
                    break
                at = (at + 1) & mask
    return ids, firsts[:groups].copy()


def group_columns(columns: Sequence[pa.Array[Any]], dictionaries: bool = True) -> tuple[Ints, Ints] | None:
    """Group rows by columns of integers, dates, times, truths, texts, bytes and decimals; NULLs are equal.

    Numbers stand for themselves, other values for their places in a dictionary. So the rows of a few groups take a
    third to a sixtieth of the time that it takes to encode all keys and to group them.

    Parameters
    ----------
    columns : sequence of pa.Array
        At least one, of n rows each.
    dictionaries : bool
        Whether to make dictionaries of values that are no numbers, which takes longer than to encode them where nearly
        all differ.

    Returns
    -------
    tuple or None
        Group id of each row (int64[n]), dense in order of first appearance, and the first row of each group (int64).
        None when a column has other values, when all ranges together are too wide for a number, and for few rows:
        then :func:`tidemill.state.keys.keys.group` does the same for encoded keys.
    """
    rows = len(columns[0])
    if rows < _FEWEST:
        return None
    codes, low, span = np.zeros(0, np.int64), 0, 1
    for i, column in enumerate(columns):
        coded = _coded(column, dictionaries)
        if coded is None:
            return None
        others, least, width = coded
        if i and span * width > _MOST_CODES:
            return None
        codes, low = ((codes - low) * width + (others - least), 0) if i else (others, least)
        span *= width
    if span <= max(2 * rows, _DENSE):
        return _group_dense(codes, low, span)
    return _group_sparse(codes)


def _coded(column: pa.Array[Any], dictionaries: bool) -> tuple[Ints, int, int] | None:
    """Numbers that stand for the values, the least of them, and how many different ones there may be.

    A NULL has the greatest. None for values without such numbers, and where none is left for NULL.
    """
    kind = column.type
    if pa.types.is_date32(kind) or pa.types.is_timestamp(kind):
        column = column.view(pa.int32() if pa.types.is_date32(kind) else pa.int64())
    elif pa.types.is_boolean(kind):
        column = column.cast(pa.int8())
    elif dictionaries and any(is_kind(kind) for is_kind in _NAMED):
        column = column.dictionary_encode().indices
    elif kind not in _INTEGERS:
        return None
    ends = pc.min_max(column)
    low, high = ends["min"].as_py(), ends["max"].as_py()
    if low is None:
        return np.zeros(len(column), np.int64), 0, 1
    if not column.null_count:
        return column.to_numpy().astype(np.int64, copy=False), low, high - low + 1
    if high == _GREATEST:
        return None
    return column.cast(pa.int64()).fill_null(high + 1).to_numpy(), low, high - low + 2
