"""Tables USING mqtt: their columns, options and path. Their messages wait in a spool, as those of sockets do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from urllib.parse import quote

from tidemill.connectors.mqtt.errors import not_installed
from tidemill.connectors.mqtt.options import MQTT_OPTIONS, VALUE_KEYS, broker_of, check_mqtt_options, topics_of
from tidemill.connectors.shared_options import VALUE_FORMAT
from tidemill.formats.mqtt.format import MQTT, message_schema
from tidemill.options.option import lowered
from tidemill.options.tables import METADATA_COLUMN, OP_COLUMN, PATH, STATIC
from tidemill.plan.sql.statements import CreateTable


def with_mqtt_columns(statement: CreateTable) -> CreateTable:
    """The statement with the columns of messages, if it leaves them out and payloads have no format."""
    if statement.format != MQTT or len(statement.schema) or VALUE_FORMAT.of(lowered(statement.options)):
        return statement
    return replace(statement, schema=message_schema())


def mqtt_path(options: Mapping[str, str]) -> str:
    """The path of a table that is created now, which names it; names of options in lower case.

    Raises
    ------
    TidemillError
        TM4003 for options, TM5125 without the client.
    """
    for option, hint in (
        (PATH, "leave it out: host and topics name the messages"),
        (STATIC, "leave it out: messages come"),
        (METADATA_COLUMN, "topicColumn and timestampColumn say where and when a message came"),
    ):
        if option.key in options:
            raise option.bad(options[option.key], hint)
    check_mqtt_options(options)
    if OP_COLUMN.key in options and not VALUE_FORMAT.of(options):
        raise OP_COLUMN.bad(options[OP_COLUMN.key], "only with value.format")
    try:
        import paho.mqtt.client  # noqa: F401  # before the table is there
    except ImportError as error:
        raise not_installed(error) from error
    return f"{broker_of(options)}/{quote(','.join(topics_of(options)), safe='/+#,$')}"


def without_connection(options: Mapping[str, str]) -> dict[str, str]:
    """The options of a table that its tasks need: they read a spool, and connect to no broker."""
    return {n: v for n, v in options.items() if n not in MQTT_OPTIONS.keys - VALUE_KEYS}
