"""Filter and projection in one pass."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from tidemill.errors import EvaluationError
from tidemill.task.failing_row import without_failing
from tidemill.task.functions.columns.sizes import TooLargeError
from tidemill.task.functions.evaluate import evaluate, filter_mask
from tidemill.task.operator import HeldOutput, Operator, Output
from tidemill.task.program import Calculate
from tidemill.task.streams import Delta, Item, batch_of, concat


def calculate(operation: Calculate, delta: Delta) -> Delta:
    """Rows for which the condition is true, with the columns the expressions give.

    Raises
    ------
    EvaluationError
        TM3xxx when a row makes an expression fail; TM3020 when what it makes is too large.
    """
    return concat(list(calculated(operation, delta)))


def calculated(operation: Calculate, delta: Delta) -> Iterator[Delta]:
    """As :func:`calculate`, in parts of fewer rows where all at once would be too large; at least one part."""
    try:
        yield _calculated(operation, delta)
    except TooLargeError:
        if len(delta) <= 1:
            raise
        middle = len(delta) // 2
        for rows in (np.arange(middle), np.arange(middle, len(delta))):
            yield from calculated(operation, delta.take(rows))


def _calculated(operation: Calculate, delta: Delta) -> Delta:
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
        """Compute one batch."""
        assert isinstance(item, Delta)
        try:
            result = _calculated(self.operation, item)
        except EvaluationError:
            self._held.follow(self._in_parts(item))
        else:
            if len(result):
                self._held.put([Output(result)])

    def _in_parts(self, item: Delta) -> Iterator[Output]:
        """What a batch gives in which a row fails, or that is too large at once: part by part, without such rows."""
        try:
            result = _calculated(self.operation, item)
        except EvaluationError as large:
            if isinstance(large, TooLargeError) and len(item) > 1:
                middle = len(item) // 2
                for rows in (np.arange(middle), np.arange(middle, len(item))):
                    yield from self._in_parts(item.take(rows))
                return
            passing, weight, error = without_failing(partial(_calculated, self.operation), item)
            self.context.failing(self.step, weight, error)
            yield from self._in_parts(passing)
        else:
            if len(result):
                yield Output(result)

    def get_output(self) -> Output | None:
        """The computed batch."""
        return self._held.pop()
