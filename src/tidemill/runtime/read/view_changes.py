"""What an epoch changed in a view, from its state."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from tidemill.schema import WEIGHT
from tidemill.state.keys.keys import KeyColumn, decode, encode
from tidemill.state.merge.merge import MergeOp, Rows, consolidate, merge
from tidemill.task.dataflow.calculate import calculate
from tidemill.task.dataflow.changed_groups import changed_groups
from tidemill.task.dataflow.changed_rows import changed_rows
from tidemill.task.dataflow.deltas import Delta
from tidemill.task.dataflow.read_view import empty_rows, finish_rows, reader_of, zero_row
from tidemill.task.program.read_plan import ReadPlan


def changes_of(plan: ReadPlan, changed: list[Rows], runs_before: Callable[[], list[Rows]]) -> pa.Table:
    """What an epoch changed in a view.

    Parameters
    ----------
    changed : list of Rows
        What the epoch wrote.
    runs_before : callable
        Gives the state of the epoch before, oldest first.
    """
    if plan.layout is None and not plan.table.is_multiset:
        return _weighted(plan, changed_rows(plan, runs_before(), changed))
    if plan.layout is None:
        found = _weighted(plan, finish_rows(plan, _merged(plan, changed, drop_zero=True)))
        return net(found) if len(plan.schema) < len(plan.table.key) else found
    before = runs_before()
    if not changed:
        return _weighted(plan, finish_rows(plan, _merged(plan, [], drop_zero=True)))
    rows = _merged(plan, changed, drop_zero=False)
    if plan.single and not before:
        before = [zero_row(plan.table)]  # the row that readers saw before there was any state
    delta = changed_groups(
        plan.table, plan.layout, plan.input_types, reader_of(plan.table, before), rows, single=plan.single
    )
    for step in plan.steps:
        delta = calculate(step, delta)
    return net(_weighted(plan, delta))


def nothing(plan: ReadPlan) -> pa.Table:
    """No changes, with the columns that changes have."""
    return _weighted(plan, finish_rows(plan, empty_rows(plan.table)))


def _weighted(plan: ReadPlan, delta: Delta) -> pa.Table:
    schema = plan.arrow_schema.append(pa.field(WEIGHT, pa.int64(), False))
    return pa.Table.from_arrays([*delta.batch.columns, pa.array(delta.explicit_weights())], schema=schema)


def _merged(plan: ReadPlan, runs: list[Rows], drop_zero: bool) -> Rows:
    return merge(runs, plan.table.ops, drop_zero) if runs else empty_rows(plan.table)


def net(table: pa.Table) -> pa.Table:
    """Changes with equal rows combined, those that cancel out left out; ``__weight`` is the last column."""
    names = [n for n in table.column_names if n != WEIGHT]
    if not names or not table.num_rows:
        return table
    layout = [KeyColumn(table.schema.field(n).type) for n in names]
    columns = [table.column(n).combine_chunks() for n in names]
    rows = consolidate(encode(columns, layout, 0), [table.column(WEIGHT).combine_chunks()], [MergeOp.SUM], True)
    return pa.Table.from_arrays([*decode(rows.keys, layout), rows.values[0]], schema=table.schema)
