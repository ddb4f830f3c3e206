"""The reader of a CSV table: which columns it parses, and the splits of its files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy

from tidemill.errors import FormatError, TidemillError
from tidemill.formats.csv.changes import change_builder
from tidemill.formats.csv.header import Layout, has_header, layout_by_header, layout_by_position
from tidemill.formats.csv.marking import MarkingSplitReader
from tidemill.formats.csv.options import CsvOptions
from tidemill.formats.csv.rows import Rescuer, RowBuilder
from tidemill.formats.messages import Deletions
from tidemill.formats.rows.checked_columns import CheckedColumn
from tidemill.formats.rows.malformed import Mode
from tidemill.formats.rows.row_filter import RowFilter
from tidemill.formats.text.delimiter_split import DelimiterSplitReader, line_reader
from tidemill.formats.text.line_split import LineSplitReader
from tidemill.formats.values.columns.chosen import column_parsers
from tidemill.formats.values.columns.columns import ColumnParser
from tidemill.schema import Schema, type_to_ddl


class CsvRowReader:
    """See :class:`tidemill.formats.base.RowReader`."""

    def __init__(
        self,
        schema: Schema,
        options: CsvOptions,
        columns: tuple[CheckedColumn[ColumnParser], ...],
        needed: int,
        deletes: Deletions | None = None,
    ) -> None:
        self._schema = schema
        self._deletes = deletes
        self._options = options
        self._columns = columns
        self._needed = needed
        self._filter: RowFilter | None = None
        self._rescue: Rescuer | None = None
        # The bytes up to the end of the header line that was read last, and where its file keeps the columns.
        self._last: tuple[bytes, Layout] | None = None

    def filtered(self, condition: RowFilter) -> CsvRowReader:
        """See :class:`tidemill.formats.rows.row_filter.FilteringReader`: only where malformed rows are kept anyway."""
        if self._options.mode is not Mode.PERMISSIVE or self._deletes is not None:
            return self
        reader = copy(self)
        reader._filter = condition
        return reader

    def header_bytes_needed(self) -> bool:
        """See :meth:`tidemill.formats.base.RowReader.header_bytes_needed`."""
        return self._options.header

    def has_header(self, data: bytes) -> bool:
        """See :class:`tidemill.formats.base.HeaderReader`."""
        return has_header(data, self._options)

    def split(
        self, *, start: int, end: int, file_size: int, in_quotes: bool | None, header: bytes | None
    ) -> LineSplitReader | DelimiterSplitReader:
        """See :meth:`tidemill.formats.base.RowReader.split`."""
        layout = self.layout(header, file_size, start, end)
        builder = RowBuilder(self._options, layout, self._columns, self._needed, self._filter, rescue=self._rescue)
        if self._deletes is not None:
            builder = change_builder(builder, self._deletes)
        if self._options.multi_line and self._options.delimiters is None:
            return MarkingSplitReader(builder, start=start, end=end, file_size=file_size, in_quotes=in_quotes)
        return line_reader(builder, start=start, end=end, file_size=file_size, in_quotes=in_quotes)

    def layout(self, header: bytes | None, file_size: int, start: int, end: int) -> Layout:
        """Where a file keeps the columns. Errors as :meth:`split`."""
        if not self._options.header:
            return layout_by_position(self._schema)
        if header is None:
            raise FormatError(
                "TM4012",
                "the head of the file was not given",
                got=f"split {start} to {end}",
                hint="with header=true every split needs the first line of its file",
            )
        last = self._last
        if last is not None and header.startswith(last[0]):
            return last[1]
        layout = layout_by_header(self._schema, self._options, header, file_size)
        if 0 < layout.data_start < len(header):  # the end of the line is there
            self._last = header[: layout.data_start], layout
        return layout


def parsers_of(schema: Schema, options: Mapping[str, str], parsed: CsvOptions) -> tuple[ColumnParser | None, ...]:
    return column_parsers(schema, {name.lower(): value for name, value in options.items()}, parsed.patterns)


def check_types(schema: Schema, parsers: Sequence[ColumnParser | None], format_: str) -> None:
    """TM4004 for the first column whose type has no parser."""
    for field, parser in zip(schema, parsers, strict=True):
        if parser is None:
            raise TidemillError(
                "TM4004",
                f"the column {field.name!r} has a type that {format_} cannot hold",
                got=type_to_ddl(field.type),
                hint="use string, or a format with nested types",
            )


def checked_columns(
    schema: Schema, options: CsvOptions, needed: Sequence[str], parsers: Sequence[ColumnParser | None]
) -> tuple[CheckedColumn[ColumnParser], ...]:
    """The needed columns, then those that decide whether a row is kept. TM4004 for a type without a parser."""
    check_types(schema, parsers, "this format")
    ordinal_of = {name: i for i, name in enumerate(schema.names)}
    order = [ordinal_of[name] for name in needed]
    wanted = frozenset(order)
    for ordinal, field in enumerate(schema):
        if ordinal not in wanted and (options.mode is not Mode.PERMISSIVE or not field.nullable):
            order.append(ordinal)
    columns = []
    for ordinal in order:
        field = schema.fields[ordinal]
        parser = parsers[ordinal]
        assert parser is not None, "just checked"
        columns.append(CheckedColumn(ordinal, field, parser))
    return tuple(columns)
