"""Messages of MQTT: the format of their payloads, and columns for what else a message has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa

from tidemill.connectors.mqtt.options import COLUMNS, VALUE_KEYS
from tidemill.connectors.mqtt.records import HEAD, MOST_BYTES, SIZE_BYTES
from tidemill.formats import registry
from tidemill.formats.messages import Messages
from tidemill.formats.mqtt.rows import MqttBuilder
from tidemill.formats.payloads.layout import Layout, check_parts, layout_of
from tidemill.formats.payloads.values import check_values, plain_formats, value_format, values_of
from tidemill.formats.records.sized_records import SizedSplitReader, SizeRules
from tidemill.formats.rows.malformed import MODE
from tidemill.options.option import lowered
from tidemill.schema import TIMESTAMP, Field, Schema

MQTT = "mqtt"

_TYPES: Mapping[str, tuple[pa.DataType, ...]] = {
    "topic": (pa.string(),),
    "payload": (pa.binary(), pa.string()),
    "qos": (pa.int32(),),
    "retain": (pa.bool_(),),
    "received": (TIMESTAMP,),
}
_RULES = SizeRules(SIZE_BYTES, False, HEAD.itemsize, MOST_BYTES)


class MqttFormat:
    """Messages of topics, as they wait in a spool.

    Without ``value.format`` the columns are ``topic``, ``payload`` (BINARY, or STRING if declared so), ``qos``,
    ``retain`` and ``received``. Those that are wanted may be declared, in any order.

    With ``value.format`` each payload is read as a file of that format: none, one or several rows; JSON may have line
    ends within a document. An empty payload has no row. The options of that format stand beside the others.
    ``topicColumn``, ``timestampColumn``, ``qosColumn`` and ``retainColumn`` name columns for what else a message has.

    **Malformed rows.** Those of the payloads' format; ``bad_utf8`` for a payload that is not UTF-8, where
    a STRING was declared.
    """

    name = MQTT

    @property
    def option_names(self) -> frozenset[str]:
        """Its own, and those of every format that payloads can have; :meth:`validate` rejects others than these."""
        return VALUE_KEYS.union({MODE.key}, *(registry.lookup(name).option_names for name in plain_formats()))

    def validate(self, schema: Schema, options: Mapping[str, str]) -> None:
        """See :meth:`tidemill.formats.base.Format.validate`. TM4005 for an option that the payloads' format lacks."""
        given = lowered(options)
        layout = _layout(schema, given)
        check_parts(self.name, schema, layout, _TYPES)
        check_values(self.name, VALUE_KEYS, value_format(given, plain_formats()), layout.value, given)

    def reads_whole_files(self, schema: Schema, options: Mapping[str, str]) -> bool:
        """See :class:`tidemill.formats.base.WholeFiles`."""
        return True

    def records(self, schema: Schema, options: Mapping[str, str]) -> SizeRules:
        """See :class:`tidemill.formats.records.spooled_records.RecordFormat`."""
        return _RULES

    def reader(self, schema: Schema, options: Mapping[str, str], needed: Sequence[str]) -> MqttReader:
        """See :meth:`tidemill.formats.base.Format.reader`."""
        return self._reader(schema, options, needed, None)

    def message_reader(
        self, schema: Schema, options: Mapping[str, str], needed: Sequence[str], messages: Messages
    ) -> MqttReader:
        """See :class:`tidemill.formats.messages.MessageFormat`."""
        return self._reader(schema, options, needed, messages)

    def _reader(
        self, schema: Schema, options: Mapping[str, str], needed: Sequence[str], messages: Messages | None
    ) -> MqttReader:
        given = lowered(options)
        layout, payload = _layout(schema, given), value_format(given, plain_formats())
        fields, values = {f.name: f for f in schema}, None
        if payload is not None:
            wanted = [name for name in needed if name not in layout.parts]
            values = values_of(payload, layout.value, given, wanted, messages)
        read = [*needed, *(n for n, p in layout.parts.items() if p == "payload" and n not in needed)]
        parts = {name: layout.parts[name] for name in read if name in layout.parts}
        return MqttReader(MqttBuilder([fields[name] for name in read], len(needed), parts, values, MODE.of(given)))


class MqttReader:
    """See :class:`tidemill.formats.base.RowReader`."""

    def __init__(self, builder: MqttBuilder) -> None:
        self._builder = builder

    def header_bytes_needed(self) -> bool:
        """See :meth:`tidemill.formats.base.RowReader.header_bytes_needed`."""
        return False

    def split(
        self, *, start: int, end: int, file_size: int, in_quotes: bool | None, header: bytes | None
    ) -> SizedSplitReader:
        """See :meth:`tidemill.formats.base.RowReader.split`; a split from byte 0 on owns all messages."""
        return SizedSplitReader(self._builder, _RULES, start=start, end=min(end, file_size))


def message_schema() -> Schema:
    """The columns of a table that declares none, without ``value.format``."""
    return Schema(tuple(Field(name, types[0]) for name, types in _TYPES.items()))


def _layout(schema: Schema, options: Mapping[str, str]) -> Layout:
    """Which columns are parts of a message. Errors as :func:`~tidemill.formats.payloads.layout.layout_of`."""
    return layout_of(schema, options, COLUMNS, None if value_format(options, plain_formats()) else _TYPES)
