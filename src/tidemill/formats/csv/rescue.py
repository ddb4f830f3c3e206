"""CSV rows with a column of rescued data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidemill.errors import FormatError, nearest
from tidemill.formats.base import SplitReader
from tidemill.formats.csv.buffer_index import index_buffer
from tidemill.formats.csv.general_index import delimited_row_end
from tidemill.formats.csv.header import Header, Layout, has_header, layout_by_position, read_header
from tidemill.formats.csv.options import parse_options
from tidemill.formats.csv.reader import CsvRowReader, checked_columns
from tidemill.formats.csv.rows import ReadRows, RowBuilder
from tidemill.formats.csv.spellings import plain_texts
from tidemill.formats.messages import Messages
from tidemill.formats.rescue.new_columns import NewColumnsError, new_names
from tidemill.formats.rescue.object_texts import Pieces, gather, json_text, pieces_of, pieces_of_bytes, write_objects
from tidemill.formats.rescue.options import RescueRules
from tidemill.formats.rescue.parting import Rescue
from tidemill.formats.rows.malformed import Flaws, Mode
from tidemill.formats.text.line_ends import BYTE_ORDER_MARK, NO_BYTE, OPEN, Bytes, LineRules, find_row_end
from tidemill.formats.types.naming import header_columns
from tidemill.formats.values.columns.chosen import column_parsers
from tidemill.formats.values.columns.columns import ColumnParser, parser_for
from tidemill.formats.values.field_text import NULL, VALID
from tidemill.kernels.byte_masks import kernel
from tidemill.schema import Field, Schema

Texts: TypeAlias = "pa.Array[Any]"
_EXTRA = "\0extra"
_TOO_MANY = "too_many_fields"
_BINARY = cast(ColumnParser, parser_for(pa.binary()))


class RescuingCsvReader:
    """See :class:`tidemill.formats.base.RowReader`.

    Fields of a header are matched with columns by their exact names; a column that the header lacks is NULL.
    """

    def __init__(
        self,
        schema: Schema,
        options: Mapping[str, str],
        needed: Sequence[str],
        rules: RescueRules,
        messages: Messages | None = None,
    ) -> None:
        given = {k.lower(): v for k, v in options.items()}
        self._given = given
        self._options = parse_options(given)
        self._inner = rules.without_column(schema)
        fields = {f.name: f for f in schema}
        self._fields = tuple(fields[name] for name in needed)
        self._rescues = rules.column in needed
        self._read = self._inner.names if self._rescues or self._options.mode is not Mode.PERMISSIVE else needed
        self._rules = rules
        self._messages = messages

    def header_bytes_needed(self) -> bool:
        """See :meth:`tidemill.formats.base.RowReader.header_bytes_needed`."""
        return self._options.header

    def has_header(self, data: bytes) -> bool:
        """See :class:`tidemill.formats.base.HeaderReader`."""
        return has_header(data, self._options)

    def split(
        self, *, start: int, end: int, file_size: int, in_quotes: bool | None, header: bytes | None
    ) -> SplitReader:
        """See :meth:`tidemill.formats.base.RowReader.split`. TM4074 for new columns that the table refuses."""
        head = None if header is None or not self._options.header else read_header(header, self._options)
        names: tuple[str, ...] = ()
        layout, present = layout_by_position(self._inner), self._inner
        if head is not None:
            layout, present, names = self._by_header(head)
        read = [name for name in self._read if name in present.names]
        extras = [f.name for f in present if f.name.startswith(_EXTRA)]
        chosen = dict(
            zip(self._inner.names, column_parsers(self._inner, self._given, self._options.patterns), strict=True)
        )
        parsers = [chosen.get(f.name) or parser_for(f.type) for f in present]
        wanted = [*read, *extras]
        columns = checked_columns(present, self._options, wanted, parsers)
        rescue = CsvRescue(self._fields, self._rules.column, layout, names, self._rules.strict and head is None)
        deletions = None if self._messages is None else self._messages.deletions(present)
        reader = _LaidOut(present, self._options, columns, len(wanted), deletions, layout=layout, rescue=rescue)
        return reader.split(start=start, end=end, file_size=file_size, in_quotes=in_quotes, header=header)

    def _by_header(self, head: Header) -> tuple[Layout, Schema, tuple[str, ...]]:
        """The layout of a file, the columns of the table that it has with what else it has, and its fields' names."""
        names = _field_names(head.names, self._inner)
        for field in self._inner:
            if head.names.count(field.name) > 1:
                raise FormatError(
                    "TM4011",
                    f"the header line has the column {field.name!r} more than once",
                    got=", ".join(head.names),
                    hint="rename the columns in the file, or use header=false and match by position",
                )
            if field.name not in names and not field.nullable:
                raise FormatError(
                    "TM4010",
                    f"the header line lacks the column {field.name!r}",
                    got=", ".join(head.names),
                    hint=nearest(field.name, head.names),
                )
        others = [i for i, name in enumerate(names) if name not in self._inner.names]
        own = () if self._rules.column is None else (self._rules.column,)
        new = new_names([names[i] for i in others], (*self._inner.names, *own))
        if new and self._rules.strict:
            raise NewColumnsError(dict.fromkeys(new))
        fields = [f for f in self._inner if f.name in names]
        field_of = [names.index(f.name) for f in fields]
        if self._rescues:
            fields += [Field(f"{_EXTRA}{i}", pa.string()) for i in others]
            field_of += others
        return Layout(len(names), tuple(field_of), head.stop), Schema(tuple(fields)), tuple(names)


class _LaidOut(CsvRowReader):
    """Reads files of one layout."""

    def __init__(self, *given: object, layout: Layout, rescue: CsvRescue) -> None:
        super().__init__(*given)  # type: ignore[arg-type]
        self._fixed = layout
        self._rescue = rescue

    def layout(self, header: bytes | None, file_size: int, start: int, end: int) -> Layout:
        return self._fixed


@dataclass(frozen=True)
class CsvRescue(Rescue):
    """See :class:`tidemill.formats.csv.rows.Rescuer`.

    Attributes
    ----------
    layout : Layout
    names : tuple of str
        What the header calls the fields; empty without a header.
    strict : bool
        More fields than columns raise TM4074.
    """

    layout: Layout
    names: tuple[str, ...]
    strict: bool

    def take(self, builder: RowBuilder, read: ReadRows, flaws: Sequence[Flaws]) -> tuple[Texts | None, list[Flaws]]:
        """See :meth:`tidemill.formats.csv.rows.Rescuer.take`."""
        if self.strict:
            for flaw in flaws:
                if flaw.reason == _TOO_MANY:
                    self._refuse(further_fields(builder, read, flaw.rows))
        count = read.fields.row_starts.size
        stay, rescued = self.part(flaws, count)
        if not self.reads:
            return None, stay
        found = []
        for slot, column in enumerate(builder.columns):
            if column.field.name.startswith(_EXTRA):
                found.append(self._new_field(builder, read, slot))
        for flaw in rescued:
            if flaw.reason == _TOO_MANY:
                found += further_fields(builder, read, flaw.rows)
            else:
                found += self._as_written(builder, read, flaw)
        return write_objects(found, count, self._json_names(builder, found)), stay

    def _refuse(self, found: Sequence[Pieces]) -> None:
        """Raise TM4074 when a row has more fields than columns."""
        most = max((int(pieces.fields.max(initial=0)) for pieces in found), default=0)
        if most >= self.layout.width:
            raise NewColumnsError({f"_c{i}": None for i in range(self.layout.width, most + 1)})

    def _new_field(self, builder: RowBuilder, read: ReadRows, slot: int) -> Pieces:
        """The texts of a field of the header that is no column."""
        texts = read.parsed[slot].array
        rows = np.arange(len(texts))
        pieces = pieces_of(texts, rows, np.full(rows.size, self._field(builder, slot)))
        return pieces.only(texts.is_valid().to_numpy(zero_copy_only=False)) if texts.null_count else pieces

    def _as_written(self, builder: RowBuilder, read: ReadRows, flaw: Flaws) -> list[Pieces]:
        """The texts of malformed fields; the whole row for a field whose quotes are wrong."""
        slot = next(i for i, c in enumerate(builder.columns) if c.ordinal == flaw.ordinal)
        fields = np.full(flaw.rows.size, self._field(builder, slot))
        starts, ends = read.plain.bounds(slot)
        parsed = _BINARY.parse(read.texts, starts[flaw.rows], ends[flaw.rows], read.rules)
        pieces = pieces_of(parsed.array, flaw.rows, fields)
        if parsed.status is None:
            return [pieces]
        good = parsed.status == VALID
        # Nothing is lost if the row is for a field that has no text.
        raws = [builder.raw(read.data, read.position, int(read.fields.row_starts[row])) for row in flaw.rows[~good]]
        return [pieces.only(good), pieces_of_bytes(raws, flaw.rows[~good], fields[~good])]

    def _field(self, builder: RowBuilder, slot: int) -> int:
        return self.layout.field_of[builder.columns[slot].ordinal]

    def _json_names(self, builder: RowBuilder, found: Sequence[Pieces]) -> list[bytes]:
        """The names of all fields up to the last one that is written."""
        most = max((int(pieces.fields.max(initial=-1)) for pieces in found), default=-1)
        names = list(self.names)
        if not names:
            columns = {self._field(builder, slot): column.field.name for slot, column in enumerate(builder.columns)}
            names = [columns.get(i, f"_c{i}") for i in range(self.layout.width)]
        names += [f"_c{i}" for i in range(len(names), most + 1)]
        return [json_text(name).encode() for name in names]


def further_fields(builder: RowBuilder, read: ReadRows, rows: npt.NDArray[np.int64]) -> list[Pieces]:
    """The fields that are not NULL behind the last column, of rows that have some; those with wrong quotes as they are
    written. Rows with about as many are read together, so that there is room for no more than twice as many.
    """
    width = builder.layout.width
    further = read.fields.field_counts[rows] - width
    scale = np.log2(further).astype(np.int64)
    found = []
    for group in np.unique(scale).tolist():
        chosen = rows[scale == group]
        most = int(further[scale == group].max())
        slot_of = np.concatenate([np.full(width, -1, np.int32), np.arange(most, dtype=np.int32)])
        data = _gathered(builder, read, chosen)
        fields = index_buffer(data, 0, 0, builder.options, chosen.size + 1, read.fields.has_quotes, slot_of)
        assert fields.row_starts.size == chosen.size, "a row is one row when it stands alone"
        texts, plain = plain_texts(data, fields, builder.options, [pa.binary()] * most)
        offsets = plain.offsets()
        parsed = _BINARY.parse(texts, offsets.starts.ravel(), offsets.ends.ravel(), read.rules)
        numbers = np.repeat(np.arange(width, width + most), chosen.size)
        owners = np.tile(chosen, most)
        pieces = pieces_of(parsed.array, owners, numbers)
        if parsed.status is None:
            found.append(pieces)
            continue
        found.append(pieces.only(parsed.status == VALID))
        odd = np.flatnonzero(parsed.status > NULL)
        written = fields.offsets()
        starts, ends = written.starts.ravel()[odd].tolist(), written.ends.ravel()[odd].tolist()
        raws = [data[start:end].tobytes() for start, end in zip(starts, ends, strict=True)]
        found.append(pieces_of_bytes(raws, owners[odd], numbers[odd]))
    return found


def _gathered(builder: RowBuilder, read: ReadRows, rows: npt.NDArray[np.int64]) -> Bytes:
    """Some rows with their line ends behind one another."""
    starts = read.fields.row_starts[rows].astype(np.int64)
    if read.position == 0 and starts[0] == 0 and read.data[:3].tobytes() == BYTE_ORDER_MARK:
        starts[0] = len(BYTE_ORDER_MARK)
    lines = builder.lines
    ends = np.empty_like(starts)
    if isinstance(lines, LineRules):
        quote = lines.quote if read.fields.has_quotes else NO_BYTE
        find_row_ends(read.data, starts, lines.separator, quote, lines.leading, ends)
    else:
        for i, start in enumerate(starts.tolist()):
            stop, _ = delimited_row_end(read.data, start, lines)
            ends[i] = read.data.size if stop < 0 else stop + len(lines.row_end)
    data: Bytes = gather(read.data, starts, ends)
    return data


@kernel
def find_row_ends(data, starts, separator, quote, leading, ends):  # type: ignore[no-untyped-def]
    """The offset behind the line end of some rows, or of the buffer."""
    for i in range(starts.size):
        stop, _ = find_row_end(data, starts[i], separator, quote, leading, OPEN)
        ends[i] = stop + 1 if stop >= 0 else np.int64(data.size)


def _field_names(header: Sequence[str], schema: Schema) -> list[str]:
    """What the fields of a header are called: as they are written, or as Spark names them where a column is called so.

    Names that are empty, or written twice, are those of Spark's in any case.
    """
    found = []
    for name, safe in zip(header, header_columns(header), strict=True):
        own = bool(name) and header.count(name) == 1
        found.append(name if own and (name in schema.names or safe not in schema.names) else safe)
    return found
