"""Which row made an expression fail: looked for only once one has."""

from __future__ import annotations

from collections.abc import Callable

from tidemill.errors import EvaluationError
from tidemill.task.streams import Delta

_LONGEST = 40
_MOST = 12


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


def _part(delta: Delta, low: int, high: int) -> Delta:
    weights = None if delta.weights is None else delta.weights[low:high]
    return Delta(delta.batch.slice(low, high - low), weights, delta.audience)


def _shown(value: object) -> str:
    if value is None:
        return "NULL"
    text = repr(value) if isinstance(value, str | bytes) else str(value)
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"
