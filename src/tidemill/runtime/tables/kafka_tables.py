"""Tables USING kafka: their columns, their path, and where their partitions begin."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from tidemill.connectors.kafka.errors import begins_without
from tidemill.connectors.kafka.options import COLUMNS, MAX_OFFSETS, MIN_PARTITIONS, SUBSCRIBE, parse_subscription
from tidemill.connectors.kafka.partitions import UNIT, begin_of
from tidemill.connectors.kafka.topics import Topics, bounds_now
from tidemill.connectors.schema_registry.options import registry_of
from tidemill.connectors.schema_registry.schemas import newest_schema
from tidemill.connectors.shared_options import VALUE_FORMAT
from tidemill.errors import TidemillError
from tidemill.formats.avro.options import AVRO_SCHEMA
from tidemill.formats.avro.values import columns_of_schema
from tidemill.formats.kafka.format import KAFKA, PARTS, message_schema
from tidemill.formats.payloads.layout import with_parts
from tidemill.options.option import lowered
from tidemill.options.tables import (
    ALLOW_APPENDS,
    ALLOW_OVERWRITES,
    METADATA_COLUMN,
    OP_COLUMN,
    PATH,
    STATIC,
)
from tidemill.plan.sql.statements import CreateTable
from tidemill.runtime.files.file_progress import FileProgress, ListedFile
from tidemill.runtime.files.progress import Limits
from tidemill.schema import Schema


def with_message_columns(statement: CreateTable) -> CreateTable:
    """The statement with the columns of messages, if it leaves them out.

    Where values are Avro these are the columns of the schema.

    Raises
    ------
    TidemillError
        TM4071 where there is no schema, TM4072 for a type that no column holds; as asking a registry.
    """
    options = lowered(statement.options)
    if statement.format != KAFKA or len(statement.schema):
        return statement
    if VALUE_FORMAT.of(options).lower() == "avro":
        return replace(statement, schema=_of_avro(statement.name, options))
    return statement if VALUE_FORMAT.of(options) else replace(statement, schema=message_schema(options))


def _of_avro(table: str, options: Mapping[str, str]) -> Schema:
    """The columns of the schema that is given, or of the newest one that the registry has of the only topic, and those
    that options name for what else a message has."""
    text, registry = AVRO_SCHEMA.of(options), registry_of(options)
    topics = SUBSCRIBE.of(options) or ()
    subject = f"{topics[0]}-value" if len(topics) == 1 else ""
    written = newest_schema(registry, subject) if registry and subject and text is None else None
    if text is None and (written is None or written.kind != "AVRO"):
        raise TidemillError(
            "TM4071",
            "no columns can be inferred",
            got=f"{table}: the registry has no Avro schema of {subject or 'a single topic'}",
            hint="list the columns with their types",
        )
    found = (
        columns_of_schema(text or "", ()) if written is None else columns_of_schema(written.text, written.references)
    )
    return with_parts(found, options, COLUMNS, PARTS)


def new_place(options: Mapping[str, str]) -> tuple[str, str]:
    """The path of a table that is created now, and where its partitions begin and end; names in lower case.

    Raises
    ------
    TidemillError
        TM4003 for options that do not belong to such a table; others as asking the brokers.
    """
    for option, hint in (
        (PATH, "leave it out: subscribe names the topics"),
        (STATIC, "leave it out: topics grow"),
        (ALLOW_OVERWRITES, "leave it out: messages do not change"),
        (ALLOW_APPENDS, "leave it out: topics grow"),
        (METADATA_COLUMN, "topicColumn, partitionColumn and offsetColumn say where a message comes from"),
    ):
        if option.key in options:
            raise option.bad(options[option.key], hint)
    if OP_COLUMN.key in options and not VALUE_FORMAT.of(options):
        raise OP_COLUMN.bad(options[OP_COLUMN.key], "only with value.format")
    return parse_subscription(options).path, bounds_now(options)


def gone_messages(
    table: str, topics: Topics | None, as_listed: Callable[[list[str]], Mapping[str, FileProgress | ListedFile]]
) -> list[str]:
    """A warning where topics do not have all messages of a table any more; none where brokers do not answer.

    Parameters
    ----------
    as_listed : callable
        Gives partitions by path, as the table has read them.
    """
    try:
        first = {} if topics is None else topics.begins()
    except TidemillError:
        return []
    lost = sum(max(first[path] - begin_of(file.etag), 0) for path, file in as_listed(list(first)).items())
    return [begins_without(table, lost // UNIT).message()] if lost else []


def cut(limits: Limits, options: Mapping[str, str]) -> Limits:
    """What an epoch may admit of the partitions of a table, which share it."""
    most, least = MAX_OFFSETS.of(options), MIN_PARTITIONS.of(options)
    bytes_ = limits.bytes if most is None else min(limits.bytes, most * UNIT)
    split = 1 << 62 if least is None else max(UNIT, bytes_ // least)  # to begin to fetch takes longer than to go on
    return replace(limits, bytes=bytes_, split_bytes=split, evenly=True)
