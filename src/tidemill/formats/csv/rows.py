"""From complete rows in a buffer to Arrow rows and errors: both phases, and the modes for malformed rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidemill.formats.base import RowError, Rows
from tidemill.formats.csv.buffer_index import index_buffer
from tidemill.formats.csv.header import Layout
from tidemill.formats.csv.options import CsvOptions
from tidemill.formats.csv.row_ends import bare_return, holds, row_end, rows_with_returns
from tidemill.formats.csv.spellings import plain_texts
from tidemill.formats.rows.checked_columns import CheckedColumn, make_batch, schema_of
from tidemill.formats.rows.field_index import FieldOffsets, MarkedFields, Marks, Offsets
from tidemill.formats.rows.malformed import Flaw, Flaws, Mode, check_size, fail_fast, first_bad_byte
from tidemill.formats.rows.row_filter import WORTHWHILE, RowFilter
from tidemill.formats.text.delimiters import Delimiters
from tidemill.formats.text.line_ends import (
    BYTE_ORDER_MARK,
    CARRIAGE_RETURN,
    NO_BYTE,
    UTF16_MARKS,
    Bytes,
    LineRules,
)
from tidemill.formats.values.columns.columns import ColumnParser, ParsedColumn, parse_marked
from tidemill.formats.values.field_text import NULL, VALID, TextRules
from tidemill.schema import Field

Fields: TypeAlias = FieldOffsets | MarkedFields


@dataclass(frozen=True)
class ReadRows:
    """What both phases found in a buffer.

    Attributes
    ----------
    data : ndarray of uint8
    position : int
        Offset of the buffer in the file.
    fields : FieldOffsets or MarkedFields
    texts, plain : ndarray of uint8, FieldOffsets or MarkedFields
        Where the texts of the fields lie; mostly ``data`` and ``fields``.
    parsed : list of ParsedColumn
        By slot.
    rules : TextRules
    """

    data: Bytes
    position: int
    fields: Fields
    texts: Bytes
    plain: Fields
    parsed: list[ParsedColumn]
    rules: TextRules


class Rescuer(Protocol):
    """Makes the rescued data, see :class:`tidemill.formats.csv.rescue.CsvRescue`."""

    @property
    def fields(self) -> tuple[Field, ...]: ...

    def take(
        self, builder: RowBuilder, read: ReadRows, flaws: Sequence[Flaws]
    ) -> tuple[pa.Array[Any] | None, list[Flaws]]:
        """Rescued texts, None if they are not read, and the flaws that are not rescued.

        Raises
        ------
        NewColumnsError
            When there are more fields than columns and the table refuses these.
        """
        ...

    def arrays(
        self, names: Sequence[str], arrays: Sequence[pa.Array[Any]], texts: pa.Array[Any] | None, rows: int
    ) -> list[pa.Array[Any]]:
        """The columns of the batch."""
        ...


@dataclass(frozen=True)
class RowBuilder:
    """Parses buffers of complete rows of one file.

    Attributes
    ----------
    options : CsvOptions
    layout : Layout
    columns : tuple of CheckedColumn
        The needed columns first, in the order of the output.
    needed : int
        How many of ``columns`` go into the batch.
    filter : RowFilter or None
        Which rows to keep, if not all.
    rescue : Rescuer or None
        Takes values that do not fit, and makes the batch of all columns that are parsed. Not with ``filter``.
    """

    options: CsvOptions
    layout: Layout
    columns: tuple[CheckedColumn[ColumnParser], ...]
    needed: int
    filter: RowFilter | None
    rescue: Rescuer | None = field(default=None, kw_only=True)

    @cached_property
    def _batch_schema(self) -> pa.Schema:
        found = [c.field for c in self.columns[: self.needed]] if self.rescue is None else self.rescue.fields
        return schema_of(found)

    @property
    def lines(self) -> LineRules | Delimiters:
        """See :class:`tidemill.formats.text.line_split.LineBuilder`."""
        return self.options.lines

    def build(self, data: Bytes, position: int, row_ends: int, quotes: bool, unterminated: bool) -> Rows:
        """See :meth:`tidemill.formats.text.line_split.LineBuilder.build`."""
        check_size(data.size, position)
        if not self.options.multi_line and self.options.quote != NO_BYTE:
            quotes = bool(holds(data, self.options.quote))  # who finds lines does not look for quotes
        return self._build(data, position, self.index(data, position, row_ends, quotes), quotes, unterminated)

    def build_marked(self, data: Bytes, position: int, quotes: bool, marks: Marks) -> Rows:
        """What :meth:`build` makes, of a buffer whose marks are known, and in which rows may span lines."""
        check_size(data.size, position)
        row_ends, slot_of = marks.line_ends.size, self._slot_of
        begins = self._begins(data, position)
        fields = index_buffer(data, *begins, self.options, row_ends, quotes, slot_of, marks)
        return self._build(data, position, fields, quotes, False)

    def _build(self, data: Bytes, position: int, fields: Fields, quotes: bool, unterminated: bool) -> Rows:
        if unterminated and self._reaches_end(data, position, fields):
            fields = fields.offsets()
            self._clear_last_row(fields)
        else:
            unterminated = False
        rules = TextRules(
            self.options.quote if quotes else NO_BYTE,
            self.options.trim,
            np.frombuffer(bytearray(self.options.null_text), np.uint8),
        )
        texts, plain = plain_texts(data, fields, self.options, [c.field.type for c in self.columns])
        kept = None
        if self.filter is None:
            parsed = self.parse(texts, plain, rules)
        else:
            parsed, kept = self._parse_wanted(self.filter, texts, plain, rules)
        flaws = [f for f in self.line_flaws(data, position, fields) if f.rows.size]
        flaws += self._flaws(fields, parsed, unterminated)
        arrays = [p.array for p in parsed[: self.needed]]
        if self.rescue is not None:
            read = ReadRows(data, position, fields, texts, plain, parsed, rules)
            left, flaws = self.rescue.take(self, read, flaws)
            names = [c.field.name for c in self.columns[: self.needed]]
            arrays = self.rescue.arrays(names, arrays, left, fields.row_starts.size)
        errors, dropped = self._judge(data, position, fields, flaws)
        rows = self._collect(position, fields, arrays, errors, dropped, kept)
        return replace(rows, raw=lambda row: self.raw(data, position, int(rows.positions[row]) - position))

    def parse(
        self, texts: Bytes, fields: Fields, rules: TextRules, slots: Sequence[int] | None = None
    ) -> list[ParsedColumn]:
        """Phase 2: the values of some columns by their places among ``columns``, or of all."""
        if slots is None:
            slots = range(len(self.columns))
        parsers = {slot: self.columns[slot].parser for slot in slots}
        parsed = {}
        if isinstance(fields, MarkedFields):
            kinds = {slot: parser.kind for slot, parser in parsers.items() if parser.kind is not None}
            columns = parse_marked(texts, fields, list(kinds), list(kinds.values()), rules)
            parsed = dict(zip(kinds, columns, strict=True))
        return [parsed.get(slot) or parsers[slot].parse(texts, *fields.bounds(slot), rules) for slot in slots]

    def _parse_wanted(
        self, condition: RowFilter, texts: Bytes, fields: Fields, rules: TextRules
    ) -> tuple[list[ParsedColumn], npt.NDArray[np.int64] | None]:
        """Parse what decides first, and the rest only of rows that are wanted.

        Returns
        -------
        tuple
            Columns of which the arrays hold the rows that are wanted, and the status all rows; and which these are,
            None for all.
        """
        slots = range(len(self.columns))
        deciding = [slot for slot in slots if self._decides(slot, condition)]
        first = dict(zip(deciding, self.parse(texts, fields, rules, deciding), strict=True))
        asked = [first[slot].array for slot in condition.columns]
        count = fields.row_starts.size
        wanted = condition.test(make_batch([self.columns[s].field for s in condition.columns], asked, count))
        if not count or wanted.true_count > WORTHWHILE * count:
            others = [slot for slot in slots if slot not in first]
            found = first | dict(zip(others, self.parse(texts, fields, rules, others), strict=True))
            return [found[slot] for slot in slots], None
        kept = np.flatnonzero(wanted.to_numpy(zero_copy_only=False))
        parsed = []
        for slot in slots:
            if slot in first:
                parsed.append(replace(first[slot], array=first[slot].array.filter(wanted)))
                continue
            starts, ends = fields.bounds(slot)
            values = self.columns[slot].parser.parse(texts, starts[kept], ends[kept], rules)
            status = None
            if values.status is not None:
                status = np.zeros(count, np.uint8)
                status[kept] = values.status
            parsed.append(replace(values, status=status))
        return parsed, kept

    def _decides(self, slot: int, condition: RowFilter) -> bool:
        """Whether a column must be known of every row: it is filtered by, or its NULLs drop rows."""
        return slot in condition.columns or not self.columns[slot].field.nullable

    def index(self, data: Bytes, position: int, row_ends: int, quotes: bool, field: int = -1) -> Fields:
        """Phase 1: where the fields of all columns are, or, if that is not negative, those of one number.

        A format of other lines need define only this, and read splits by a ``LineSplitReader``
        (``examples/fixed_width.py``).
        """
        slot_of = self._slot_of
        if field >= 0:
            slot_of = np.full(field + 1, -1, np.int32)
            slot_of[field] = 0
        return index_buffer(data, *self._begins(data, position), self.options, row_ends, quotes, slot_of)

    @cached_property
    def _slot_of(self) -> Offsets:
        """For each field of the file its place among the columns, or -1."""
        slot_of = np.full(self.layout.width, -1, np.int32)
        for slot, column in enumerate(self.columns):
            slot_of[self.layout.field_of[column.ordinal]] = slot
        return slot_of

    def _begins(self, data: Bytes, position: int) -> tuple[int, int]:
        """The first byte to read of a buffer, and the first one that is not of the header."""
        marked = position == 0 and data[:3].tobytes() == BYTE_ORDER_MARK
        return len(BYTE_ORDER_MARK) if marked else 0, max(0, min(self.layout.data_start - position, data.size))

    def line_flaws(self, data: Bytes, position: int, fields: Fields) -> list[Flaws]:
        """What is wrong with rows as a whole beside the number of their fields, whatever columns are needed.

        A format of other lines may define it, with reasons of its own: ``Flaws(rows, -1, None, "bad_checksum")``.

        Parameters
        ----------
        data : ndarray of uint8
            A buffer of complete rows.
        position : int
            Absolute offset of its first byte.
        fields : FieldOffsets or MarkedFields
            What :meth:`index` found in it; ``rows`` are places in its ``row_starts``.
        """
        flaws = []
        if position == 0 and fields.row_starts.size and fields.row_starts[0] == 0:
            first = np.array([0])
            if data[:2].tobytes() in UTF16_MARKS:
                flaws.append(Flaws(first, -1, None, "utf16_mark"))
            elif self.options.multi_line and bare_return(self.raw(data, 0, 0), self.options) >= 0:
                flaws.append(Flaws(first, -1, None, "bare_carriage_return"))
        if not self.options.multi_line:
            flaws.append(Flaws(rows_with_returns(data, fields, self.options), -1, None, "bare_carriage_return"))
        return flaws

    def _reaches_end(self, data: Bytes, position: int, fields: Fields) -> bool:
        """Whether the last row is what the file ends in, and not a comment behind it."""
        if not fields.row_starts.size:
            return False
        return self._row_end(data, position, int(fields.row_starts[-1]))[0] < 0

    def _row_end(self, data: Bytes, position: int, start: int) -> tuple[int, bool]:
        """Offset of the line end behind the row at ``start``, or -1; and whether the buffer then ends inside quotes."""
        marked = position == 0 and start == 0 and data[:3].tobytes() == BYTE_ORDER_MARK
        begin = len(BYTE_ORDER_MARK) if marked else start
        return row_end(data, begin, self.lines)

    def _clear_last_row(self, fields: FieldOffsets) -> None:
        """Nothing can be trusted in a row whose quotes do not close: all its columns become missing."""
        fields.starts[:, -1] = 0
        fields.ends[:, -1] = -1
        fields.field_counts[-1] = self.layout.width

    def _flaws(self, fields: Fields, parsed: list[ParsedColumn], unterminated: bool) -> list[Flaws]:
        flaws: list[Flaws] = []
        if unterminated:
            flaws.append(Flaws(np.array([fields.row_starts.size - 1]), -1, None, "unterminated_quote"))
        others = np.flatnonzero(fields.field_counts != self.layout.width)
        if others.size:
            few = fields.field_counts[others] < self.layout.width
            flaws.append(Flaws(others[few], -1, None, "too_few_fields"))
            flaws.append(Flaws(others[~few], -1, None, "too_many_fields"))
        for column, values in zip(self.columns, parsed, strict=True):
            if values.status is None:
                continue
            name, nullable = column.field.name, column.field.nullable
            if not nullable:
                flaws.append(
                    Flaws(np.flatnonzero(values.status > VALID), column.ordinal, name, "null_in_not_null", True)
                )
                continue
            rows = np.flatnonzero(values.status > NULL)
            outcomes = values.status[rows]
            for outcome in np.unique(outcomes).tolist():
                flaws.append(Flaws(rows[outcomes == outcome], column.ordinal, name, column.parser.reason(outcome)))
        return [f for f in flaws if f.rows.size]

    def _judge(
        self, data: Bytes, position: int, fields: Fields, found: Sequence[Flaws]
    ) -> tuple[tuple[RowError, ...], set[int]]:
        """Turn flaws into errors in order, and tell which rows are left out."""
        flaws = [flaw for flaws in found for flaw in flaws.each()]
        if not flaws and not fields.broken_comments.size:
            return (), set()
        drops_all = self.options.mode is Mode.DROPMALFORMED
        dropped = {flaw.row for flaw in flaws if flaw.drops or drops_all}
        errors = [
            RowError(position + int(start), None, "quote_in_comment", self.raw(data, position, int(start)), True)
            for start in fields.broken_comments
        ]
        raw: dict[int, bytes] = {}
        for flaw in sorted(flaws, key=lambda f: (f.row, f.ordinal)):
            start = int(fields.row_starts[flaw.row])
            if flaw.row not in raw:
                raw[flaw.row] = self.raw(data, position, start)
            row, at = raw[flaw.row], self._place(data, position, fields, flaw, raw[flaw.row])
            errors.append(RowError(position + start, flaw.column, flaw.reason, row, flaw.row in dropped, at))
        errors.sort(key=lambda error: error.position)
        fail_fast(self.options.mode, errors)
        return tuple(errors), dropped

    def _place(self, data: Bytes, position: int, fields: Fields, flaw: Flaw, raw: bytes) -> int | None:
        """Where in the file a flaw is; None for a field that is not there."""
        start = int(fields.row_starts[flaw.row])
        if flaw.reason == "too_few_fields":
            return position + start + len(raw)
        if flaw.reason == "bare_carriage_return":
            return position + start + bare_return(raw, self.options)
        if flaw.ordinal < 0 and flaw.reason not in ("unterminated_quote", "too_many_fields"):
            return position + start
        if flaw.ordinal < 0:
            number = self.layout.width
            row = data[start : start + len(raw)]
            if flaw.reason == "unterminated_quote":
                number = int(self.index(row, position + start, 1, True, 0).field_counts[0]) - 1
            found = self.index(row, position + start, 1, True, number)
            return position + start + found.place(0, 0)[0]
        slot = next(i for i, c in enumerate(self.columns) if c.ordinal == flaw.ordinal)
        begin, end = fields.place(slot, flaw.row)
        return None if end < begin else position + begin + first_bad_byte(data[begin:end].tobytes())

    def raw(self, data: Bytes, position: int, start: int) -> bytes:
        """The row at an offset of a buffer, without its line end."""
        stop, inside = self._row_end(data, position, start)
        if stop < 0:
            stop = data.size
            if inside:
                return bytes(data[start:])
        if stop > start and data[stop - 1] == CARRIAGE_RETURN and self.options.general.strips_return:
            stop -= 1
        return bytes(data[start:stop])

    def _collect(
        self,
        position: int,
        fields: Fields,
        arrays: Sequence[pa.Array[Any]],
        errors: tuple[RowError, ...],
        dropped: set[int],
        kept: npt.NDArray[np.int64] | None,
    ) -> Rows:
        positions: npt.NDArray[np.int64] = fields.row_starts.astype(np.int64) + position
        keep = np.ones(positions.size, np.bool_) if dropped else None
        if keep is not None:
            keep[list(dropped)] = False
        passed_over = 0
        if kept is not None:
            passed_over = positions.size - len({*kept.tolist(), *dropped}) if dropped else positions.size - kept.size
            positions, keep = positions[kept], None if keep is None else keep[kept]
        if keep is not None:
            positions = positions[keep]
            arrays = [array.filter(pa.array(keep)) for array in arrays]
        batch = make_batch(self._batch_schema, arrays, positions.size)
        return Rows(batch, positions.size, positions, errors, passed_over=passed_over)
