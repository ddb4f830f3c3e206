"""Combining what a lookup found in several runs, for :mod:`tidemill.state.lookup.lookup`.

A lookup finds places (:mod:`tidemill.state.runs.places`) by group of runs and probe. Sums and 8-byte values are
computed in one pass over the probes that reads the runs in place; of other columns only the winning rows are copied.
Nothing is sorted or concatenated unless values of several runs must be compared.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, cast

import numpy as np
import pyarrow as pa

from tidemill.kernels import types
from tidemill.kernels.columns import column, nulls, room
from tidemill.kernels.words import (
    BOOL,
    BOOL_OUT,
    F64_OUT,
    I64_OUT,
    U64_OUT,
    Bools,
    Floats,
    Ints,
    Words,
    add_double_double,
    kernel,
)
from tidemill.state.folds.extremes import take_or_null
from tidemill.state.keys.layout import fixed
from tidemill.state.merge.combining import check_weighted, combine_one
from tidemill.state.merge.merge import Rows
from tidemill.state.merge.operations import MergeOp, columns_by_op
from tidemill.state.runs.flat_columns import (
    FLAT,
    WIDTH,
    Flat,
    flat_columns,
    float_at,
    gather,
    int_at,
    is_flat,
    may_have_nulls,
    word_at,
)
from tidemill.state.runs.level import check_hits
from tidemill.state.runs.level_table import level_table
from tidemill.state.runs.mapped import Mapped
from tidemill.state.runs.places import Hits, rows_at, run_at, runs_at

GRID = types.array(types.int64, 2, "C")
_FEW = 8
"""Where fewer than one in so many runs of a level have any probe, these are read one by one."""


@kernel(types.void, GRID, FLAT, types.int64, BOOL, I64_OUT)
def _sum_ints(hits: Hits, columns: Flat, at: int, found: Bools, out: Ints) -> None:
    out[:] = 0
    for g in range(hits.shape[0]):
        for p in range(out.size):
            if hits[g, p] >= 0 and found[p]:
                out[p] += int_at(columns, at, hits[g, p])


@kernel(types.void, GRID, FLAT, types.int64, BOOL, F64_OUT)
def _sum_floats(hits: Hits, columns: Flat, at: int, found: Bools, out: Floats) -> None:
    for p in range(out.size):
        total = 0.0
        first = True
        for g in range(hits.shape[0]):
            if hits[g, p] >= 0 and found[p]:
                value = float_at(columns, at, hits[g, p])
                total = value if first else total + value  # so that -0.0 alone stays what it is
                first = False
        out[p] = total


@kernel(types.void, GRID, FLAT, types.int64, BOOL, F64_OUT, F64_OUT)
def _sum_double_doubles(hits: Hits, columns: Flat, at: int, found: Bools, highs: Floats, lows: Floats) -> None:
    for p in range(highs.size):
        hi = 0.0
        lo = 0.0
        first = True
        for g in range(hits.shape[0]):
            if hits[g, p] >= 0 and found[p]:
                high = float_at(columns, at, hits[g, p])
                low = float_at(columns, at + 1, hits[g, p])
                if first:
                    hi = high
                    lo = low if np.isfinite(high) else 0.0
                    first = False
                else:
                    hi, lo = add_double_double(hi, lo, high, low)
        highs[p] = hi
        lows[p] = lo


@kernel(types.void, GRID, FLAT, types.int64, BOOL, U64_OUT, I64_OUT)
def _sum_wide(hits: Hits, columns: Flat, at: int, found: Bools, lows: Words, highs: Ints) -> None:
    for p in range(highs.size):
        lo = np.uint64(0)
        hi = np.int64(0)
        for g in range(hits.shape[0]):
            if hits[g, p] >= 0 and found[p]:
                addend = word_at(columns, at, hits[g, p])
                lo += addend
                hi += int_at(columns, at + 1, hits[g, p])
                if lo < addend:
                    hi += 1
        lows[p] = lo
        highs[p] = hi


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
    runs: Sequence[Rows], hits: Hits, ops: Sequence[MergeOp], drop_zero: bool, groups: Sequence[range] = ()
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
    groups : sequence of range
        The groups that were searched together, those of several runs at least.
    """
    probes = hits.shape[1]
    found, spans = np.empty(probes, np.bool_), np.empty((len(runs), 3), np.int64)
    _found(hits, found, spans)
    values = _Values(runs, hits, found, spans, groups)
    if drop_zero and ops:
        check_weighted(ops)
        weights = values.ints(0)
        found &= weights != 0
    combined: list[pa.Array[Any]] = []
    for op, at in columns_by_op(ops):
        if op is MergeOp.SUM and at == 0 and drop_zero:
            combined.append(column(weights))
        else:
            combined += values.combined(op, at)
    return found, tuple(combined)


class _Values:
    """The values that were found, checked.

    Parameters
    ----------
    runs, hits, found, groups
        As of :func:`combine_hits`; ``found`` may become False where it was True.
    spans : np.ndarray
        What :func:`_found` writes.
    """

    def __init__(
        self, runs: Sequence[Rows], hits: Hits, found: Bools, spans: Ints, groups: Sequence[range] = ()
    ) -> None:
        self._hits, self._found = hits, found
        self._types = runs[0].value_types()
        self._columns = np.zeros((len(runs), len(self._types), WIDTH), np.uint64)
        self._runs = np.flatnonzero(spans[:, 0] >= 0)
        self._read_columns(runs, [group for group in groups if len(group) > 1])
        nested = [at for at, type_ in enumerate(self._types) if not is_flat(type_)]
        parts: list[Sequence[pa.Array[Any]]] = []
        for r in self._runs.tolist() if nested else ():
            run = runs[r]
            if isinstance(run, Mapped):
                group, first, end = spans[r].tolist()
                parts.append(run.nested_columns(hits[group, first:end]))
            else:
                parts.append([run.values[at] for at in nested])
        self._nested = dict(zip(nested, zip(*parts, strict=True))) if parts else {}
        """Columns of nested types with the arrays of the runs that have any probe."""
        self._newest: Ints | None = None
        self._several = False

    def _read_columns(self, runs: Sequence[Rows], levels: Sequence[range]) -> None:
        """Take the columns of the runs that have any probe, and check the values that were hit."""
        numbers = np.full(len(runs), -1, np.int64)
        tables: list[Words] = []
        bodies: list[int] = []
        had = self._runs
        for level in levels:
            first, end = np.searchsorted(had, (level.start, level.stop)).tolist()
            if _FEW * (end - first) < len(level):
                continue  # one by one
            had = np.delete(had, np.s_[first:end])
            found = level_table(cast("Sequence[Mapped]", runs[level.start : level.stop]))
            self._columns[level.start : level.stop] = found.columns
            numbers[level.start : level.stop] = np.arange(len(bodies), len(bodies) + len(level))
            tables.append(found.bodies)
            bodies += level
        for r in had.tolist():
            run = runs[r]
            if not isinstance(run, Mapped):
                self._columns[r] = flat_columns(run.values)
                continue
            self._columns[r] = run.flat_columns()
            if not run.body.pages.complete:
                numbers[r] = len(bodies)
                tables.append(run.body.addresses[None])
                bodies.append(r)
        if bodies:
            bad, page = check_hits(np.concatenate(tables), numbers, self._columns, self._hits)
            if bad >= 0:
                cast("Mapped", runs[bodies[bad]]).body.pages.require(page)

    def ints(self, at: int) -> Ints:
        """The sums of a column of int64."""
        self._check_summable(at, pa.int64())
        sums = room(self._hits.shape[1], np.int64)
        _sum_ints(self._hits, self._columns, at, self._found, sums)
        return sums

    def combined(self, op: MergeOp, at: int) -> list[pa.Array[Any]]:
        """The columns of one logical value that begins at a column."""
        hits, columns, found, probes = self._hits, self._columns, self._found, self._hits.shape[1]
        if op is MergeOp.SUM and pa.types.is_floating(self._types[at]):
            self._check_summable(at, pa.float64())
            floats = room(probes, np.float64)
            _sum_floats(hits, columns, at, found, floats)
            return [column(floats)]
        if op is MergeOp.SUM:
            return [column(self.ints(at))]
        if op is MergeOp.SUM_DD:
            self._check_summable(at, pa.float64(), 2)
            high, low = room(probes, np.float64), room(probes, np.float64)
            _sum_double_doubles(hits, columns, at, found, high, low)
            return [column(high), column(low)]
        if op is MergeOp.SUM_I128:
            self._check_summable(at, pa.int64(), 2)
            lows, highs = room(probes, np.uint64), room(probes, np.int64)
            _sum_wide(hits, columns, at, found, lows, highs)
            return [column(lows.view(np.int64)), column(highs)]
        if op is MergeOp.SUM_QD:
            return self._folded(op, at)
        newest = self._choose()
        if op is MergeOp.LAST or not self._several:
            return [self._at(newest, at)]
        return self._folded(op, at)

    def _check_summable(self, at: int, type_: pa.DataType, columns: int = 1) -> None:
        for i in range(at, at + columns):
            if self._types[i] != type_:
                raise TypeError(f"a column of {self._types[i]} is summed as {type_}")
            if may_have_nulls(self._columns, i):
                places = self._hits[:, self._found]
                nulls = gather(self._columns, i, type_, places[places >= 0]).null_count
                if nulls:
                    raise ValueError(f"{nulls} NULLs in a column that is summed")

    def _choose(self) -> Ints:
        if self._newest is None:
            self._newest = np.empty(self._hits.shape[1], np.int64)
            self._several = _newest(self._hits, self._found, self._newest)
        return self._newest

    def _at(self, places: Ints, at: int) -> pa.Array[Any]:
        """The values of a column at some places, NULL where a place is -1."""
        if is_flat(self._types[at]):
            return gather(self._columns, at, self._types[at], places)
        if not self._nested:
            return nulls(len(places), self._types[at])
        which = np.flatnonzero(places >= 0)
        runs, rows = runs_at(places[which]), rows_at(places[which])
        by_run = np.argsort(runs, kind="stable")
        bounds = np.searchsorted(runs[by_run], np.append(self._runs, len(self._columns)))
        order = np.full(len(places), -1, np.int64)
        order[which[by_run]] = np.arange(len(which))
        taken = [
            values.take(column(rows[by_run[first:end]]))
            for values, (first, end) in zip(self._nested[at], itertools.pairwise(bounds.tolist()), strict=True)
        ]
        return take_or_null(pa.concat_arrays(taken), order)

    def _folded(self, op: MergeOp, at: int) -> list[pa.Array[Any]]:
        """Values of all runs put together and combined probe by probe."""
        probes, groups = np.nonzero((self._hits >= 0).T & self._found[:, None])
        places = self._hits[groups, probes]
        whole = [self._at(places, i) for i in range(at, at + op.columns)]
        counts = np.bincount(probes, minlength=self._hits.shape[1])[self._found]
        starts = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])
        made = combine_one(np.arange(len(places)), starts, whole, op)
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
