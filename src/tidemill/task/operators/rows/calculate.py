"""Projections and filters."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import ClassVar

from tidemill.errors import EvaluationError
from tidemill.task.dataflow.calculate import calculate_at_once
from tidemill.task.dataflow.deltas import Delta, Item
from tidemill.task.dataflow.failing_row import passing_parts
from tidemill.task.dataflow.operator import Operator, Output, carries_out
from tidemill.task.program import Calculate


@carries_out(Calculate)
class CalculateOperator(Operator):
    """Stateless: each batch is computed as it comes, nothing is held at a barrier.

    Rows that fail are left out and reported: their views are failing until they are deleted.
    """

    holds_state: ClassVar[bool] = False

    per_item: ClassVar[bool] = True

    def __init__(self, step: int, operation: Calculate) -> None:
        super().__init__(step)
        self.operation = operation

    def add_input(self, item: Item, port: int) -> None:
        """Compute one batch."""
        assert isinstance(item, Delta)
        try:
            result = calculate_at_once(self.operation, item)
        except EvaluationError:
            self._pending.put_all(self._in_parts(item))
        else:
            if len(result):
                self._pending.put(Output(result))

    def _in_parts(self, item: Delta) -> Iterator[Output]:
        """A batch in which a row fails, or that is too large at once, part by part and without failing rows."""
        compute, report = partial(calculate_at_once, self.operation), partial(self.context.failing, self.step)
        yield from (Output(result) for _, result in passing_parts(compute, item, report) if len(result))
