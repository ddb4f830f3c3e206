"""CSV rows with what no column holds in a column of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidemill.errors import FormatError, nearest
from tidemill.formats.base import RowError, Rows, SplitReader
from tidemill.formats.csv.changes import parse_delete_rule
from tidemill.formats.csv.format import CsvRowReader, checked_columns
from tidemill.formats.csv.header import Header, Layout, layout_by_position, read_header
from tidemill.formats.csv.options import CsvOptions, parse_options
from tidemill.formats.inference.naming import header_columns
from tidemill.formats.json.leftovers import json_text
from tidemill.formats.line_ends import BYTE_ORDER_MARK
from tidemill.formats.malformed import Mode, parse_mode
from tidemill.formats.rescue.builder import KEPT, Rescue, RescuingBuilder
from tidemill.formats.rescue.new_columns import NewColumnsError, new_names
from tidemill.formats.rescue.options import RescueRules
from tidemill.formats.values.chosen import column_parsers
from tidemill.formats.values.columns import parser_for
from tidemill.schema import Field, Schema

_EXTRA = "\0extra"
_TOO_MANY = "too_many_fields"


class RescuingCsvReader:
    """See :class:`tidemill.formats.base.RowReader`.

    Fields of a header are matched with columns by their exact names; a column that the header lacks is NULL.
    """

    def __init__(self, schema: Schema, options: Mapping[str, str], needed: Sequence[str], rules: RescueRules) -> None:
        given = {k.lower(): v for k, v in options.items()}
        self._given = given
        self._mode = parse_mode(given)
        self._options = parse_options(given | {"mode": Mode.PERMISSIVE.value})
        self._inner = rules.without_column(schema)
        fields = {f.name: f for f in schema}
        self._fields = tuple(fields[name] for name in needed)
        self._read = self._inner.names if rules.column in needed or self._mode is not Mode.PERMISSIVE else needed
        self._rules = rules
        self._rescues = rules.column in needed

    def header_bytes_needed(self) -> bool:
        """See :meth:`tidemill.formats.base.RowReader.header_bytes_needed`."""
        return self._options.header

    def split(
        self, *, start: int, end: int, file_size: int, in_quotes: bool | None, header: bytes | None
    ) -> SplitReader:
        """See :meth:`tidemill.formats.base.RowReader.split`. TM4074 for new columns that must not be."""
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
        deletes = parse_delete_rule(present, self._given)
        reader = _LaidOut(present, self._options, columns, len(wanted), deletes, layout=layout)
        place = {"start": start, "end": end, "file_size": file_size}
        split = reader.split(**place, in_quotes=in_quotes, header=header)
        fields_of = {f.name: layout.field_of[i] for i, f in enumerate(present)}
        left = _CsvLeft(self._given, layout.width, fields_of, names, self._rules.strict and head is None)
        rescue = Rescue(self._fields, self._rules.column, self._mode, left)
        split.builder = RescuingBuilder(split.builder, rescue)
        return split

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

    def __init__(self, *given: object, layout: Layout) -> None:
        super().__init__(*given)  # type: ignore[arg-type]
        self._fixed = layout

    def layout(self, header: bytes | None, file_size: int, start: int, end: int) -> Layout:
        return self._fixed


class _CsvLeft:
    """See :class:`tidemill.formats.rescue.builder.Left`.

    Parameters
    ----------
    fields_of : mapping of str to int
        The field of each column that is read.
    names : sequence of str
        What the header calls the fields; empty without a header.
    strict : bool
        More fields than columns must not be.
    """

    def __init__(
        self, options: Mapping[str, str], width: int, fields_of: Mapping[str, int], names: Sequence[str], strict: bool
    ) -> None:
        self._options = options
        self._width = width
        self._fields_of = fields_of
        self._names = names
        self._strict = strict
        self._extras = {name: field for name, field in fields_of.items() if name.startswith(_EXTRA)}

    def rescuable(self, error: RowError) -> bool:
        if error.column is None:
            return error.reason == _TOO_MANY
        return error.reason not in KEPT

    def suspects(self, rows: Rows) -> npt.NDArray[np.int64]:
        if self._strict:
            self._refuse(rows)
        found = np.zeros(rows.count, np.bool_)
        for name in self._extras:
            found |= (
                rows.batch.column(rows.batch.schema.get_field_index(name)).is_valid().to_numpy(zero_copy_only=False)
            )
        return np.flatnonzero(found)

    def _refuse(self, rows: Rows) -> None:
        """TM4074 when a row has a field that is no column's."""
        long = [e.raw for e in rows.errors if e.reason == _TOO_MANY]
        most = max((_count(fields) for fields in field_texts(long, self._options, self._width)), default=0)
        if most > self._width:
            raise NewColumnsError({f"_c{i}": None for i in range(self._width, most)})

    def texts(self, rows: Rows, numbers: Sequence[int], errors: Mapping[int, Sequence[RowError]]) -> list[str | None]:
        wrong = [n for n in numbers if n in errors]
        fields = dict(
            zip(wrong, field_texts([errors[n][0].raw for n in wrong], self._options, self._width), strict=True)
        )
        extras = {
            field: rows.batch.column(rows.batch.schema.get_field_index(name)).take(pa.array(numbers)).to_pylist()
            for name, field in self._extras.items()
        }
        found: list[str | None] = []
        for place, number in enumerate(numbers):
            values = {field: texts[place] for field, texts in extras.items() if texts[place] is not None}
            for error in errors.get(number, ()):
                if error.column is None:
                    values |= {i: v for i, v in enumerate(fields[number]) if i >= self._width and v is not None}
                elif error.column in self._fields_of:
                    field = self._fields_of[error.column]
                    text = fields[number][field] if field < len(fields[number]) else None
                    # A field whose quotes are wrong has no text: nothing is lost if the row stands for it.
                    values[field] = error.raw.decode("utf-8", "replace") if text is None else text
            named = [f"{json_text(self._name(i))}:{json_text(values[i])}" for i in sorted(values)]
            found.append("{" + ",".join(named) + "}" if named else None)
        return found

    def _name(self, field: int) -> str:
        if self._names:
            return self._names[field] if field < len(self._names) else f"_c{field}"
        columns = {i: name for name, i in self._fields_of.items()}
        return columns.get(field, f"_c{field}")


def _field_names(header: Sequence[str], schema: Schema) -> list[str]:
    """What the fields of a header are called: as they are written, or as Spark names them where a column is called so.

    Names that are empty, or written twice, are those of Spark's in any case.
    """
    found = []
    for name, safe in zip(header, header_columns(header), strict=True):
        own = bool(name) and header.count(name) == 1
        found.append(name if own and (name in schema.names or safe not in schema.names) else safe)
    return found


def _count(fields: Sequence[str | None]) -> int:
    """How many fields there are up to the last one that is not NULL."""
    return max((i + 1 for i, text in enumerate(fields) if text is not None), default=0)


def field_texts(raws: Sequence[bytes], options: Mapping[str, str], width: int) -> list[list[str | None]]:
    """The texts of all fields of some rows; None for NULL and for wrong quotes."""
    rows = [raw.removeprefix(BYTE_ORDER_MARK) for raw in raws]
    starts = np.cumsum([0, *(len(row) + 1 for row in rows)])[:-1]
    found = _read(b"\n".join(rows), options, width)
    if np.array_equal(found.positions, starts) and not any(row.endswith(b"\r") for row in rows):
        return _texts_of(found)
    # Other line ends, or a row that takes in the next one, or whose last byte would be part of the line end.
    parts = [_texts_of(_read(row, options, width)) for row in rows]
    return [part[0] if part else [] for part in parts]


def _texts_of(rows: Rows) -> list[list[str | None]]:
    columns = [[None if t is None else t.decode("utf-8", "replace") for t in c.to_pylist()] for c in rows.batch.columns]
    return [[column[row] for column in columns] for row in range(rows.count)]


def _read(data: bytes, options: Mapping[str, str], width: int) -> Rows:
    """Rows with columns for as many fields as any of them has."""
    parsed: CsvOptions = parse_options({**options, "mode": Mode.PERMISSIVE.value, "header": "false"})
    while True:
        names = [f"{i}" for i in range(width + 1)]
        schema = Schema(tuple(Field(name, pa.binary()) for name in names))
        place = {"start": 0, "end": len(data), "file_size": len(data)}
        columns = checked_columns(schema, parsed, names, [parser_for(pa.binary())] * len(names))
        split = CsvRowReader(schema, parsed, columns, len(names)).split(**place, in_quotes=False, header=None)
        rows = split.feed(data, True)
        if not any(e.reason == _TOO_MANY for e in rows.errors):
            return rows
        width *= 2
