"""Filter and projection in one pass."""

from __future__ import annotations

from collections.abc import Iterator

from tidemill.task.dataflow.deltas import Delta, batch_of, concat
from tidemill.task.functions.columns.sizes import TooLargeError
from tidemill.task.functions.evaluate import evaluate, filter_mask
from tidemill.task.program import Calculate


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
        yield calculate_at_once(operation, delta)
    except TooLargeError:
        if len(delta) <= 1:
            raise
        for half in delta.halves():
            yield from calculated(operation, half)


def calculate_at_once(operation: Calculate, delta: Delta) -> Delta:
    """As :func:`calculate`, in one piece; TM3020 for what is too large."""
    if operation.condition is not None:
        delta = delta.filter(filter_mask(operation.condition, delta.batch))
    if operation.expressions is None:
        return delta
    columns = [evaluate(e, delta.batch) for e in operation.expressions]
    return Delta(batch_of(columns, len(delta)), delta.weights)
