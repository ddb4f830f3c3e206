"""Rows arranged by a join key."""

from __future__ import annotations

from operator_runs import INT, TEXT, arranged, run

from tidemill.state.lookup.lookup import vnode_range
from tidemill.task.build import build
from tidemill.task.dataflow.deltas import Keyed
from tidemill.testing import MemoryContext, delta, keyed_rows

BY_SECOND = arranged("t", (1, 0), (INT, TEXT))


def test_rows_come_out_at_the_barrier_consolidated() -> None:
    operator = build(0, BY_SECOND)
    inputs = [(delta("+ 1 a | + 2 b | + 1 a", INT, TEXT), 0), (delta("- 2 b | +2 3 a", INT, TEXT), 0)]
    (output,) = run(operator, MemoryContext(), inputs)
    assert isinstance(output.item, Keyed)
    assert keyed_rows(BY_SECOND.table, output.item) == [("a", 1, 2), ("a", 3, 2)]


def test_null_keys_are_left_out_unless_null_safe() -> None:
    text = "+ 1 NULL | + NULL a"
    (output,) = run(build(0, BY_SECOND), MemoryContext(), [(delta(text, INT, TEXT), 0)])
    assert keyed_rows(BY_SECOND.table, output.item) == [("a", None, 1)]  # type: ignore[arg-type]
    safe = type(BY_SECOND)(BY_SECOND.columns, (), BY_SECOND.table)
    (output,) = run(build(0, safe), MemoryContext(), [(delta(text, INT, TEXT), 0)])
    assert sorted(keyed_rows(safe.table, output.item), key=str) == [("a", None, 1), (None, 1, 1)]  # type: ignore[arg-type]


def test_rows_that_cancel_out_leave_nothing() -> None:
    operator = build(0, BY_SECOND)
    context = MemoryContext()
    assert run(operator, context, [(delta("+ 1 a | - 1 a", INT, TEXT), 0)]) == []
    assert run(operator, context, [(delta("+ 1 NULL", INT, TEXT), 0)]) == []
    assert run(operator, context) == []


def test_rows_of_one_key_are_of_one_vnode() -> None:
    text = " | ".join(f"+ {i} a" for i in range(50))
    (output,) = run(build(0, BY_SECOND), MemoryContext(), [(delta(text, INT, TEXT), 0)])
    assert isinstance(output.item, Keyed)
    keys = output.item.rows.keys
    sizes = [stop - start for start, stop in (vnode_range(keys, v, v + 1) for v in range(256)) if stop > start]
    assert sizes == [50]
