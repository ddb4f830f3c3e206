"""CSV files: RFC 4180 with Spark's options."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tidemill.formats.base import RowReader
from tidemill.formats.csv.options import CSV_OPTIONS, MAX_COLUMNS, parse_options
from tidemill.formats.csv.reader import CsvRowReader, check_types, checked_columns, parsers_of
from tidemill.formats.csv.rescue import RescuingCsvReader
from tidemill.formats.messages import Messages
from tidemill.formats.rescue.options import RESCUE_OPTIONS, parse_rules
from tidemill.schema import Schema


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
    option_names = CSV_OPTIONS.keys | RESCUE_OPTIONS.keys

    def validate(self, schema: Schema, options: Mapping[str, str]) -> None:
        """See :meth:`tidemill.formats.base.Format.validate`."""
        parsed = parse_options(options)
        if len(schema) > parsed.max_columns:
            raise MAX_COLUMNS.bad(str(parsed.max_columns), f"the table has {len(schema)} columns")
        check_types(schema, parsers_of(schema, options, parsed), self.name)

    def reader(self, schema: Schema, options: Mapping[str, str], needed: Sequence[str]) -> RowReader:
        """See :meth:`tidemill.formats.base.Format.reader`."""
        return self._reader(schema, options, needed, None)

    def message_reader(
        self, schema: Schema, options: Mapping[str, str], needed: Sequence[str], messages: Messages
    ) -> RowReader:
        """See :class:`tidemill.formats.messages.MessageFormat`."""
        return self._reader(schema, options, needed, messages)

    def _reader(
        self, schema: Schema, options: Mapping[str, str], needed: Sequence[str], messages: Messages | None
    ) -> RowReader:
        self.validate(schema, options)
        rules = parse_rules(schema, options)
        if rules is not None:
            return RescuingCsvReader(schema, options, needed, rules, messages)
        parsed = parse_options(options)
        columns = checked_columns(schema, parsed, needed, parsers_of(schema, options, parsed))
        deletions = None if messages is None else messages.deletions(schema)
        return CsvRowReader(schema, parsed, columns, len(needed), deletions)
