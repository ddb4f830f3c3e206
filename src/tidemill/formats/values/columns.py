"""Phase 2: from field offsets to Arrow arrays, by a parser for each Arrow type.

Arrays are put together from NumPy buffers; no Python object is made for a row.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidemill.formats.values.decimals import parse_decimals
from tidemill.formats.values.field_text import BAD_QUOTE, BAD_UTF8, BAD_VALUE, VALID, TextRules
from tidemill.formats.values.floats import parse_floats, resolve_inexact
from tidemill.formats.values.integers import parse_integers
from tidemill.formats.values.pattern_times import FOR_DATES, parse_pattern_times
from tidemill.formats.values.texts import SLACK, copy_texts, parse_booleans
from tidemill.formats.values.time_pattern import NO_PATTERN, TimePattern
from tidemill.formats.values.time_zones import utc_of_local, zone_names
from tidemill.formats.values.times import (
    FIRST_MICROS,
    LAST_MICROS,
    NO_ZONE,
    OPTIONAL_ZONE,
    parse_dates,
    parse_timestamps,
)
from tidemill.schema import TIMESTAMP, TIMESTAMP_NTZ

Bytes = npt.NDArray[np.uint8]
Offsets = npt.NDArray[np.int32]
Status = npt.NDArray[np.uint8]


@dataclass(frozen=True)
class ParsedColumn:
    """One column of one buffer.

    Attributes
    ----------
    array : pyarrow.Array
        NULL wherever the outcome is not ``VALID``.
    status : ndarray of uint8 or None
        The outcome of each row, see :mod:`tidemill.formats.values.field_text`; None when all are ``VALID``.
    """

    array: pa.Array[Any]
    status: Status | None


@dataclass(frozen=True)
class TimePatterns:
    """Compiled ``dateFormat``, ``timestampFormat`` and ``timestampNTZFormat``; ``NO_PATTERN`` stands for the default
    layout, and None for the ``timestampFormat``."""

    date: TimePattern
    timestamp: TimePattern
    timestamp_ntz: TimePattern | None = None

    def of(self, type_: pa.DataType) -> TimePattern:
        """The pattern of a type of times."""
        if pa.types.is_date(type_):
            return self.date
        return self.timestamp if type_ == TIMESTAMP or self.timestamp_ntz is None else self.timestamp_ntz


DEFAULT_PATTERNS = TimePatterns(NO_PATTERN, NO_PATTERN)

ParseColumn = Callable[[Bytes, Offsets, Offsets, TextRules], ParsedColumn]
"""Takes the buffer, where each row's field starts and ends, and the rules of reading text."""


@dataclass(frozen=True)
class ColumnParser:
    """Parser of one Arrow type.

    Attributes
    ----------
    parse : callable
        See ``ParseColumn``.
    bad_value : str
        Reason code of a field that does not parse.
    """

    parse: ParseColumn
    bad_value: str

    def reason(self, outcome: int) -> str:
        """The reason code of an outcome other than ``VALID`` and ``NULL``."""
        return {BAD_UTF8: "bad_utf8", BAD_QUOTE: "bad_quote"}.get(outcome, self.bad_value)


def parser_for(type_: pa.DataType, patterns: TimePatterns = DEFAULT_PATTERNS) -> ColumnParser | None:
    """The parser of an Arrow type; None when text fields cannot hold the type."""
    if pa.types.is_decimal128(type_):
        return ColumnParser(_decimals(type_), "bad_decimal")
    factory = _FACTORIES.get(type_)
    return None if factory is None else factory(type_, patterns)


def finish(type_: pa.DataType, status: Status, failures: int, *buffers: npt.NDArray[Any]) -> ParsedColumn:
    """A column of the buffers of an Arrow array behind the one of its NULLs, which is made of the outcomes."""
    validity = None
    if failures:
        validity = pa.py_buffer(np.packbits(status == VALID, bitorder="little").data)
    array = pa.Array.from_buffers(
        type_,
        status.size,
        [validity, *(pa.py_buffer(buffer.data) for buffer in buffers)],
        null_count=failures,
    )
    return ParsedColumn(array, status if failures else None)


def _integers(type_: pa.DataType, _: TimePatterns) -> ColumnParser:
    target = np.dtype(f"int{type_.bit_width}")
    highest = np.uint64((1 << type_.bit_width - 1) - 1)

    def parse(buf: Bytes, starts: Offsets, ends: Offsets, rules: TextRules) -> ParsedColumn:
        out = np.empty(starts.size, np.int64)
        status = np.empty(starts.size, np.uint8)
        failures = parse_integers(buf, starts, ends, rules.quote, rules.trim, rules.null_text, highest, out, status)
        return finish(type_, status, failures, out.astype(target, copy=False))

    return ColumnParser(parse, f"bad_{type_}")


def _floats(type_: pa.DataType, _: TimePatterns) -> ColumnParser:
    single = type_ == pa.float32()

    def parse(buf: Bytes, starts: Offsets, ends: Offsets, rules: TextRules) -> ParsedColumn:
        out = np.empty(starts.size, np.float64)
        status = np.empty(starts.size, np.uint8)
        failures, inexact = parse_floats(
            buf, starts, ends, rules.quote, rules.trim, rules.null_text, single, out, status
        )
        if inexact:
            resolve_inexact(buf, starts, ends, rules.quote, rules.trim, single, out, status)
        if single:
            with np.errstate(over="ignore"):
                return finish(type_, status, failures - inexact, out.astype(np.float32))
        return finish(type_, status, failures - inexact, out)

    return ColumnParser(parse, "bad_float32" if single else "bad_float64")


def _decimals(type_: pa.Decimal128Type) -> ParseColumn:
    precision, scale = type_.precision, type_.scale

    def parse(buf: Bytes, starts: Offsets, ends: Offsets, rules: TextRules) -> ParsedColumn:
        out = np.empty(2 * starts.size, np.uint64)
        status = np.empty(starts.size, np.uint8)
        failures = parse_decimals(
            buf, starts, ends, rules.quote, rules.trim, rules.null_text, precision, scale, out, status
        )
        return finish(type_, status, failures, out)

    return parse


def _texts(type_: pa.DataType, _: TimePatterns) -> ColumnParser:
    utf8 = type_ == pa.string()

    def parse(buf: Bytes, starts: Offsets, ends: Offsets, rules: TextRules) -> ParsedColumn:
        # A missing field counts as -1, which the slack covers only once.
        capacity = int(np.subtract(ends, starts, dtype=np.int64).sum()) + starts.size + SLACK
        out = np.empty(capacity, np.uint8)
        offsets = np.empty(starts.size + 1, np.int32)
        status = np.empty(starts.size, np.uint8)
        failures = copy_texts(buf, starts, ends, rules.quote, rules.trim, rules.null_text, utf8, out, offsets, status)
        return finish(type_, status, failures, offsets, out[: offsets[-1]])

    return ColumnParser(parse, "bad_utf8")


def _booleans(type_: pa.DataType, _: TimePatterns) -> ColumnParser:
    def parse(buf: Bytes, starts: Offsets, ends: Offsets, rules: TextRules) -> ParsedColumn:
        out = np.empty(starts.size, np.uint8)
        status = np.empty(starts.size, np.uint8)
        failures = parse_booleans(buf, starts, ends, rules.quote, rules.trim, rules.null_text, out, status)
        return finish(type_, status, failures, np.packbits(out, bitorder="little"))

    return ColumnParser(parse, "bad_bool")


def _dates(type_: pa.DataType, patterns: TimePatterns) -> ColumnParser:
    pattern = patterns.of(type_)
    if not pattern.plain:
        return ColumnParser(_by_pattern(type_, pattern, FOR_DATES), "bad_date")

    def parse(buf: Bytes, starts: Offsets, ends: Offsets, rules: TextRules) -> ParsedColumn:
        out = np.empty(starts.size, np.int32)
        status = np.empty(starts.size, np.uint8)
        failures = parse_dates(buf, starts, ends, rules.quote, rules.trim, rules.null_text, pattern.steps, out, status)
        return finish(type_, status, failures, out)

    return ColumnParser(parse, "bad_date")


def _timestamps(type_: pa.DataType, patterns: TimePatterns) -> ColumnParser:
    zone = OPTIONAL_ZONE if type_ == TIMESTAMP else NO_ZONE
    bad_value = "bad_timestamp_ntz" if zone == NO_ZONE else "bad_timestamp"
    pattern = patterns.of(type_)
    if not pattern.plain:
        return ColumnParser(_by_pattern(type_, pattern, zone), bad_value)

    def parse(buf: Bytes, starts: Offsets, ends: Offsets, rules: TextRules) -> ParsedColumn:
        out = np.empty(starts.size, np.int64)
        status = np.empty(starts.size, np.uint8)
        failures = parse_timestamps(
            buf,
            starts,
            ends,
            rules.quote,
            rules.trim,
            rules.null_text,
            pattern.steps,
            zone,
            out,
            status,
        )
        return finish(type_, status, failures, out)

    return ColumnParser(parse, bad_value)


def _by_pattern(type_: pa.DataType, pattern: TimePattern, zone: int) -> ParseColumn:
    names = zone_names(pattern.zones)

    def parse(buf: Bytes, starts: Offsets, ends: Offsets, rules: TextRules) -> ParsedColumn:
        out = np.empty(starts.size, np.int64)
        status = np.empty(starts.size, np.uint8)
        zones = np.empty(starts.size, np.int16)
        failures = parse_pattern_times(
            buf,
            starts,
            ends,
            rules.quote,
            rules.trim,
            rules.null_text,
            pattern.steps,
            pattern.words,
            pattern.letters,
            pattern.depth,
            names.children,
            names.zones,
            names.symbols,
            zone,
            out,
            status,
            zones,
        )
        if zone == FOR_DATES:
            return finish(type_, status, failures, out.astype(np.int32))
        if pattern.zones:
            for number in np.unique(zones[zones >= 0]):
                here = zones == number
                out[here] = utc_of_local(names.ids[number], out[here])
            outside = (out < FIRST_MICROS) | (out > LAST_MICROS)
            status[outside] = BAD_VALUE
            failures = int(np.count_nonzero(status))
        return finish(type_, status, failures, out)

    return parse


_FACTORIES: dict[pa.DataType, Callable[[pa.DataType, TimePatterns], ColumnParser]] = {
    pa.bool_(): _booleans,
    pa.int8(): _integers,
    pa.int16(): _integers,
    pa.int32(): _integers,
    pa.int64(): _integers,
    pa.float32(): _floats,
    pa.float64(): _floats,
    pa.string(): _texts,
    pa.binary(): _texts,
    pa.date32(): _dates,
    TIMESTAMP: _timestamps,
    TIMESTAMP_NTZ: _timestamps,
}
