"""CSV files: RFC 4180 with Spark's options."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy

from tidemill.errors import FormatError, TidemillError
from tidemill.formats.base import RowReader
from tidemill.formats.changes import DeleteRule, change_builder, parse_delete_rule
from tidemill.formats.csv.header import Layout, layout_by_header, layout_by_position
from tidemill.formats.csv.options import OPTION_NAMES, CsvOptions, parse_options
from tidemill.formats.csv.rows import RowBuilder, Taker
from tidemill.formats.rescue.options import RESCUE_OPTIONS, parse_rules
from tidemill.formats.rows.checked_columns import CheckedColumn
from tidemill.formats.rows.malformed import Mode
from tidemill.formats.rows.row_filter import RowFilter
from tidemill.formats.text.delimiter_split import DelimiterSplitReader, line_reader
from tidemill.formats.text.line_split import LineSplitReader
from tidemill.formats.values.columns.chosen import column_parsers
from tidemill.formats.values.columns.columns import ColumnParser
from tidemill.schema import Schema, type_to_ddl


class CsvFormat:
    r"""Rows of separated fields, one line each.

    **Rows.** ``\n`` and ``\r\n`` end a row, the end of the file too. An empty line is no row. Inside quotes line ends
    and separators are data; with ``multiLine 'false'`` each line is a row, and a quote that it leaves open stays open.
    ``sep`` and ``lineSep`` may have several bytes and match left to right.

    **Text.** A field that opens with a quote must be a quoted text with inner quotes doubled, else it is
    malformed (``bad_quote``, or the code of its type). Quotes further inside an unquoted field are data. A
    byte order mark at the start of the file is skipped.

    With ``escape``, a character that is not the quote, an inner quote has one before it instead; it counts inside
    quotes only, and before another escape or a quote only.

    **NULL.** A field whose text is ``nullValue`` (empty by default), or one of ``nullValues``, is NULL, quoted or not;
    so is an unquoted empty field, and one that the row lacks.

    **Values.** boolean: ``true``/``false`` in any case. Integers: ``[+-]digits`` within the type's limits.
    float, double: correctly rounded decimals, ``NaN``, ``[+-]Infinity``, ``[+-]Inf``. decimal: rounded
    HALF_UP to the scale; too many digits before the point are malformed. date: ``yyyy-[m]m-[d]d``. timestamp:
    ``yyyy-MM-dd[ T]HH:mm[:ss[.ffffff]][Z|+hh:mm|+hhmm]`` or a date, of ``timeZone`` without a zone; digits beyond
    microseconds are cut off. timestamp_ntz: the same without zone. string: UTF-8. Spaces around a value are
    part of it, unless ``ignoreLeadingWhiteSpace`` or ``ignoreTrailingWhiteSpace`` says otherwise. A column may have
    a parser or pattern of its own: ``parser.<column>``, see :mod:`tidemill.formats.values.columns.chosen`,
    ``dateFormat.<column>``, ``timestampFormat.<column>``.

    **Malformed rows.** Reasons: ``too_few_fields`` (the missing ones are NULL), ``too_many_fields`` (the
    others are ignored), ``bad_<type>``, ``bad_utf8``, ``bad_quote`` (NULL), ``unterminated_quote`` (the rest
    of the file is one row of NULLs), ``null_in_not_null`` (NULL or malformed in a NOT NULL column; the row is
    dropped), ``quote_in_comment`` (a comment spans lines because a quote in it is not closed),
    ``bare_carriage_return`` (the first row of a file, with ``multiLine 'false'`` any row, has a carriage return that
    is not before a newline: where these are the line ends, ``lineSep '\r'`` reads them), ``utf16_mark`` (the first row
    of a file in UTF-16). PERMISSIVE keeps rows, DROPMALFORMED drops each row with an error, FAILFAST raises TM4020.
    Which rows are kept never depends on the columns a query needs; PERMISSIVE reports bad values only of needed and
    NOT NULL columns. What Spark's reader does otherwise is listed in ``docs/differences-from-spark.md``.
    """

    name = "csv"
    is_text = True
    option_names = OPTION_NAMES | RESCUE_OPTIONS

    def validate(self, schema: Schema, options: Mapping[str, str]) -> None:
        """See :meth:`tidemill.formats.base.Format.validate`."""
        parsed = parse_options(options)
        if len(schema) > parsed.max_columns:
            raise TidemillError(
                "TM4003",
                "bad value of option maxColumns",
                got=str(parsed.max_columns),
                hint=f"the table has {len(schema)} columns",
            )
        check_types(schema, _parsers(schema, options, parsed), self.name)

    def reader(self, schema: Schema, options: Mapping[str, str], needed: Sequence[str]) -> RowReader:
        """See :meth:`tidemill.formats.base.Format.reader`."""
        self.validate(schema, options)
        rules = parse_rules(schema, options)
        if rules is not None:
            from tidemill.formats.csv.rescue import RescuingCsvReader  # it reads with the reader below

            return RescuingCsvReader(schema, options, needed, rules)
        parsed = parse_options(options)
        columns = checked_columns(schema, parsed, needed, _parsers(schema, options, parsed))
        return CsvRowReader(schema, parsed, columns, len(needed), parse_delete_rule(schema, options))


class CsvRowReader:
    """See :class:`tidemill.formats.base.RowReader`."""

    def __init__(
        self,
        schema: Schema,
        options: CsvOptions,
        columns: tuple[CheckedColumn[ColumnParser], ...],
        needed: int,
        deletes: DeleteRule | None = None,
    ) -> None:
        self._schema = schema
        self._deletes = deletes
        self._options = options
        self._columns = columns
        self._needed = needed
        self._filter: RowFilter | None = None
        self._rescue: Taker | None = None

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

    def split(
        self, *, start: int, end: int, file_size: int, in_quotes: bool | None, header: bytes | None
    ) -> LineSplitReader | DelimiterSplitReader:
        """See :meth:`tidemill.formats.base.RowReader.split`."""
        layout = self.layout(header, file_size, start, end)
        builder = RowBuilder(self._options, layout, self._columns, self._needed, self._filter, rescue=self._rescue)
        if self._deletes is not None:
            builder = change_builder(builder, self._deletes)
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
        return layout_by_header(self._schema, self._options, header, file_size)


def _parsers(schema: Schema, options: Mapping[str, str], parsed: CsvOptions) -> tuple[ColumnParser | None, ...]:
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
    for ordinal, field in enumerate(schema):
        if ordinal not in order and (options.mode is not Mode.PERMISSIVE or not field.nullable):
            order.append(ordinal)
    columns = []
    for ordinal in order:
        field = schema.fields[ordinal]
        parser = parsers[ordinal]
        assert parser is not None, "just checked"
        columns.append(CheckedColumn(ordinal, field, parser))
    return tuple(columns)
