"""JSON files: a record in each line, or arrays of records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tidemill.formats.json.array_split import begins_array
from tidemill.formats.json.options import JSON_OPTIONS, parse_options
from tidemill.formats.json.reader import JsonReader, record_builder
from tidemill.formats.json.rescue import RescuingJsonReader
from tidemill.formats.messages import Messages
from tidemill.formats.rescue.options import RESCUE_OPTIONS, parse_rules
from tidemill.schema import Schema


class JsonFormat:
    r"""Rows that are JSON objects.

    **Rows.** One object a line (``\n`` or ``\r\n``, and the end of the file); a line of white space is no row. Or, with
    ``multiLine 'true'``, and unless that is ``'false'`` in a file that begins with ``[`` and by its first 64 KiB is an
    array (:func:`~tidemill.formats.json.array_split.begins_array`): each element of an array of objects; outside of
    arrays objects may follow one another. Such a file is not cut: one split reads all of it. Where those 64 KiB do not
    show where the first line ends it is an array if its bracket is followed by an object, and if it is closed at the
    end of its line the rest of the file is lines. A byte order mark at the start of the file is skipped.

    **Columns.** A column is the field of its name, in its case, wherever it stands in the object; or the field at the
    path that ``field.<column> 'a/b/c'`` gives (``~1`` is a ``/`` in a name, ``~0`` a ``~``). A field that is missing,
    or within something that is missing or no object, is NULL, as ``null`` is; an empty text is an empty string. Of a
    field given twice the last one counts. Other fields are ignored.

    **Values**, by Spark's rules; a value of another kind than its column is malformed. boolean: ``true``, ``false``.
    Integers: numbers without point and exponent, within the type's limits. float, double: numbers, ``NaN`` and
    ``[-]Infinity``, also as texts. decimal: numbers, also as texts, rounded HALF_UP to the scale. string: texts; and
    any other value as it is written. binary: base64. date, timestamp, timestamp_ntz: texts laid out as in CSV, or by
    ``dateFormat`` and ``timestampFormat``; for a timestamp also a whole number of seconds since 1970. array, map (with
    keys of type string) and struct: arrays and objects; of a key given twice in a map the last value counts.

    **Malformed rows.** The whole record is held to the grammar of JSON, with ``NaN`` and ``Infinity``, whatever is
    needed of it; UTF-8 is checked where it becomes a value. Reasons: ``bad_json`` (all columns are NULL),
    ``too_deep`` (more than ``maxNestingDepth`` objects and arrays within one another: so too), ``utf16_mark`` (the
    first row of a file in UTF-16: so too), ``bad_<type>``, ``bad_utf8`` (and half of a surrogate pair): that column
    is NULL, or only that field of a struct, but all of an array or map. ``null_in_not_null`` (the row is dropped),
    ``unterminated_array`` (at the end of the file; no row). PERMISSIVE keeps rows, DROPMALFORMED drops each row
    with an error, FAILFAST raises TM4020. A malformed line costs no other line; in an array a bracket or quote too
    many or too few may cost the rest of the file.

    Unlike Spark's reader: malformed are texts and names in single quotes, a line that is an array, anything behind the
    object of a line, a TINYINT above 127, and a date written as a text with a number of days; of a field given twice
    only the last value can be malformed; and a map has each key once.
    """

    name = "json"
    is_text = True
    option_names = JSON_OPTIONS.keys | RESCUE_OPTIONS.keys

    def validate(self, schema: Schema, options: Mapping[str, str]) -> None:
        """See :meth:`tidemill.formats.base.Format.validate`."""
        record_builder(schema, parse_options(schema, options), schema.names, None)

    def reads_whole_files(self, schema: Schema, options: Mapping[str, str]) -> bool:
        """See :class:`tidemill.formats.base.WholeFiles`. What no option tells is seen only when a file is read."""
        return parse_options(schema, options).multi_line is True

    def begins_whole(self, schema: Schema, options: Mapping[str, str], beginning: bytes) -> bool:
        """See :class:`tidemill.formats.base.WholeByBeginning`: an array."""
        return parse_options(schema, options).multi_line is None and begins_array(beginning)

    def reader(self, schema: Schema, options: Mapping[str, str], needed: Sequence[str]) -> JsonReader:
        """See :meth:`tidemill.formats.base.Format.reader`."""
        return self._reader(schema, options, needed, None)

    def message_reader(
        self, schema: Schema, options: Mapping[str, str], needed: Sequence[str], messages: Messages
    ) -> JsonReader:
        """See :class:`tidemill.formats.messages.MessageFormat`."""
        return self._reader(schema, options, needed, messages)

    def _reader(
        self, schema: Schema, options: Mapping[str, str], needed: Sequence[str], messages: Messages | None
    ) -> JsonReader:
        self.validate(schema, options)
        rules = parse_rules(schema, options)
        if rules is not None:
            return RescuingJsonReader(schema, options, needed, rules, messages)
        deletions = None if messages is None else messages.deletions(schema)
        return JsonReader(schema, parse_options(schema, options), needed, deletions)
