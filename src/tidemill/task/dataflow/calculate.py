"""Filter and projection in one pass."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from typing import TypeAlias

from tidemill.kernels.columns import nulls
from tidemill.task.dataflow.deltas import Delta, batch_of, concat
from tidemill.task.functions.columns.compute import Array
from tidemill.task.functions.columns.sizes import TooLargeError
from tidemill.task.functions.evaluate import as_mask
from tidemill.task.functions.sharing import Filtering, Sharing, share, share_with_condition
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
    shared = _shared(operation, delta.batch.num_columns)
    if isinstance(shared, Filtering):
        delta, shared = _kept(shared, delta), shared.expressions
    if operation.expressions is not None:
        return Delta(batch_of(shared.evaluate(delta.batch), len(delta)), delta.weights)
    return delta if operation.condition is None else delta.filter(as_mask(shared.evaluate(delta.batch)[0]))


def _kept(filtering: Filtering, delta: Delta) -> Delta:
    """The rows that a condition keeps, with the columns that are read; others have no values."""
    test, *further = filtering.condition.evaluate(delta.batch)
    columns = [*delta.batch.columns, *further]
    read = filtering.kept or range(min(len(columns), 1))
    narrow = Delta(batch_of([columns[i] for i in read], len(delta)), delta.weights, delta.backfill_target)
    kept = narrow.filter(as_mask(test))
    every: list[Array] = [nulls(len(kept))] * len(columns)
    for i, column in zip(read, kept.batch.columns, strict=True):
        every[i] = column
    return Delta(batch_of(every, len(kept)), kept.weights, kept.backfill_target)


_Parts: TypeAlias = Sharing | Filtering
_SHARED: dict[tuple[int, int], _Parts] = {}
"""Operations without repetitions, by identity and width: to compare trees costs more. One that has either a condition
or expressions is a ``Sharing`` of these."""


def _shared(operation: Calculate, width: int) -> _Parts:
    key = (id(operation), width)
    if (found := _SHARED.get(key)) is None:
        found = _SHARED[key] = _parts(operation, width)
        weakref.finalize(operation, _SHARED.pop, key, None).atexit = False
    return found


def _parts(operation: Calculate, width: int) -> _Parts:
    condition, expressions = operation.condition, operation.expressions
    if condition is not None and expressions is not None:
        return share_with_condition(condition, expressions, width)
    if condition is not None:
        return share((condition,), width)
    return share(expressions or (), width)
