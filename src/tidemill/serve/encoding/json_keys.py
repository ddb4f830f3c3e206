"""Keys that are looked up, from JSON and as JSON.

Clients send them as JSON and not as an Arrow stream: Arrow's reader ends the process on some streams that are none.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal, InvalidOperation
from functools import partial
from typing import Any

import pyarrow as pa

from tidemill.errors import TidemillError

_EPOCH = datetime(1970, 1, 1)


def keys_of(rows: Sequence[Sequence[Any]], types: Sequence[pa.DataType]) -> pa.RecordBatch:
    """Keys as Arrow columns of their types.

    Parameters
    ----------
    rows : sequence of sequences
        For each key a value for each column: numbers, booleans and texts; NaN and infinities as texts; decimals as
        texts or numbers; binary as Base64. Times are ISO texts (in UTC unless they say otherwise), or numbers of
        microseconds since 1970, dates of days; intervals are numbers of microseconds, or of months.

    Raises
    ------
    TidemillError
        TM9017 for values of other types.
    """
    columns = []
    for place, type_ in enumerate(types):
        values = []
        for row in rows:
            if len(row) != len(types):
                raise _wrong(f"a key of {len(row)} values: {row!r}", types)
            values.append(row[place])
        read = _reader(type_)
        try:
            columns.append(pa.array([None if v is None else read(v) for v in values], _stored(type_)).cast(type_))
        except (pa.ArrowException, ValueError, TypeError, OverflowError, InvalidOperation) as error:
            raise _wrong(" ".join(str(error).split()), types) from error
    return pa.RecordBatch.from_arrays(columns, names=[f"k{place}" for place in range(len(types))])


def rows_of(keys: pa.RecordBatch) -> list[list[Any]]:
    """What :func:`keys_of` reads. TM9017 for arrays, maps and structs."""
    columns = []
    for column in keys.columns:
        _reader(column.type)  # TM9017 where it cannot be sent
        stored = _stored(column.type)
        numbers: pa.Array[Any] = column if stored == column.type else column.cast(stored)
        values = numbers.to_pylist()
        write = _writer(column.type)
        columns.append(values if write is None else [None if v is None else write(v) for v in values])
    return list(map(list, zip(*columns, strict=True)))


def _stored(type_: pa.DataType) -> pa.DataType:
    """As which numbers times are sent."""
    if pa.types.is_date32(type_):
        return pa.int32()
    if pa.types.is_timestamp(type_) or pa.types.is_duration(type_):
        return pa.int64()
    return type_


def _writer(type_: pa.DataType) -> Callable[[Any], Any] | None:
    if pa.types.is_floating(type_):
        return lambda v: v if v - v == 0 else str(v)
    if pa.types.is_decimal(type_):
        return str
    if pa.types.is_binary(type_):
        return lambda v: base64.b64encode(v).decode()
    return None


def _reader(type_: pa.DataType) -> Callable[[Any], Any]:
    if pa.types.is_boolean(type_):
        return partial(_checked, bool)
    if pa.types.is_integer(type_) or pa.types.is_duration(type_):
        return _whole
    if pa.types.is_floating(type_):
        return _float
    if pa.types.is_decimal(type_):
        return lambda v: Decimal(str(_checked((int, float, str), v)))
    if pa.types.is_string(type_):
        return partial(_checked, str)
    if pa.types.is_binary(type_):
        return _bytes
    if pa.types.is_date32(type_):
        return lambda v: date.fromisoformat(v).toordinal() - _EPOCH.toordinal() if isinstance(v, str) else _whole(v)
    if pa.types.is_timestamp(type_):
        return lambda v: _microseconds(v) if isinstance(v, str) else _whole(v)
    raise TidemillError(
        "TM9017",
        "keys that are looked up are of other types than those of the index",
        got=f"a key of the type {type_}",
        hint="over HTTP keys are numbers, texts, booleans, binary and times",
    )


def _checked(kind: type | tuple[type, ...], value: Any) -> Any:
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise TypeError(f"{value!r}")
    return value


def _whole(value: Any) -> int:
    found: int = _checked(int, value)
    return found


def _float(value: Any) -> float:
    return float(_checked((int, float, str), value))


def _bytes(value: Any) -> bytes:
    try:
        return base64.b64decode(_checked(str, value), validate=True)
    except binascii.Error as error:
        raise ValueError(f"{value!r} is no Base64") from error


def _microseconds(text: str) -> int:
    at = datetime.fromisoformat(text)
    past = (at.astimezone(UTC).replace(tzinfo=None) if at.tzinfo is not None else at) - _EPOCH
    return (past.days * 86_400 + past.seconds) * 1_000_000 + past.microseconds


def _wrong(got: str, types: Sequence[pa.DataType]) -> TidemillError:
    return TidemillError(
        "TM9017",
        "keys that are looked up are of other types than those of the index",
        got=got[:300],
        hint=f"for each key a list of values of the types {', '.join(map(str, types))}",
    )
