"""Combining what a lookup found in several runs, for :mod:`tidemill.state.lookup.lookup`.

A lookup finds places (:mod:`tidemill.state.runs.places`) by group of runs and probe. Sums and 8-byte values are
computed in one pass over the probes that reads the runs in place; of other columns only the winning rows are copied.
Nothing is sorted or concatenated unless values of several runs must be compared.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
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
    I64,
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
from tidemill.state.runs.level import check_hits
from tidemill.state.runs.mapped import Mapped
from tidemill.state.runs.places import Hits, row_at, rows_at, run_at, runs_at

GRID = types.array(types.int64, 2, "C")
_NONE = np.empty(0, np.int64)


@kernel(types.void, GRID, U64, BOOL, I64_OUT)
def _sum_ints(hits: Hits, addresses: Words, found: Bools, out: Ints) -> None:
    out[:] = 0
    for g in range(hits.shape[0]):
        for p in range(out.size):
            hit = hits[g, p]
            if hit >= 0 and found[p]:
                out[p] += carray(as_pointer(addresses[run_at(hit)]), 1, np.int64)[row_at(hit)]


@kernel(types.void, GRID, U64, BOOL, F64_OUT)
def _sum_floats(hits: Hits, addresses: Words, found: Bools, out: Floats) -> None:
    for p in range(out.size):
        total = 0.0
        first = True
        for g in range(hits.shape[0]):
            hit = hits[g, p]
            if hit >= 0 and found[p]:
                value = carray(as_pointer(addresses[run_at(hit)]), 1, np.float64)[row_at(hit)]
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
        for g in range(hits.shape[0]):
            hit = hits[g, p]
            if hit >= 0 and found[p]:
                r = run_at(hit)
                row = row_at(hit)
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
        for g in range(hits.shape[0]):
            hit = hits[g, p]
            if hit >= 0 and found[p]:
                r = run_at(hit)
                row = row_at(hit)
                addend = carray(as_pointer(low_addresses[r]), 1, np.uint64)[row]
                lo += addend
                hi += carray(as_pointer(high_addresses[r]), 1, np.int64)[row]
                if lo < addend:
                    hi += 1
        lows[p] = lo
        highs[p] = hi


@kernel(types.void, I64, U64, U64_OUT)
def _last_words(newest: Ints, addresses: Words, out: Words) -> None:
    for p in range(out.size):
        out[p] = 0
        if newest[p] >= 0:
            out[p] = carray(as_pointer(addresses[run_at(newest[p])]), 1, np.uint64)[row_at(newest[p])]


@kernel(types.boolean, GRID, BOOL, I64_OUT)
def _newest(hits: Hits, found: Bools, newest: Ints) -> bool:
    """Write the place of each probe in the newest run that has it, -1 if none has; returns whether several have any."""
    several = False
    for p in range(newest.size):
        newest[p] = -1
        if found[p]:
            for g in range(hits.shape[0]):
                if hits[g, p] >= 0:
                    several = several or newest[p] >= 0
                    newest[p] = hits[g, p]
    return several


@kernel(types.void, GRID, BOOL_OUT, GRID)
def _found(hits: Hits, found: Bools, spans: Ints) -> None:
    """Write which probes any run has; of each run its group, the first probe that it has and the one after the last.

    The group of a run that has none is -1.
    """
    found[:] = False
    spans[:, 0] = -1
    for g in range(hits.shape[0]):
        for p in range(found.size):
            hit = hits[g, p]
            if hit >= 0:
                found[p] = True
                r = run_at(hit)
                if spans[r, 0] < 0:
                    spans[r, 0] = g
                    spans[r, 1] = p
                spans[r, 2] = p + 1


def combine_hits(
    runs: Sequence[Rows], hits: Hits, ops: Sequence[MergeOp], drop_zero: bool
) -> tuple[Bools, tuple[pa.Array[Any], ...]]:
    """Whether each probe was found, and its combined values: where not, 0 for sums, else NULL.

    Parameters
    ----------
    runs : sequence of Rows
        At least one, oldest first.
    hits : np.ndarray
        int64[groups, probes]: places, -1 where a group of runs does not have a probe.
    ops : sequence of MergeOp
        How to combine the values of a key that several runs have.
    drop_zero : bool
        Whether a key whose first value, an int64 ``SUM``, is 0 after combining counts as not found.
    """
    probes = hits.shape[1]
    found, spans = np.empty(probes, np.bool_), np.empty((len(runs), 3), np.int64)
    _found(hits, found, spans)
    columns, unchecked = {}, {}  # by run, of those that have any
    for r in np.flatnonzero(spans[:, 0] >= 0).tolist() or [0]:
        run = runs[r]
        if isinstance(run, Mapped) and run.body.has_fixed_widths:
            columns[r] = run.unchecked_values
            if not run.body.pages.complete:
                unchecked[r] = run.body, run.start
        else:
            group, first, end = spans[r].tolist()
            columns[r] = run.columns_at(hits[group, first:end] if group >= 0 else _NONE)
    if unchecked:
        check_hits(unchecked, len(runs), hits)
    values = _Values(hits, found, len(runs), columns)
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
    """The columns of the runs with the rows that were found.

    Parameters
    ----------
    runs : int
        How many runs there are.
    columns : dict
        Of each run that has any probe its columns, in order of the runs; of one run if none has any.
    """

    def __init__(self, hits: Hits, found: Bools, runs: int, columns: Mapping[int, Sequence[pa.Array[Any]]]) -> None:
        self._hits = hits
        self._found = found
        self._runs = np.fromiter(columns, np.int64, len(columns))
        self._all_runs = runs
        self._columns = list(zip(*columns.values(), strict=True))
        self._newest: Ints | None = None
        self._several = False

    def ints(self, at: int) -> Words:
        """By run the addresses of the int64 values of a column that is summed."""
        return self._addresses([summable(part, np.int64) for part in self._columns[at]])

    def floats(self, at: int) -> Words:
        """By run the addresses of the float64 values of a column that is summed."""
        return self._addresses([summable(part, np.float64) for part in self._columns[at]])

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
        newest = self._choose()
        if op is MergeOp.LAST or not self._several:
            return [self._last(at, newest)]
        return self._folded(op, at)

    def _addresses(self, arrays: Sequence[npt.NDArray[Any]]) -> Words:
        """By run, 0 for those whose columns are not known."""
        found = np.zeros(self._all_runs, np.uint64)
        found[self._runs] = addresses(arrays)
        return found

    def _choose(self) -> Ints:
        if self._newest is None:
            self._newest = np.empty(self._hits.shape[1], np.int64)
            self._several = _newest(self._hits, self._found, self._newest)
        return self._newest

    def _last(self, at: int, newest: Ints) -> pa.Array[Any]:
        """The value of the newest run that has a probe."""
        parts, found = self._columns[at], self._found
        if is_word(parts[0].type) and not any(part.null_count for part in parts):
            words = room(len(found), np.uint64)
            _last_words(newest, self._addresses([fixed(part, np.uint64) for part in parts]), words)
            return pa.Array.from_buffers(parts[0].type, len(found), [bitmap(found), pa.py_buffer(words.data)])
        if len(parts) == 1:
            return take_or_null(parts[0], np.where(newest >= 0, rows_at(newest), -1))
        which = np.flatnonzero(newest >= 0)
        positions = np.full(len(found), -1, np.int64)
        order, (taken,) = self._taken(newest[which], at, 1)
        positions[which] = order
        return take_or_null(taken, positions)

    def _taken(self, places: Ints, at: int, columns: int) -> tuple[Ints, list[pa.Array[Any]]]:
        """The values at some places in columns from ``at`` on, by run; and for each place its row there."""
        by_run = np.argsort(runs_at(places), kind="stable")
        bounds = np.searchsorted(runs_at(places)[by_run], np.append(self._runs, self._all_runs))
        rows = rows_at(places)[by_run]
        parts = [column(rows[first:end]) for first, end in itertools.pairwise(bounds.tolist())]
        order = np.empty(len(places), np.int64)
        order[by_run] = np.arange(len(places))
        return order, [
            pa.concat_arrays([values.take(part) for values, part in zip(self._columns[i], parts, strict=True)])
            for i in range(at, at + columns)
        ]

    def _folded(self, op: MergeOp, at: int) -> list[pa.Array[Any]]:
        """Values of all runs put together and combined probe by probe."""
        probes, groups = np.nonzero((self._hits >= 0).T & self._found[:, None])
        order, whole = self._taken(self._hits[groups, probes], at, op.columns)
        counts = np.bincount(probes, minlength=self._hits.shape[1])[self._found]
        starts = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])
        made = combine_one(order, starts, whole, op)
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
