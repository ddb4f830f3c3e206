"""What a column of generated rows is like: ``fields.<column>.<setting>``, checked."""

from __future__ import annotations

import datetime
import re
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from typing import Any

import pyarrow as pa

from tidemill.connectors.generated import MOST_ROWS, parse_pace
from tidemill.errors import FormatError, TidemillError, nearest
from tidemill.options.option import bad_option
from tidemill.schema import TIMESTAMP, Schema, type_to_ddl

PREFIX = "fields."
SETTINGS = ("kind", "start", "end", "min", "max", "length", "nullRate")

TEXT_LENGTH, LIST_LENGTH = 10, 3
_MOST_LENGTH = 1 << 20
_EPOCH = datetime.datetime(1970, 1, 1)
_DEFAULT_DATES = (datetime.date(1970, 1, 1), datetime.date(2037, 12, 31))
_SECOND = 10**6
_LAST_DAY = (datetime.date(9999, 12, 31) - _EPOCH.date()).days
_INTEGER_KEYS = (pa.int8(), pa.int16(), pa.int32(), pa.int64())


@dataclass(frozen=True)
class Shape:
    """How values of one type are made. Nested types have shapes of their parts.

    Parameters
    ----------
    type : pyarrow.DataType
    name : str
        The column, and the parts down to here, in lower case: what decides, with seed and row, what the value is.
    null_rate : Fraction
    sequence : bool
        Whether values count up from ``least``, or are random.
    least, most : int or float
        Bounds of random numbers, both included; of what they are stored as: days, microseconds, unscaled decimals.
    step : float
        Microseconds between the times of a sequence.
    wrap : int
        After so many rows a sequence begins again; 0 where its type says that.
    length : int
        Bytes of a text, elements of a list or map.
    parts : tuple of Shape
        Of a struct its fields, of a list the element, of a map the value.
    """

    type: pa.DataType
    name: str
    null_rate: Fraction = Fraction(0)
    sequence: bool = False
    least: Any = 0
    most: Any = 0
    step: float = 0.0
    wrap: int = 0
    length: int = 0
    parts: tuple[Shape, ...] = ()

    @property
    def nominal_bytes(self) -> int:
        """What a value counts as, NULL or not."""
        if pa.types.is_struct(self.type):
            return sum(part.nominal_bytes for part in self.parts)
        if self.parts:
            return self.length * (self.parts[0].nominal_bytes + (8 if pa.types.is_map(self.type) else 0))
        return self.length or max(1, int(getattr(self.type, "bit_width", 8)) // 8)


def shapes_of(schema: Schema, options: Mapping[str, str]) -> tuple[Shape, ...]:
    """The shapes of all columns; names of options in lower case.

    Raises
    ------
    TidemillError
        TM4003 for a bad value, TM4004 for a type that has no generator, TM4005 for a setting that does not exist or
        that a column does not have.
    """
    left = {name: text for name, text in options.items() if name.startswith(PREFIX)}
    rate = parse_pace(options).rate
    found = []
    for field in schema:
        shape = _shape(field.type, field.name.lower(), left, rate)
        if shape.null_rate and not field.nullable:
            raise bad_option(f"{PREFIX}{field.name}.nullRate", str(float(shape.null_rate)), "the column is NOT NULL")
        found.append(shape)
    for name in left:
        known = [f"{PREFIX}{column}.{setting}" for column in schema.names for setting in SETTINGS]
        format_ = "generator"
        raise TidemillError(
            "TM4005", f"unknown option for a table USING {format_}", got=name, hint=nearest(name, known)
        )
    return tuple(found)


def _shape(type_: pa.DataType, name: str, left: dict[str, str], rate: Fraction | None) -> Shape:
    """A shape; the settings that it has are taken out of those left."""
    nulls = _rate(name, left.pop(f"{PREFIX}{name}.nullrate", "0"))
    if pa.types.is_null(type_):
        return Shape(type_, name)
    if pa.types.is_struct(type_):
        parts = tuple(_shape(f.type, f"{name}.{f.name.lower()}", left, rate) for f in type_)
        return Shape(type_, name, nulls, parts=parts)
    if pa.types.is_list(type_):
        element = _shape(type_.value_type, f"{name}.element", left, rate)
        return Shape(type_, name, nulls, length=_length(name, left, LIST_LENGTH), parts=(element,))
    if pa.types.is_map(type_):
        if type_.key_type not in (pa.string(), *_INTEGER_KEYS):
            raise _cannot(name, type_)
        value = _shape(type_.item_type, f"{name}.value", left, rate)
        length = _length(name, left, LIST_LENGTH)
        if type_.key_type == pa.int8() and length > 128:
            raise bad_option(f"{PREFIX}{name}.length", str(length), "at most 128 for keys of this type")
        return Shape(type_, name, nulls, length=length, parts=(value,))
    if pa.types.is_boolean(type_):
        return Shape(type_, name, nulls)
    kind = left.pop(f"{PREFIX}{name}.kind", "random").lower()
    if kind not in ("random", "sequence") or (kind == "sequence" and type_ == pa.binary()):
        raise bad_option(f"{PREFIX}{name}.kind", kind, "random" if type_ == pa.binary() else "random or sequence")
    if kind == "sequence":
        return _sequence(type_, name, nulls, left, rate)
    if type_ in (pa.string(), pa.binary()):
        return Shape(type_, name, nulls, length=_length(name, left, TEXT_LENGTH))
    low, high = _bounds(type_)
    least = _number(type_, f"{PREFIX}{name}.min", left, low)
    most = _number(type_, f"{PREFIX}{name}.max", left, high)
    if most < least:
        raise bad_option(f"{PREFIX}{name}.max", str(most), "not less than the minimum")
    return Shape(type_, name, nulls, least=least, most=most)


def _sequence(type_: pa.DataType, name: str, nulls: Fraction, left: dict[str, str], rate: Fraction | None) -> Shape:
    """One more each row; times are as far apart as rows come, or a second where they come at once."""
    left.pop(f"{PREFIX}{name}.end", None)
    number = pa.int64() if type_ == pa.string() else type_
    first = _number(number, f"{PREFIX}{name}.start", left, 0)
    step, wrap = 0.0, 0
    if pa.types.is_decimal(type_) and first + MOST_ROWS * 10**type_.scale >= 10**type_.precision:
        raise bad_option(f"{PREFIX}{name}.kind", "sequence", "DECIMAL with at least 16 digits before the point")
    if type_ == pa.date32():
        wrap = _LAST_DAY - first + 1
    elif pa.types.is_timestamp(type_):
        step = float(_SECOND) if rate is None else _SECOND / float(rate)
        wrap = max(1, int(((_LAST_DAY + 1) * 86400 * _SECOND - 1 - first) / step))
    length = TEXT_LENGTH if type_ == pa.string() else 0
    return Shape(type_, name, nulls, True, first, step=step, wrap=wrap, length=length)


def _bounds(type_: pa.DataType) -> tuple[Any, Any]:
    if pa.types.is_integer(type_):
        top = 1 << type_.bit_width - 1
        return -top, top - 1
    if pa.types.is_decimal(type_):
        return 1 - 10**type_.precision, 10**type_.precision - 1
    if pa.types.is_floating(type_):
        return 0.0, 1.0
    first, last = ((day - _EPOCH.date()).days for day in _DEFAULT_DATES)
    return (first, last) if type_ == pa.date32() else (first * 86400 * _SECOND, (last + 1) * 86400 * _SECOND - 1)


def _number(type_: pa.DataType, name: str, left: dict[str, str], default: Any) -> Any:
    """A value of a type as it is stored."""
    text = left.pop(name, None)
    if text is None:
        return default
    try:
        found = _parsed(type_, text.strip())
    except (ValueError, InvalidOperation, OverflowError):
        found = None
    if found is None:
        raise bad_option(name, text, f"a value of type {type_to_ddl(type_)}")
    return found


def _parsed(type_: pa.DataType, text: str) -> Any:
    if pa.types.is_integer(type_):
        low, high = _bounds(type_)
        return int(text) if re.fullmatch(r"[+-]?\d{1,19}", text) and low <= int(text) <= high else None
    if pa.types.is_floating(type_):
        number = float(text)
        return number if abs(number) < 1e300 else None
    if pa.types.is_decimal(type_):
        scaled = Fraction(Decimal(text)) * 10**type_.scale
        low, high = _bounds(type_)
        return int(scaled) if scaled.denominator == 1 and low <= scaled <= high else None
    if type_ == pa.date32():
        return (datetime.date.fromisoformat(text) - _EPOCH.date()).days
    time = datetime.datetime.fromisoformat(text)
    if time.tzinfo is not None:
        if type_ != TIMESTAMP:
            return None
        time = time.astimezone(datetime.UTC).replace(tzinfo=None)
    return (time - _EPOCH) // datetime.timedelta(microseconds=1)


def _length(name: str, left: dict[str, str], default: int) -> int:
    text = left.pop(f"{PREFIX}{name}.length", str(default))
    if not (text.isascii() and text.isdigit() and 0 < int(text) <= _MOST_LENGTH):
        raise bad_option(f"{PREFIX}{name}.length", text, f"a number from 1 to {_MOST_LENGTH}")
    return int(text)


def _rate(name: str, text: str) -> Fraction:
    if not re.fullmatch(r"[01](\.\d{1,9})?|\.\d{1,9}", text.strip()) or Fraction(text) > 1:
        raise bad_option(f"{PREFIX}{name}.nullRate", text, "a number from 0 to 1")
    return Fraction(text)


def _cannot(name: str, type_: pa.DataType) -> FormatError:
    return FormatError(
        "TM4004",
        f"the column {name} has a type that generator cannot hold",
        got=type_to_ddl(type_),
        hint="maps have keys of type STRING or a whole number",
    )
