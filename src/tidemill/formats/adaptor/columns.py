"""Columns of a table as an adaptor's process knows them, and its answers as Arrow arrays."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidemill.errors import TidemillError
from tidemill.formats.adaptor.process import line_of, plain
from tidemill.formats.values.times.times import FIRST_MICROS, LAST_MICROS, MICROS_PER_DAY
from tidemill.schema import TIMESTAMP, TIMESTAMP_NTZ, Field, Schema, type_to_ddl

_KINDS: dict[pa.DataType, tuple[str, tuple[Any, ...]]] = {
    pa.bool_(): ("bad_bool", ("bool",)),
    pa.int8(): ("bad_int8", ("int", 8)),
    pa.int16(): ("bad_int16", ("int", 16)),
    pa.int32(): ("bad_int32", ("int", 32)),
    pa.int64(): ("bad_int64", ("int", 64)),
    pa.float32(): ("bad_float32", ("double",)),
    pa.float64(): ("bad_float64", ("double",)),
    pa.string(): ("bad_string", ("text",)),
    pa.binary(): ("bad_binary", ("binary",)),
    pa.date32(): ("bad_date", ("date",)),
    TIMESTAMP: ("bad_timestamp", ("timestamp",)),
    TIMESTAMP_NTZ: ("bad_timestamp_ntz", ("local",)),
}
"""By type the reason for which a value is malformed, and how the process encodes others."""


def kind_of(type_: pa.DataType) -> tuple[Any, ...]:
    """How the process encodes values of a type."""
    return ("decimal", type_.precision, type_.scale) if pa.types.is_decimal(type_) else _KINDS[type_][1]


def reason_of(type_: pa.DataType) -> str:
    """The reason why a value of a type is malformed."""
    return "bad_decimal" if pa.types.is_decimal(type_) else _KINDS[type_][0]


def check_types(schema: Schema) -> None:
    """TM4004 for a type that adaptors do not give."""
    for field in schema:
        if field.type not in _KINDS and not pa.types.is_decimal(field.type):
            raise TidemillError(
                "TM4004",
                f"the column {field.name!r} has a type that adaptor cannot hold",
                got=type_to_ddl(field.type),
                hint="numbers, STRING, BINARY, dates and times; or give JSON as STRING and take it apart in a view",
            )


class BadAnswerError(Exception):
    """What a process sent is not of the form that it has to have."""


@dataclass(frozen=True)
class Answer:
    """A batch of decoded messages.

    Attributes
    ----------
    counts : ndarray of int64
        Rows of each message.
    arrays : list of pyarrow.Array
        The wanted columns, of all rows.
    failed : list of (int, str, int or None)
        Messages that could not be decoded, with the error and the adaptor's line.
    flaws : ndarray of int64, shape (n, 2)
        Row and place among the wanted columns of values that their columns cannot hold; they are NULL.
    """

    counts: npt.NDArray[np.int64]
    arrays: list[pa.Array[Any]]
    failed: list[tuple[int, str, int | None]]
    flaws: npt.NDArray[np.int64]


def answer_of(found: dict[str, Any], messages: int, fields: Sequence[Field]) -> Answer:
    """An answer, each part of which is checked. BadAnswerError for one that has not the right form."""
    try:
        counts = _whole(found["counts"], messages)
        total = int(counts.sum())
        columns = found["columns"]
        if len(counts) != messages or len(columns) != len(fields) or any(len(c) != total for c in columns):
            raise BadAnswerError
        arrays = [_array(values, field.type) for values, field in zip(columns, fields, strict=True)]
        failed = [(_below(n, messages), plain(text), line_of(line)) for n, text, line in found["failed"]]
        flaws = np.array(found["flaws"], np.int64).reshape(-1, 2)
        if flaws.size and not ((flaws >= 0) & (flaws < [total, len(fields)])).all():
            raise BadAnswerError
    except (KeyError, TypeError, ValueError, OverflowError, pa.ArrowException) as error:
        raise BadAnswerError from error
    return Answer(counts, arrays, failed, flaws)


def _whole(values: Any, count: int) -> npt.NDArray[np.int64]:
    found = np.array(values, np.int64).reshape(-1)
    if found.size != count or (found < 0).any():
        raise BadAnswerError
    return found


def _below(number: Any, most: int) -> int:
    if not isinstance(number, int) or not 0 <= number < most:
        raise BadAnswerError
    return number


def _array(values: Any, type_: pa.DataType) -> pa.Array[Any]:
    """Values of JSON as an array of a type."""
    if pa.types.is_decimal(type_):
        return pa.array(values, pa.string()).cast(type_)
    if pa.types.is_binary(type_):
        return pa.array([None if v is None else base64.b64decode(v, validate=True) for v in values], type_)
    if pa.types.is_date32(type_):
        return _within(pa.array(values, pa.int32()), MICROS_PER_DAY).cast(type_)
    if pa.types.is_timestamp(type_):
        return _within(pa.array(values, pa.int64()), 1).cast(type_)
    if pa.types.is_float32(type_):
        return pa.array(values, pa.float64()).cast(type_, safe=False)
    return pa.array(values, type_)


def _within(array: pa.Array[Any], unit: int) -> pa.Array[Any]:
    """The same array; BadAnswerError unless its times are in the years 1 to 9999."""
    found = array.drop_null().to_numpy()
    if found.size and not FIRST_MICROS // unit <= found.min() <= found.max() <= LAST_MICROS // unit:
        raise BadAnswerError
    return array
