"""Rows that make an expression fail are left out, counted and named, whatever the batch."""

from __future__ import annotations

import pyarrow as pa
import pytest
from operator_runs import INT, grouping, keyed, pairs

from tidemill.errors import EvaluationError
from tidemill.schema import Field, Schema
from tidemill.task.aggregates.accumulators import Accumulator, Result
from tidemill.task.build import build
from tidemill.task.dataflow.deltas import Delta, batch_of
from tidemill.task.dataflow.failing_row import MOST_FAILING, with_row
from tidemill.task.dataflow.read_view import read_view
from tidemill.task.expressions import Call, Ref
from tidemill.task.program import Calculate, ReadPlan
from tidemill.testing import MemoryContext

SUM = Calculate(None, (Call("add", (Ref(0, INT), Ref(1, INT)), INT, True, (("mode", "ansi"),)),))
MOST = 2**63 - 1


@pytest.mark.parametrize("before", [0, 1, 2, 7])
@pytest.mark.parametrize("after", [0, 1, 4])
def test_rows_that_fail_are_left_out(before: int, after: int) -> None:
    text = " | ".join(["+ 1 2"] * before + [f"- {MOST} 2"] + [f"+ {MOST} 3", "+ 4 5"] * after)
    operator, context = build(0, SUM), MemoryContext()
    operator.begin(context)
    operator.add_input(pairs(text), 0)
    output = operator.get_output()
    found = [] if output is None else output.item.batch.column(0).to_pylist()  # type: ignore[union-attr]
    assert found == [3] * before + [9] * after
    assert [step for step, _, _ in context.failing_rows] == [0]
    ((_, weight, error),) = context.failing_rows
    assert weight == after - 1
    if after:
        assert error is not None and error.number == "TM3002" and f"in the row ({MOST}, 3)" in error.got
    else:
        assert error is None


def test_many_rows_that_fail_end_the_view() -> None:
    operator = build(0, SUM)
    operator.begin(MemoryContext())
    with pytest.raises(EvaluationError, match="TM3002"):
        operator.add_input(pairs(" | ".join([f"+ {MOST} 2"] * (MOST_FAILING + 1))), 0)
        operator.get_output()


def test_values_are_shortened() -> None:
    def fail(delta: Delta) -> None:
        raise EvaluationError("TM3004", "no", got="x")

    columns = [pa.array(["a" * 100]), pa.array([None], pa.int32()), *[pa.array([1])] * 20]
    error = with_row(EvaluationError("TM3004", "no", got="x"), fail, Delta(batch_of(columns, 1)))
    assert error.got == f"x, in the row ('{'a' * 38}…, NULL, {', '.join('1' * 10)}, …)"


def test_the_group_whose_sum_does_not_fit() -> None:
    """A stored sum is finished when the view is read; the group is named, not what is kept of it."""
    total = Accumulator("sum_i128", 1)
    step = grouping(total, results=(Result("sum", INT, INT, 1, 0),))
    context = MemoryContext()
    ((item, _),) = keyed(step, pairs(f"+ 1 2 | + 7 {MOST} | + 7 {MOST} | + 9 1"))
    plan = ReadPlan(step.groups, step.layout, step.input_types, (), Schema((Field("k", INT), Field("s", INT))))
    context.write(step.groups, item.rows)
    context.seal()
    with pytest.raises(EvaluationError, match=r"TM3002[^$]*in the row \(7\)"):
        read_view(plan, context.state(step.groups).before, False)
