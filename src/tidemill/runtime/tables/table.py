"""A table as created: its columns, options and place, and whether these are right."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from tidemill.connectors.generated import GeneratedPlace, parse_pace
from tidemill.connectors.registry import is_offered, know_secrets, options_of
from tidemill.errors import SECRET_OPTIONS, TidemillError, nearest
from tidemill.formats.base import BEGINNING_BYTES, WholeByBeginning, WholeFiles
from tidemill.formats.changes import DELETES_OPTION
from tidemill.formats.debezium.format import KEY_OPTION, OPERATION
from tidemill.formats.generator.format import row_bytes
from tidemill.formats.inference.infer import INFERABLE
from tidemill.formats.inference.options import INFERENCE_OPTIONS
from tidemill.formats.options import TABLE_OPTIONS, ZONE_OPTION, bad_option, check_options, flag, parse_size
from tidemill.formats.orderbook.format import parse_rules
from tidemill.formats.orderbook.rules import MESSAGES
from tidemill.formats.reading.codecs import CODEC_OPTIONS, parse_codec_options
from tidemill.formats.reading.read_modes import READ_OPTIONS, check_read_mode
from tidemill.formats.registry import lookup
from tidemill.formats.rescue.options import RESCUE_OPTIONS
from tidemill.objectstore.connection import CONNECTION_OPTIONS, SPELT_CONNECTION
from tidemill.objectstore.queue_options import NOTIFICATION_OPTIONS, SPELT_NOTIFICATIONS
from tidemill.plan.algebra import codec
from tidemill.plan.sql.statements import CreateTable
from tidemill.runtime.files.file_progress import clean_queue, cleaned_table, cursor_table, fetch_table, list_table
from tidemill.runtime.files.listed_files import FilePolicy
from tidemill.runtime.tables.appends import check_appends, parse_appends
from tidemill.runtime.tables.error_budget import BUDGET_OPTIONS, ErrorBudget, parse_budget
from tidemill.runtime.tables.inferred_tables import format_options, with_columns
from tidemill.runtime.tables.ingest_tables import INGEST, INGEST_OPTIONS, check_ingested, is_ingested
from tidemill.runtime.tables.notified_tables import check_its_queue, check_notifications, parse_backfill
from tidemill.runtime.tables.overwrites import check_overwrites, parse_overwrites
from tidemill.runtime.tables.primary_key import DEBEZIUM, ORDER_BOOK, with_primary_key
from tidemill.runtime.tables.socket_tables import STREAM_OPTIONS, check_stream, is_sized, parse_inlet
from tidemill.runtime.tables.static_tables import parse_static
from tidemill.runtime.tables.watermark import Watermark, parse_watermark
from tidemill.schema import Field, Schema
from tidemill.sources.cleaning.options import CLEAN_OPTIONS, SPELT_CLEAN, CleanSource, check_clean, parse_clean
from tidemill.sources.file_metadata import metadata_name
from tidemill.sources.filters import FILTER_OPTIONS
from tidemill.sources.locations.location import Place, pattern_of, place_of
from tidemill.sources.sockets.endpoints import is_stream
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

_OWN_OPTIONS = TABLE_OPTIONS | INFERENCE_OPTIONS | FILTER_OPTIONS | STREAM_OPTIONS | CLEAN_OPTIONS
"""Options of any table that its format is not told of; those of codecs and of how to read it is."""

LIMIT_OPTIONS = ("maxFilesPerTrigger", "maxBytesPerTrigger", "maxRowsPerTrigger")

_PLACE_OPTIONS = (*SPELT_CONNECTION, *SPELT_NOTIFICATIONS, *SPELT_CLEAN)
CHANGEABLE = {name.lower(): name for name in (*BUDGET_OPTIONS, *LIMIT_OPTIONS, "fileAttempts", *_PLACE_OPTIONS)}
"""Options of a table that can be changed: they say when its rows are admitted, how its store is reached, how its files
are found or what becomes of them, and nothing about what rows are. Secrets of connectors of packages can be, too.
"""


def changeable(options: Iterable[str]) -> set[str]:
    """Those of some options that can be changed, in lower case."""
    return {n.lower() for n in options if n.lower() in CHANGEABLE or n.lower() in SECRET_OPTIONS}


GENERATOR = "generator"
_WITHOUT_FILES = {"path", "opcolumn", "opinsert", "opdelete", "allowoverwrites", "allowappends", "fileattempts"}
"""Options that generated tables do not have."""

ERRORS_SUFFIX = "__errors"
"""``<table>__errors`` reads as a view with one row per malformed field or row."""

FILES_SUFFIX = "__files"
"""``<table>__files`` reads as a view with one row for each file: ``runtime/read/file_status.py``."""

STATUS_SUFFIX = "__status"
"""``<table>__status`` reads as a view with one row for each connection of a pushed stream."""

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
"""What is kept of each: positions are of the row's first byte, ``at`` is that of what is wrong with it."""

ERRORS_SCHEMA = Schema((Field("source", pa.string(), False), *STORED_ERRORS))
"""What is read: with the table's name first, so that the errors of several tables can be put together."""


@dataclass(frozen=True)
class Table:
    """A table as created.

    ``schema`` is that of its rows. ``uid`` never names another table, not even a later one of the same name.
    ``options`` have lower-case names; ``path`` is the option of that name made absolute, so that a mill may be
    restarted from another directory. A table with a ``primary_key`` is *keyed*: its rows come from messages in
    their order, and are kept from its creation after epoch ``born`` on, whether or not a view reads it; so are those of
    one whose files are ``overwritable``. The columns of an ``inferred`` table come from its files; ``added`` are those
    that it got later (``runtime/catalog/evolution.py``). Texts without a zone are times of ``time_zone``, unless the
    option ``timeZone`` names another.
    """

    name: str
    uid: str
    format: str
    declared: Schema
    options: Mapping[str, str]
    path: str
    primary_key: tuple[str, ...] = ()
    born: int = 0
    inferred: bool = False
    added: tuple[str, ...] = ()
    time_zone: str = UTC

    @property
    def pushed(self) -> bool:
        """Whether its rows come over connections, and are read from a spool."""
        return is_stream(self.path)

    @property
    def generated(self) -> bool:
        """Whether nobody writes its rows."""
        return self.format == GENERATOR

    @property
    def ingested(self) -> bool:
        """Whether Spark streams are written into it."""
        return is_ingested(self.path)

    @property
    def listed(self) -> bool:
        """Whether its rows are in files that are looked for."""
        return not self.pushed and not self.ingested

    @property
    def keyed(self) -> bool:
        """Whether the table is kept, row by row, from ordered messages."""
        return bool(self.primary_key)

    @property
    def overwritable(self) -> bool:
        """Whether its files may be overwritten. Errors as :func:`parse_overwrites`."""
        return parse_overwrites(self.options)

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
        name = self.options.get("opcolumn")
        if name is None:
            return None
        return next((f.name for f in self.declared if f.name.lower() == name.lower()), name)

    @property
    def schema(self) -> Schema:
        """Columns of the table's rows."""
        return Schema(tuple(f for f in self.declared if f.name != self.op_column))

    @property
    def watermark(self) -> Watermark | None:
        """Which rows come too late to be admitted. Errors as :func:`parse_watermark`."""
        return parse_watermark(self.options, self.schema)

    @property
    def static(self) -> bool:
        """Whether all its rows come before those of any other table. Errors as :func:`parse_static`."""
        return parse_static(self.options, self.keyed)

    @property
    def place(self) -> Place:
        """Where its files are. Errors as :func:`place_of`."""
        return place_of(self.path, self.options)

    @property
    def backfill_seconds(self) -> float:
        """How often a place with notifications is listed. Errors as :func:`parse_backfill`."""
        return parse_backfill(self.options)

    @property
    def broadcast(self) -> bool | None:
        """Whether it may be the small side of a join, whatever its size; None leaves that to its size.

        Raises
        ------
        TidemillError
            TM4003 for a value that is neither true nor false.
        """
        text = self.options.get("broadcast")
        if text is None:
            return None
        if text.lower() not in ("true", "false"):
            raise TidemillError("TM4003", "bad value for option broadcast", got=text, hint="true or false")
        return text.lower() == "true"

    @property
    def budget(self) -> ErrorBudget:
        """How many malformed rows it tolerates. Errors as :func:`parse_budget`."""
        return parse_budget(self.options)

    def same_but_for_limits(self, statement: CreateTable) -> bool:
        """Whether a statement would create this table, perhaps with other values of options that can be changed.

        Columns that were inferred or added later do not count.
        """
        given = {k.lower(): v for k, v in statement.options.items()}
        fixed = [
            {k: v for k, v in options.items() if k not in changeable(options)} for options in (self.options, given)
        ]
        if fixed[0] != fixed[1] or self.format != statement.format:
            return False
        if self.inferred and not len(statement.schema):
            return {n.lower() for n in statement.primary_key} == {n.lower() for n in self.primary_key}
        made = with_primary_key(with_columns(statement))
        first = Schema(tuple(f for f in self.declared if f.name not in self.added))
        return not self.inferred and (first, self.primary_key) == (made.schema, made.primary_key)

    def limit(self, name: str) -> int | None:
        """One of ``LIMIT_OPTIONS``; None where it is not given. TM4003 for a bad value."""
        text = self.options.get(name.lower())
        return None if text is None else parse_size(name, text)

    def codec(self, path: str) -> str | None:
        """How a file of the table is compressed, if it is."""
        return parse_codec_options(self.options).of(path)

    def compressed(self, path: str) -> bool:
        """Whether a file of the table is compressed as a whole."""
        return self.codec(path) is not None

    def whole(self, path: str) -> bool:
        """Whether a file of the table, or what it has grown by, can only be read from its beginning to its end.

        May look into the file; not into one that is compressed, of which the reader finds out.
        """
        schema = self.source().file_schema
        if self.pushed:
            return is_sized(self.format, schema, self.options)
        format_ = lookup(self.format)
        if isinstance(format_, WholeFiles) and format_.reads_whole_files(schema, self.options):
            return True
        if self.compressed(path) or not isinstance(format_, WholeByBeginning):
            return False
        return format_.begins_whole(schema, self.options, self.place.beginning(path, BEGINNING_BYTES))

    @property
    def file_policy(self) -> FilePolicy:
        """What becomes of files that change or cannot be read. TM4003 for bad values of options."""
        attempts = self.options.get("fileattempts", "5")
        if not (attempts.isascii() and attempts.isdigit() and 0 < int(attempts) <= 1000):
            raise bad_option("fileAttempts", attempts, "an integer from 1 to 1000")
        changes = self.overwritable, parse_appends(self.options)
        rule = self.clean_source
        return FilePolicy(
            *changes,
            int(attempts),
            self.keyed,
            self.static,
            lambda path: not self.compressed(path),
            cleans=rule is not None,
            forgets=rule is not None and not rule.retention and not self.kept,
        )

    @property
    def clean_source(self) -> CleanSource | None:
        """What becomes of files that were read, if anything. TM4003 for bad values of options."""
        return parse_clean(self.options) if self.listed else None

    def source(self) -> TableSource:
        """What a scan needs to know."""
        fields = self.declared.fields
        if self.op_column is not None and self.op_column not in self.declared.names:
            fields = (*fields, Field(self.op_column, pa.string()))
        given = format_options(self.format, self.options, self.inferred)
        if self.time_zone != UTC and ZONE_OPTION in lookup(self.format).option_names:
            given = {ZONE_OPTION: self.time_zone, **given}
        options = tuple(sorted((k, v) for k, v in given.items() if k not in _OWN_OPTIONS))
        values = (self.options.get("opinsert", "I"), self.options.get("opdelete", "D"))
        errors = multiset_table(f"errors:{self.uid}", STORED_ERRORS.types, 2)
        schema, op_column = Schema(fields), self.op_column
        if self.format == DEBEZIUM:
            schema, op_column = Schema((*fields, Field(OPERATION, pa.string(), False))), OPERATION
            options = (*options, (KEY_OPTION, json.dumps(self.primary_key)))
        elif self.format == ORDER_BOOK:
            schema = MESSAGES
        elif self.keyed and op_column is not None:
            rule = {"column": op_column, "value": values[1], "key": self.primary_key}
            options = (*options, (DELETES_OPTION, json.dumps(rule)))
        log = self._changelog() if self.keyed else None
        watermark = None if self.watermark is None else self.watermark.column
        place = (self.name, self.uid, self.format, schema, options, op_column, values, errors, log)
        versions = FileVersions(self.schema, self.born) if self.overwritable else None
        return TableSource(*place, watermark, metadata_name(self.options), self.static, versions, self.pushed)

    def _changelog(self) -> Changelog:
        rows = self.schema
        book = parse_rules(self.options) if self.format == ORDER_BOOK else None
        return Changelog(rows, tuple(rows.names.index(n) for n in self.primary_key), self.born, book)

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
            be cleaned so.
        """
        for option in options:
            if not changeable([option]):
                raise TidemillError(
                    "TM2023",
                    "this option of a table cannot be changed",
                    got=option,
                    hint=f"{nearest(option, CHANGEABLE.values())}; others decide what the rows are, so that they need "
                    "a new table",
                )
        changed = {k.lower(): v for k, v in options.items()}
        kept = {k: v for k, v in self.options.items() if k not in changed}
        given = {k: v for k, v in changed.items() if v is not None}
        table = replace(self, options={**kept, **given})
        _check_limits(table)
        if NOTIFICATION_OPTIONS & changed.keys():
            check_its_queue(table.options, table.path)
        return table

    def to_json(self) -> dict[str, Any]:
        """As stored in a manifest: without secrets, which the script or the environment gives again."""
        options = {name: value for name, value in self.options.items() if name not in SECRET_OPTIONS}
        return {**vars(self), "declared": codec.encode(self.declared), "options": options}


def source_tables(table: Table) -> tuple[StateTable, ...]:
    """The state tables of a table's source: names, files being read, cursors, files to be cleaned, errors."""
    found = (make(table.uid) for make in (list_table, fetch_table, cursor_table, cleaned_table, clean_queue))
    return (*found, table.source().errors)


def new_table(statement: CreateTable, uid: str, born: int, time_zone: str = UTC) -> Table:
    """The table that a statement creates after an epoch, in a mill of a time zone.

    Raises
    ------
    TidemillError
        TM4001 to TM4004 for format and options, TM2011 for opColumn, TM5001 and TM5002 for the path, TM5075 to TM5078
        for the queue; as :func:`with_primary_key` for the key.
    """
    inferred = not len(statement.schema) and statement.format in INFERABLE
    options = {k.lower(): v for k, v in statement.options.items()}
    pushed = is_stream(options.get("path", ""))
    given = is_ingested(options.get("path", ""))
    if pushed:
        check_stream(statement.format, statement.schema, options)
    elif given:
        check_ingested(statement.format, statement.schema, options)
    statement = with_primary_key(with_columns(statement))
    path = options.get("path", "")
    if given:
        path = INGEST + uid
    elif "path" in options and not pushed:
        path = pattern_of(path)
    if statement.format == GENERATOR:
        path = _generated_path(statement.schema, options)
    place = (statement.name, uid, statement.format, statement.schema, options, path)
    table = Table(*place, statement.primary_key, born, inferred, time_zone=time_zone)
    _check_table(table, statement)
    return table


def _generated_path(schema: Schema, options: Mapping[str, str]) -> str:
    """The path of a table that is created now. TM4003 for options that only tables with files or sockets have."""
    for name in ("path", "opColumn"):
        if name.lower() in options:
            raise bad_option(name, options[name.lower()], "leave it out: rows are generated")
    if parse_pace(options).rate is not None and flag(options, "static"):
        raise bad_option("static", options["static"], "leave it or rowsPerSecond out: a static table does not grow")
    return GeneratedPlace(time.time_ns() // 1000, row_bytes(schema, options)).path


def table_from_json(data: Mapping[str, Any]) -> Table:
    """What :meth:`Table.to_json` gave."""
    know_secrets(data["path"])
    names = {n: tuple(data.get(n, ())) for n in ("primary_key", "added")}
    return Table(**{**data, "declared": codec.decode(data["declared"]), **names})


def _check_table(table: Table, statement: CreateTable) -> None:
    format_ = lookup(table.format)
    known = TABLE_OPTIONS | INFERENCE_OPTIONS | CODEC_OPTIONS | READ_OPTIONS | format_.option_names | RESCUE_OPTIONS
    if table.generated:
        known = TABLE_OPTIONS - _WITHOUT_FILES - NOTIFICATION_OPTIONS | format_.option_names
    elif table.pushed:
        known |= STREAM_OPTIONS
    elif table.ingested:
        known |= CONNECTION_OPTIONS | INGEST_OPTIONS
    elif is_offered(table.path):
        known |= FILTER_OPTIONS | options_of([table.path]).keys()
    else:
        known |= CONNECTION_OPTIONS | FILTER_OPTIONS | CLEAN_OPTIONS
    check_options(table.format, statement.options, known)
    if table.keyed and table.watermark is not None:
        raise TidemillError(
            "TM2022",
            "a table with a PRIMARY KEY cannot have a watermark",
            got=f"watermark '{table.watermark.column}'",
            hint="a late message still changes its row; put the watermark on a table without a key",
        )
    if not table.declared.fields:
        raise TidemillError(
            "TM2009",
            "a table needs columns",
            got=table.name,
            hint="CREATE TABLE name (column type, ...) USING ...",
        )
    lowered = [n.lower() for n in table.declared.names]
    if len(set(lowered)) < len(lowered):
        twice = next(n for n in lowered if lowered.count(n) > 1)
        raise TidemillError("TM2005", "two columns have the same name", got=twice, hint="rename one of them")
    if not table.options.get("path", "").strip() and not table.generated:
        raise TidemillError(
            "TM5005", "a table needs a path", got=table.name, hint="OPTIONS (path 'directory, file or glob')"
        )
    source = table.source()
    if (
        "opcolumn" in table.options
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
    _ = table.broadcast  # raises for a bad value
    check_overwrites(table.options, table.keyed, table.pushed)
    check_appends(table.format, table.options, table.listed and table.place.local)
    _check_limits(table)
    if table.listed:
        next(table.place.listing(), None)
        check_its_queue(table.options, table.path)


def _check_limits(table: Table) -> None:
    """TM4003 for a bad value of an option that can be changed; TM5080 and TM5081 as :func:`check_clean`."""
    for name in LIMIT_OPTIONS:
        table.limit(name)
    _ = table.budget, table.file_policy
    check_notifications(table.options, table.path, table.keyed)
    if table.listed:
        _ = table.place
    check_clean(table.options, table.place if table.listed else None)
