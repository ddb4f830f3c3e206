"""The contents of an older view for a new reader."""

from __future__ import annotations

import pyarrow as pa
from operator_runs import INT, changes, grouping, keyed, pairs, run

from tidemill.schema import Field, Schema
from tidemill.task.aggregates.accumulators import Accumulator, Result
from tidemill.task.build import build
from tidemill.task.dataflow.operator import Output, SourceOperator
from tidemill.task.program import ReadPlan, StoreKeyed, StoreRows, ViewSnapshot, multiset_table
from tidemill.testing import MemoryContext

TABLE = multiset_table("view", (INT, INT), 2)
SCHEMA = Schema((Field("a", INT), Field("b", INT)))


def read(operation: ViewSnapshot, context: MemoryContext, asked: bool = True) -> list[Output]:
    operator = build(0, operation)
    assert isinstance(operator, SourceOperator)
    operator.begin(context)
    if asked:
        operator.give_snapshot()
    operator.request_barrier()
    found = []
    while (output := operator.get_output()) is not None:
        found.append(output)
    assert operator.reached_barrier()
    assert not operator.reached_barrier()
    return found


def test_rows_of_a_view() -> None:
    context = MemoryContext()
    run(build(0, StoreRows(TABLE)), context, [(pairs("+2 1 1 | + 2 2"), 0)])
    run(build(0, StoreRows(TABLE)), context, [(pairs("- 2 2"), 0)])
    snapshot = ViewSnapshot("v", ReadPlan(TABLE, None, (), (), SCHEMA))
    assert changes(read(snapshot, context)) == {(1, 1): 2}
    assert read(snapshot, context, asked=False) == []


def test_groups_are_finished() -> None:
    partial = grouping(Accumulator("sum_i64", 1), results=(Result("sum", INT, INT, 1, 0),))
    context = MemoryContext()
    run(build(0, StoreKeyed(partial.groups)), context, keyed(partial, pairs("+ 1 5 | + 1 6 | + 2 1 | - 2 1")))
    plan = ReadPlan(partial.groups, partial.layout, partial.input_types, (), SCHEMA)
    assert changes(read(ViewSnapshot("v", plan), context)) == {(1, 11): 1}


def test_the_one_row_of_an_aggregate_without_state_is_left_to_the_aggregate() -> None:
    partial = grouping(results=(Result("count", pa.null(), INT, 0, 0),), keys=0)
    plan = ReadPlan(partial.groups, partial.layout, partial.input_types, (), Schema((Field("c", INT),)))
    assert read(ViewSnapshot("v", plan), MemoryContext()) == []


def test_the_one_row_of_an_aggregate_that_has_begun_is_there_over_no_rows() -> None:
    partial = grouping(Accumulator("sum_i64", 0), results=(Result("sum", INT, INT, 1, 0),), keys=0)
    context = MemoryContext()
    run(build(0, StoreKeyed(partial.groups)), context, keyed(partial, pairs("+ 1 5 | - 1 5")))
    plan = ReadPlan(partial.groups, partial.layout, partial.input_types, (), Schema((Field("s", INT),)))
    assert changes(read(ViewSnapshot("v", plan), context)) == {(None,): 1}
