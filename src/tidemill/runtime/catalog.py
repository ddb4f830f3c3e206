"""Tables and views of a mill: what the manifest remembers of them besides their rows."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from tidemill.errors import TidemillError, nearest
from tidemill.formats.registry import lookup
from tidemill.plan import codec
from tidemill.plan.algebra import Node, relations
from tidemill.plan.assemble import ViewDefinition
from tidemill.plan.statements import CreateTable
from tidemill.runtime.watermark import Watermark, parse_watermark
from tidemill.schema import Field, Schema
from tidemill.sources import files
from tidemill.task.program import ReadPlan, TableSource, multiset_table

_OWN_OPTIONS = frozenset({"path", "opcolumn", "opinsert", "opdelete", "maxfilespertrigger", "maxbytespertrigger"}) | {
    "watermark",
    "watermarkdelay",
}

ERRORS_SUFFIX = "__errors"
"""``<table>__errors`` reads as a view with one row per malformed field or row."""

ERRORS_SCHEMA = Schema(
    (
        Field("file", pa.string(), False),
        Field("position", pa.int64(), False),
        Field("column", pa.string(), True),
        Field("reason", pa.string(), False),
        Field("raw", pa.binary(), False),
    )
)


@dataclass(frozen=True)
class Table:
    """A table as created.

    ``schema`` is that of its rows. ``uid`` never names another table, not even a later one of the same name.
    ``options`` have lower-case names; ``path`` is the option of that name made absolute, so that a mill may be
    restarted from another directory.
    """

    name: str
    uid: str
    format: str
    declared: Schema
    options: Mapping[str, str]
    path: str

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

    def limit(self, name: str) -> int | None:
        """``maxFilesPerTrigger`` or ``maxBytesPerTrigger``."""
        text = self.options.get(name.lower())
        return None if text is None else parse_size(name, text)

    def source(self) -> TableSource:
        """What a scan needs to know."""
        fields = self.declared.fields
        if self.op_column is not None and self.op_column not in self.declared.names:
            fields = (*fields, Field(self.op_column, pa.string()))
        options = tuple(sorted((k, v) for k, v in self.options.items() if k not in _OWN_OPTIONS))
        values = (self.options.get("opinsert", "I"), self.options.get("opdelete", "D"))
        errors = multiset_table(f"errors:{self.uid}", ERRORS_SCHEMA.types, 2)
        watermark = self.watermark
        column = None if watermark is None else watermark.column
        return TableSource(
            self.name, self.uid, self.format, Schema(fields), options, self.op_column, values, errors, column
        )

    def errors_plan(self) -> ReadPlan:
        """How ``<table>__errors`` is read."""
        return ReadPlan(self.source().errors, None, (), (), ERRORS_SCHEMA)


@dataclass(frozen=True)
class View:
    """A view as created; ``failure`` is set once a row has made one of its expressions fail.

    ``whole_since`` is the first epoch at which it stands for all rows admitted; None while it is being filled.
    """

    name: str
    uid: str
    query: str
    root: Node
    born: int
    failure: str | None = None
    failed_at: int | None = None
    whole_since: int | None = None

    def definition(self) -> ViewDefinition:
        """What the assembler needs."""
        return ViewDefinition(self.name, self.uid, self.root, self.born)


@dataclass(frozen=True)
class Catalog:
    """All tables and views, in the order they were created. Immutable; part of every version."""

    tables: Mapping[str, Table] = field(default_factory=dict)
    views: Mapping[str, View] = field(default_factory=dict)
    next_uid: int = 1

    def add_table(self, statement: CreateTable) -> Catalog:
        """With one more table.

        Raises
        ------
        TidemillError
            TM2010 when the name is taken, TM4001 to TM4004 for format and options, TM2011 for opColumn,
            TM5001 and TM5002 for the path.
        """
        self._check_free(statement.name)
        options = {k.lower(): v for k, v in statement.options.items()}
        path = files.local_pattern(options["path"]) if "path" in options else ""
        uid = f"{statement.name}#{self.next_uid}"
        table = Table(statement.name, uid, statement.format, statement.schema, options, path)
        _check_table(table, statement)
        return replace(self, tables={**self.tables, table.name: table}, next_uid=self.next_uid + 1)

    def add_view(self, name: str, query: str, root: Node, born: int) -> Catalog:
        """With one more view. TM2010 when the name is taken."""
        self._check_free(name)
        view = View(name, f"{name}#{self.next_uid}", query, root, born)
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
        readers = [v.name for v in self.views.values() if name in relations(v.root)]
        if readers:
            raise TidemillError(
                "TM2013",
                f"this {kind} is read by views",
                got=f"{name} is read by {', '.join(readers)}",
                hint="drop those views first",
            )
        kept: dict[str, Any] = {k: v for k, v in present.items() if k != name}
        return replace(self, tables=kept) if kind == "table" else replace(self, views=kept)

    def with_failure(self, name: str, failure: str, epoch: int) -> Catalog:
        """With a view marked as failed."""
        failed = replace(self.views[name], failure=failure, failed_at=epoch)
        return replace(self, views={**self.views, name: failed})

    def with_whole(self, names: Collection[str], epoch: int) -> Catalog:
        """With some views marked as standing for all rows from an epoch on."""
        views = {n: replace(v, whole_since=epoch) if n in names else v for n, v in self.views.items()}
        return replace(self, views=views)

    def active_views(self) -> list[View]:
        """Views that are still maintained, in the order they were created."""
        return [v for v in self.views.values() if v.failure is None]

    def tables_read_by(self, root: Node) -> set[str]:
        """The tables that a query reads itself, not through another view."""
        return set(relations(root)) & self.tables.keys()

    def views_read_by(self, root: Node) -> set[str]:
        """The views that a query reads itself."""
        return set(relations(root)) & self.views.keys()

    def unknown(self, name: str, kind: str = "table or view") -> TidemillError:
        """TM2012: no such table or view."""
        names = {"table": self.tables, "view": self.views}.get(kind, {**self.tables, **self.views})
        hint = nearest(name, names) if names else "nothing has been created in this root"
        return TidemillError("TM2012", f"there is no {kind} of this name", got=name, hint=hint)

    def _check_free(self, name: str) -> None:
        if name in self.tables or name in self.views or name.removesuffix(ERRORS_SUFFIX) in self.tables:
            raise TidemillError(
                "TM2010",
                "this name is taken",
                got=name,
                hint="choose another name, DROP the old one, or write IF NOT EXISTS",
            )

    def to_json(self) -> dict[str, Any]:
        """As stored in a manifest."""
        tables = [
            {**vars(t), "declared": codec.encode(t.declared), "options": dict(t.options)} for t in self.tables.values()
        ]
        views = [{**_plain(v), "root": codec.encode(v.root)} for v in self.views.values()]
        return {"tables": tables, "views": views, "next_uid": self.next_uid}

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
        tables = {t["name"]: Table(**{**t, "declared": codec.decode(t["declared"])}) for t in data["tables"]}
        views = {v["name"]: View(**{**v, "root": codec.decode(v["root"])}) for v in data["views"]}
        return Catalog(tables, views, data["next_uid"])


def _plain(view: View) -> dict[str, Any]:
    names = ("name", "uid", "query", "born", "failure", "failed_at", "whole_since")
    return {n: getattr(view, n) for n in names}


def _check_table(table: Table, statement: CreateTable) -> None:
    format_ = lookup(table.format)
    known = _OWN_OPTIONS | format_.option_names
    for name in statement.options:
        if name.lower() not in known:
            raise TidemillError(
                "TM4005",
                f"unknown option for a table USING {table.format}",
                got=name,
                hint=nearest(name, known),
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
    for name in ("maxFilesPerTrigger", "maxBytesPerTrigger"):
        table.limit(name)
    next(files.listing(table.path), None)


def parse_size(name: str, text: str) -> int:
    """A count or a size such as ``1000``, ``64k``, ``16m`` or ``1g``, in bytes.

    Raises
    ------
    TidemillError
        TM4003 when it is not a positive number.
    """
    factors = {"k": 1 << 10, "m": 1 << 20, "g": 1 << 30}
    lowered = text.strip().lower().removesuffix("b")
    factor = factors.get(lowered[-1:], 1)
    digits = lowered[:-1] if factor > 1 else lowered
    if not digits.isdigit() or int(digits) == 0:
        raise TidemillError(
            "TM4003",
            f"bad value for option {name}",
            got=text,
            hint="a positive number, with k, m or g for bytes",
        )
    return int(digits) * factor
