"""Messages of Kafka: the format of their values, and columns for what else a message has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from tidemill.connectors.kafka.options import COLUMNS, INCLUDE_HEADERS, KAFKA_OPTIONS, MESSAGE_COLUMNS, VALUE_FORMAT
from tidemill.errors import TidemillError, nearest
from tidemill.formats import registry
from tidemill.formats.base import Format, RowReader
from tidemill.formats.frames.format import frame_builder, payload_names
from tidemill.formats.json.options import MULTI_LINE
from tidemill.formats.kafka.rows import KafkaReader
from tidemill.formats.messages import Messages, reader_of
from tidemill.formats.records.sized_records import RecordBuilder
from tidemill.formats.records.value_format import ValueFormat
from tidemill.formats.rows.malformed import MODE, Mode
from tidemill.options.option import check_options, lowered
from tidemill.schema import TIMESTAMP, Field, Schema, type_to_ddl

KAFKA = "kafka"

_HEADERS: pa.DataType = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
_TYPES: Mapping[str, tuple[pa.DataType, ...]] = {
    "key": (pa.binary(), pa.string()),
    "value": (pa.binary(), pa.string()),
    "topic": (pa.string(),),
    "partition": (pa.int32(), pa.int64()),
    "offset": (pa.int64(),),
    "timestamp": (TIMESTAMP,),
    "timestampType": (pa.int32(),),
    "headers": (_HEADERS,),
}
"""Types that a column may have, the usual one first."""

_SPARKS_ORDER = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType")
_MAY_BE_NULL = frozenset({"key", "value", "headers"})


@dataclass(frozen=True)
class Layout:
    """Which columns of a table are parts of a message, and which are in its value.

    Attributes
    ----------
    parts : dict
        What a column of a message has, by the column's name.
    value : Schema
        The columns in the value.
    """

    parts: Mapping[str, str]
    value: Schema


class KafkaFormat:
    """Messages of topics, read by offset.

    Without ``value.format`` the columns are those of Spark's Kafka source: ``key`` and ``value`` (BINARY, or STRING if
    declared so), ``topic``, ``partition``, ``offset``, ``timestamp``, ``timestampType``, and with ``includeHeaders``
    ``headers``. Those that are wanted may be declared, in any order.

    With ``value.format`` each value is read as a file of that format: none, one or several rows; JSON may have line
    ends within a document. The options of that format stand beside the others. A message without a value, as a
    compacted topic has for deleted keys, has no row. Options such as ``keyColumn`` and ``timestampColumn`` name columns
    of the table for what else the message has.

    **Positions.** The position of a row is the offset of its message.

    **Malformed rows.** Those of the values' format, with the message's offset; ``bad_utf8`` for a key or value that is
    no text; ``null_in_not_null`` for a key or value that is missing; ``lost_messages`` for messages that were deleted
    before they were read, with ``failOnDataLoss`` false.
    """

    name = KAFKA

    @property
    def option_names(self) -> frozenset[str]:
        """Its own, and those of every format that values can have; :meth:`validate` rejects others than these."""
        names = (registry.lookup(name).option_names for name in value_formats())
        return KAFKA_OPTIONS.keys.union({MODE.key}, *names)

    def validate(self, schema: Schema, options: Mapping[str, str]) -> None:
        """See :meth:`tidemill.formats.base.Format.validate`. TM4005 for an option that the values' format lacks."""
        given = lowered(options)
        layout = layout_of(schema, given)
        for name, part in layout.parts.items():
            field = next(f for f in schema if f.name == name)
            if field.type not in _TYPES[part]:
                raise TidemillError(
                    "TM4004",
                    f"the column {name!r} has a type that kafka cannot hold",
                    got=type_to_ddl(field.type),
                    hint=f"the {part} of a message is {' or '.join(type_to_ddl(t) for t in _TYPES[part])}",
                )
        payload = value_format(given)
        if payload is None:
            check_options(self.name, given, KAFKA_OPTIONS.keys | {MODE.key})
            return
        check_options(self.name, given, KAFKA_OPTIONS.keys | {MODE.key} | payload.option_names)
        if isinstance(payload, ValueFormat):
            payload.values(layout.value, _inner_options(payload, given), ())
            return
        inner = payload.reader(layout.value, _inner_options(payload, given), ())
        if not isinstance(inner, RowReader) or inner.header_bytes_needed():
            raise VALUE_FORMAT.bad(payload.name, "a format without a header, read as a stream of bytes")

    def reader(self, schema: Schema, options: Mapping[str, str], needed: Sequence[str]) -> KafkaReader:
        """See :meth:`tidemill.formats.base.Format.reader`."""
        return self._reader(schema, options, needed, None)

    def message_reader(
        self, schema: Schema, options: Mapping[str, str], needed: Sequence[str], messages: Messages
    ) -> KafkaReader:
        """See :class:`tidemill.formats.messages.MessageFormat`."""
        return self._reader(schema, options, needed, messages)

    def _reader(
        self, schema: Schema, options: Mapping[str, str], needed: Sequence[str], messages: Messages | None
    ) -> KafkaReader:
        given = lowered(options)
        layout, payload, mode = layout_of(schema, given), value_format(given), MODE.of(given)
        fields = {f.name: f for f in schema}
        asked = [fields[name] for name in needed]
        wanted = [name for name in needed if name not in layout.parts]
        builder, documents = (None, None)
        if payload is not None:
            builder, documents = _builders(payload, layout.value, given, wanted, messages)
        parts = {name: layout.parts[name] for name in needed if name in layout.parts}
        checked = {n: p for n, p in layout.parts.items() if p in _MAY_BE_NULL and not fields[n].nullable}
        return KafkaReader(asked, parts, {n: (p, fields[n]) for n, p in checked.items()}, builder, mode, documents)


def _builders(
    payload: Format,
    schema: Schema,
    options: Mapping[str, str],
    needed: Sequence[str],
    messages: Messages | None,
) -> tuple[RecordBuilder, RecordBuilder | None]:
    """What makes rows of values, and what does of values with line ends within, where that is another one."""
    inner_options = _inner_options(payload, options)
    if isinstance(payload, ValueFormat):
        return payload.values(schema, inner_options, needed), None

    def made(options: Mapping[str, str]) -> RecordBuilder:
        inner = reader_of(payload, schema, options, needed, messages)
        assert isinstance(inner, RowReader), "validated before"
        return frame_builder(payload, inner, Mode.PERMISSIVE)

    several = payload.name == "json" and MULTI_LINE.key not in options
    return made(inner_options), made({**inner_options, MULTI_LINE.key: "true"}) if several else None


def message_schema(options: Mapping[str, str]) -> Schema:
    """The columns of a table that declares none, without ``value.format``; names of options in lower case."""
    names = (*_SPARKS_ORDER, "headers") if INCLUDE_HEADERS.of(options) else _SPARKS_ORDER
    return Schema(tuple(Field(name, _TYPES[name][0]) for name in names))


def with_parts(schema: Schema, options: Mapping[str, str]) -> Schema:
    """The columns of values, and behind them those that options name for parts of messages; names in lower case."""
    there = {name.lower() for name in schema.names}
    named = [(part, option.of(options)) for part, option in COLUMNS.items()]
    more = [Field(n, _TYPES[part][0]) for part, n in named if n is not None and n.lower() not in there]
    return Schema((*schema, *more))


def layout_of(schema: Schema, options: Mapping[str, str]) -> Layout:
    """Which columns are parts of a message; names of options in lower case.

    Raises
    ------
    TidemillError
        TM4003 for an option that names no column, or does not belong here; TM4006 for a column that messages lack.
    """
    if value_format(options) is None:
        for option in COLUMNS.values():
            if option.key in options:
                raise option.bad(options[option.key], "only with value.format; else columns have their own names")
        known = {name.lower(): name for name in MESSAGE_COLUMNS}
        for name in schema.names:
            if name.lower() not in known:
                raise TidemillError(
                    "TM4006",
                    "there is no column of this name",
                    got=name,
                    hint=f"{nearest(name, MESSAGE_COLUMNS)}; with 'value.format' values have columns of their own",
                )
        return Layout({n: known[n.lower()] for n in schema.names}, Schema(()))
    if INCLUDE_HEADERS.key in options:
        raise INCLUDE_HEADERS.bad(options[INCLUDE_HEADERS.key], "headersColumn names a column for them")
    names, parts = {n.lower(): n for n in schema.names}, {}
    for part, option in COLUMNS.items():
        column = option.of(options)
        if column is None:
            continue
        if column.lower() not in names or names[column.lower()] in parts:
            raise option.bad(column, f"a column of the table, another for each part: {nearest(column, schema.names)}")
        parts[names[column.lower()]] = part
    return Layout(parts, Schema(tuple(f for f in schema if f.name not in parts)))


def value_formats() -> list[str]:
    """Formats that values can have."""
    return sorted({*payload_names(), "avro", "debezium"})


def value_format(options: Mapping[str, str]) -> Format | None:
    """The format of values, if there is one; names of options in lower case. TM4003 for one that values cannot have."""
    name = VALUE_FORMAT.of(options).lower()
    if not name:
        return None
    if name not in value_formats():
        raise VALUE_FORMAT.bad(name, f"one of {', '.join(value_formats())}")
    return registry.lookup(name)


def _inner_options(payload: Format, options: Mapping[str, str]) -> dict[str, str]:
    """Options of the values' format. FAILFAST is left to the messages, which know offsets."""
    given = {n: v for n, v in options.items() if n in payload.option_names}
    if MODE.of(given) is Mode.FAILFAST:
        given[MODE.key] = Mode.DROPMALFORMED.value
    if payload.name == "json":
        given.setdefault(MULTI_LINE.key, "false")
    return given
