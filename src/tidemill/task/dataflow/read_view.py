"""Rows of a view, read from its state table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from tidemill.errors import EvaluationError
from tidemill.kernels.columns import column, nulls, numbers
from tidemill.kernels.kernel import loaded
from tidemill.state.keys.keys import Keys, decode
from tidemill.state.lookup.reader import TableReader
from tidemill.state.merge.merge import Rows
from tidemill.state.plain.reading import PlainRows, read_small
from tidemill.state.tables import StateTable
from tidemill.task.dataflow.deltas import Delta, batch_of
from tidemill.task.program.read_plan import ReadPlan

if TYPE_CHECKING:
    from tidemill.task.aggregates.accumulators import AggregateLayout
    from tidemill.task.program.row_steps import Calculate

_ROWS = 1 << 16


def read_view(plan: ReadPlan, table: TableReader, single_row: bool) -> Delta:
    """The view's rows.

    Parameters
    ----------
    table : TableReader
        The view's table, or some vnodes of it.
    single_row : bool
        Whether to give the one row of an aggregate without GROUP BY when it has no state yet. Set for
        exactly one of the readers that divide a view by vnode.

    Returns
    -------
    Delta
        Columns as ``plan.schema``, positive weights, in key order.
    """
    rows = table.rows(drop_zero=True)
    counts = numbers(rows.values[0])
    if len(counts) and not plan.single and counts.min() < 0:
        rows = rows.take(np.flatnonzero(counts > 0))
    if single_row and not len(rows.keys):
        rows = zero_row(plan.table)
    return finish_rows(plan, rows)


def sealed_parts(plan: ReadPlan, runs: Sequence[Rows]) -> Iterator[Delta]:
    """The rows of a whole view, some at a time: as :func:`view_parts`; a small view loads no kernels.

    Parameters
    ----------
    runs : sequence of Rows
        Its state, oldest first.
    """
    small = None if loaded() else read_small(plan.table, runs)
    if small is None or not small.length:
        yield from view_parts(plan, reader_of(plan.table, runs), single_row=plan.single)
        return
    counts = numbers(small.values[0])
    yield _finish(plan, small if plan.single or counts.min() >= 0 else small.take(np.flatnonzero(counts > 0)))


def view_parts(
    plan: ReadPlan, table: TableReader, single_row: bool, low: bytes = b"", high: bytes | None = None
) -> Iterator[Delta]:
    """As :func:`read_view`, some rows at a time: those with ``low <= key < high``."""
    some = False
    for rows in table.iterate(low, high, block=_ROWS):
        counts = numbers(rows.values[0])
        if not plan.single and counts.min() < 0:
            rows = rows.take(np.flatnonzero(counts > 0))
        some = True
        yield finish_rows(plan, rows)
    if not some:
        yield finish_rows(plan, zero_row(plan.table) if single_row else empty_rows(plan.table))


def read_parts(plan: ReadPlan, table: TableReader) -> Iterator[Delta]:
    """The view's rows with those of negative weight, some at a time.

    An aggregate without GROUP BY has its row as soon as it has state, even of no input; before that there is none,
    because the aggregate gives it in its first epoch.
    """
    for rows in table.iterate(block=_ROWS, drop_zero=not plan.single):
        counts = numbers(rows.values[0])
        if not plan.single and plan.layout is not None and counts.min() < 0:
            rows = rows.take(np.flatnonzero(counts > 0))
        yield finish_rows(plan, rows)


def finish_rows(plan: ReadPlan, rows: Rows) -> Delta:
    """Merged rows of the view's table as rows of the view; multiset weights are kept, negative ones too."""
    return _finish(plan, PlainRows(decode(rows.keys, plan.table.key), list(rows.values), len(rows.keys)))


def _finish(plan: ReadPlan, rows: PlainRows) -> Delta:
    columns = rows.keys
    weights = None
    if plan.layout is None:
        weights = numbers(rows.values[0])
        columns = columns + rows.values[1:]
        if len(weights) and (weights == 1).all():
            weights = None
    else:
        columns = columns + _finished(plan, plan.layout, rows)
    delta = Delta(batch_of(columns, rows.length), weights)
    for step in plan.steps:
        delta = _calculated(step, delta)
    return delta


def _calculated(step: Calculate, delta: Delta) -> Delta:
    if step.picked is not None:  # without all functions, which take long to import
        return Delta(batch_of([delta.batch.column(i) for i in step.picked], len(delta)), delta.weights)
    from tidemill.task.dataflow.calculate import calculate

    try:
        return calculate(step, delta)
    except EvaluationError as error:
        from tidemill.task.dataflow.failing_row import with_row

        raise with_row(error, partial(calculate, step), delta) from error


def _finished(plan: ReadPlan, layout: AggregateLayout, rows: PlainRows) -> list[pa.Array[Any]]:
    from tidemill.task.aggregates.functions import finish

    keys = rows.keys
    try:
        return finish(layout, plan.input_types, rows.values)
    except EvaluationError as error:
        if not keys:
            raise
        from tidemill.task.dataflow.failing_row import with_row

        groups = Delta(batch_of([*keys, *rows.values], rows.length))

        def compute(part: Delta) -> object:
            return finish(layout, plan.input_types, part.batch.columns[len(keys) :])

        raise with_row(error, compute, groups, len(keys)) from error


def empty_rows(table: StateTable) -> Rows:
    """No rows of a table."""
    keys = Keys(np.zeros(1, np.int64), np.zeros(0, np.uint8))
    return Rows(keys, tuple(pa.array([], t) for t in table.value_types))


def zero_row(table: StateTable) -> Rows:
    """The row of the only group of an aggregate without GROUP BY, over no input."""
    keys = Keys(np.array([0, 2], np.int64), np.zeros(2, np.uint8))
    summed = [op.is_sum for op in table.ops for _ in range(op.columns)]
    return Rows(keys, tuple(_neutral(t, s) for t, s in zip(table.value_types, summed, strict=True)))


def _neutral(type_: pa.DataType, summed: bool) -> pa.Array[Any]:
    """One row of what changes nothing when combined: 0 for a sum, NULL for a minimum or maximum."""
    return column(np.zeros(1, type_.to_pandas_dtype())) if summed else nulls(1, type_)


def reader_of(table: StateTable, runs: Sequence[Rows]) -> TableReader:
    """Reads sealed runs of a table, oldest first."""
    return TableReader(runs, table.ops, table.value_types)
