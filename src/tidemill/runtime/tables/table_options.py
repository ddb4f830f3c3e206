"""Which options a table takes, of all that are declared: by its format, and by where its rows come from."""

from __future__ import annotations

from collections.abc import Iterable

from tidemill.connectors.iceberg.options import ICEBERG_OPTIONS
from tidemill.connectors.kafka.options import KAFKA_OPTIONS
from tidemill.connectors.mqtt.options import MQTT_OPTIONS
from tidemill.connectors.postgres.options import POSTGRES_OPTIONS
from tidemill.connectors.registry import options_of
from tidemill.errors import SECRET_OPTIONS
from tidemill.formats.adaptor.format import ADAPTOR_OPTIONS
from tidemill.formats.avro.options import AVRO_OPTIONS
from tidemill.formats.base import Format
from tidemill.formats.columnar.rows import COLUMNAR_OPTIONS
from tidemill.formats.csv.options import CSV_OPTIONS
from tidemill.formats.debezium.format import DEBEZIUM_OPTIONS
from tidemill.formats.frames.format import FRAME_OPTIONS
from tidemill.formats.generator.format import GENERATOR_OPTIONS
from tidemill.formats.inference.options import INFERENCE_OPTIONS
from tidemill.formats.json.options import JSON_OPTIONS
from tidemill.formats.native.layout import NATIVE_OPTIONS
from tidemill.formats.orderbook.format import BOOK_OPTIONS
from tidemill.formats.reading.codecs import CODEC_OPTIONS
from tidemill.formats.reading.read_modes import READ_OPTIONS
from tidemill.formats.rescue.options import RESCUE_OPTIONS
from tidemill.objectstore.connection import CONNECTION_OPTIONS
from tidemill.objectstore.queue_options import NOTIFICATION_OPTIONS
from tidemill.options.tables import (
    ALLOW_APPENDS,
    ALLOW_OVERWRITES,
    FILE_ATTEMPTS,
    OP_COLUMN,
    OP_DELETE,
    OP_INSERT,
    PATH,
    TABLE_OPTIONS,
)
from tidemill.runtime.tables.ingest_tables import INGEST_OPTIONS
from tidemill.runtime.tables.socket_tables import SOCKET_OPTIONS
from tidemill.sources.cleaning.options import CLEAN_OPTIONS
from tidemill.sources.filters import FILTER_OPTIONS

GROUPS = (
    TABLE_OPTIONS,
    CSV_OPTIONS,
    JSON_OPTIONS,
    COLUMNAR_OPTIONS,
    AVRO_OPTIONS,
    NATIVE_OPTIONS,
    FRAME_OPTIONS,
    ADAPTOR_OPTIONS,
    DEBEZIUM_OPTIONS,
    BOOK_OPTIONS,
    GENERATOR_OPTIONS,
    RESCUE_OPTIONS,
    INFERENCE_OPTIONS,
    FILTER_OPTIONS,
    CODEC_OPTIONS,
    READ_OPTIONS,
    CLEAN_OPTIONS,
    CONNECTION_OPTIONS,
    NOTIFICATION_OPTIONS,
    SOCKET_OPTIONS,
    INGEST_OPTIONS,
    KAFKA_OPTIONS,
    ICEBERG_OPTIONS,
    POSTGRES_OPTIONS,
    MQTT_OPTIONS,
)
"""All options of tables, in the order of the reference."""

_ALTERABLE = {option.key: option.name for group in GROUPS for option in group.options if option.alterable}

_OF_MILLS = (
    TABLE_OPTIONS.keys
    | NOTIFICATION_OPTIONS.keys
    | INFERENCE_OPTIONS.keys
    | FILTER_OPTIONS.keys
    | SOCKET_OPTIONS.keys
    | CLEAN_OPTIONS.keys
    | ICEBERG_OPTIONS.keys
    | POSTGRES_OPTIONS.keys
)
_OF_FILES = {
    option.key for option in (PATH, OP_COLUMN, OP_INSERT, OP_DELETE, ALLOW_OVERWRITES, ALLOW_APPENDS, FILE_ATTEMPTS)
}

_OPERATIONS = {option.key for option in (OP_COLUMN, OP_INSERT, OP_DELETE)}
_OF_PLAIN_FILES = _OPERATIONS | {option.key for option in (ALLOW_OVERWRITES, ALLOW_APPENDS)}


def is_for_format(option: str) -> bool:
    """Whether an option, by its name in lower case, is passed to the format or to what reads its bytes."""
    return option not in _OF_MILLS


def alterable(options: Iterable[str]) -> set[str]:
    """Those of some options, in lower case, that ALTER TABLE may change.

    They concern when rows are admitted, how a store is reached, and how files are found or cleaned, but never the rows
    themselves. Secrets of connectors of packages can be changed, too.
    """
    return {n.lower() for n in options if n.lower() in _ALTERABLE or n.lower() in SECRET_OPTIONS}


def alterable_names() -> list[str]:
    """All options that ALTER TABLE may change, without those of connectors of packages, as they are spelt."""
    return list(_ALTERABLE.values())


def known_options(
    format_: Format,
    path: str,
    *,
    generated: bool,
    pushed: bool,
    ingested: bool,
    offered: bool,
    of_topics: bool,
    versioned: bool,
    of_postgres: bool,
    of_mqtt: bool,
) -> frozenset[str]:
    """The options that a table takes, in lower case. Errors as :func:`options_of`.

    Parameters
    ----------
    generated, pushed, ingested, offered, of_topics, versioned, of_postgres, of_mqtt : bool
        Whether its rows are generated, come over sockets, come from Spark streams, or from a connector of a package, or
        are messages of topics, or those of a Delta or Iceberg table, or of PostgreSQL, or of an MQTT broker;
        else they are in files or objects.
    """
    if generated:
        return TABLE_OPTIONS.keys - _OF_FILES | format_.option_names
    if of_topics:
        return TABLE_OPTIONS.keys | format_.option_names
    if versioned:
        return TABLE_OPTIONS.keys - _OF_PLAIN_FILES | format_.option_names
    if of_postgres:
        return TABLE_OPTIONS.keys - _OF_PLAIN_FILES | format_.option_names | POSTGRES_OPTIONS.keys
    if of_mqtt:
        return TABLE_OPTIONS.keys - _OF_PLAIN_FILES | _OPERATIONS | format_.option_names | MQTT_OPTIONS.keys
    known = TABLE_OPTIONS.keys | NOTIFICATION_OPTIONS.keys | INFERENCE_OPTIONS.keys | CODEC_OPTIONS.keys
    known |= READ_OPTIONS.keys | format_.option_names | RESCUE_OPTIONS.keys
    if pushed:
        return known | SOCKET_OPTIONS.keys
    if ingested:
        return known | CONNECTION_OPTIONS.keys | INGEST_OPTIONS.keys
    if offered:
        return known | FILTER_OPTIONS.keys | options_of([path]).keys()
    return known | CONNECTION_OPTIONS.keys | FILTER_OPTIONS.keys | CLEAN_OPTIONS.keys
