"""Partial groups of one task."""

from __future__ import annotations

from operator_runs import grouping, pairs, run

from tidemill.task.aggregates.accumulators import Accumulator
from tidemill.task.build import build
from tidemill.task.dataflow.deltas import Keyed
from tidemill.testing import MemoryContext, keyed_rows

COUNT = Accumulator("count", 1)
SUM = Accumulator("sum_i64", 1)
MAX = Accumulator("max", 1, recomputed=True)


def test_groups_are_consolidated_at_the_barrier() -> None:
    partial = grouping(COUNT, SUM, results=())
    operator, context = build(0, partial), MemoryContext()
    (output,) = run(operator, context, [(pairs("+ 1 5 | + 2 NULL | +2 1 1"), 0), (pairs("- 1 5 | + NULL 3"), 0)])
    assert isinstance(output.item, Keyed)
    found = sorted(keyed_rows(partial.groups, output.item), key=str)
    assert found == [(1, 2, 2, 2), (2, 1, 0, 0), (None, 1, 1, 3)]
    assert run(operator, context) == []


def test_a_group_that_cancels_out_is_still_told() -> None:
    partial = grouping(SUM, results=())
    (output,) = run(build(0, partial), MemoryContext(), [(pairs("+ 1 5 | - 1 5"), 0)])
    assert keyed_rows(partial.groups, output.item) == [(1, 0, 0)]  # type: ignore[arg-type]


def test_values_of_a_multiset_leave_on_a_port_of_their_own() -> None:
    partial = grouping(MAX, results=())
    outputs = run(build(0, partial), MemoryContext(), [(pairs("+ 1 5 | + 1 NULL | + 1 5 | - 2 6"), 0)])
    assert [o.port for o in outputs] == [0, 1]
    assert keyed_rows(partial.groups, outputs[0].item) == [(1, 3, None), (2, -1, None)]  # type: ignore[arg-type]
    assert keyed_rows(partial.multisets[0], outputs[1].item) == [(1, 5, 2), (2, 6, -1)]  # type: ignore[arg-type]


def test_without_keys_all_rows_are_one_group() -> None:
    partial = grouping(COUNT, results=(), keys=0)
    (output,) = run(build(0, partial), MemoryContext(), [(pairs("+ 1 5 | + 2 NULL"), 0), (pairs("+ 3 1"), 0)])
    assert keyed_rows(partial.groups, output.item) == [(3, 2)]  # type: ignore[arg-type]
