"""One JSON value as one value of a column: the plain form of what :mod:`.columns` does to many.

Values are as ``json.loads(..., parse_float=written_number)`` gives them.
"""

from __future__ import annotations

import datetime
import decimal
import math
import re
from typing import Any

import numpy as np
import pyarrow as pa

_INTEGER = re.compile(r"[+-]?\d{1,30}")
_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d{1,4})?")
_NOT_FINITE = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
_DATE = re.compile(r"(\d{4}-\d\d-\d\d)Z?")
_TIME = re.compile(r"(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d(?::\d\d)?)(?:\.(\d+))?(Z|[+-]\d\d:?\d\d)?")
_EPOCH = datetime.date(1970, 1, 1)
_DAYS = (datetime.date.min - _EPOCH).days, (datetime.date.max - _EPOCH).days
_MICROS = _DAYS[0] * 86_400_000_000, (_DAYS[1] + 1) * 86_400_000_000 - 1
_CONTEXT = decimal.Context(prec=100, rounding=decimal.ROUND_HALF_UP, traps=[decimal.InvalidOperation])


def convert(value: Any, type_: pa.DataType, unit: int) -> Any:
    """What ``pyarrow.array([...], type_)`` takes; NULL stays NULL.

    Parameters
    ----------
    unit : int
        Microseconds of a unit of a timestamp that is a number.

    Raises
    ------
    ValueError
        When the value is none of the type; its text is the type's name in a reason.
    """
    if value is None:
        return None
    types = pa.types
    found: Any = None
    if types.is_boolean(type_):
        found = bool(value) if value in (0, 1) and isinstance(value, int) else None
    elif types.is_integer(type_):
        found = _integer(value, type_.bit_width)
    elif types.is_floating(type_):
        found = _float(value)
        if found is not None and types.is_float32(type_):
            with np.errstate(over="ignore"):
                found = float(np.float32(found))
    elif types.is_decimal(type_):
        found = _decimal(value, type_.precision, type_.scale)
    elif types.is_date(type_):
        found = _date(value)
    elif types.is_timestamp(type_):
        found = _timestamp(value, unit)
    elif isinstance(value, str):
        found = value if value.isprintable() or _encodes(value) else None
    if found is None:
        raise ValueError(reason(type_))
    return found


def reason(type_: pa.DataType) -> str:
    """The code of a malformed value, as the other formats name it."""
    types = pa.types
    if types.is_decimal(type_):
        return "bad_decimal"
    if types.is_timestamp(type_):
        return "bad_timestamp" if type_.tz else "bad_timestamp_ntz"
    names = {"double": "float64", "float": "float32", "bool": "boolean", "date32[day]": "date"}
    return f"bad_{names.get(str(type_), str(type_))}"


def _encodes(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:  # half of a surrogate pair
        return False
    return True


def written_number(text: str) -> decimal.Decimal | float:
    """A number as it is written; infinity or 0 where its exponent is beyond what decimals have."""
    try:
        return decimal.Decimal(text)
    except decimal.InvalidOperation:
        return float(text) or decimal.Decimal(0)


def _integer(value: Any, bits: int) -> int | None:
    if isinstance(value, str) and _INTEGER.fullmatch(value):
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool) or not -(2 ** (bits - 1)) <= value < 2 ** (bits - 1):
        return None
    return value


def _float(value: Any) -> float | None:
    if isinstance(value, str):
        if value in _NOT_FINITE:
            return _NOT_FINITE[value]
        return float(value) if _NUMBER.fullmatch(value) else None
    if isinstance(value, bool) or not isinstance(value, int | float | decimal.Decimal):
        return None
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def _decimal(value: Any, precision: int, scale: int) -> decimal.Decimal | None:
    if isinstance(value, str) and _NUMBER.fullmatch(value):
        value = written_number(value)
    if isinstance(value, bool) or not isinstance(value, int | decimal.Decimal):
        return None
    try:
        rounded = _CONTEXT.quantize(decimal.Decimal(value), decimal.Decimal(1).scaleb(-scale))
    except decimal.InvalidOperation:
        return None
    return rounded if abs(rounded) < decimal.Decimal(10) ** (precision - scale) else None


def _date(value: Any) -> datetime.date | None:
    if isinstance(value, int) and not isinstance(value, bool) and _DAYS[0] <= value <= _DAYS[1]:
        return _EPOCH + datetime.timedelta(days=value)
    match = _DATE.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        return None
    try:
        return datetime.date.fromisoformat(match[1])
    except ValueError:
        return None


def _timestamp(value: Any, unit: int) -> int | None:
    """Microseconds since 1970; those of a time with a zone are of UTC."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value * unit if _MICROS[0] <= value * unit <= _MICROS[1] else None
    match = _TIME.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        return None
    day, clock, fraction, zone = match.groups()
    try:
        moment = datetime.datetime.fromisoformat(f"{day}T{clock}{zone or 'Z'}")
    except ValueError:
        return None
    seconds = (moment - datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)) // datetime.timedelta(seconds=1)
    return seconds * 1_000_000 + int((fraction or "")[:6].ljust(6, "0"))
