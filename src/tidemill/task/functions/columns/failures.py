"""Errors of rows: they name the operation and the first value that fails."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from tidemill.errors import EvaluationError
from tidemill.schema import type_to_ddl
from tidemill.task.functions.columns.compute import Array, pc
from tidemill.task.functions.columns.registry import Value


def _shown(value: Value, row: int) -> str:
    item: Any = value if isinstance(value, pa.Scalar) else value[row]
    if pa.types.is_timestamp(item.type) or pa.types.is_date(item.type):
        return str(item)
    return repr(item.as_py())


def first_row(bad: Array) -> int:
    """Position of the first true value of ``bad``."""
    return int(pc.index(pc.fill_null(bad, False), True).as_py())


def division_by_zero(bad: Array, left: Value) -> EvaluationError:
    """TM3001 for the first row of ``bad``."""
    row = first_row(bad)
    return EvaluationError(
        "TM3001",
        "division by zero",
        got=f"{_shown(left, row)} divided by 0",
        hint="use try_divide, try_mod or NULLIF(divisor, 0) to get NULL instead",
    )


def overflow(operation: str, type_: pa.DataType, bad: Array, *values: Value) -> EvaluationError:
    """TM3002 for the first row of ``bad``."""
    row = first_row(bad)
    shown = ", ".join(_shown(value, row) for value in values)
    return EvaluationError(
        "TM3002",
        "the result does not fit its type",
        got=f"{operation}({shown}) as {type_to_ddl(type_)}",
        hint="cast the operands to a wider type, or use the try_ form of the function",
    )


def invalid_cast(source: Value, target: pa.DataType, bad: Array) -> EvaluationError:
    """TM3003 for the first row of ``bad``."""
    return EvaluationError(
        "TM3003",
        "a value cannot be cast",
        got=f"{_shown(source, first_row(bad))} as {type_to_ddl(target)}",
        hint="use try_cast to get NULL for malformed values",
    )


def failure(what: str, bad: Array, *values: Value) -> EvaluationError:
    """TM3004 for the first row of ``bad``."""
    row = first_row(bad)
    return EvaluationError("TM3004", what, got=", ".join(_shown(value, row) for value in values))


def several_rows(count: int) -> EvaluationError:
    """TM3015 for a scalar subquery."""
    return EvaluationError(
        "TM3015",
        "a scalar subquery gives more than one row",
        got=f"{count} rows",
        hint="the view is right again when there is one row at most; an aggregate without GROUP BY always gives one",
    )


def any_true(bad: Any) -> bool:
    """Whether some row of ``bad`` is true (NULL is not)."""
    return bool(pc.any(bad).as_py())
