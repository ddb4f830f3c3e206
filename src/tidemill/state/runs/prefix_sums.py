"""Totals of additive columns over ranges of a sorted run, from inclusive prefix sums: O(1) per range.

Integers and 128-bit integers wrap, so a difference of two prefix sums is exact. A difference of floats is not:
what lies before a range would leave its rounding in the range's total, all of it when it is 2**100 times as large.
So beside the double-double prefix sums stands the sum of magnitudes; where it says that a range weighs less than
2**-24 of what lies before its end, the range is added up itself: row by row when short, else from a tree of partial
sums, O(log n), in which nothing outside the range takes part. With n rows the error of a total is at most n * 2**-81
(n * 2**-105 * 2**24) of the sum of magnitudes *within* the range, for a million rows 2**-61.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidemill.kernels import types
from tidemill.kernels.words import (
    F64,
    F64_GRID,
    F64_GRID_OUT,
    F64_OUT,
    HUGE,
    HUGE_UNIT,
    I64,
    I64_GRID,
    I64_OUT,
    Floats,
    Ints,
    add_double_double,
    kernel,
)
from tidemill.state.merge.combining import summable
from tidemill.state.merge.merge import Rows
from tidemill.state.merge.operations import MergeOp
from tidemill.state.runs.derived import Arrays, derived

_FAN_OUT = 16
_TRUSTED = 2.0**-24
_SHORT = 64


@kernel(F64_GRID_OUT, F64, F64)
def _prefix_dd(high: Floats, low: Floats) -> Floats:
    """Per row high, low and magnitude of the sum of all rows before it; one row more than given."""
    sums = np.zeros((high.size + 1, 3), np.float64)
    hi = 0.0
    lo = 0.0
    magnitude = 0.0
    for i in range(high.size):
        hi, lo = add_double_double(hi, lo, high[i], low[i])
        magnitude += abs(high[i])
        sums[i + 1, 0] = hi
        sums[i + 1, 1] = lo
        sums[i + 1, 2] = magnitude
    return sums


@kernel(types.tuple_of((I64_OUT, I64_OUT)), I64, I64)
def _prefix_wide(low: Ints, high: Ints) -> tuple[Ints, Ints]:
    """128-bit sums of all rows before each; one more than given."""
    lows = np.zeros(low.size + 1, np.int64)
    highs = np.zeros(low.size + 1, np.int64)
    lo = np.uint64(0)
    hi = 0
    for i in range(low.size):
        addend = np.uint64(low[i])
        lo += addend
        hi += high[i]
        if lo < addend:
            hi += 1
        lows[i + 1] = np.int64(lo)
        highs[i + 1] = hi
    return lows, highs


@kernel(types.void, I64, I64_GRID, I64_GRID, I64_OUT)
def _add_ints(sums: Ints, lows: Ints, highs: Ints, totals: Ints) -> None:
    for k in range(lows.shape[0]):
        for p in range(lows.shape[1]):
            if highs[k, p] > lows[k, p]:
                totals[p] += sums[highs[k, p]] - sums[lows[k, p]]


@kernel(types.void, I64, I64, I64_GRID, I64_GRID, I64_OUT, I64_OUT)
def _add_wide(low: Ints, high: Ints, lows: Ints, highs: Ints, total_low: Ints, total_high: Ints) -> None:
    for k in range(lows.shape[0]):
        for p in range(lows.shape[1]):
            a = lows[k, p]
            b = highs[k, p]
            if b <= a:
                continue
            lo = np.uint64(low[b]) - np.uint64(low[a])
            hi = high[b] - high[a]
            if np.uint64(low[b]) < np.uint64(low[a]):
                hi -= 1
            total = np.uint64(total_low[p]) + lo
            if total < lo:
                hi += 1
            total_low[p] = np.int64(total)
            total_high[p] += hi


@kernel(I64_OUT, F64_GRID, F64, F64, I64_GRID, I64_GRID, F64_OUT, F64_OUT)
def _add_dd(
    sums: Floats, row_high: Floats, row_low: Floats, lows: Ints, highs: Ints, high: Floats, low: Floats
) -> Ints:
    """Adds the ranges that are short or told by a difference; returns the others, as k * probes + p."""
    probes = lows.shape[1]
    others = np.empty(lows.size, np.int64)
    count = 0
    for k in range(lows.shape[0]):
        for p in range(probes):
            a = lows[k, p]
            b = highs[k, p]
            if b <= a or sums[b, 2] == 0.0:
                continue
            if sums[b, 2] - sums[a, 2] > sums[b, 2] * _TRUSTED:
                hi, lo = add_double_double(sums[b, 0], sums[b, 1], -sums[a, 0], -sums[a, 1])
                high[p], low[p] = add_double_double(high[p], low[p], hi, lo)
            elif b - a <= _SHORT:
                hi = 0.0
                lo = 0.0
                for i in range(a, b):
                    hi, lo = add_double_double(hi, lo, row_high[i], row_low[i])
                high[p], low[p] = add_double_double(high[p], low[p], hi, lo)
            else:
                others[count] = k * probes + p
                count += 1
    return others[:count].copy()


@kernel(types.tuple_of((F64_OUT, F64_OUT, I64_OUT)), F64, F64)
def _sum_tree(high: Floats, low: Floats) -> tuple[Floats, Floats, Ints]:
    """Sums of 16, 256, ... rows after the rows themselves, and where each level starts."""
    starts = np.zeros(20, np.int64)
    size = high.size
    total = 0
    levels = 0
    while True:
        starts[levels] = total
        levels += 1
        total += size
        if size <= 1:
            break
        size = (size + _FAN_OUT - 1) // _FAN_OUT
    starts[levels] = total
    highs = np.zeros(total, np.float64)
    lows = np.zeros(total, np.float64)
    for i in range(high.size):
        highs[i] = high[i]
        lows[i] = low[i] if np.isfinite(high[i]) else 0.0
    for level in range(1, levels):
        below = starts[level - 1]
        for i in range(starts[level] - below):
            at = starts[level] + i // _FAN_OUT
            highs[at], lows[at] = add_double_double(highs[at], lows[at], highs[below + i], lows[below + i])
    return highs, lows, starts[: levels + 1].copy()


@kernel(types.void, F64, F64, I64, I64, I64_GRID, I64_GRID, F64_OUT, F64_OUT)
def _add_tree(
    tree_high: Floats, tree_low: Floats, starts: Ints, chosen: Ints, lows: Ints, highs: Ints, high: Floats, low: Floats
) -> None:
    """Adds the chosen ranges from at most 30 nodes a level."""
    probes = lows.shape[1]
    for i in range(chosen.size):
        p = chosen[i] % probes
        k = chosen[i] // probes
        a = lows[k, p]
        b = highs[k, p]
        hi = 0.0
        lo = 0.0
        level = 0
        while a < b:
            base = starts[level]
            while a < b and a % _FAN_OUT != 0:
                hi, lo = add_double_double(hi, lo, tree_high[base + a], tree_low[base + a])
                a += 1
            while a < b and b % _FAN_OUT != 0:
                b -= 1
                hi, lo = add_double_double(hi, lo, tree_high[base + b], tree_low[base + b])
            a //= _FAN_OUT
            b //= _FAN_OUT
            level += 1
        high[p], low[p] = add_double_double(high[p], low[p], hi, lo)


def split_specials(values: Floats) -> tuple[Floats, Floats, Floats, Floats, Ints, Ints, Ints]:
    """Plain doubles as what an exact sum keeps.

    That is high and low, the same of a huge one (see :func:`tidemill.state.folds.accumulate.sum_dd`), and whether it is
    NaN, inf, -inf (0 or 1).
    """
    kinds = (np.isnan(values), values == np.inf, values == -np.inf)
    nans, positive, negative = (kind.astype(np.int64) for kind in kinds)
    none = np.zeros(len(values))
    huge = np.isfinite(values) & (np.abs(values) >= HUGE)
    units = np.where(huge, values, 0.0) / HUGE_UNIT
    return np.where(np.abs(values) < HUGE, values, 0.0), none, units, none, nans, positive, negative


def _prefix_ints(values: Ints) -> Arrays:
    """Prefix sums, or an empty array for a column of zeros."""
    if not values.any():
        return (np.empty(0, np.int64),)
    sums = np.zeros(len(values) + 1, np.int64)
    np.cumsum(values, out=sums[1:])
    return (sums,)


def _prefix_floats(high: Floats, low: Floats) -> Arrays:
    """Prefix sums, or an empty array for a column of zeros."""
    return (_prefix_dd(high, low) if high.any() else np.empty((0, 3)),)


class RangeTotals:
    """Totals of some columns over ranges of rows, added up over several runs.

    Parameters
    ----------
    columns : sequence of (MergeOp, int)
        The values to total: a sum operation and the position of its first column in a run.
    types : sequence of pa.DataType
        Types of all value columns of a run.
    probes : int
        Number of totals per value.

    Attributes
    ----------
    totals : list of tuple of np.ndarray
        Per value one array for ``SUM`` of int64, (high, low) for ``SUM_DD``, (low, high) for ``SUM_I128``. A
        ``SUM`` of doubles comes as :func:`split_specials` has it, the last three counted: a NaN before a range
        must not be in its total.
    """

    def __init__(self, columns: Sequence[tuple[MergeOp, int]], types: Sequence[pa.DataType], probes: int) -> None:
        self._columns = tuple(columns)
        self._types = types
        self.totals: list[tuple[npt.NDArray[Any], ...]] = [
            tuple(np.zeros(probes, t) for t in _dtypes(op, types[at])) for op, at in columns
        ]

    def add(self, run: Rows, lows: Ints, highs: Ints) -> None:
        """Add ranges of a run.

        Parameters
        ----------
        lows, highs : np.ndarray
            int64[k, probes]: up to k disjoint ranges per probe, from the low row to before the high one; empty
            where high is not above low.
        """
        if not len(run):
            return
        for (op, at), totals in zip(self._columns, self.totals):
            if op is MergeOp.SUM_DD:
                pair = (summable(run.values[at], np.float64), summable(run.values[at + 1], np.float64))
                self._add_floats(run, at, pair, lows, highs, totals)
            elif op is MergeOp.SUM_I128:
                words = (summable(run.values[at], np.int64), summable(run.values[at + 1], np.int64))
                low, high = derived(run, ("sums", at), lambda w=words: _prefix_wide(*w))  # type: ignore[misc]
                _add_wide(low, high, lows, highs, *totals)
            elif pa.types.is_floating(self._types[at]):
                values = summable(run.values[at], np.float64)
                parts = derived(run, ("split", at), lambda v=values: split_specials(v))  # type: ignore[misc]
                self._add_floats(run, at, parts[:2], lows, highs, totals[:2])
                self._add_floats(run, (at, "huge"), parts[2:4], lows, highs, totals[2:4])
                for kind, (part, total) in enumerate(zip(parts[4:], totals[4:])):
                    self._add_counts(run, (at, kind), part, lows, highs, total)
            else:
                self._add_counts(run, at, summable(run.values[at], np.int64), lows, highs, totals[0])

    @staticmethod
    def _add_counts(run: Rows, name: object, values: Ints, lows: Ints, highs: Ints, totals: Ints) -> None:
        (sums,) = derived(run, ("sums", name), lambda: _prefix_ints(values))
        if len(sums):
            _add_ints(sums, lows, highs, totals)

    @staticmethod
    def _add_floats(
        run: Rows, name: object, pair: tuple[Floats, ...], lows: Ints, highs: Ints, totals: tuple[npt.NDArray[Any], ...]
    ) -> None:
        (sums,) = derived(run, ("sums", name), lambda: _prefix_floats(*pair))
        if not len(sums):
            return
        rest = _add_dd(sums, pair[0], pair[1], lows, highs, totals[0], totals[1])
        if len(rest):
            tree = derived(run, ("tree", name), lambda: _sum_tree(*pair))
            _add_tree(tree[0], tree[1], tree[2], rest, lows, highs, *totals)


def _dtypes(op: MergeOp, type_: pa.DataType) -> tuple[type[np.float64] | type[np.int64], ...]:
    if op is MergeOp.SUM_DD:
        return (np.float64, np.float64)
    if op is MergeOp.SUM_I128:
        return (np.int64, np.int64)
    if op is not MergeOp.SUM:
        raise ValueError(f"{op.value} has no totals over ranges")
    if pa.types.is_floating(type_):
        return (np.float64,) * 4 + (np.int64,) * 3
    return (np.int64,)
