"""Combining what a lookup found in several runs, for :mod:`tidemill.state.lookup.lookup`.

A lookup finds rows by run and probe. Sums and 8-byte values are computed in one pass over the probes that reads the
runs in place; of other columns only the winning rows are copied. Nothing is sorted or concatenated unless values of
several runs must be compared.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidemill.kernels import types
from tidemill.kernels.columns import column, room
from tidemill.kernels.deferred import carray
from tidemill.kernels.words import (
    BOOL,
    BOOL_OUT,
    F64_OUT,
    I64_OUT,
    U64,
    U64_OUT,
    Bools,
    Floats,
    Ints,
    Words,
    add_double_double,
    as_pointer,
    kernel,
)
from tidemill.state.folds.extremes import take_or_null
from tidemill.state.keys.arrow_columns import bitmap
from tidemill.state.keys.layout import fixed
from tidemill.state.keys.run_table import addresses
from tidemill.state.merge.combining import check_weighted, combine_one, is_word, summable
from tidemill.state.merge.merge import Rows
from tidemill.state.merge.operations import MergeOp, columns_by_op

Hits = npt.NDArray[np.int64]
"""Row of each probe in each run (int64[runs, probes], oldest run first), -1 where it does not have it."""

GRID = types.array(types.int64, 2, "C")


@kernel(types.void, GRID, U64, BOOL, I64_OUT)
def _sum_ints(hits: Hits, addresses: Words, found: Bools, out: Ints) -> None:
    out[:] = 0
    for r in range(hits.shape[0]):
        values = carray(as_pointer(addresses[r]), 1, np.int64)
        for p in range(out.size):
            row = hits[r, p]
            if row >= 0 and found[p]:
                out[p] += values[row]


@kernel(types.void, GRID, U64, BOOL, F64_OUT)
def _sum_floats(hits: Hits, addresses: Words, found: Bools, out: Floats) -> None:
    for p in range(out.size):
        total = 0.0
        first = True
        for r in range(hits.shape[0]):
            row = hits[r, p]
            if row >= 0 and found[p]:
                value = carray(as_pointer(addresses[r]), 1, np.float64)[row]
                total = value if first else total + value  # so that -0.0 alone stays what it is
                first = False
        out[p] = total


@kernel(types.void, GRID, U64, U64, BOOL, F64_OUT, F64_OUT)
def _sum_double_doubles(
    hits: Hits, high_addresses: Words, low_addresses: Words, found: Bools, highs: Floats, lows: Floats
) -> None:
    for p in range(highs.size):
        hi = 0.0
        lo = 0.0
        first = True
        for r in range(hits.shape[0]):
            row = hits[r, p]
            if row >= 0 and found[p]:
                high = carray(as_pointer(high_addresses[r]), 1, np.float64)[row]
                low = carray(as_pointer(low_addresses[r]), 1, np.float64)[row]
                if first:
                    hi = high
                    lo = low if np.isfinite(high) else 0.0
                    first = False
                else:
                    hi, lo = add_double_double(hi, lo, high, low)
        highs[p] = hi
        lows[p] = lo


@kernel(types.void, GRID, U64, U64, BOOL, U64_OUT, I64_OUT)
def _sum_wide(hits: Hits, low_addresses: Words, high_addresses: Words, found: Bools, lows: Words, highs: Ints) -> None:
    for p in range(highs.size):
        lo = np.uint64(0)
        hi = np.int64(0)
        for r in range(hits.shape[0]):
            row = hits[r, p]
            if row >= 0 and found[p]:
                addend = carray(as_pointer(low_addresses[r]), 1, np.uint64)[row]
                lo += addend
                hi += carray(as_pointer(high_addresses[r]), 1, np.int64)[row]
                if lo < addend:
                    hi += 1
        lows[p] = lo
        highs[p] = hi


@kernel(types.void, GRID, U64, BOOL, U64_OUT)
def _last_words(hits: Hits, addresses: Words, found: Bools, out: Words) -> None:
    runs = hits.shape[0]
    for p in range(out.size):
        out[p] = 0
        if not found[p]:
            continue
        for back in range(runs):
            r = runs - 1 - back
            row = hits[r, p]
            if row >= 0:
                out[p] = carray(as_pointer(addresses[r]), 1, np.uint64)[row]
                break


@kernel(types.boolean, GRID, BOOL, I64_OUT)
def _newest(hits: Hits, found: Bools, runs: Ints) -> bool:
    """Write the newest run that has each probe, -1 where none does; returns whether several runs have any."""
    several = False
    for p in range(runs.size):
        runs[p] = -1
        if found[p]:
            for r in range(hits.shape[0]):
                if hits[r, p] >= 0:
                    several = several or runs[p] >= 0
                    runs[p] = r
    return several


@kernel(types.void, GRID, BOOL_OUT, I64_OUT)
def _found(hits: Hits, found: Bools, most: Ints) -> None:
    """Write which probes any run has, and the greatest row of each run."""
    found[:] = False
    for r in range(hits.shape[0]):
        greatest = np.int64(-1)
        for p in range(found.size):
            row = hits[r, p]
            found[p] |= row >= 0
            greatest = max(greatest, row)
        most[r] = greatest


def combine_hits(
    runs: Sequence[Rows], hits: Hits, ops: Sequence[MergeOp], drop_zero: bool
) -> tuple[Bools, tuple[pa.Array[Any], ...]]:
    """Whether each probe was found, and its combined values: where not, 0 for sums, else NULL.

    Parameters
    ----------
    runs : sequence of Rows
        At least one, oldest first.
    hits : np.ndarray
        int64[runs, probes], -1 where a run does not have a probe.
    ops : sequence of MergeOp
        How to combine the values of a key that several runs have.
    drop_zero : bool
        Whether a key whose first value, an int64 ``SUM``, is 0 after combining counts as not found.
    """
    probes = hits.shape[1]
    found, most = np.empty(probes, np.bool_), np.empty(len(runs), np.int64)
    _found(hits, found, most)
    met = np.flatnonzero(most >= 0)
    if len(met) < len(runs):
        met = met if len(met) else np.zeros(1, np.int64)
        runs, hits = [runs[r] for r in met.tolist()], hits[met]
    columns = [run.columns_at(rows) for run, rows in zip(runs, hits, strict=True)]
    values = _Values(hits, found, list(zip(*columns, strict=True)))
    if drop_zero and ops:
        check_weighted(ops)
        weights = room(probes, np.int64)
        _sum_ints(hits, values.ints(0), found, weights)
        found &= weights != 0
    combined: list[pa.Array[Any]] = []
    for op, at in columns_by_op(ops):
        if op is MergeOp.SUM and at == 0 and drop_zero:
            combined.append(column(weights))
        else:
            combined += values.combined(op, at)
    return found, tuple(combined)


class _Values:
    """The columns of the runs (by column, then run) with the rows that were found."""

    def __init__(self, hits: Hits, found: Bools, columns: Sequence[Sequence[pa.Array[Any]]]) -> None:
        self._hits = hits
        self._found = found
        self._columns = columns
        self._runs: Ints | None = None
        self._several = False

    def ints(self, at: int) -> Words:
        """Addresses of the int64 values of a column that is summed."""
        return addresses([summable(part, np.int64) for part in self._columns[at]])

    def floats(self, at: int) -> Words:
        """Addresses of the float64 values of a column that is summed."""
        return addresses([summable(part, np.float64) for part in self._columns[at]])

    def combined(self, op: MergeOp, at: int) -> list[pa.Array[Any]]:
        """The columns of one logical value that begins at a column."""
        hits, found, probes = self._hits, self._found, self._hits.shape[1]
        type_ = self._columns[at][0].type
        if op is MergeOp.SUM and pa.types.is_floating(type_):
            floats = room(probes, np.float64)
            _sum_floats(hits, self.floats(at), found, floats)
            return [column(floats)]
        if op is MergeOp.SUM:
            ints = room(probes, np.int64)
            _sum_ints(hits, self.ints(at), found, ints)
            return [column(ints)]
        if op is MergeOp.SUM_DD:
            high, low = room(probes, np.float64), room(probes, np.float64)
            _sum_double_doubles(hits, self.floats(at), self.floats(at + 1), found, high, low)
            return [column(high), column(low)]
        if op is MergeOp.SUM_I128:
            lows, highs = room(probes, np.uint64), room(probes, np.int64)
            _sum_wide(hits, self.ints(at), self.ints(at + 1), found, lows, highs)
            return [column(lows.view(np.int64)), column(highs)]
        if op is MergeOp.SUM_QD:
            return self._folded(op, at)
        self._choose()
        if op is MergeOp.LAST or not self._several:
            return [self._last(at)]
        return self._folded(op, at)

    def _choose(self) -> None:
        if self._runs is None:
            self._runs = np.empty(self._hits.shape[1], np.int64)
            self._several = _newest(self._hits, self._found, self._runs)

    def _last(self, at: int) -> pa.Array[Any]:
        """The value of the newest run that has a probe."""
        parts, hits, found = self._columns[at], self._hits, self._found
        if is_word(parts[0].type) and not any(part.null_count for part in parts):
            newest = room(len(found), np.uint64)
            words = addresses([fixed(part, np.uint64) for part in parts])
            _last_words(hits, words, found, newest)
            return pa.Array.from_buffers(parts[0].type, len(found), [bitmap(found), pa.py_buffer(newest.data)])
        if len(parts) == 1:
            return take_or_null(parts[0], np.where(found, hits[0], -1))
        taken = []
        positions = np.full(len(found), -1, np.int64)
        count = 0
        for r, part in enumerate(parts):
            which = np.flatnonzero(self._runs == r)
            if len(which):
                taken.append(part.take(column(hits[r, which])))
                positions[which] = np.arange(count, count + len(which))
                count += len(which)
        return take_or_null(pa.concat_arrays(taken) if taken else parts[0], positions)

    def _folded(self, op: MergeOp, at: int) -> list[pa.Array[Any]]:
        """Values of all runs put together and combined probe by probe."""
        probes, runs = np.nonzero((self._hits >= 0).T & self._found[:, None])
        rows = self._hits[runs, probes]
        order = np.empty(len(rows), np.int64)
        whole: list[list[pa.Array[Any]]] = [[] for _ in range(op.columns)]
        count = 0
        for r in range(len(self._hits)):
            which = np.flatnonzero(runs == r)
            order[which] = np.arange(count, count + len(which))
            count += len(which)
            for i in range(op.columns):
                whole[i].append(self._columns[at + i][r].take(column(rows[which])))
        counts = np.bincount(probes, minlength=self._hits.shape[1])[self._found]
        starts = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])
        made = combine_one(order, starts, [pa.concat_arrays(parts) for parts in whole], op)
        positions = np.full(len(self._found), -1, np.int64)
        positions[self._found] = np.arange(len(counts))
        return [_spread(part, positions, op) for part in made]


def _spread(values: pa.Array[Any], positions: Ints, op: MergeOp) -> pa.Array[Any]:
    """Values by probe, from values of the probes that were found; position -1 where it was not."""
    if not op.is_sum:
        return take_or_null(values, positions)
    found = positions >= 0
    result = np.zeros(len(positions), np.float64)
    result[found] = fixed(values, np.float64)
    return column(result)
