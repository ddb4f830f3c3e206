"""Phase 2: from field offsets to Arrow arrays, by a parser for each Arrow type.

Arrays are put together from NumPy buffers; no Python object is made for a row.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidemill.formats.rows.field_index import MarkedFields, text_sizes
from tidemill.formats.values.columns import blocks
from tidemill.formats.values.field_text import BAD_QUOTE, BAD_UTF8, BAD_VALUE, VALID, TextRules
from tidemill.formats.values.numbers.floats import resolve_inexact
from tidemill.formats.values.texts.texts import SLACK
from tidemill.formats.values.times.pattern_times import FOR_DATES, parse_pattern_times
from tidemill.formats.values.times.time_pattern import NO_PATTERN, TimePattern
from tidemill.formats.values.times.time_zones import utc_of_local, zone_names
from tidemill.formats.values.times.times import FIRST_MICROS, LAST_MICROS, NO_ZONE, OPTIONAL_ZONE
from tidemill.kernels.columns import values_of
from tidemill.schema import TIMESTAMP, TIMESTAMP_NTZ

Bytes = npt.NDArray[np.uint8]
Offsets = npt.NDArray[np.int32]
Status = npt.NDArray[np.uint8]


_ALIGNMENT = 64
"""Of the columns of a buffer, as Arrow recommends."""


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
    layout, and None for the ``timestampFormat``. ``zone`` is that of timestamps without one, None for UTC."""

    date: TimePattern
    timestamp: TimePattern
    timestamp_ntz: TimePattern | None = None
    zone: str | None = None

    def of(self, type_: pa.DataType) -> TimePattern:
        """The pattern of a type of times."""
        if pa.types.is_date(type_):
            return self.date
        return self.timestamp if type_ == TIMESTAMP or self.timestamp_ntz is None else self.timestamp_ntz


DEFAULT_PATTERNS = TimePatterns(NO_PATTERN, NO_PATTERN)

ParseColumn = Callable[[Bytes, Offsets, Offsets, TextRules], ParsedColumn]
"""Takes the buffer, where each row's field starts and ends, and the rules of reading text."""


@dataclass(frozen=True, eq=False)
class ValueKind:
    """How the values of a type are parsed and kept, see :mod:`tidemill.formats.values.columns.blocks`.

    Attributes
    ----------
    type : pyarrow.DataType
    code, first, second : int
        The parser and its arguments.
    dtype : numpy.dtype
        Of what the parser writes; ``words`` of it for a row.
    pattern : ndarray of int64, shape (steps, 6)
        Steps of a plain time pattern.
    """

    type: pa.DataType
    code: int
    dtype: npt.DTypeLike
    first: int = 0
    second: int = 0
    words: int = 1
    pattern: npt.NDArray[np.int64] = field(default_factory=lambda: NO_PATTERN.steps)

    @property
    def is_text(self) -> bool:
        """Whether values have a length of their own."""
        return self.code in (blocks.TEXT, blocks.BINARY)


@dataclass(frozen=True)
class ColumnParser:
    """Parser of one Arrow type.

    Attributes
    ----------
    parse : callable
        See ``ParseColumn``.
    bad_value : str
        Reason code of a field that does not parse.
    kind : ValueKind or None
        Given where many columns may be parsed at once, with the same result as that of ``parse``.
    """

    parse: ParseColumn
    bad_value: str
    kind: ValueKind | None = None

    def reason(self, outcome: int) -> str:
        """The reason code of an outcome other than ``VALID`` and ``NULL``."""
        return {BAD_UTF8: "bad_utf8", BAD_QUOTE: "bad_quote"}.get(outcome, self.bad_value)


def parser_for(type_: pa.DataType, patterns: TimePatterns = DEFAULT_PATTERNS) -> ColumnParser | None:
    """The parser of an Arrow type; None when text fields cannot hold the type."""
    found = _kind(type_)
    if found is None:
        return None
    kind, bad_value = found
    if type_ == TIMESTAMP and patterns.zone is not None:
        return _in_zone(patterns, patterns.zone)
    if kind.code in (blocks.DATE, blocks.TIMESTAMP):
        pattern = patterns.of(type_)
        if not pattern.plain:
            return ColumnParser(_by_pattern(type_, pattern, kind.first), bad_value)
        kind = replace(kind, pattern=pattern.steps)

    def parse(buf: Bytes, starts: Offsets, ends: Offsets, rules: TextRules) -> ParsedColumn:
        layout = _layout((kind,))
        # A missing field counts as -1, which the slack covers only once.
        size = int(np.subtract(ends, starts, dtype=np.int64).sum()) + starts.size if layout.texts.size else 0
        outputs = _Outputs(layout, starts.size, np.array([size]))
        blocks.parse_fields(
            buf,
            starts,
            ends,
            rules.quote,
            rules.trim,
            rules.null_text,
            layout.plan,
            outputs.addresses,
            outputs.totals,
        )
        return outputs.column(0, lambda: (buf, starts, ends, rules))

    return ColumnParser(parse, bad_value, kind)


def _in_zone(patterns: TimePatterns, zone: str) -> ColumnParser:
    """The parser of timestamps of which those without a zone are what its clock shows."""
    local = parser_for(TIMESTAMP_NTZ, TimePatterns(NO_PATTERN, patterns.timestamp))
    with_zone = parser_for(TIMESTAMP, replace(patterns, zone=None))
    assert local is not None and with_zone is not None

    def parse(buf: Bytes, starts: Offsets, ends: Offsets, rules: TextRules) -> ParsedColumn:
        found = local.parse(buf, starts, ends, rules)
        rows = starts.size
        status = np.zeros(rows, np.uint8) if found.status is None else found.status
        micros = utc_of_local(zone, values_of(found.array.buffers()[1], np.int64, rows)) if rows else np.zeros(0)
        status[(status == VALID) & ((micros < FIRST_MICROS) | (micros > LAST_MICROS))] = BAD_VALUE
        others = np.flatnonzero(status == BAD_VALUE)
        if others.size:  # those with a zone, and what is malformed
            again = with_zone.parse(buf, starts[others], ends[others], rules)
            status[others] = VALID if again.status is None else again.status
            micros[others] = values_of(again.array.buffers()[1], np.int64, others.size)
        return finish(TIMESTAMP, status, int(np.count_nonzero(status != VALID)), micros.astype(np.int64, copy=False))

    return ColumnParser(parse, with_zone.bad_value)


def parse_marked(
    buf: Bytes, fields: MarkedFields, slots: Sequence[int], kinds: Sequence[ValueKind], rules: TextRules
) -> list[ParsedColumn]:
    """Parse columns of a buffer all of whose rows have as many fields.

    Parameters
    ----------
    slots : sequence of int
        Which of the needed fields.
    kinds : sequence of ValueKind
        What each holds.
    """
    if not slots:
        return []
    layout = _layout(tuple(kinds))
    numbers = fields.fields[list(slots)]
    rows = fields.row_starts.size
    sizes = np.zeros(len(slots), np.int64)
    if layout.texts.size:
        found = np.zeros(layout.texts.size, np.int64)
        text_sizes(fields.marks, fields.width, fields.begin, fields.first, rows, numbers[layout.texts], found)
        sizes[layout.texts] = found
    outputs = _Outputs(layout, rows, sizes)
    blocks.parse_marked(
        buf,
        fields.marks,
        fields.width,
        fields.begin,
        fields.first,
        rows,
        fields.crlf,
        numbers,
        rules.quote,
        rules.trim,
        rules.null_text,
        layout.plan,
        outputs.addresses,
        outputs.totals,
    )

    def bounds(slot: int) -> _Fields:
        return lambda: (buf, *fields.bounds(slot), rules)

    return [outputs.column(i, bounds(slot)) for i, slot in enumerate(slots)]


def finish(type_: pa.DataType, status: Status, failures: int, *buffers: npt.NDArray[Any]) -> ParsedColumn:
    """A column of the buffers of an Arrow array behind the one of its NULLs, which is made of the outcomes."""
    return _column(type_, status, failures, *(pa.py_buffer(buffer.data) for buffer in buffers))


def _column(type_: pa.DataType, status: Status, failures: int, *buffers: pa.Buffer) -> ParsedColumn:
    validity = None
    if failures:
        validity = pa.py_buffer(np.packbits(status == VALID, bitorder="little").data)
    array = pa.Array.from_buffers(type_, status.size, [validity, *buffers], null_count=failures)
    return ParsedColumn(array, status if failures else None)


_Fields = Callable[[], tuple[Bytes, Offsets, Offsets, TextRules]]
"""Gives the buffer, where the fields of a column lie, and the rules of reading text."""


@dataclass(frozen=True, eq=False)
class _Layout:
    """How some columns are parsed, whatever the buffer.

    Attributes
    ----------
    kinds : tuple of ValueKind
    plan : ndarray of int64
        See :mod:`tidemill.formats.values.columns.blocks`.
    addresses : ndarray of uint64
        Those of time patterns; the others are set for each buffer.
    widths : ndarray of int64
        Bytes of a value as it is parsed; 0 for a text.
    texts : ndarray of int64
        Which columns are texts.
    offsets : ndarray of int64
        1 for a text, else 0.
    numbers : ndarray of int64
        Those of the columns, from 0 on.
    """

    kinds: tuple[ValueKind, ...]
    plan: npt.NDArray[np.int64]
    addresses: npt.NDArray[np.uint64]
    widths: npt.NDArray[np.int64]
    texts: npt.NDArray[np.int64]
    offsets: npt.NDArray[np.int64]
    numbers: npt.NDArray[np.int64]


@lru_cache(maxsize=256)
def _layout(kinds: tuple[ValueKind, ...]) -> _Layout:
    addresses = np.zeros((len(kinds), blocks.ADDRESSES), np.uint64)
    addresses[:, blocks.PATTERN] = [kind.pattern.ctypes.data for kind in kinds]
    return _Layout(
        kinds,
        np.array([(kind.code, kind.first, kind.second, kind.pattern.shape[0]) for kind in kinds], np.int64),
        addresses,
        np.array([0 if kind.is_text else kind.words * np.dtype(kind.dtype).itemsize for kind in kinds], np.int64),
        np.flatnonzero([kind.is_text for kind in kinds]),
        np.array([kind.is_text for kind in kinds], np.int64),
        np.arange(len(kinds)),
    )


class _Outputs:
    """Memory for the columns of a buffer, all of it from Arrow's pool at once.

    Parameters
    ----------
    layout : _Layout
    rows : int
    sizes : ndarray of int64
        Most bytes of each column of texts; 0 for others.
    """

    def __init__(self, layout: _Layout, rows: int, sizes: npt.NDArray[np.int64]) -> None:
        count = len(layout.kinds)
        self._kinds = layout.kinds
        self._rows = rows
        self._status = np.empty((count, rows), np.uint8)
        lengths = layout.widths * rows + sizes
        if layout.texts.size:
            lengths[layout.texts] += SLACK
            lengths = np.concatenate([lengths, layout.offsets * 4 * (rows + 1)])
        lengths = lengths + _ALIGNMENT - 1 & -_ALIGNMENT
        ends = lengths.cumsum()
        places = ends - lengths
        self._memory = pa.allocate_buffer(int(ends[-1]))
        self._places = places.tolist()
        self.addresses = layout.addresses.copy()
        places += self._memory.address
        self.addresses[:, blocks.OUT] = places[:count]
        if layout.texts.size:
            self.addresses[:, blocks.OFFSETS] = places[count:]
        self.addresses[:, blocks.STATUS] = self._status.ctypes.data + rows * layout.numbers
        self.totals = np.zeros((count, blocks.TOTALS), np.int64)

    def column(self, slot: int, fields: _Fields) -> ParsedColumn:
        """One column; ``fields`` is called only where floats need it."""
        kind, status, place, rows = self._kinds[slot], self._status[slot], self._places[slot], self._rows
        failures, inexact, size, _ = self.totals[slot].tolist()
        if not rows:
            return ParsedColumn(pa.array([], kind.type), None)
        if kind.is_text:
            offsets = self._memory.slice(self._places[len(self._kinds) + slot], 4 * (rows + 1))
            return _column(kind.type, status, failures, offsets, self._memory.slice(place, size))
        values = self._memory.slice(place, rows * kind.words * np.dtype(kind.dtype).itemsize)
        if inexact:
            buf, starts, ends, rules = fields()
            single = kind.code == blocks.FLOAT32
            doubles = values_of(self._memory, np.float64, rows, place)
            resolve_inexact(buf, starts, ends, rules.quote, rules.trim, single, doubles, status)
        if kind.code == blocks.BOOLEAN:
            values = pa.py_buffer(np.packbits(values_of(values, np.uint8), bitorder="little").data)
        elif kind.code == blocks.FLOAT32:
            with np.errstate(over="ignore"):
                values = pa.py_buffer(values_of(values, np.float64).astype(np.float32).data)
        return _column(kind.type, status, failures - inexact, values)


def _kind(type_: pa.DataType) -> tuple[ValueKind, str] | None:
    """How a type is parsed, and the reason code of what does not parse; None when text fields cannot hold it."""
    if pa.types.is_decimal128(type_):
        kind = ValueKind(type_, blocks.DECIMAL, np.uint64, type_.precision, type_.scale, words=2)
        return kind, "bad_decimal"
    if type_ in _INTEGERS:
        highest = (1 << type_.bit_width - 1) - 1
        return ValueKind(type_, _INTEGERS[type_], f"int{type_.bit_width}", highest), f"bad_{type_}"
    return _OTHERS.get(type_)


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
            names.tree,
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


_INTEGERS = {pa.int8(): blocks.INT8, pa.int16(): blocks.INT16, pa.int32(): blocks.INT32, pa.int64(): blocks.INT64}
_OTHERS = {
    pa.bool_(): (ValueKind(pa.bool_(), blocks.BOOLEAN, np.uint8), "bad_bool"),
    pa.float32(): (ValueKind(pa.float32(), blocks.FLOAT32, np.float64), "bad_float32"),
    pa.float64(): (ValueKind(pa.float64(), blocks.FLOAT64, np.float64), "bad_float64"),
    pa.string(): (ValueKind(pa.string(), blocks.TEXT, np.uint8), "bad_utf8"),
    pa.binary(): (ValueKind(pa.binary(), blocks.BINARY, np.uint8), "bad_utf8"),
    pa.date32(): (ValueKind(pa.date32(), blocks.DATE, np.int32, FOR_DATES), "bad_date"),
    TIMESTAMP: (ValueKind(TIMESTAMP, blocks.TIMESTAMP, np.int64, OPTIONAL_ZONE), "bad_timestamp"),
    TIMESTAMP_NTZ: (ValueKind(TIMESTAMP_NTZ, blocks.TIMESTAMP, np.int64, NO_ZONE), "bad_timestamp_ntz"),
}
