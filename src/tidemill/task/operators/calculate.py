"""Filter and projection in one pass."""

from __future__ import annotations

from functools import partial

from tidemill.errors import EvaluationError
from tidemill.task.failing_row import without_failing
from tidemill.task.functions.evaluate import evaluate, filter_mask
from tidemill.task.operator import HeldOutput, Operator, Output
from tidemill.task.program import Calculate
from tidemill.task.streams import Delta, Item, batch_of


def calculate(operation: Calculate, delta: Delta) -> Delta:
    """Rows for which the condition is true, with the columns the expressions give.

    Raises
    ------
    EvaluationError
        TM3xxx when a row makes an expression fail.
    """
    if operation.condition is not None:
        delta = delta.filter(filter_mask(operation.condition, delta.batch))
    if operation.expressions is None:
        return delta
    columns = [evaluate(e, delta.batch) for e in operation.expressions]
    return Delta(batch_of(columns, len(delta)), delta.weights)


class CalculateOperator(Operator):
    """Stateless: what comes in goes out at once, nothing is held at a barrier.

    Rows that fail are left out and reported: their views are in error until they are deleted.
    """

    def __init__(self, step: int, operation: Calculate) -> None:
        super().__init__(step)
        self.operation = operation
        self._held = HeldOutput()

    def add_input(self, item: Item, port: int) -> None:
        """Compute one batch; an empty result is not passed on."""
        assert isinstance(item, Delta)
        try:
            result = calculate(self.operation, item)
        except EvaluationError:
            passing, weight, error = without_failing(partial(calculate, self.operation), item)
            self.context.failing(self.step, weight, error)
            result = calculate(self.operation, passing)
        if len(result):
            self._held.put([Output(result)])

    def get_output(self) -> Output | None:
        """The computed batch."""
        return self._held.pop()
