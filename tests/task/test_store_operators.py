"""What a view keeps."""

from __future__ import annotations

from operator_runs import INT, grouping, keyed, merged, pairs, run

from tidemill.task.aggregates.accumulators import Accumulator
from tidemill.task.build import build
from tidemill.task.program import StoreKeyed, StoreRows, multiset_table
from tidemill.testing import MemoryContext

TABLE = multiset_table("view", (INT, INT), 2)


def test_rows_are_kept_with_multiplicities() -> None:
    operator, context = build(0, StoreRows(TABLE)), MemoryContext()
    assert run(operator, context, [(pairs("+ 1 1 | +2 2 NULL"), 0), (pairs("+ 1 1"), 0)]) == []
    run(operator, context, [(pairs("-2 2 NULL | - 1 1"), 0)])
    assert merged(TABLE, context) == [(1, 1, 1)]


def test_rows_that_cancel_out_in_an_epoch_are_not_written() -> None:
    operator, context = build(0, StoreRows(TABLE)), MemoryContext()
    run(operator, context, [(pairs("+ 1 1 | - 1 1"), 0)])
    run(operator, context)
    assert context.tables == {}


def test_groups_are_appended_without_looking() -> None:
    partial = grouping(Accumulator("sum_i64", 1), results=())
    operator, context = build(0, StoreKeyed(partial.groups)), MemoryContext()
    run(operator, context, keyed(partial, pairs("+ 1 5")) + keyed(partial, pairs("+ 1 6 | + 2 1")))
    run(operator, context, keyed(partial, pairs("- 2 1")))
    assert len(context.tables["groups"]) == 2
    assert merged(partial.groups, context) == [(1, 2, 11)]
