"""Tables and views of a mill: what the manifest remembers of them besides their rows."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from tidemill.errors import SECRET_OPTIONS, TidemillError, nearest
from tidemill.formats.base import BEGINNING_BYTES, WholeByBeginning, WholeFiles
from tidemill.formats.codecs import CODEC_OPTIONS, parse_codec_options
from tidemill.formats.csv.changes import DELETES_OPTION
from tidemill.formats.debezium.format import KEY_OPTION, OPERATION
from tidemill.formats.inference.infer import INFERABLE
from tidemill.formats.inference.options import INFERENCE_OPTIONS
from tidemill.formats.options import TABLE_OPTIONS, check_options, parse_size
from tidemill.formats.orderbook.format import parse_rules
from tidemill.formats.orderbook.rules import MESSAGES
from tidemill.formats.read_modes import READ_OPTIONS, check_read_mode
from tidemill.formats.registry import lookup
from tidemill.formats.rescue.options import RESCUE_OPTIONS
from tidemill.objectstore.connection import CONNECTION_OPTIONS, SPELT_CONNECTION, is_object_url
from tidemill.plan import codec
from tidemill.plan.algebra import Node, relations
from tidemill.plan.assemble import ViewDefinition
from tidemill.plan.statements import CreateTable
from tidemill.runtime.error_budget import BUDGET_OPTIONS, ErrorBudget, parse_budget
from tidemill.runtime.inferred_tables import format_options, with_columns
from tidemill.runtime.primary_key import DEBEZIUM, ORDER_BOOK, with_primary_key
from tidemill.runtime.static_tables import parse_static
from tidemill.runtime.stream_tables import STREAM_OPTIONS, check_stream
from tidemill.runtime.watermark import Watermark, parse_watermark
from tidemill.schema import Field, Schema
from tidemill.sources.filters import FILTER_OPTIONS
from tidemill.sources.place import Place, pattern_of, place_of
from tidemill.sources.streams.endpoints import is_stream
from tidemill.task.expressions import Literal, Ref
from tidemill.task.program import Calculate, Changelog, ReadPlan, TableSource, multiset_table

_OWN_OPTIONS = TABLE_OPTIONS | INFERENCE_OPTIONS | FILTER_OPTIONS | STREAM_OPTIONS
"""Options of any table that its format is not told of; those of codecs and of how to read it is."""

CHANGEABLE = {
    name.lower(): name for name in (*BUDGET_OPTIONS, "maxFilesPerTrigger", "maxBytesPerTrigger", *SPELT_CONNECTION)
}
"""Options of a table that can be changed: they say when its rows are admitted, or how its store is reached, and nothing
about what they are.
"""

ERRORS_SUFFIX = "__errors"
"""``<table>__errors`` reads as a view with one row per malformed field or row."""

STATUS_SUFFIX = "__status"
"""``<table>__status`` reads as a view with one row for each connection of a pushed stream."""

NEXT = " (replacement)"
"""The inner name of a view that is being built to replace another ends so."""

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
    their order, and are kept from its creation after epoch ``born`` on, whether or not a view reads it. The columns
    of an ``inferred`` table come from its files; ``added`` are columns that it got later (``runtime/evolution.py``).
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

    @property
    def pushed(self) -> bool:
        """Whether its rows come over connections, and are read from a spool."""
        return is_stream(self.path)

    @property
    def keyed(self) -> bool:
        """Whether the table is kept, row by row, from ordered messages."""
        return bool(self.primary_key)

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
    def in_objects(self) -> bool:
        """Whether its files are objects of a store."""
        return is_object_url(self.path)

    @property
    def place(self) -> Place:
        """Where its files are. Errors as :func:`place_of`."""
        return place_of(self.path, self.options)

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
        fixed = [{k: v for k, v in options.items() if k not in CHANGEABLE} for options in (self.options, given)]
        if fixed[0] != fixed[1] or self.format != statement.format:
            return False
        if self.inferred and not len(statement.schema):
            return {n.lower() for n in statement.primary_key} == {n.lower() for n in self.primary_key}
        made = with_primary_key(with_columns(statement))
        first = Schema(tuple(f for f in self.declared if f.name not in self.added))
        return not self.inferred and (first, self.primary_key) == (made.schema, made.primary_key)

    def limit(self, name: str) -> int | None:
        """``maxFilesPerTrigger`` or ``maxBytesPerTrigger``."""
        text = self.options.get(name.lower())
        return None if text is None else parse_size(name, text)

    def codec(self, path: str) -> str | None:
        """How a file of the table is compressed, if it is."""
        return parse_codec_options(self.options).of(path)

    def whole(self, path: str) -> bool:
        """Whether a file of the table can only be read from its beginning to its end."""
        if self.pushed:
            return False
        format_ = lookup(self.format)
        by_format = isinstance(format_, WholeFiles) and format_.reads_whole_files(self.declared, self.options)
        if by_format or self.codec(path) is not None:
            return True
        if not isinstance(format_, WholeByBeginning):
            return False
        return format_.begins_whole(self.declared, self.options, self.place.beginning(path, BEGINNING_BYTES))

    def source(self) -> TableSource:
        """What a scan needs to know."""
        fields = self.declared.fields
        if self.op_column is not None and self.op_column not in self.declared.names:
            fields = (*fields, Field(self.op_column, pa.string()))
        given = format_options(self.format, self.options, self.inferred)
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
        return TableSource(*place, watermark, self.static)

    def _changelog(self) -> Changelog:
        rows = self.schema
        book = parse_rules(self.options) if self.format == ORDER_BOOK else None
        return Changelog(rows, tuple(rows.names.index(n) for n in self.primary_key), self.born, book)

    def errors_plan(self) -> ReadPlan:
        """How ``<table>__errors`` is read."""
        columns = tuple(Ref(i, f.type, f.nullable) for i, f in enumerate(STORED_ERRORS))
        named = Calculate(None, (Literal(self.name, pa.string()), *columns))
        return ReadPlan(self.source().errors, None, (), (named,), ERRORS_SCHEMA)


@dataclass(frozen=True)
class View:
    """A view as created; ``failure`` is set once a row has made one of its expressions fail.

    ``whole_since`` is the first epoch at which it stands for all rows admitted; None while it is being filled.
    ``refused`` says why the last attempt to replace it was given up. ``sizes`` are the bytes that the tables it reads
    had when it was created: they decide what is a small side of a join (``runtime/small_tables.py``).
    """

    name: str
    uid: str
    query: str
    root: Node
    born: int
    failure: str | None = None
    failed_at: int | None = None
    whole_since: int | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
    refused: str | None = None
    sizes: Mapping[str, int | None] = field(default_factory=dict)

    def definition(self) -> ViewDefinition:
        """What the assembler needs."""
        return ViewDefinition(self.name, self.uid, self.root, self.born, self.sizes)


@dataclass(frozen=True)
class Former:
    """A view that another has taken the place of: what its name stands for at epochs before ``until``."""

    view: View
    until: int


@dataclass(frozen=True)
class Catalog:
    """All tables and views, in the order they were created. Immutable; part of every version.

    ``pending`` has the views that are being built to replace those of these names (``runtime/replacements.py``),
    ``former`` those that were replaced, the oldest first.
    """

    tables: Mapping[str, Table] = field(default_factory=dict)
    views: Mapping[str, View] = field(default_factory=dict)
    next_uid: int = 1
    pending: Mapping[str, View] = field(default_factory=dict)
    former: tuple[Former, ...] = ()

    def add_table(self, statement: CreateTable, born: int = 0) -> Catalog:
        """With one more table, created after epoch ``born``.

        Raises
        ------
        TidemillError
            TM2010 when the name is taken, TM4001 to TM4004 for format and options, TM2011 for opColumn,
            TM5001 and TM5002 for the path; as :func:`with_primary_key` for the key.
        """
        self._check_free(statement.name)
        inferred = not len(statement.schema) and statement.format in INFERABLE
        options = {k.lower(): v for k, v in statement.options.items()}
        pushed = is_stream(options.get("path", ""))
        if pushed:
            check_stream(statement.format, statement.schema, options)
        statement = with_primary_key(with_columns(statement))
        path = options.get("path", "") if pushed else pattern_of(options["path"]) if "path" in options else ""
        uid = f"{statement.name}#{self.next_uid}"
        table = Table(
            statement.name,
            uid,
            statement.format,
            statement.schema,
            options,
            path,
            statement.primary_key,
            born,
            inferred,
        )
        _check_table(table, statement)
        return replace(self, tables={**self.tables, table.name: table}, next_uid=self.next_uid + 1)

    def with_options(self, name: str, options: Mapping[str, str | None]) -> Catalog:
        """With other values for some options of a table; None takes an option back.

        Raises
        ------
        TidemillError
            TM2012 when there is no such table, TM2023 for an option that cannot be changed, TM4003 for a bad value.
        """
        if name not in self.tables:
            raise self.unknown(name, "table")
        for option in options:
            if option.lower() not in CHANGEABLE:
                raise TidemillError(
                    "TM2023",
                    "this option of a table cannot be changed",
                    got=option,
                    hint=f"{nearest(option, CHANGEABLE.values())}; others decide what the rows are, so that they need "
                    "a new table",
                )
        changed = {k.lower(): v for k, v in options.items()}
        kept = {k: v for k, v in self.tables[name].options.items() if k not in changed}
        given = {k: v for k, v in changed.items() if v is not None}
        table = replace(self.tables[name], options={**kept, **given})
        _check_limits(table)
        return replace(self, tables={**self.tables, name: table})

    def add_view(
        self, name: str, query: str, root: Node, born: int, properties: Mapping[str, str] | None = None
    ) -> Catalog:
        """With one more view. TM2010 when the name is taken."""
        self._check_free(name)
        view = View(name, f"{name}#{self.next_uid}", query, root, born, properties=dict(properties or {}))
        return replace(self, views={**self.views, name: view}, next_uid=self.next_uid + 1)

    def without(self, kind: str, name: str) -> Catalog:
        """Without a table or view.

        Raises
        ------
        TidemillError
            TM2012 when there is none of that name, TM2013 while a view reads it.
        """
        present: Mapping[str, Any] = self.tables if kind == "table" else self.views
        if name not in present:
            raise self.unknown(name, kind)
        others = [v for v in self.everything.values() if v.name.removesuffix(NEXT) != name]
        readers = [v.name for v in others if {name, name + NEXT} & set(relations(v.root))]
        if readers:
            raise TidemillError(
                "TM2013",
                f"this {kind} is read by views",
                got=f"{name} is read by {', '.join(readers)}",
                hint="drop those views first",
            )
        kept: dict[str, Any] = {k: v for k, v in present.items() if k != name}
        former = self._former_without(name)
        if kind == "table":
            return replace(self, tables=kept, former=former)
        pending = {k: v for k, v in self.pending.items() if k != name}
        return replace(self, views=kept, pending=pending, former=former)

    def _former_without(self, name: str) -> tuple[Former, ...]:
        """Former views that can still be read when a relation is gone: neither it, nor what read it, nor older."""
        gone: list[Former] = []
        while True:
            kept = [f for f in self.former if f not in gone]
            more = [
                f
                for f in kept
                if name in (reads := {f.view.name, *relations(f.view.root)})
                or any(g.view.name in reads and f.until <= g.until for g in gone)
            ]
            if not more:
                return tuple(kept)
            gone += more

    def with_failure(self, name: str, failure: str, epoch: int) -> Catalog:
        """With a view marked as failed."""
        failed = replace(self.views[name], failure=failure, failed_at=epoch)
        return replace(self, views={**self.views, name: failed})

    def with_whole(self, names: Collection[str], epoch: int) -> Catalog:
        """With some views, or replacements, marked as standing for all rows from an epoch on."""
        views = {n: replace(v, whole_since=epoch) if v.name in names else v for n, v in self.views.items()}
        pending = {n: replace(v, whole_since=epoch) if v.name in names else v for n, v in self.pending.items()}
        return replace(self, views=views, pending=pending)

    @property
    def everything(self) -> dict[str, View]:
        """Views and replacements by their (inner) names."""
        return {v.name: v for v in (*self.views.values(), *self.pending.values())}

    def active_views(self) -> list[View]:
        """Views and replacements that are maintained, each after those it reads."""
        return [v for v in self.everything.values() if v.failure is None]

    def views_at(self, epoch: int) -> dict[str, View]:
        """The views as they were at an epoch, as far as that is remembered."""
        views = dict(self.views)
        for former in sorted(self.former, key=lambda f: -f.until):
            if former.until > epoch:
                views[former.view.name] = former.view
        return views

    def tables_read_by(self, root: Node) -> set[str]:
        """The tables that a query reads itself, not through another view."""
        return set(relations(root)) & self.tables.keys()

    def keyed_tables(self) -> set[str]:
        """Tables whose rows are kept, so that they can be read like views."""
        return {t.name for t in self.tables.values() if t.keyed}

    def begins_with_snapshot(self, view: View) -> bool:
        """Whether a view begins with rows that an older view or keyed table had when it was created."""
        births = [self.everything[n].born for n in self.views_read_by(view.root)]
        births += [self.tables[n].born for n in self.tables_read_by(view.root) & self.keyed_tables()]
        return any(born < view.born for born in births)

    def views_read_by(self, root: Node) -> set[str]:
        """The views that a query reads itself."""
        return set(relations(root)) & self.everything.keys()

    def described(self, name: str) -> tuple[Schema, str]:
        """Columns and uid of a table or view. TM2012 when there is none."""
        if name in self.tables:
            return self.tables[name].schema, self.tables[name].uid
        if name in self.views:
            return self.views[name].root.schema, self.views[name].uid
        raise self.unknown(name)

    def unknown(self, name: str, kind: str = "table or view") -> TidemillError:
        """TM2012: no such table or view."""
        names = {"table": self.tables, "view": self.views}.get(kind, {**self.tables, **self.views})
        hint = nearest(name, names) if names else "nothing has been created in this root"
        return TidemillError("TM2012", f"there is no {kind} of this name", got=name, hint=hint)

    def only_read_through_views(self, name: str) -> TidemillError:
        """TM2036: a table whose rows are not kept."""
        readers = [v for v in self.views if name in relations(self.views[v].root)]
        hint = f"CREATE MATERIALIZED VIEW ... AS SELECT ... FROM {name}, and read the view"
        if readers:
            hint += f"; views that read it: {', '.join(readers)}"
        return TidemillError("TM2036", "a table is read through a view: its rows are not kept", got=name, hint=hint)

    def _check_free(self, name: str) -> None:
        taken = name in self.tables or name in self.views or name.endswith(NEXT)
        shown = {name.removesuffix(ERRORS_SUFFIX), name.removesuffix(STATUS_SUFFIX)}
        if taken or shown & self.tables.keys():
            raise TidemillError(
                "TM2010",
                "this name is taken",
                got=name,
                hint="choose another name, DROP the old one, or write IF NOT EXISTS",
            )

    def to_json(self) -> dict[str, Any]:
        """As stored in a manifest: without secrets, which the script or the environment gives again."""
        tables = [
            {**vars(t), "declared": codec.encode(t.declared), "options": _without_secrets(t.options)}
            for t in self.tables.values()
        ]
        return {
            "tables": tables,
            "views": [_view_to_json(v) for v in self.views.values()],
            "next_uid": self.next_uid,
            "pending": [_view_to_json(v) for v in self.pending.values()],
            "former": [{"view": _view_to_json(f.view), "until": f.until} for f in self.former],
        }

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Catalog:
        """The catalog that :meth:`to_json` wrote. TM1002 when another version of Tidemill wrote it."""
        try:
            return Catalog._from_json(data)
        except (KeyError, TypeError) as error:
            raise TidemillError(
                "TM1002",
                "this root was written by another version of Tidemill",
                got=f"catalog: {error}",
                hint="open it with the version that wrote it; nothing was changed",
            ) from error

    @staticmethod
    def _from_json(data: Mapping[str, Any]) -> Catalog:
        tables = {t["name"]: _table_from_json(t) for t in data["tables"]}
        views = {v["name"]: _view_from_json(v) for v in data["views"]}
        pending = {v["name"].removesuffix(NEXT): _view_from_json(v) for v in data.get("pending", ())}
        former = tuple(Former(_view_from_json(f["view"]), f["until"]) for f in data.get("former", ()))
        return Catalog(tables, views, data["next_uid"], pending, former)


def _without_secrets(options: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in options.items() if name not in SECRET_OPTIONS}


def _view_to_json(view: View) -> dict[str, Any]:
    names = ("name", "uid", "query", "born", "failure", "failed_at", "whole_since", "refused")
    plain = {n: getattr(view, n) for n in names}
    maps = {"properties": dict(view.properties), "sizes": dict(view.sizes)}
    return {**plain, **maps, "root": codec.encode(view.root)}


def _view_from_json(data: Mapping[str, Any]) -> View:
    return View(**{**data, "root": codec.decode(data["root"])})


PROPERTIES: Mapping[str, tuple[str, ...]] = {"emptySum": ("null", "zero")}
"""Properties of a view, and the values of each."""


def check_properties(properties: Mapping[str, str]) -> None:
    """TM2014 for a property of a view, or a value of one, that does not exist."""
    for name, value in properties.items():
        if name not in PROPERTIES:
            raise TidemillError("TM2014", "unknown property of a view", got=name, hint=nearest(name, PROPERTIES))
        if value not in PROPERTIES[name]:
            raise TidemillError(
                "TM2014", f"bad value of property {name}", got=value, hint=nearest(value, PROPERTIES[name])
            )


def _table_from_json(data: Mapping[str, Any]) -> Table:
    names = {n: tuple(data.get(n, ())) for n in ("primary_key", "added")}
    return Table(**{**data, "declared": codec.decode(data["declared"]), **names})


def _check_table(table: Table, statement: CreateTable) -> None:
    format_ = lookup(table.format)
    known = TABLE_OPTIONS | INFERENCE_OPTIONS | CODEC_OPTIONS | READ_OPTIONS | format_.option_names | RESCUE_OPTIONS
    known |= STREAM_OPTIONS if table.pushed else FILTER_OPTIONS | CONNECTION_OPTIONS
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
    if "path" not in table.options:
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
    format_.validate(source.schema, dict(source.options))
    parse_codec_options(table.options)
    check_read_mode(table.format, format_.reader(source.schema, dict(source.options), ()), table.options)
    _ = table.broadcast  # raises for a bad value
    _check_limits(table)
    if not table.pushed:
        next(table.place.listing(), None)


def _check_limits(table: Table) -> None:
    """TM4003 for a bad value of an option that can be changed."""
    for name in ("maxFilesPerTrigger", "maxBytesPerTrigger"):
        table.limit(name)
    _ = table.budget
    if not table.pushed:
        _ = table.place
