"""Filter and projection in one pass."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from typing import TypeAlias

from tidemill.task.dataflow.deltas import Delta, batch_of, concat
from tidemill.task.functions.columns.sizes import TooLargeError
from tidemill.task.functions.evaluate import as_mask
from tidemill.task.functions.sharing import Sharing, share
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
    condition, expressions = _shared(operation, delta.batch.num_columns)
    if condition is not None:
        delta = delta.filter(as_mask(condition.evaluate(delta.batch)[0]))
    if expressions is None:
        return delta
    return Delta(batch_of(expressions.evaluate(delta.batch), len(delta)), delta.weights)


_Parts: TypeAlias = tuple[Sharing | None, Sharing | None]
_SHARED: dict[tuple[int, int], _Parts] = {}
"""Condition and expressions of operations without repetitions, by identity and width: to compare trees costs more."""


def _shared(operation: Calculate, width: int) -> _Parts:
    key = (id(operation), width)
    found = _SHARED.get(key)
    if found is None:
        condition = None if operation.condition is None else share((operation.condition,), width)
        expressions = None if operation.expressions is None else share(operation.expressions, width)
        found = _SHARED[key] = (condition, expressions)
        weakref.finalize(operation, _SHARED.pop, key, None).atexit = False
    return found
