"""Which rows make an expression fail: looked for only once one has.

Rows that fail are left out and counted by weight, so that a view is failing as long as such a row is there, and right
again when it has gone: what comes behind is computed from the other rows all the time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from tidemill.errors import EvaluationError
from tidemill.task.dataflow.deltas import Delta
from tidemill.task.functions.columns.sizes import TooLargeError

_Result = TypeVar("_Result")

_LONGEST = 40
_MOST = 12
MOST_FAILING = 4096
"""More failing rows of one batch than this end the view: each costs about as much as a small batch."""


def with_row(
    error: EvaluationError, compute: Callable[[Delta], object], delta: Delta, columns: int = _MOST
) -> EvaluationError:
    """The error with the first row for which ``compute`` fails, its first ``columns`` values shortened.

    The batch is halved until one row is left, so it costs about as much as computing it twice.
    """
    low, high = 0, len(delta)
    while high - low > 1:
        middle = (low + high) // 2
        try:
            compute(_part(delta, low, middle))
        except EvaluationError as found:
            error, high = found, middle
        else:
            low = middle
    row = [c[low].as_py() for c in delta.batch.columns[:columns]] if len(delta) else []
    shown = ", ".join(_shown(value) for value in row) + (", …" if delta.batch.num_columns > columns == _MOST else "")
    return EvaluationError(error.number, error.what, f"{error.got}, in the row ({shown})", error.hint)


def failing_rows(compute: Callable[[int, int], object], count: int) -> npt.NDArray[np.int64]:
    """Positions of the rows, of ``count``, for which ``compute`` of a range fails; that of all is known to fail.

    Raises
    ------
    EvaluationError
        That of a row, when more than :data:`MOST_FAILING` fail.
    """
    found: list[int] = []
    ranges = [(0, count)]
    while ranges:
        low, high = ranges.pop()
        if high - low < count or count == 1:
            try:
                compute(low, high)
                continue
            except EvaluationError:
                if len(found) == MOST_FAILING:
                    raise
        if high - low == 1:
            found.append(low)
        else:
            middle = (low + high) // 2
            ranges += [(middle, high), (low, middle)]
    return np.array(found, np.int64)


def without_failing(compute: Callable[[Delta], object], delta: Delta) -> tuple[Delta, int, EvaluationError | None]:
    """The rows of a batch for which ``compute`` does not fail, the weight of the others, and the error of a new one.

    To be called once it has failed for all of them.

    Raises
    ------
    EvaluationError
        When more than :data:`MOST_FAILING` rows fail.
    """
    rows = failing_rows(lambda low, high: compute(_part(delta, low, high)), len(delta))
    weights = delta.explicit_weights()[rows]
    error = None
    if (weights > 0).any():
        first = int(rows[np.flatnonzero(weights > 0)[0]])
        row = _part(delta, first, first + 1)
        try:
            compute(row)
        except EvaluationError as found:
            error = with_row(found, compute, row)
    return delta.take(np.delete(np.arange(len(delta)), rows)), int(weights.sum()), error


def passing_parts(
    compute: Callable[[Delta], _Result], delta: Delta, report: Callable[[int, EvaluationError | None], None]
) -> Iterator[tuple[Delta, _Result]]:
    """The rows for which ``compute`` does not fail, with their result; in halves where it is too large at once.

    ``report`` is called with the weight of the rows that fail, and the error of a new one. What fails without any row
    is raised.
    """
    try:
        result = compute(delta)
    except EvaluationError as failed:
        if not len(delta):
            raise
        if isinstance(failed, TooLargeError) and len(delta) > 1:
            for half in delta.halves():
                yield from passing_parts(compute, half, report)
            return
        passing, weight, error = without_failing(compute, delta)
        report(weight, error)
        yield from passing_parts(compute, passing, report)
    else:
        yield delta, result


def _part(delta: Delta, low: int, high: int) -> Delta:
    weights = None if delta.weights is None else delta.weights[low:high]
    return Delta(delta.batch.slice(low, high - low), weights, delta.backfill_target)


def _shown(value: object) -> str:
    if value is None:
        return "NULL"
    text = repr(value) if isinstance(value, str | bytes) else str(value)
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"
