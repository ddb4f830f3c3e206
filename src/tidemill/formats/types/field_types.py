"""The types of text fields, as Spark's ``CSVInferSchema`` takes them, as far as the parsers here read them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tidemill.formats.values.columns.columns import TimePatterns, parser_for
from tidemill.formats.values.field_text import VALID, TextRules
from tidemill.formats.values.times.time_pattern import NO_PATTERN
from tidemill.kernels.columns import values_of
from tidemill.schema import TIMESTAMP

_RULES = TextRules(-1, 0, np.empty(0, np.uint8))
_WHOLE = r"^[+-]?[0-9]+$"
_PLAIN_DATE = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$"
_MOST_DIGITS = 38
_DIGITS: dict[pa.DataType, int] = {pa.int32(): 10, pa.int64(): 20}


def type_of_fields(values: Sequence[pa.Array[pa.StringScalar]], patterns: TimePatterns) -> pa.DataType:
    """The narrowest type that holds all fields of a column: int, bigint, decimal, double, date, timestamp, boolean.

    Fields that are NULL or empty do not count; without any other the column is STRING, and so it is when its fields
    are of kinds that no other type holds. A type whose parser does not accept every field is not taken. A number with
    a point is a double, also ``2.``, of which Spark makes a decimal.
    """
    texts: pa.StringArray = pa.chunked_array(values, pa.string()).unique().drop_null()  # type: ignore[assignment]
    fields = texts.filter(pc.greater(pc.binary_length(texts), pa.scalar(0)))
    if not len(fields):
        return pa.string()
    classes: dict[pa.DataType, npt.NDArray[np.bool_]] = {}
    left = np.ones(len(fields), np.bool_)
    timed = _accepted(fields, TIMESTAMP, patterns)
    dates = _accepted(fields, pa.date32(), patterns)
    if patterns.date is NO_PATTERN:
        dates &= _matches(fields, _PLAIN_DATE)
    decimals, digits = _whole_numbers(fields)
    for type_, accepted in (
        (pa.int32(), _accepted(fields, pa.int32(), patterns)),
        (pa.int64(), _accepted(fields, pa.int64(), patterns)),
        (pa.decimal128(_MOST_DIGITS, 0), decimals),
        (pa.float64(), _accepted(fields, pa.float64(), patterns)),
        (pa.date32(), dates),
        (TIMESTAMP, timed),
        (pa.bool_(), _accepted(fields, pa.bool_(), patterns)),
        (pa.string(), left),
    ):
        mine = accepted & left
        if mine.any():
            classes[type_] = mine
        left = left & ~mine
    found = set(classes)
    if len(found) == 1 and found.isdisjoint({pa.decimal128(_MOST_DIGITS, 0)}):
        return found.pop()
    if found <= {pa.int32(), pa.int64(), pa.decimal128(_MOST_DIGITS, 0), pa.float64()}:
        if pa.float64() in found:
            return pa.float64()
        if pa.decimal128(_MOST_DIGITS, 0) in found:
            most = max(int(digits[classes[pa.decimal128(_MOST_DIGITS, 0)]].max()), *(_DIGITS.get(t, 0) for t in found))
            return pa.decimal128(most, 0)
        return pa.int64()
    if found == {pa.date32(), TIMESTAMP} and timed.all():
        return TIMESTAMP
    return pa.string()


def _accepted(fields: pa.StringArray, type_: pa.DataType, patterns: TimePatterns) -> npt.NDArray[np.bool_]:
    """Which fields the parser of a type reads."""
    parser = parser_for(type_, patterns)
    _, offsets, data = fields.buffers()
    assert parser is not None and offsets is not None and data is not None
    ends = values_of(offsets, np.int32)[fields.offset : fields.offset + len(fields) + 1]
    parsed = parser.parse(values_of(data, np.uint8), ends[:-1].copy(), ends[1:].copy(), _RULES)
    if parsed.status is None:
        return np.ones(len(fields), np.bool_)
    valid: npt.NDArray[np.bool_] = parsed.status == VALID
    return valid


def _matches(fields: pa.StringArray, pattern: str) -> npt.NDArray[np.bool_]:
    found: npt.NDArray[np.bool_] = pc.match_substring_regex(fields, pattern).to_numpy(zero_copy_only=False)
    return found


def _whole_numbers(fields: pa.StringArray) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.int64]]:
    """Which fields are numbers of scale 0 and at most 38 digits, and how many digits each of them has."""
    length = pc.utf8_length(pc.utf8_ltrim(fields, "+-0")).to_numpy(zero_copy_only=False)
    digits = np.where(_matches(fields, _WHOLE), np.maximum(length, 1), 0).astype(np.int64)
    return (digits > 0) & (digits <= _MOST_DIGITS), digits
