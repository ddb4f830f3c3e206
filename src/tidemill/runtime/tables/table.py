"""A table as created: its columns, options and location, and their checks."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from tidemill.connectors.generated import GeneratedLocation, parse_pace
from tidemill.connectors.kafka.options import check_kafka_options
from tidemill.connectors.kafka.topics import Topics
from tidemill.connectors.mqtt.options import check_mqtt_options
from tidemill.connectors.registry import is_offered, know_secrets
from tidemill.connectors.versioned.versioned_table import VersionedTable
from tidemill.errors import SECRET_OPTIONS, TidemillError, nearest
from tidemill.formats.base import BEGINNING_BYTES, WholeByBeginning, WholeFiles
from tidemill.formats.debezium.format import OPERATION
from tidemill.formats.generator.format import row_bytes
from tidemill.formats.inference.infer import INFERABLE
from tidemill.formats.kafka.format import KAFKA
from tidemill.formats.messages import Messages
from tidemill.formats.mqtt.format import MQTT
from tidemill.formats.orderbook.format import parse_rules
from tidemill.formats.orderbook.rules import MESSAGES
from tidemill.formats.postgres.format import POSTGRES
from tidemill.formats.reading.codecs import parse_codec_options
from tidemill.formats.reading.read_modes import check_read_mode
from tidemill.formats.registry import lookup
from tidemill.formats.values.columns.time_options import TIME_ZONE
from tidemill.formats.versioned.format import VERSIONED
from tidemill.objectstore.queue_options import NOTIFICATION_OPTIONS
from tidemill.options.option import check_options, lowered
from tidemill.options.tables import (
    ALLOW_APPENDS,
    ALLOW_OVERWRITES,
    BROADCAST,
    FILE_ATTEMPTS,
    OP_COLUMN,
    OP_DELETE,
    OP_INSERT,
    PATH,
    RETAIN_BYTES,
    STATIC,
    TABLE_OPTIONS,
)
from tidemill.plan.algebra import codec
from tidemill.plan.sql.statements import CreateTable
from tidemill.runtime.files.file_policy import FilePolicy
from tidemill.runtime.files.file_progress import clean_queue, cleaned_table, cursor_table, fetch_table, list_table
from tidemill.runtime.files.progress import Limits
from tidemill.runtime.tables.changing_files import check_appends, check_overwrites
from tidemill.runtime.tables.error_budget import ErrorBudget, parse_budget
from tidemill.runtime.tables.inferred_tables import format_options, with_columns
from tidemill.runtime.tables.ingest_tables import INGEST, check_ingested, is_ingested
from tidemill.runtime.tables.kafka_tables import cut, new_place, with_message_columns
from tidemill.runtime.tables.mqtt_tables import mqtt_path, with_mqtt_columns, without_connection
from tidemill.runtime.tables.notified_tables import check_its_queue, check_notifications, parse_backfill
from tidemill.runtime.tables.postgres_tables import path_of, retained_bytes, with_postgres_columns
from tidemill.runtime.tables.primary_key import ORDER_BOOK, is_debezium, with_book_columns, with_primary_key
from tidemill.runtime.tables.socket_tables import check_socket, is_sized, parse_inlet
from tidemill.runtime.tables.static_tables import parse_static
from tidemill.runtime.tables.table_options import alterable, alterable_names, is_for_format, known_options
from tidemill.runtime.tables.versioned_tables import versioned_path, versions_of, with_versioned_columns
from tidemill.runtime.tables.watermark import Watermark, parse_watermark
from tidemill.schema import Field, Schema
from tidemill.sources.cleaning.options import CleanSource, check_clean, parse_clean
from tidemill.sources.file_metadata import metadata_name
from tidemill.sources.locations.location import Location, location_of, pattern_of
from tidemill.sources.sockets.endpoints import is_socket
from tidemill.task.expressions import Literal, Ref
from tidemill.task.program import (
    Calculate,
    Changelog,
    FileVersions,
    ReadPlan,
    StateTable,
    TableSource,
    multiset_table,
)
from tidemill.zones import UTC

GENERATOR = "generator"

STORED_ERRORS = Schema(
    (
        Field("file", pa.string(), False),
        Field("position", pa.int64(), False),
        Field("line", pa.int64(), True),
        Field("at", pa.int64(), True),
        Field("column", pa.string(), True),
        Field("reason", pa.string(), False),
        Field("raw", pa.binary(), False),
    )
)
"""Columns of stored errors: positions are of the row's first byte, ``at`` is that of the error."""

ERRORS_SCHEMA = Schema((Field("source", pa.string(), False), *STORED_ERRORS))
"""Columns of errors as they are read: with the table's name first, so that UNION ALL keeps it."""


@dataclass(frozen=True)
class Table:
    """A table as created.

    ``schema`` is that of its rows. ``uid`` never names another table, not even a later one of the same name.
    ``options`` have lower-case names; ``path`` is the option of that name made absolute, so that a mill may be
    restarted from another directory. A table with a ``primary_key`` is *keyed*: its rows come from messages in
    their order, and are kept from its creation after epoch ``created_at_epoch`` on, whether or not a view reads it; so
    are those of one whose files are ``overwritable``. The columns of an ``inferred`` table come from its files;
    ``added`` are those that it got later (``runtime/catalog/changes/evolution.py``). Texts without a zone are times of
    ``time_zone``, unless the option ``timeZone`` names another. While it is ``paused`` none of its rows are admitted.
    ``bounds`` say where the partitions of its topics begin and end (``connectors/kafka/topics.py``).
    """

    name: str
    uid: str
    format: str
    declared: Schema
    options: Mapping[str, str]
    path: str
    primary_key: tuple[str, ...] = ()
    created_at_epoch: int = 0
    inferred: bool = False
    added: tuple[str, ...] = ()
    time_zone: str = UTC
    paused: bool = False
    bounds: str = ""

    @property
    def pushed(self) -> bool:
        """Whether its rows come over connections, and are read from a spool."""
        return is_socket(self.path)

    @property
    def generated(self) -> bool:
        """Whether its rows are generated."""
        return self.format == GENERATOR

    @property
    def of_topics(self) -> bool:
        """Whether its rows are messages of Kafka's topics."""
        return self.format == KAFKA

    @property
    def versioned(self) -> bool:
        """Whether its rows are those of the newest version of a Delta or Iceberg table."""
        return self.format in VERSIONED

    @property
    def of_postgres(self) -> bool:
        """Whether its rows are those of a table of PostgreSQL."""
        return self.format == POSTGRES

    @property
    def of_mqtt(self) -> bool:
        """Whether its rows are messages of an MQTT broker."""
        return self.format == MQTT

    @property
    def captured(self) -> bool:
        """Whether a thread of the mill receives its rows from a server, into a spool."""
        return self.of_postgres or self.of_mqtt

    @property
    def retained_bytes(self) -> int | None:
        """How much stays of what came otherwise than in files, once it is read; None for all."""
        return retained_bytes(self.options) if self.of_postgres else RETAIN_BYTES.of(self.options)

    @property
    def topics(self) -> Topics | None:
        """Its topics, where it has some."""
        return self.location.topics if self.of_topics else None

    @property
    def ingested(self) -> bool:
        """Whether Spark streams are written into it."""
        return is_ingested(self.path)

    @property
    def spooled(self) -> bool:
        """Whether its rows are read from a spool of the root."""
        return self.pushed or self.captured

    @property
    def listed(self) -> bool:
        """Whether its rows are in files that are listed."""
        return not self.spooled and not self.ingested

    @property
    def keyed(self) -> bool:
        """Whether the table is kept, row by row, from ordered messages."""
        return bool(self.primary_key)

    @property
    def overwritable(self) -> bool:
        """Whether its files may be overwritten, or others be there in their place."""
        return ALLOW_OVERWRITES.of(self.options) or (self.versioned and not self.static)

    @property
    def kept(self) -> bool:
        """Whether its rows are kept from its creation on, whether or not a view reads it."""
        return self.keyed or self.overwritable

    @property
    def readable(self) -> bool:
        """Whether it can be read like a view.

        A deletion by ``opColumn`` may be in another file than its row; the two are kept apart, and only views over the
        table put them together.
        """
        return self.keyed or (self.overwritable and self.op_column is None)

    @property
    def op_column(self) -> str | None:
        """The column that says insert or delete; it is not a column of the table."""
        name = OP_COLUMN.of(self.options)
        if name is None:
            return None
        return next((f.name for f in self.declared if f.name.lower() == name.lower()), name)

    @property
    def schema(self) -> Schema:
        """Columns of the table's rows."""
        return Schema(tuple(f for f in self.declared if f.name != self.op_column))

    @property
    def watermark(self) -> Watermark | None:
        """The watermark, if it has one. Errors as :func:`parse_watermark`."""
        return parse_watermark(self.options, self.schema)

    @property
    def static(self) -> bool:
        """Whether all its rows come before those of any other table. Errors as :func:`parse_static`."""
        return parse_static(self.options, self.keyed)

    @property
    def location(self) -> Location:
        """Where its files are. Errors as :func:`location_of`."""
        return location_of(self.path, self.options, self.bounds, self._versions())

    def _versions(self) -> VersionedTable | None:
        """Where the versions of its table are listed, which has to have its columns; None for other tables."""
        if not self.versioned:
            return None
        named = metadata_name(self.options)  # rows that say which file they are of are not those of other files
        columns = [field for field in self.declared if field.name != named]
        return versions_of(self.format, self.path, self.options, columns, by_file=named is not None)

    @property
    def backfill_seconds(self) -> float:
        """How often a location with notifications is listed. Errors as :func:`parse_backfill`."""
        return parse_backfill(self.options)

    @property
    def broadcast(self) -> bool | None:
        """Whether it may be the small side of a join, whatever its size; None leaves that to its size."""
        return BROADCAST.of(self.options)

    @property
    def budget(self) -> ErrorBudget:
        """How many malformed rows it tolerates. Errors as :func:`parse_budget`."""
        return parse_budget(self.options)

    def same_but_for_limits(self, statement: CreateTable) -> bool:
        """Whether a statement would create this table, perhaps with other values of options that can be changed.

        Columns that were inferred or added later do not count.
        """
        given = lowered(statement.options)
        fixed = [{k: v for k, v in options.items() if k not in alterable(options)} for options in (self.options, given)]
        if fixed[0] != fixed[1] or self.format != statement.format:
            return False
        if self.inferred and not len(statement.schema):
            return {n.lower() for n in statement.primary_key} == {n.lower() for n in self.primary_key}
        made = with_primary_key(with_columns(with_mqtt_columns(with_message_columns(with_book_columns(statement)))))
        first = Schema(tuple(f for f in self.declared if f.name not in self.added))
        return not self.inferred and (first, self.primary_key) == (made.schema, made.primary_key)

    def codec(self, path: str) -> str | None:
        """How a file of the table is compressed, if it is."""
        return parse_codec_options(self.options).of(path)

    def cut(self, limits: Limits) -> Limits:
        """What an epoch may admit of the table, of what it may admit at most."""
        return cut(limits, self.options) if self.of_topics else limits

    def compressed(self, path: str) -> bool:
        """Whether a file of the table is compressed as a whole."""
        return self.codec(path) is not None

    def unsplittable(self, path: str) -> bool:
        """Whether a file of the table, or what it has grown by, can only be read from its beginning to its end.

        May read the beginning of the file, unless it is compressed: then its reader finds out.
        """
        schema = self.source().file_schema
        if self.pushed:
            return is_sized(self.format, schema, self.options)
        format_ = lookup(self.format)
        if isinstance(format_, WholeFiles) and format_.reads_whole_files(schema, self.options):
            return True
        if self.compressed(path) or not isinstance(format_, WholeByBeginning):
            return False
        return format_.begins_whole(schema, self.options, self.location.beginning(path, BEGINNING_BYTES))

    @property
    def file_policy(self) -> FilePolicy:
        """How files are treated that change or cannot be read. TM4003 for bad values of options."""
        changes = self.overwritable, ALLOW_APPENDS.of(self.options)
        rule = self.clean_source
        return FilePolicy(
            *changes,
            FILE_ATTEMPTS.of(self.options),
            self.keyed and self.listed,
            self.static or not self.listed,
            lambda path: not self.compressed(path),
            cleans=rule is not None,
            forgets=rule is not None and not rule.retention and not self.kept,
            versioned=self.versioned and not self.static,
        )

    @property
    def clean_source(self) -> CleanSource | None:
        """How files are cleaned that were read; None if they are not. TM4003 for bad values of options."""
        return parse_clean(self.options) if self.listed else None

    def source(self) -> TableSource:
        """The definition of its scan."""
        fields = self.declared.fields
        if self.op_column is not None and self.op_column not in self.declared.names:
            fields = (*fields, Field(self.op_column, pa.string()))
        given = format_options(self.format, self.options, self.inferred)
        if self.of_mqtt:
            given = without_connection(given)
        if self.time_zone != UTC and TIME_ZONE.key in lookup(self.format).option_names:
            given = {TIME_ZONE.key: self.time_zone, **given}
        options = tuple(sorted((k, v) for k, v in given.items() if is_for_format(k)))
        values = (OP_INSERT.of(self.options), OP_DELETE.of(self.options))
        errors = multiset_table(f"errors:{self.uid}", STORED_ERRORS.types, 2)
        schema, op_column = Schema(fields), self.op_column
        if is_debezium(self.format, self.options) or self.of_postgres:
            schema, op_column = Schema((*fields, Field(OPERATION, pa.string(), False))), OPERATION
        elif self.format == ORDER_BOOK:
            schema = MESSAGES
        messages = None
        if self.keyed and op_column is not None:
            messages = Messages(self.primary_key, op_column, values[1])
        log = self._changelog() if self.keyed else None
        watermark = None if self.watermark is None else self.watermark.column
        place = (self.name, self.uid, self.format, schema, options, op_column, values, errors, log)
        versions = FileVersions(self.schema, self.created_at_epoch) if self.overwritable else None
        return TableSource(
            *place, watermark, metadata_name(self.options), self.static, versions, self.spooled, messages
        )

    def _changelog(self) -> Changelog:
        rows = self.schema
        book = parse_rules(self.options) if self.format == ORDER_BOOK else None
        return Changelog(rows, tuple(rows.names.index(n) for n in self.primary_key), self.created_at_epoch, book)

    def errors_plan(self) -> ReadPlan:
        """How ``<table>__errors`` is read."""
        columns = tuple(Ref(i, f.type, f.nullable) for i, f in enumerate(STORED_ERRORS))
        named = Calculate(None, (Literal(self.name, pa.string()), *columns))
        return ReadPlan(self.source().errors, None, (), (named,), ERRORS_SCHEMA)

    def with_options(self, options: Mapping[str, str | None]) -> Table:
        """With other values for some options; None takes an option back.

        Raises
        ------
        TidemillError
            TM2023 for an option that cannot be changed, TM4003 for a bad value, TM5080 and TM5081 for files that cannot
            be cleaned.
        """
        known = _known_options(self)
        own = [name for name in alterable_names() if name.lower() in known]
        for option in options:
            if not alterable([option]) or option.lower() not in known:
                raise TidemillError(
                    "TM2023",
                    "this option of a table cannot be changed",
                    got=option,
                    hint=f"{nearest(option, own)}; others decide what the rows are, so that they need a new table",
                )
        changed = {name.lower(): value for name, value in options.items()}
        kept = {k: v for k, v in self.options.items() if k not in changed}
        given = {k: v for k, v in changed.items() if v is not None}
        table = replace(self, options={**kept, **given})
        _check_limits(table)
        if NOTIFICATION_OPTIONS.keys & changed.keys():
            check_its_queue(table.options, table.path)
        return table

    def to_json(self) -> dict[str, Any]:
        """As stored in a manifest: without secrets, which the script or the environment gives again."""
        options = {name: value for name, value in self.options.items() if name not in SECRET_OPTIONS}
        fields = {_STORED.get(name, name): value for name, value in vars(self).items()}
        return {**fields, "declared": codec.encode(self.declared), "options": options}


_STORED = {"created_at_epoch": "born"}
"""Fields of a table that have another name in manifests."""


def source_tables(table: Table) -> tuple[StateTable, ...]:
    """The state tables of a table's source: names, files being read, cursors, files to be cleaned, errors."""
    found = (make(table.uid) for make in (list_table, fetch_table, cursor_table, cleaned_table, clean_queue))
    return (*found, table.source().errors)


def new_table(statement: CreateTable, uid: str, created_at_epoch: int, time_zone: str = UTC) -> Table:
    """The table that a statement creates after an epoch, in a mill of a time zone.

    Raises
    ------
    TidemillError
        TM4001 to TM4004 for format and options, TM2011 for opColumn, TM5001 and TM5002 for the path, TM5075 to TM5078
        for the queue; as :func:`with_primary_key` for the key.
    """
    statement = with_mqtt_columns(with_message_columns(with_book_columns(statement)))
    inferred = not len(statement.schema) and statement.format in {*INFERABLE, *VERSIONED, POSTGRES}
    statement = with_postgres_columns(with_versioned_columns(statement))
    options = lowered(statement.options)
    path = PATH.of(options) or ""
    pushed, given = is_socket(path), is_ingested(path)
    if pushed:
        check_socket(statement.format, statement.schema, options)
    elif given:
        check_ingested(statement.format, statement.schema, options)
    statement = with_primary_key(with_columns(statement))
    if given:
        path = INGEST + uid
    elif statement.format in VERSIONED:
        path = versioned_path(statement.format, options)
    elif PATH.key in options and not pushed:
        path = pattern_of(path)
    if statement.format == GENERATOR:
        path = _generated_path(statement.schema, options)
    if statement.format == POSTGRES:
        path = path_of(options)
    if statement.format == MQTT:
        path = mqtt_path(options)
    bounds = ""
    if statement.format == KAFKA:
        path, bounds = new_place(options)
    place = (statement.name, uid, statement.format, statement.schema, options, path)
    table = Table(*place, statement.primary_key, created_at_epoch, inferred, time_zone=time_zone, bounds=bounds)
    _check_table(table, statement)
    return table


def _generated_path(schema: Schema, options: Mapping[str, str]) -> str:
    """The path of a table that is created now. TM4003 for options that only tables with files or sockets have."""
    for option in (PATH, OP_COLUMN):
        if option.key in options:
            raise option.bad(options[option.key], "leave it out: rows are generated")
    if parse_pace(options).rate is not None and STATIC.of(options):
        raise STATIC.bad("true", "leave it or rowsPerSecond out: a static table does not grow")
    return GeneratedLocation(time.time_ns() // 1000, row_bytes(schema, options)).path


def table_from_json(data: Mapping[str, Any]) -> Table:
    """What :meth:`Table.to_json` gave."""
    know_secrets(data["path"])
    stored = {name: data[name] for name in data if name not in _STORED.values()}
    renamed = {name: data[old] for name, old in _STORED.items() if old in data}
    names = {n: tuple(data.get(n, ())) for n in ("primary_key", "added")}
    return Table(**{**stored, **renamed, "declared": codec.decode(data["declared"]), **names})


def _check_table(table: Table, statement: CreateTable) -> None:
    format_ = lookup(table.format)
    check_options(table.format, statement.options, _known_options(table))
    if table.keyed and table.watermark is not None:
        raise TidemillError(
            "TM2022",
            "a table with a PRIMARY KEY cannot have a watermark",
            got=f"watermark '{table.watermark.column}'",
            hint="a late message still changes its row; put the watermark on a table without a key",
        )
    lowered = [n.lower() for n in table.declared.names]
    if len(set(lowered)) < len(lowered):
        twice = next(n for n in lowered if lowered.count(n) > 1)
        raise TidemillError("TM2005", "two columns have the same name", got=twice, hint="rename one of them")
    if not table.path.strip():
        raise TidemillError(
            "TM5005", "a table needs a path", got=table.name, hint="OPTIONS (path 'directory, file or glob')"
        )
    if not table.declared.fields:
        raise TidemillError(
            "TM2009",
            "a table needs columns",
            got=table.name,
            hint="CREATE TABLE name (column type, ...) USING ...",
        )
    source = table.source()
    if (
        OP_COLUMN.key in table.options
        and source.schema.fields[source.schema.names.index(str(source.op_column))].type != pa.string()
    ):
        raise TidemillError(
            "TM2011",
            "opColumn must be a string column",
            got=str(table.op_column),
            hint="declare it as STRING",
        )
    format_.validate(source.file_schema, dict(source.options))
    if table.pushed:
        parse_inlet(table.format, source.file_schema, table.options)
    parse_codec_options(table.options)
    check_read_mode(table.format, format_.reader(source.file_schema, dict(source.options), ()), table.options)
    check_overwrites(table.options, table.overwritable, table.keyed, table.pushed)
    check_appends(table.format, table.options, table.listed and table.location.local)
    _check_limits(table)
    if table.listed:
        next(table.location.listing(), None)
        check_its_queue(table.options, table.path)


def _known_options(table: Table) -> frozenset[str]:
    """The options that a table of its kind takes, in lower case."""
    offered = table.listed and is_offered(table.path)
    kind = {"generated": table.generated, "pushed": table.pushed, "ingested": table.ingested, "offered": offered}
    kind |= {"of_topics": table.of_topics, "versioned": table.versioned}
    kind |= {"of_postgres": table.of_postgres, "of_mqtt": table.of_mqtt}
    return known_options(lookup(table.format), table.path, **kind)


def _check_limits(table: Table) -> None:
    """TM4003 for a bad value of an option that can be changed; TM5080 and TM5081 as :func:`check_clean`."""
    for option in TABLE_OPTIONS.options:
        option.of(table.options)
    if table.of_mqtt:
        check_mqtt_options(table.options)
    if table.of_topics:
        check_kafka_options(table.options)
    check_notifications(table.options, table.path, table.keyed)
    if table.listed:
        _ = table.location
    check_clean(table.options, table.location if table.listed else None)
