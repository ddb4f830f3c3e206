"""Lines of envelopes to rows: many at a time, and one by one where something is wrong with them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tidemill.formats.base import RowError, Rows
from tidemill.formats.debezium.columns import flatten, known_operations, read_envelopes, to_type
from tidemill.formats.debezium.values import convert, written_number
from tidemill.formats.rows.malformed import Mode, fail_fast, first_bad_byte
from tidemill.formats.text.line_ends import (
    BYTE_ORDER_MARK,
    CARRIAGE_RETURN,
    NEWLINE,
    PLAIN_LINES,
    UTF16_MARKS,
    Bytes,
    LineRules,
)
from tidemill.schema import Field

_ONE_BY_ONE = 16
"""So many lines or fewer are not worth another try with Arrow's reader."""

_OPEN, _CLOSE = ord("{"), ord("}")
_NULL = np.frombuffer(b"null", np.uint8)
_AFTER_CLOSE = np.frombuffer(b',}]"\r\n', np.uint8)

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Layout:
    """What the rows of a table are.

    Attributes
    ----------
    fields : tuple of Field
        Columns of the table.
    key : tuple of str
        Those of the primary key.
    mode : Mode
    unit : int
        Microseconds of a unit of a timestamp that is a number.
    """

    fields: tuple[Field, ...]
    key: tuple[str, ...]
    mode: Mode
    unit: int


@dataclass(frozen=True)
class _Part:
    """Rows of some lines, in any order: line number, whether a deletion, columns of the table."""

    lines: Ints
    deletes: npt.NDArray[np.bool_]
    columns: list[pa.Array[Any]]


@dataclass(frozen=True)
class EnvelopeBuilder:
    """Makes rows of complete lines; see :class:`tidemill.formats.text.line_split.LineBuilder`.

    ``needed`` are the columns to give; the one called ``operation`` is ``I`` or ``D``.
    """

    layout: Layout
    needed: tuple[str, ...]
    operation: str

    @property
    def lines(self) -> LineRules:
        """Every newline ends a message: there is none within a JSON text."""
        return PLAIN_LINES

    def build(self, data: Bytes, position: int, row_ends: int, quotes: bool, unterminated: bool) -> Rows:
        """Rows of a buffer of lines.

        Raises
        ------
        FormatError
            TM4020 for a malformed message in mode FAILFAST.
        """
        lines = _Lines(data, len(BYTE_ORDER_MARK) if position == 0 and data[:3].tobytes() == BYTE_ORDER_MARK else 0)
        parts: list[_Part] = []
        errors: list[RowError] = []
        self._read(lines, np.flatnonzero(lines.plain), position, parts, errors)
        self._one_by_one(lines, np.flatnonzero(~lines.plain), position, parts, errors)
        errors.sort(key=lambda e: e.position)
        fail_fast(self.layout.mode, errors)
        return self._rows(parts, lines.starts + position, errors)

    def _rows(self, parts: list[_Part], positions: Ints, errors: list[RowError]) -> Rows:
        parts = parts or [_Part(np.empty(0, np.int64), np.empty(0, np.bool_), self._arrays([]))]
        lines = np.concatenate([p.lines for p in parts])
        deletes = np.concatenate([p.deletes for p in parts])
        # Of a message that moves a row to another key the deletion comes first.
        order = np.lexsort((~deletes, lines))
        names = [f.name for f in self.layout.fields]
        arrays = [pa.concat_arrays(list(c)).take(order) for c in zip(*(p.columns for p in parts), strict=True)]
        given = dict(zip(names, arrays, strict=True))
        given[self.operation] = pa.array(["I", "D"]).take(deletes[order].astype(np.int8))
        batch = pa.RecordBatch.from_arrays([given[n] for n in self.needed], names=list(self.needed))
        return Rows(batch, len(order), positions[lines[order]], tuple(errors))

    def _arrays(self, rows: Sequence[Sequence[Any]]) -> list[pa.Array[Any]]:
        return [pa.array([r[i] for r in rows], f.type) for i, f in enumerate(self.layout.fields)]

    def _read(self, lines: _Lines, numbers: Ints, base: int, parts: list[_Part], errors: list[RowError]) -> None:
        """Read some lines together; where that is not possible, each half of them, in the end one by one."""
        odd = numbers
        if len(numbers) > _ONE_BY_ONE:
            try:
                part, odd = self._together(lines, numbers)
            except (pa.ArrowException, UnicodeDecodeError):
                for half in np.array_split(numbers, 2):
                    self._read(lines, half, base, parts, errors)
                return
            parts.append(part)
        self._one_by_one(lines, odd, base, parts, errors)

    def _together(self, lines: _Lines, numbers: Ints) -> tuple[_Part, Ints]:
        """Rows of the lines with which nothing is odd, and the numbers of the others."""
        fields, key = self.layout.fields, self.layout.key
        first = [lines.text(i) for i in numbers[:20]]
        found = read_envelopes(lines.joined(numbers), len(numbers), fields, key, first)
        puts, deletes = known_operations(found["op"])
        before, after = found["before"], found["after"]
        usual = (puts & _valid(after)) | (deletes & _valid(before))
        keys = [f for f in fields if f.name in key]
        columns = []
        for i, field in enumerate(fields):
            values = to_type(flatten(after, i), field.type, self.layout.unit)
            if field in keys:
                old = to_type(flatten(before, keys.index(field)), field.type, self.layout.unit)
                moved = pc.not_equal(old, values).fill_null(False).to_numpy(zero_copy_only=False)
                usual &= ~(puts & moved)
                values = pc.if_else(pa.array(deletes), old, values)
                usual &= _valid(values)
            elif not field.nullable:
                usual &= _valid(values) | deletes
            columns.append(values)
        rows = np.flatnonzero(usual)
        taken = [c.take(rows) for c in columns]
        return _Part(numbers[rows], deletes[rows], taken), numbers[~usual]

    def _one_by_one(self, lines: _Lines, numbers: Ints, base: int, parts: list[_Part], errors: list[RowError]) -> None:
        numbers_of, deletes, rows = [], [], []
        for number in numbers.tolist():
            text = lines.text(number)
            found, wrong = read_message(text, self.layout)
            drops = self.layout.mode is Mode.DROPMALFORMED and bool(wrong)
            at = base + int(lines.starts[number])
            bad = first_bad_byte(text) if wrong else 0
            place = at + bad if bad else None
            errors += [RowError(at, column, reason, text, drops or not found, place) for column, reason in wrong]
            for delete, row in () if drops else found:
                numbers_of.append(number)
                deletes.append(delete)
                rows.append(row)
        if rows:
            parts.append(_Part(np.array(numbers_of, np.int64), np.array(deletes, np.bool_), self._arrays(rows)))


class _Lines:
    """Where the messages of a buffer are: lines that are neither empty nor ``null``.

    ``plain`` are lines that may be given to Arrow's reader. It takes several objects in a line, and one in several
    lines, and a ``null`` between objects ends the process (25.0). So a line must begin with a brace, end with one,
    and no closing brace may be followed by what cannot follow one within an object.
    """

    def __init__(self, data: Bytes, start: int) -> None:
        self._data = data
        ends = np.flatnonzero(data == NEWLINE)
        if data.size > start and (not ends.size or ends[-1] != data.size - 1):
            ends = np.append(ends, data.size)
        starts = np.concatenate([[start], ends[:-1] + 1])[: len(ends)].astype(np.int64)
        stripped = ends - ((ends > starts) & (data[np.maximum(ends - 1, 0)] == CARRIAGE_RETURN))
        length = stripped - starts
        kept = length > 0
        four = np.flatnonzero(length == 4)
        kept[four[(data[starts[four][:, None] + np.arange(4)] == _NULL).all(axis=1)]] = False
        self.starts: Ints = starts[kept]
        self._ends: Ints = stripped[kept]
        self._stops: Ints = np.minimum(ends + 1, data.size)[kept]
        self.plain = (data[self.starts] == _OPEN) & (data[self._ends - 1] == _CLOSE)
        closing = np.flatnonzero(data[:-1] == _CLOSE)
        strange = closing[~np.isin(data[closing + 1], _AFTER_CLOSE)]
        owners = np.searchsorted(self.starts, strange, "right") - 1
        self.plain[owners[owners >= 0]] = False

    def text(self, line: int) -> bytes:
        """One line, without its end."""
        return self._data[self.starts[line] : self._ends[line]].tobytes()

    def joined(self, numbers: Ints) -> bytes:
        """Some lines, ascending, with their ends and without what is between them."""
        starts, stops = self.starts[numbers], self._stops[numbers]
        low, high = int(starts[0]), int(stops[-1])
        if (starts[1:] == stops[:-1]).all():
            return self._data[low:high].tobytes()
        marks = np.zeros(high - low + 1, np.int8)
        marks[starts - low] += 1
        marks[stops - low] -= 1
        return self._data[low:high][np.cumsum(marks[:-1], dtype=np.int8).astype(np.bool_)].tobytes()


def _valid(values: pa.Array[Any]) -> npt.NDArray[np.bool_]:
    found: npt.NDArray[np.bool_] = pc.is_valid(values).to_numpy(zero_copy_only=False)
    return found


Wrong = list[tuple[str | None, str]]
Found = list[tuple[bool, list[Any]]]


def read_message(text: bytes, layout: Layout) -> tuple[Found, Wrong]:
    """Rows of one line, each with whether it is a deletion, and what is wrong: (column, reason).

    The plain form of what :class:`EnvelopeBuilder` does to many lines, and its oracle in tests.
    """
    if not text.strip():
        return [], []
    try:
        message = json.loads(text, parse_float=written_number)
    except (ValueError, RecursionError):
        return [], [(None, "utf16_mark" if text.startswith(UTF16_MARKS) else "bad_json")]
    if isinstance(message, dict) and "payload" in message and "op" not in message:
        message = message["payload"]
    if message is None:
        return [], []
    if not isinstance(message, dict):
        return [], [(None, "bad_json")]
    operation, before, after = message.get("op"), message.get("before"), message.get("after")
    if operation not in ("c", "r", "u", "d"):
        return [], [(None, "bad_operation")]
    if operation == "d":
        if not isinstance(before, dict):
            return [], [(None, "missing_before")]
        row, wrong = _row(before, layout, deleted=True)
        return ([] if wrong else [(True, row)]), wrong
    if not isinstance(after, dict):
        return [], [(None, "missing_after")]
    row, wrong = _row(after, layout, deleted=False)
    if any(reason == "null_in_not_null" for _, reason in wrong):
        return [], wrong
    found = [(False, row)]
    if isinstance(before, dict):
        old, unknown = _row(before, layout, deleted=True)
        keys = [i for i, f in enumerate(layout.fields) if f.name in layout.key]
        if not unknown and any(old[i] != row[i] for i in keys):
            found.insert(0, (True, old))
    return found, wrong


def _row(image: dict[str, Any], layout: Layout, deleted: bool) -> tuple[list[Any], Wrong]:
    """Values in the table's order; of a deletion only the key."""
    row: list[Any] = []
    wrong: Wrong = []
    for field in layout.fields:
        value = None
        if not deleted or field.name in layout.key:
            reason = None
            try:
                value = convert(image.get(field.name), field.type, layout.unit)
            except ValueError as error:
                reason = str(error)
            if value is None and not field.nullable:
                reason = "null_in_not_null"
            if reason is not None:
                wrong.append((field.name, reason))
        row.append(value)
    return row, wrong
