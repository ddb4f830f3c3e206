"""Changes of finished groups, from the accumulators that an epoch appended."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tidemill.errors import EvaluationError
from tidemill.kernels.columns import column, numbers
from tidemill.state.keys.keys import decode
from tidemill.state.keys.layout import is_nested
from tidemill.state.keys.ordering import compare_rows
from tidemill.state.lookup.reader import TableReader
from tidemill.state.merge.merge import Rows, merge
from tidemill.task.aggregates.accumulators import AggregateLayout
from tidemill.task.aggregates.functions import finish
from tidemill.task.dataflow.deltas import Delta, batch_of
from tidemill.task.dataflow.failing_row import failing_rows
from tidemill.task.program import StateTable

_Bools = npt.NDArray[np.bool_]
Report: TypeAlias = Callable[[int, EvaluationError | None], None]
"""Takes the number of groups that fail, negative for those that did, and an error."""


def changed_groups(
    table: StateTable,
    layout: AggregateLayout,
    input_types: tuple[pa.DataType, ...],
    before: TableReader,
    changed: Rows,
    single: bool,
    failing: Report | None = None,
) -> Delta:
    """Old rows of changed groups with -1, new rows with +1; groups whose row stays the same are left out.

    While history is read, deletions may come before what they delete: a group may count no rows and have sums,
    which must not be lost.

    Parameters
    ----------
    before : TableReader
        The table before the change.
    changed : Rows
        What was appended, one row a group.
    single : bool
        Whether this is the one group of an aggregate without GROUP BY, which exists without rows too: its
        row is new when there was no state, and never goes away.
    failing : callable, optional
        Called for groups whose result fails; they have no row then. Without it such a group is an error.

    Raises
    ------
    EvaluationError
        As :func:`~tidemill.task.aggregates.functions.finish`.
    """
    _, old_values = before.get(changed.keys, drop_zero=False)
    found = numbers(old_values[0]) > 0
    old = Rows(changed.keys, tuple(old_values))
    new = merge([old, changed], table.ops, drop_zero=False)
    alive = numbers(new.values[0]) > 0
    if single:
        found, alive = np.array([bool(before)]), np.array([True])
    was, found = _finished(layout, input_types, old.values, found, failing and (lambda n, _: failing(-n, None)))
    now, alive = _finished(layout, input_types, new.values, alive, failing)
    differs = (found != alive) | _differ(was, now, found & alive)
    gone, come = np.flatnonzero(found & differs), np.flatnonzero(alive & differs)
    rows = column(np.concatenate([gone, come]))
    columns = [k.take(rows) for k in decode(changed.keys, table.key)]
    for b, a in zip(was, now, strict=True):
        columns.append(pa.concat_arrays([b.take(column(gone)), a.take(column(come))]))
    weights = np.concatenate([np.full(len(gone), -1), np.full(len(come), 1)]).astype(np.int64)
    return Delta(batch_of(columns, len(weights)), weights)


def _finished(
    layout: AggregateLayout,
    input_types: tuple[pa.DataType, ...],
    values: tuple[pa.Array[Any], ...],
    live: _Bools,
    failing: Report | None,
) -> tuple[list[pa.Array[Any]], _Bools]:
    """Results of the live groups, NULL elsewhere, aligned with the groups; and which groups have results."""
    try:
        return _results(layout, input_types, values, live), live
    except EvaluationError as error:
        if failing is None:
            raise
        rows = np.flatnonzero(live)
        compact = [v.take(column(rows)) for v in values]
        wrong = failing_rows(
            lambda low, high: finish(layout, input_types, [v.slice(low, high - low) for v in compact]), len(rows)
        )
        failing(len(wrong), error)
        live = live.copy()
        live[rows[wrong]] = False
        return _results(layout, input_types, values, live), live


def _results(
    layout: AggregateLayout, input_types: tuple[pa.DataType, ...], values: tuple[pa.Array[Any], ...], live: _Bools
) -> list[pa.Array[Any]]:
    if live.all():
        return finish(layout, input_types, values)
    rows = np.flatnonzero(live)
    position = np.full(len(live), -1, np.int64)
    position[rows] = np.arange(len(rows))
    compact = [v.take(column(rows)) for v in values]
    scatter = column(position, ~live)
    return [c.take(scatter) for c in finish(layout, input_types, compact)]


def _differ(before: list[pa.Array[Any]], after: list[pa.Array[Any]], both: _Bools) -> _Bools:
    """Where two rows that both exist are not the same (NaN equals NaN, NULL equals NULL)."""
    result = np.zeros(len(both), np.bool_)
    for b, a in zip(before, after, strict=True):
        if is_nested(b.type):
            result |= compare_rows(b, a) != 0
            continue
        if pa.types.is_floating(b.type):
            same_bits = pc.equal(b.view(_bits(b.type)), a.view(_bits(a.type)))
        else:
            same_bits = pc.equal(b, a)
        same = same_bits.fill_null(False).to_numpy(zero_copy_only=False)
        nulls = pc.and_(pc.is_null(b), pc.is_null(a)).to_numpy(zero_copy_only=False)
        result |= ~(same | nulls)
    return result & both


def _bits(type_: pa.DataType) -> pa.DataType:
    return pa.int64() if pa.types.is_float64(type_) else pa.int32()
