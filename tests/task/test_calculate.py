"""Filter and projection of one batch."""

from __future__ import annotations

import pyarrow as pa
from operator_runs import INT, changes, pairs, run

from tidemill.task.build import build
from tidemill.task.expressions import Call, Literal, Ref
from tidemill.task.program import Calculate
from tidemill.testing import MemoryContext

POSITIVE = Call("gt", (Ref(1, INT), Literal(0, INT)), pa.bool_())
SUM = Call("add", (Ref(0, INT), Ref(1, INT)), INT, True, (("mode", "ansi"),))


def calculated(operation: Calculate, *texts: str) -> dict:
    return changes(run(build(0, operation), MemoryContext(), [(pairs(t), 0) for t in texts]))


def test_filter_keeps_true_only() -> None:
    found = calculated(Calculate(POSITIVE, None), "+ 1 5 | + 2 0 | + 3 NULL | - 4 7", "+2 1 5")
    assert found == {(1, 5): 3, (4, 7): -1}


def test_projection_keeps_weights() -> None:
    assert calculated(Calculate(None, (SUM,)), "+ 1 5 | -3 2 4 | + NULL 1") == {(6,): -2, (None,): 1}


def test_filter_comes_before_projection() -> None:
    most = 2**63 - 1
    assert calculated(Calculate(POSITIVE, (SUM, Ref(0, INT))), f"+ 1 5 | + -{most} -5") == {(6, 1): 1}


def test_nothing_left_is_not_passed_on() -> None:
    assert run(build(0, Calculate(POSITIVE, None)), MemoryContext(), [(pairs("+ 1 0"), 0)]) == []


def test_a_projection_to_no_columns_keeps_the_rows() -> None:
    assert calculated(Calculate(POSITIVE, ()), "+2 1 5 | + 2 0") == {(): 2}


def test_a_row_that_fails_is_left_out() -> None:
    context, most = MemoryContext(), 2**63 - 1
    operation = Calculate(POSITIVE, (SUM,))
    found = changes(run(build(0, operation), context, [(pairs(f"+ 1 2 | +3 {most} 1 | - {most} 4 | + 2 2"), 0)]))
    assert found == {(3,): 1, (4,): 1}
    ((step, weight, error),) = context.failing_rows
    assert (step, weight) == (0, 2) and error is not None and error.number == "TM3002"
