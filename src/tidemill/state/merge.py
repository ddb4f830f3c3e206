"""Sorted runs: making one from unsorted rows, and merging several."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
import pyarrow as pa
from numba import types

from tidemill.state.columns import column
from tidemill.state.combining import MergeOp, combine, summable
from tidemill.state.keys import Keys, sort
from tidemill.state.words import (
    I64,
    I64_OUT,
    U8,
    U64,
    U64_OUT,
    Bytes,
    Ints,
    Words,
    compare,
    equal,
    first_words,
    inlined,
    kernel,
)

__all__ = ["MergeOp", "Rows", "consolidate", "merge"]

_GALLOP = 8
_SKEW = 16
_NO_WORDS = np.empty(0, np.uint64)

Origin: TypeAlias = tuple[str, int, int, int]


@dataclass(frozen=True, eq=False)
class Rows:
    """Keys with their values.

    Attributes
    ----------
    keys : Keys
        n keys in ascending byte order, unique unless stated otherwise.
    values : tuple of pa.Array
        Columns of n values.
    origin : Origin or None
        File, section, first row and row after the last, where the rows lie in a run file. Files never change
        and names are not reused, so what is computed from the rows may be kept under it. None in memory.
    """

    keys: Keys
    values: tuple[pa.Array, ...]
    origin: Origin | None = field(default=None, compare=False, repr=False)

    def __len__(self) -> int:
        return len(self.keys)

    @property
    def nbytes(self) -> int:
        """Bytes of keys and values."""
        keys = self.keys
        size = 8 * len(keys) + int(keys.offsets[-1] - keys.offsets[0])
        return size + sum(int(column.nbytes) for column in self.values)

    def slice(self, start: int, stop: int) -> Rows:
        """Rows ``start`` to ``stop - 1``, zero copy."""
        return Rows(self.keys.slice(start, stop), tuple(v.slice(start, stop - start) for v in self.values))

    def at(self, origin: Origin) -> Rows:
        """The same rows, known under an origin."""
        return Rows(self.keys, self.values, origin)

    def take(self, rows: Ints) -> Rows:
        """The given rows (int64), copied."""
        return Rows(self.take_keys(rows), self.take_values(rows))

    def take_keys(self, rows: Ints) -> Keys:
        """The keys of the given rows (int64), copied."""
        return self.keys.take(rows)

    def take_values(self, rows: Ints) -> tuple[pa.Array, ...]:
        """The values of the given rows (int64), copied."""
        index = column(rows)
        return tuple(v.take(index) for v in self.values)

    def value_types(self) -> list[pa.DataType]:
        """Types of the value columns."""
        return [v.type for v in self.values]


@kernel(I64_OUT, I64, U8, U64, I64)
def _segment_starts(offsets: Ints, data: Bytes, words: Words, order: Ints) -> Ints:
    """Where each run of equal keys starts in a sorted order (int64, segments + 1); ``words`` may be empty."""
    starts = np.empty(order.size + 1, np.int64)
    segments = 0
    for i in range(order.size):
        row = order[i]
        if i > 0:
            before = order[i - 1]
            if (words.size == 0 or words[row] == words[before]) and equal(
                data, offsets[row], offsets[row + 1], data, offsets[before], offsets[before + 1]
            ):
                continue
        starts[segments] = i
        segments += 1
    starts[segments] = order.size
    return starts[: segments + 1].copy()


@kernel(U64_OUT, I64, U8)
def _first_words(offsets: Ints, data: Bytes) -> Words:
    return first_words(offsets, data)


@inlined
def _advance(offsets: Ints, data: Bytes, order: Ints, low: int, high: int, row: int, after: bool) -> int:
    """End of the part of ``order[low:high]`` that comes before ``row``; equal keys too if ``after``."""
    limit = 1 if after else 0
    step = 1
    left = low
    start = offsets[row]
    end = offsets[row + 1]
    while left + step <= high:
        other = order[left + step - 1]
        if compare(data, offsets[other], offsets[other + 1], data, start, end) >= limit:
            break
        left += step
        step *= 2
    right = min(left + step - 1, high)
    while left < right:
        middle = (left + right) >> 1
        other = order[middle]
        if compare(data, offsets[other], offsets[other + 1], data, start, end) < limit:
            left = middle + 1
        else:
            right = middle
    return left


@kernel(types.void, I64, U8, U64, I64_OUT, I64_OUT, types.int64, types.int64, types.int64)
def _merge_even(
    offsets: Ints, data: Bytes, words: Words, order: Ints, spare: Ints, low: int, middle: int, high: int
) -> None:
    """Merge two adjacent sorted parts of an order, stable; ``words`` are those of :func:`first_words`."""
    left = low
    right = middle
    at = low
    while left < middle and right < high:
        a = order[left]
        b = order[right]
        x = words[a]
        y = words[b]
        take_right = y < x
        if x == y:
            take_right = compare(data, offsets[b], offsets[b + 1], data, offsets[a], offsets[a + 1]) < 0
        spare[at] = b if take_right else a
        step = int(take_right)
        right += step
        left += 1 - step
        at += 1
    spare[at : at + middle - left] = order[left:middle]
    at += middle - left
    order[low:at] = spare[low:at]


@kernel(types.void, I64, U8, I64_OUT, I64_OUT, types.int64, types.int64, types.int64)
def _merge_skewed(offsets: Ints, data: Bytes, order: Ints, spare: Ints, low: int, middle: int, high: int) -> None:
    """Merge two adjacent sorted parts of an order, stable; gallops while one side keeps winning."""
    left = low
    right = middle
    at = low
    left_wins = 0
    right_wins = 0
    while left < middle and right < high:
        a = order[left]
        b = order[right]
        if compare(data, offsets[a], offsets[a + 1], data, offsets[b], offsets[b + 1]) <= 0:
            spare[at] = a
            at += 1
            left += 1
            left_wins += 1
            right_wins = 0
            if left_wins >= _GALLOP:
                stop = _advance(offsets, data, order, left, middle, b, True)
                left_wins = 0 if stop - left < _GALLOP else _GALLOP
                spare[at : at + stop - left] = order[left:stop]
                at += stop - left
                left = stop
        else:
            spare[at] = b
            at += 1
            right += 1
            right_wins += 1
            left_wins = 0
            if right_wins >= _GALLOP:
                stop = _advance(offsets, data, order, right, high, a, False)
                right_wins = 0 if stop - right < _GALLOP else _GALLOP
                spare[at : at + stop - right] = order[right:stop]
                at += stop - right
                right = stop
    # What is left of the right part is in place already.
    spare[at : at + middle - left] = order[left:middle]
    at += middle - left
    order[low:at] = spare[low:at]


def _merged_order(keys: Keys, bounds: list[int]) -> tuple[Ints, Words]:
    """Stable order of concatenated sorted runs, and their first words if these were needed, else none.

    Merges the two adjacent parts that are smallest together until one is left.
    """
    order = np.arange(len(keys))
    spare = np.empty_like(order)
    words = _NO_WORDS
    while len(bounds) > 2:
        i = min(range(1, len(bounds) - 1), key=lambda j: bounds[j + 1] - bounds[j - 1])
        low, middle, high = bounds[i - 1 : i + 2]
        if _SKEW * min(middle - low, high - middle) < len(keys):
            _merge_skewed(keys.offsets, keys.data, order, spare, low, middle, high)
        else:
            if not len(words):
                words = _first_words(keys.offsets, keys.data)
            _merge_even(keys.offsets, keys.data, words, order, spare, low, middle, high)
        del bounds[i]
    return order, words


def _combined(
    keys: Keys,
    order: Ints,
    words: Words,
    values: Sequence[pa.Array],
    ops: Sequence[MergeOp],
    drop_zero: bool,
) -> Rows:
    starts = _segment_starts(keys.offsets, keys.data, words, order)
    kept, columns = combine(order, starts, values, ops, drop_zero)
    firsts = starts[:-1] if len(kept) == len(starts) - 1 else starts[kept]
    return Rows(keys.take(order[firsts]), columns)


def consolidate(keys: Keys, values: Sequence[pa.Array], ops: Sequence[MergeOp], drop_zero: bool) -> Rows:
    """Make a sorted run of rows in any order.

    Parameters
    ----------
    keys : Keys
        n keys, duplicates allowed; of equal keys a later row is newer.
    values : sequence of pa.Array
        Columns of n values, two each for ``SUM_DD`` and ``SUM_I128``, four for ``SUM_QD``.
    ops : sequence of MergeOp
        How to combine the values of equal keys.
    drop_zero : bool
        Whether to drop keys whose first column, an int64 ``SUM``, is 0 after combining.

    Returns
    -------
    Rows
        Sorted, keys unique.
    """
    return _combined(keys, sort(keys), _NO_WORDS, values, ops, drop_zero)


def _weighty(rows: Rows) -> bool:
    """Whether no weight is 0."""
    return bool(summable(rows.values[0], np.int64).all())


def merge(runs: Sequence[Rows], ops: Sequence[MergeOp], drop_zero: bool) -> Rows:
    """Merge sorted runs into one; linear in their rows. A single run is given back as it is.

    Parameters
    ----------
    runs : sequence of Rows
        At least one, oldest first, all of the same columns; each sorted, its keys unique.
    ops : sequence of MergeOp
        How to combine the values of equal keys.
    drop_zero : bool
        Whether to drop keys whose first column, an int64 ``SUM``, is 0 after combining.

    Returns
    -------
    Rows
        Sorted, keys unique.
    """
    if not runs:
        raise ValueError("no runs to merge")
    filled = [run for run in runs if len(run)] or [runs[0]]
    if len(filled) == 1 and (not drop_zero or _weighty(filled[0])):
        return filled[0]
    keys = Keys.concat([run.keys for run in filled])
    values = [pa.concat_arrays(column) for column in zip(*(run.values for run in filled))]
    bounds = [0, *np.cumsum([len(run) for run in filled]).tolist()]
    return _combined(keys, *_merged_order(keys, bounds), values, ops, drop_zero)
