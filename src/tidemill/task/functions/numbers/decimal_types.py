"""The result types of decimal arithmetic, as Spark's ``DecimalType`` derives them."""

from __future__ import annotations

import pyarrow as pa

from tidemill.task.functions.columns.compute import digits_of

MAX = 38


def adjusted(precision: int, scale: int) -> pa.DataType:
    """The type, or when it has more than 38 digits one that gives up fraction digits beyond the sixth."""
    if precision <= MAX:
        return pa.decimal128(precision, scale)
    whole = precision - scale
    return pa.decimal128(MAX, max(MAX - whole, min(scale, 6)))


def arithmetic_type(function: str, left: pa.DataType, right: pa.DataType) -> pa.DataType:
    """The type of ``function`` applied to two decimals.

    Parameters
    ----------
    function : {"add", "subtract", "multiply", "divide", "remainder", "pmod"}
        The operation.
    left, right : pa.DataType
        Decimal types.
    """
    (p1, s1), (p2, s2) = digits_of(left), digits_of(right)
    scale = max(s1, s2)
    if function in ("add", "subtract"):
        return adjusted(max(p1 - s1, p2 - s2) + scale + 1, scale)
    if function == "multiply":
        return adjusted(p1 + p2 + 1, s1 + s2)
    if function == "divide":
        scale = max(6, s1 + p2 + 1)
        return adjusted(p1 - s1 + s2 + scale, scale)
    return adjusted(min(p1 - s1, p2 - s2) + scale, scale)


def rounded_type(source: pa.DataType, scale: int) -> pa.DataType:
    """The type of ``round`` and ``bround`` of a decimal, which may need one more digit."""
    precision, own = digits_of(source)
    whole = precision - own + 1
    if scale < 0:
        return pa.decimal128(min(max(whole, -scale + 1), MAX), 0)
    kept = min(scale, own)
    return pa.decimal128(min(whole + kept, MAX), kept)
