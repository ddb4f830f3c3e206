"""An operator of one step and one class: what it takes to add one, but for its lowering."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pytest
from operator_runs import changes, pairs, run

from tidemill.plan.explain.column_names import exchange_columns, step_columns, table_columns
from tidemill.task.build import build
from tidemill.task.dataflow import operator
from tidemill.task.dataflow.deltas import Delta, Item
from tidemill.task.dataflow.operator import Operator, Output, carries_out
from tidemill.task.expressions.texts import Names
from tidemill.task.program import Input, Operation, Program, Step
from tidemill.task.program.costs import CostClass
from tidemill.testing import MemoryContext


@dataclass(frozen=True)
class Multiplied(Operation):
    """Each row so many times."""

    times: int

    def text(self, inputs: Sequence[Names], output: Names) -> str:
        return f"Multiply [{', '.join(inputs[0])}] by {self.times}"


@pytest.fixture(autouse=True)
def declared(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(operator, "_operators", dict(operator._operators))

    @carries_out(Multiplied)
    class MultipliedOperator(Operator):
        def __init__(self, step: int, operation: Multiplied) -> None:
            super().__init__(step)
            self.operation = operation

        def add_input(self, item: Item, port: int) -> None:
            assert isinstance(item, Delta)
            self._pending.put(Output(Delta(item.batch, item.explicit_weights() * self.operation.times)))

    yield


def test_it_runs() -> None:
    outputs = run(build(0, Multiplied(3)), MemoryContext(), [(pairs("+ 1 2 | - 3 4"), 0)])
    assert changes(outputs) == {(1, 2): 3, (3, 4): -3}


def test_it_is_explained() -> None:
    first = Step(Multiplied(2), (), 0, 0, frozenset())
    program = Program((first, Step(Multiplied(3), (Input(0),), 0, 0, frozenset())), "")
    assert Multiplied(3).text([("k", "x")], ("k", "x")) == "Multiply [k, x] by 3"
    assert Multiplied(3).cost.kind is CostClass.CHANGES
    assert step_columns(program) == [(), ()]
    assert exchange_columns(program, [("k",), ("k",)]) == [None, None]
    assert table_columns(program) == {}
