"""The reader of a JSON table: which values it takes from each record, and the splits of its files."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from tidemill.errors import FormatError, TidemillError
from tidemill.formats.base import SplitReader
from tidemill.formats.json.array_split import ArraySplitReader, begins_array, first_line_goes_on
from tidemill.formats.json.columns import builder_of
from tidemill.formats.json.indexing.tree import Node, build_tree, number_nodes
from tidemill.formats.json.long_line import LongLineReader
from tidemill.formats.json.options import JsonOptions
from tidemill.formats.json.rows import JsonColumn, RecordBuilder
from tidemill.formats.messages import Deletions
from tidemill.formats.rows.malformed import Mode
from tidemill.formats.text.line_split import LineSplitReader
from tidemill.options.option import bad_option
from tidemill.schema import Schema, type_to_ddl


class JsonReader:
    """See :class:`tidemill.formats.base.RowReader`."""

    def __init__(
        self,
        schema: Schema,
        options: JsonOptions,
        needed: Sequence[str],
        deletes: Deletions | None = None,
        keys: Sequence[str] = (),
    ) -> None:
        self._multi_line = options.multi_line
        self._builder = record_builder(schema, options, needed, deletes, keys)

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


def record_builder(
    schema: Schema,
    options: JsonOptions,
    needed: Sequence[str],
    deletes: Deletions | None,
    keys: Sequence[str] = (),
) -> RecordBuilder:
    """The needed columns for the batch, then those that decide whether a row is kept; ``keys`` are in the tree too."""
    ordinal_of = {name: i for i, name in enumerate(schema.names)}
    ordinals = [ordinal_of[name] for name in needed]
    wanted = frozenset(ordinals)
    for ordinal, field in enumerate(schema):
        if ordinal not in wanted and (options.mode is not Mode.PERMISSIVE or not field.nullable):
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
    return RecordBuilder(options, tuple(columns), len(needed), root, build_tree(number_nodes(root)), deletes)
