"""Messages of Kafka: the format of their values, and columns for what else a message has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa

from tidemill.connectors.kafka.options import COLUMNS, INCLUDE_HEADERS, KAFKA_OPTIONS
from tidemill.formats import registry
from tidemill.formats.kafka.rows import KafkaReader
from tidemill.formats.messages import Messages
from tidemill.formats.payloads.layout import Layout, check_parts, layout_of
from tidemill.formats.payloads.values import check_values, plain_formats, value_format, values_of
from tidemill.formats.rows.malformed import MODE
from tidemill.options.option import lowered
from tidemill.schema import TIMESTAMP, Field, Schema

KAFKA = "kafka"

_HEADERS: pa.DataType = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
PARTS: Mapping[str, tuple[pa.DataType, ...]] = {
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
        layout = _layout(schema, given)
        check_parts(self.name, schema, layout, PARTS)
        check_values(self.name, KAFKA_OPTIONS.keys, value_format(given, value_formats()), layout.value, given)

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
        layout, payload, mode = _layout(schema, given), value_format(given, value_formats()), MODE.of(given)
        fields = {f.name: f for f in schema}
        asked, values = [fields[name] for name in needed], None
        if payload is not None:
            wanted = [name for name in needed if name not in layout.parts]
            values = values_of(payload, layout.value, given, wanted, messages)
        parts = {name: layout.parts[name] for name in needed if name in layout.parts}
        checked = {n: p for n, p in layout.parts.items() if p in _MAY_BE_NULL and not fields[n].nullable}
        return KafkaReader(asked, parts, {n: (p, fields[n]) for n, p in checked.items()}, values, mode)


def message_schema(options: Mapping[str, str]) -> Schema:
    """The columns of a table that declares none, without ``value.format``; names of options in lower case."""
    names = (*_SPARKS_ORDER, "headers") if INCLUDE_HEADERS.of(options) else _SPARKS_ORDER
    return Schema(tuple(Field(name, PARTS[name][0]) for name in names))


def _layout(schema: Schema, options: Mapping[str, str]) -> Layout:
    """Which columns are parts of a message. Errors as :func:`~tidemill.formats.payloads.layout.layout_of`."""
    valued = value_format(options, value_formats()) is not None
    if valued and INCLUDE_HEADERS.key in options:
        raise INCLUDE_HEADERS.bad(options[INCLUDE_HEADERS.key], "headersColumn names a column for them")
    return layout_of(schema, options, COLUMNS, None if valued else PARTS)


def value_formats() -> list[str]:
    """Formats that values can have."""
    return sorted({*plain_formats(), "debezium"})
