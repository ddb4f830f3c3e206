"""JSON files: a record in each line, or arrays of records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa

from tidemill.errors import FormatError, TidemillError
from tidemill.formats.base import SplitReader
from tidemill.formats.changes import DeleteRule, parse_delete_rule
from tidemill.formats.json.array_split import ArraySplitReader, begins_array, first_line_goes_on
from tidemill.formats.json.columns import builder_of
from tidemill.formats.json.long_line import LongLineReader
from tidemill.formats.json.options import OPTION_NAMES, JsonOptions, parse_options
from tidemill.formats.json.rows import JsonColumn, RecordBuilder
from tidemill.formats.json.tree import Node, build_tree, number_nodes
from tidemill.formats.options import bad_option
from tidemill.formats.rescue.options import RESCUE_OPTIONS, parse_rules
from tidemill.formats.rows.malformed import Mode
from tidemill.formats.text.line_split import LineSplitReader
from tidemill.schema import Schema, type_to_ddl


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
    option_names = OPTION_NAMES | RESCUE_OPTIONS

    def validate(self, schema: Schema, options: Mapping[str, str]) -> None:
        """See :meth:`tidemill.formats.base.Format.validate`."""
        _builder(schema, parse_options(schema, options), schema.names, None)

    def reads_whole_files(self, schema: Schema, options: Mapping[str, str]) -> bool:
        """See :class:`tidemill.formats.base.WholeFiles`. What no option tells is seen only when a file is read."""
        return parse_options(schema, options).multi_line is True

    def begins_whole(self, schema: Schema, options: Mapping[str, str], beginning: bytes) -> bool:
        """See :class:`tidemill.formats.base.WholeByBeginning`: an array."""
        return parse_options(schema, options).multi_line is None and begins_array(beginning)

    def reader(self, schema: Schema, options: Mapping[str, str], needed: Sequence[str]) -> JsonReader:
        """See :meth:`tidemill.formats.base.Format.reader`."""
        self.validate(schema, options)
        rules = parse_rules(schema, options)
        if rules is not None:
            from tidemill.formats.json.rescue import RescuingJsonReader  # it is a reader of this format

            return RescuingJsonReader(schema, options, needed, rules)
        return JsonReader(schema, parse_options(schema, options), needed, parse_delete_rule(schema, options))


class JsonReader:
    """See :class:`tidemill.formats.base.RowReader`."""

    def __init__(
        self,
        schema: Schema,
        options: JsonOptions,
        needed: Sequence[str],
        deletes: DeleteRule | None = None,
        keys: Sequence[str] = (),
    ) -> None:
        self._multi_line = options.multi_line
        self._builder = _builder(schema, options, needed, deletes, keys)

    def header_bytes_needed(self) -> bool:
        """See :meth:`tidemill.formats.base.RowReader.header_bytes_needed`."""
        return self._multi_line is None

    def split(
        self, *, start: int, end: int, file_size: int, in_quotes: bool | None, header: bytes | None
    ) -> SplitReader:
        """See :meth:`tidemill.formats.base.RowReader.split`. No newline lies within a JSON text."""
        arrays = self._multi_line
        if arrays is None:
            if header is None:
                raise FormatError(
                    "TM4012",
                    "the head of the file was not given",
                    got=f"split {start} to {end}",
                    hint="unless multiLine is given every split needs the first bytes of its file",
                )
            arrays = begins_array(header)
            if arrays and first_line_goes_on(header):
                return LongLineReader(self._builder, start=start, end=end, file_size=file_size)
        if arrays:
            return ArraySplitReader(self._builder, start=start, end=end, file_size=file_size)
        return LineSplitReader(self._builder, start=start, end=end, file_size=file_size, in_quotes=False)


def _ambiguous(schema: Schema, options: JsonOptions, ordinals: Sequence[int]) -> TidemillError:
    """TM4003 for the first column with which an object would be read as a map and as a record."""
    root = Node()
    name = path = ""
    for ordinal in ordinals:
        name = schema.fields[ordinal].name
        place = options.paths.get(ordinal, (name,))
        path = "/".join(place)
        root.at(place).want(schema.fields[ordinal].type)
        if root.ambiguous:
            break
    return bad_option(f"field.{name}", path, "one object cannot be read as a map and by its fields")


def _builder(
    schema: Schema,
    options: JsonOptions,
    needed: Sequence[str],
    deletes: DeleteRule | None,
    keys: Sequence[str] = (),
) -> RecordBuilder:
    """The needed columns for the batch, then those that decide whether a row is kept; ``keys`` are in the tree too."""
    ordinal_of = {name: i for i, name in enumerate(schema.names)}
    ordinals = [ordinal_of[name] for name in needed]
    for ordinal, field in enumerate(schema):
        if ordinal not in ordinals and (options.mode is not Mode.PERMISSIVE or not field.nullable):
            ordinals.append(ordinal)
    if deletes is not None and deletes.operation not in ordinals:
        ordinals.append(deletes.operation)
    root = Node()
    nodes = []
    for ordinal in ordinals:
        field = schema.fields[ordinal]
        node = root.at(options.paths.get(ordinal, (field.name,)))
        node.want(field.type)
        nodes.append(node)
    if root.ambiguous:
        raise _ambiguous(schema, options, ordinals)
    columns = []
    for ordinal, node in zip(ordinals, nodes, strict=True):
        field = schema.fields[ordinal]
        build = builder_of(field.type, node, options.patterns)
        if build is None:
            raise TidemillError(
                "TM4004",
                f"the column {field.name!r} has a type that json cannot hold",
                got=type_to_ddl(field.type) if field.type != pa.null() else "void",
                hint="the keys of a map must be STRING, and a struct needs fields",
            )
        columns.append(JsonColumn(ordinal, field, build, node))
    for key in keys:
        root.at((key,))
    order = tuple(number_nodes(root))
    return RecordBuilder(options, tuple(columns), len(needed), order, build_tree(order), deletes)
