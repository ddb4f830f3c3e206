"""Tables and views of a mill, as manifests store them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from tidemill.errors import TidemillError, nearest
from tidemill.options.views import MAX_TASK_MEMORY, MAX_TASK_TIME, POSITION, PRIORITY, TAIL, value_of
from tidemill.plan.algebra import codec
from tidemill.plan.algebra.node_memo import NodeMemo
from tidemill.runtime.catalog.decoded_late import Encoded, of_another_version, stored
from tidemill.runtime.catalog.failing_rows import FailingRows
from tidemill.runtime.catalog.pause import Pause
from tidemill.runtime.tables.suffixes import ERRORS_SUFFIX, FILES_SUFFIX, STATUS_SUFFIX
from tidemill.schema import Schema
from tidemill.state.versions.fragments import Fragment
from tidemill.zones import UTC, check_zone

if TYPE_CHECKING:
    from tidemill.plan.algebra.nodes import Node
    from tidemill.plan.lowering.analysis.definition import ViewDefinition
    from tidemill.plan.sql.statements import CreateTable
    from tidemill.runtime.catalog.adaptors import Adaptor
    from tidemill.runtime.catalog.sinks import Sink
    from tidemill.runtime.tables.table import Table
    from tidemill.task.program.read_plan import ReadPlan


def not_maintained(reader: str, views: Sequence[str]) -> TidemillError:
    """TM2063: something reads views that are paused or have failed."""
    return TidemillError(
        "TM2063",
        "a view cannot read views that are not maintained",
        got=f"{reader} reads {', '.join(views)}",
        hint=f"ALTER VIEW {views[0]} RESUME, and wait until it is fresh; what was paused with it follows",
    )


NEXT = " (replacement)"
"""The inner name of a view that is being built to replace another ends so."""


@stored(root=codec.decode)
@dataclass(frozen=True)
class Coming:
    """The definition that takes the place of a paused view's when it is resumed."""

    query: str
    root: Node
    properties: Mapping[str, str]


@stored(root=codec.decode, read=codec.decode)
@dataclass(frozen=True)
class View:
    """A view as created; ``failure`` is set once it has failed for good, ``failing`` says whether rows fail now.

    ``complete_since`` is the epoch from which on it is complete; None while it is initialising.
    ``refused`` says why the last attempt to replace it was given up. ``sizes`` are the bytes that the tables it reads
    had when it was created: they decide what is a small side of a join (``runtime/catalog/small_tables.py``).
    ``node_names`` are names of the nodes of ``root``, which state tables are called by; ``read`` says how rows are read
    from these. Both are found once, when the view is created (``runtime/catalog/view_plans.py``). ``paused`` is set
    while it is not maintained (``runtime/catalog/changes/pauses.py``), ``coming`` if it was being replaced when it was
    paused: it is built so when it is resumed.
    """

    name: str
    uid: str
    query: str
    root: Node
    created_at_epoch: int
    failure: str | None = None
    failed_at: int | None = None
    complete_since: int | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
    refused: str | None = None
    sizes: Mapping[str, int | None] = field(default_factory=dict)
    failing: FailingRows = field(default_factory=FailingRows)
    node_names: tuple[str, ...] = ()
    read: ReadPlan | None = None
    paused: Pause | None = None
    coming: Coming | None = None

    def as_coming(self) -> View:
        """The view as it will be once it is resumed."""
        if self.coming is None:
            return self
        return replace(self, query=self.coming.query, root=self.coming.root, properties=self.coming.properties)

    @cached_property
    def reads_history(self) -> bool:
        """Whether it has rows that were admitted before it was created."""
        return value_of(POSITION, self.properties) != TAIL

    @cached_property
    def group(self) -> int:
        """Names the views that share work: those created at one epoch, and a view without history alone.

        It is the epoch of creation, to which history is addressed, or a negative number.
        """
        return self.created_at_epoch if self.reads_history else -int(self.uid.rpartition("#")[2])

    @cached_property
    def fragment(self) -> Fragment:
        """As manifests have it: every checkpoint writes all views."""
        return _view_to_json(self)

    @cached_property
    def definition(self) -> ViewDefinition:
        """What the assembler needs."""
        from tidemill.plan.lowering.analysis.definition import ViewDefinition

        time, memory = (value_of(limit, self.properties) for limit in (MAX_TASK_TIME, MAX_TASK_MEMORY))
        limits = (None if time is None else time / 1e6, memory)
        return ViewDefinition(self.name, self.uid, self.root, self.group, self.sizes, self.node_names, limits)


@dataclass(frozen=True)
class Former:
    """A view that was replaced: at epochs before ``until`` its name is that of this one."""

    view: View
    until: int


def _tables_from_json(data: Iterable[Mapping[str, Any]]) -> dict[str, Table]:
    from tidemill.runtime.tables.table import table_from_json

    return {t["name"]: table_from_json(t) for t in data}


def _sinks_from_json(data: Iterable[Mapping[str, Any]]) -> dict[str, Sink]:
    from tidemill.runtime.catalog.sinks import sink_from_json

    return {s["name"]: sink_from_json(s) for s in data}


def _adaptors_from_json(data: Iterable[Mapping[str, Any]]) -> dict[str, Adaptor]:
    from tidemill.runtime.catalog.adaptors import adaptor_from_json

    return {a["name"]: adaptor_from_json(a) for a in data}


@stored(tables=_tables_from_json, sinks=_sinks_from_json, adaptors=_adaptors_from_json)
@dataclass(frozen=True)
class Catalog:
    """All tables, views, sinks and adaptors, in the order they were created. Immutable; part of every version.

    ``time_zone`` is that in which texts of tables without a zone, and expressions of views, are computed.
    ``pending`` has the views that are being built to replace those of these names
    (``runtime/catalog/replacements.py``), ``former`` those that were replaced, the oldest first.
    """

    tables: Mapping[str, Table] = field(default_factory=dict)
    views: Mapping[str, View] = field(default_factory=dict)
    next_uid: int = 1
    pending: Mapping[str, View] = field(default_factory=dict)
    former: tuple[Former, ...] = ()
    time_zone: str = UTC
    sinks: Mapping[str, Sink] = field(default_factory=dict)
    adaptors: Mapping[str, Adaptor] = field(default_factory=dict)

    def in_zone(self, time_zone: str) -> Catalog:
        """With the time zone that a mill is opened with; an empty text keeps that of the root.

        Raises
        ------
        TidemillError
            TM7006 when it is no time zone, TM1040 when there are tables or views in another one.
        """
        if not time_zone:
            return self
        check_zone(time_zone)
        if time_zone == self.time_zone:
            return self
        if self.tables or self.views:
            raise TidemillError(
                "TM1040",
                "this root has another time zone",
                got=f"{time_zone}, and the root has {self.time_zone}",
                hint="leave the setting time_zone out, or make the views again in a new root",
            )
        return replace(self, time_zone=time_zone)

    def adaptor(self, name: str) -> Adaptor:
        """An adaptor by its name, in any case. TM8342 when there is none."""
        from tidemill.runtime.catalog.adaptors import known

        return known(self.adaptors, name)

    def add_table(self, statement: CreateTable, created_at_epoch: int = 0) -> Catalog:
        """With one more table, created after epoch ``created_at_epoch``.

        Raises
        ------
        TidemillError
            TM2010 when the name is taken, TM4001 to TM4004 for format and options, TM2011 for opColumn,
            TM5001 and TM5002 for the path; as :func:`with_primary_key` for the key.
        """
        from tidemill.runtime.tables.table import new_table

        self._check_free(statement.name, "table")
        table = new_table(statement, f"{statement.name}#{self.next_uid}", created_at_epoch, self.time_zone)
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
        table = self.tables[name].with_options(options)
        return replace(self, tables={**self.tables, name: table})

    def with_paused_table(self, name: str, paused: bool) -> Catalog:
        """With a table of which no rows are admitted, or are again. TM2012 when there is no such table."""
        if name not in self.tables:
            raise self.unknown(name, "table")
        if self.tables[name].paused == paused:
            return self
        return replace(self, tables={**self.tables, name: replace(self.tables[name], paused=paused)})

    def add_view(
        self, name: str, query: str, root: Node, created_at_epoch: int, properties: Mapping[str, str] | None = None
    ) -> Catalog:
        """With one more view. TM2010 when the name is taken."""
        self._check_free(name, "view")
        view = View(name, f"{name}#{self.next_uid}", query, root, created_at_epoch, properties=dict(properties or {}))
        return replace(self, views={**self.views, name: view}, next_uid=self.next_uid + 1)

    def without(self, kind: str, name: str) -> Catalog:
        """Without a table or view.

        Raises
        ------
        TidemillError
            TM2012 when there is none of that name, TM2013 while a view reads it, TM8206 while a sink does.
        """
        present: Mapping[str, Any] = self.tables if kind == "table" else self.views
        if name not in present:
            raise self.unknown(name, kind)
        others = [v for v in self.all_views.values() if v.name.removesuffix(NEXT) != name]
        read = {v.name: {*read_by(v.root), *read_by(v.as_coming().root)} for v in others}
        readers = [reader for reader, names in read.items() if {name, name + NEXT} & names]
        if readers:
            raise TidemillError(
                "TM2013",
                f"this {kind} is read by views",
                got=f"{name} is read by {', '.join(readers)}",
                hint="drop those views first",
            )
        sinks = [s.name for s in self.sinks.values() if s.view in (name, name + ERRORS_SUFFIX)]
        if sinks:
            raise TidemillError(
                "TM8206",
                "this is read by sinks",
                got=f"{kind} {name} is read by {', '.join(sinks)}",
                hint="DROP SINK first",
            )
        kept: dict[str, Any] = {k: v for k, v in present.items() if k != name}
        former = self._former_without(name)
        if kind == "table":
            return replace(self, tables=kept, former=former)
        pending = {k: v for k, v in self.pending.items() if k != name}
        return replace(self, views=kept, pending=pending, former=former)

    def _former_without(self, name: str) -> tuple[Former, ...]:
        """Former views that can still be read without a relation: not its own, nor those that read it or are older."""
        gone: list[Former] = []
        while True:
            kept = [f for f in self.former if f not in gone]
            more = [
                f
                for f in kept
                if name in (reads := {f.view.name, *read_by(f.view.root)})
                or any(g.view.name in reads and f.until <= g.until for g in gone)
            ]
            if not more:
                return tuple(kept)
            gone += more

    def with_failure(self, name: str, failure: str, epoch: int) -> Catalog:
        """With a view marked as failed."""
        failed = replace(self.views[name], failure=failure, failed_at=epoch)
        return replace(self, views={**self.views, name: failed})

    def with_failing(self, found: Mapping[str, tuple[int, str]], epoch: int, horizon: int) -> Catalog:
        """With the changes of the weight of failing rows by an epoch, by (inner) names of views."""

        def noted(view: View) -> View:
            if view.name not in found:
                return view
            return replace(view, failing=view.failing.after(*found[view.name], epoch, horizon))

        return self.map_views(noted) if found else self

    def failing_since(self, name: str, epoch: int | None = None) -> tuple[int, str] | None:
        """Since when rows make a view fail, or one that it reads, as of an epoch, and the error; None if none do."""
        views = self.views if epoch is None else self.views_at(epoch)
        view = views.get(name)
        if view is None or all(v.failing.at(epoch) is None for v in views.values()):
            return None
        found = [view.failing.at(epoch)]
        found += [self.failing_since(n, epoch) for n in read_by(view.root) if n in views and n != name]
        return min((f for f in found if f is not None), default=None)

    def newly_failing(self, epoch: int) -> dict[str, str]:
        """Views that rows make fail since an epoch, with the error; or before, if they are complete since that epoch.

        While a view is initialising, a deletion may come before its row, so that a sum may exceed its type although
        that of all rows does not.
        """
        if all(epoch not in (v.failing.since, v.complete_since) for v in self.views.values()):
            return {}
        found = {n: (self.failing_since(n), v.complete_since) for n, v in self.views.items()}
        return {
            name: error[1]
            for name, (error, complete) in found.items()
            if error is not None and complete is not None and max(error[0], complete) == epoch
        }

    def with_complete(self, names: Collection[str], epoch: int) -> Catalog:
        """With some views, or replacements, marked as complete from an epoch on."""
        return self.map_views(lambda v: replace(v, complete_since=epoch) if v.name in names else v)

    def map_views(self, change: Callable[[View], View]) -> Catalog:
        """With each view and replacement changed by a function."""
        views, pending = ({n: change(v) for n, v in found.items()} for found in (self.views, self.pending))
        return replace(self, views=views, pending=pending)

    @cached_property
    def all_views(self) -> Mapping[str, View]:
        """Views and replacements by their (inner) names."""
        return {v.name: v for v in (*self.views.values(), *self.pending.values())}

    def names(self) -> dict[str, str]:
        """The name of every table and view by its uid."""
        return {
            **{t.uid: t.name for t in self.tables.values()},
            **{v.uid: v.name for v in self.views.values()},
        }

    def active_views(self) -> list[View]:
        """Views and replacements that are maintained, each after those it reads."""
        return [v for v in self.all_views.values() if v.failure is None and v.paused is None]

    def views_at(self, epoch: int) -> dict[str, View]:
        """The views as they were at an epoch, unless it has expired."""
        views = dict(self.views)
        for former in sorted(self.former, key=lambda f: -f.until):
            if former.until > epoch:
                views[former.view.name] = former.view
        return views

    def tables_read_by(self, root: Node) -> set[str]:
        """The tables that a query reads itself, not through another view."""
        return self.tables.keys() & read_by(root)

    def histories(self) -> set[tuple[str, int]]:
        """Tables of which views read history, each with the group of such a view."""
        return {(t, view.group) for view in self.active_views() for t in self.history_read_by(view)}

    def history_read_by(self, view: View) -> set[str]:
        """Tables whose rows before the creation of a view are read again for it; of a view without history, static."""
        tables = self.tables_read_by(view.root) - self.kept_tables
        return tables if view.reads_history else {t for t in tables if self.tables[t].static}

    def priorities(self) -> dict[tuple[str, int], int]:
        """The highest priority of the views that wait for the history of a table, by table and group."""
        found: dict[tuple[str, int], int] = {}
        for view in self.active_views():
            for table in self.history_read_by(view):
                key = table, view.group
                found[key] = max(found.get(key, 1), value_of(PRIORITY, view.properties))
        return found

    @cached_property
    def kept_tables(self) -> frozenset[str]:
        """Tables whose rows are kept, so that no view reads their files again."""
        return frozenset(t.name for t in self.tables.values() if t.kept)

    @cached_property
    def read_from(self) -> frozenset[str] | None:
        """The state tables that views are read from, former ones too, and the errors and kept rows of tables.

        Earlier epochs are read from these alone, so that other state needs no history. None where the plan of a view is
        not known, such as one that is paused in a root of an older format: then all state keeps history.
        """
        from tidemill.plan.lowering.kept.kept_tables import kept_rows_plan

        plans = [v.read for v in (*self.all_views.values(), *(f.view for f in self.former))]
        sources = [t.source() for t in self.tables.values()]
        plans += [kept_rows_plan(s) for s in sources if s.kept is not None]
        if None in plans:
            return None
        return frozenset(p.table.id for p in plans if p is not None) | {s.errors.id for s in sources}

    def readable_tables(self) -> set[str]:
        """Tables that can be read like views."""
        return {t.name for t in self.tables.values() if t.readable}

    def begins_with_snapshot(self, view: View) -> bool:
        """Whether a view begins with rows that an older view, or table that is kept, had when it was created."""
        for name in read_by(view.root):
            if name in self.all_views:
                created_at_epoch = self.all_views[name].created_at_epoch
            elif name in self.kept_tables:
                created_at_epoch = self.tables[name].created_at_epoch
            else:
                continue
            if created_at_epoch < view.created_at_epoch:
                return True
        return False

    def views_read_by(self, root: Node) -> set[str]:
        """The views that a query reads itself."""
        return self.all_views.keys() & read_by(root)

    def check_reads_no_failed(self, root: Node) -> None:
        """TM2015 when a query reads a view that is failed or failing, TM2063 when it reads one that is paused."""
        for name in sorted(self.views_read_by(root)):
            if self.views[name].paused is not None:
                raise not_maintained("this query", [name])
            failing, failure = self.failing_since(name), self.views[name].failure
            if failure is not None:
                raise TidemillError(
                    "TM2015",
                    "a view cannot read a view that has failed",
                    got=f"{name}: {failure}",
                    hint=f"DROP VIEW {name} and create it again without the expression that fails",
                )
            if failing is not None:
                raise TidemillError(
                    "TM2015",
                    "a view cannot read a view that a row makes fail",
                    got=f"{name}: {failing[1]}",
                    hint="delete that row first, or use the try_ form of the function",
                )

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
        """TM2036: a table whose rows are not kept, or not so that they can be read."""
        readers = [v for v in self.views if name in read_by(self.views[v].root)]
        hint = f"CREATE MATERIALIZED VIEW ... AS SELECT ... FROM {name}, and read the view"
        why = "a table is read through a view: its rows are not kept"
        if self.tables[name].kept:
            why = "a table with deletions is read through a view: its rows are kept by file"
        if readers:
            hint += f"; views that read it: {', '.join(readers)}"
        return TidemillError("TM2036", why, got=name, hint=hint)

    def _check_free(self, name: str, kind: str) -> None:
        taken = name in self.tables or name in self.views or name.endswith(NEXT)
        shown = {name.removesuffix(s) for s in (ERRORS_SUFFIX, STATUS_SUFFIX, FILES_SUFFIX)}
        if taken or shown & self.tables.keys():
            raise TidemillError(
                "TM2010",
                "this name is taken",
                got=name,
                hint="choose another name, DROP the old one, or write IF NOT EXISTS"
                if kind == "table" or name not in self.views
                else "CREATE OR REPLACE MATERIALIZED VIEW puts a new view in the place of an old one; or choose "
                "another name, DROP the old one, or write IF NOT EXISTS",
            )

    def to_json(self) -> dict[str, Any]:
        """As stored in a manifest: without secrets, which the script or the environment gives again."""
        return {
            "tables": [t.to_json() for t in self.tables.values()],
            "views": [v.fragment for v in self.views.values()],
            "next_uid": self.next_uid,
            "pending": [v.fragment for v in self.pending.values()],
            "former": [{"view": f.view.fragment, "until": f.until} for f in self.former],
            "time_zone": self.time_zone,
            "sinks": [s.to_json() for s in self.sinks.values()],
            "adaptors": [a.to_json() for a in self.adaptors.values()],
        }

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Catalog:
        """The catalog that :meth:`to_json` wrote. TM1002, now or when a part is asked for, when another version did."""
        try:
            return Catalog._from_json(data)
        except (KeyError, TypeError) as error:
            raise of_another_version(error) from error

    @staticmethod
    def _from_json(data: Mapping[str, Any]) -> Catalog:
        tables: Any = Encoded(data["tables"])
        views = {v["name"]: _view_from_json(v) for v in data["views"]}
        pending = {v["name"].removesuffix(NEXT): _view_from_json(v) for v in data.get("pending", ())}
        former = tuple(Former(_view_from_json(f["view"]), f["until"]) for f in data.get("former", ()))
        sinks: Any = Encoded(data.get("sinks", ()))
        adaptors: Any = Encoded(data.get("adaptors", ()))
        return Catalog(tables, views, data["next_uid"], pending, former, data.get("time_zone", UTC), sinks, adaptors)


_STORED = {n: n for n in ("name", "uid", "query", "failure", "failed_at", "refused")} | {
    "created_at_epoch": "born",
    "complete_since": "whole_since",
}
"""Fields of a view, and the names that they have in manifests."""


_READ: NodeMemo[frozenset[str]] = NodeMemo()


def read_by(root: Node) -> frozenset[str]:
    """What a plan reads; remembered, since each statement asks it of each view."""
    from tidemill.plan.algebra.nodes import relations

    found = _READ.get(root)
    return _READ.put(root, frozenset(relations(root))) if found is None else found


def _view_to_json(view: View) -> Fragment:
    plain = {stored: getattr(view, name) for name, stored in _STORED.items()}
    maps: dict[str, Any] = {"properties": dict(view.properties), "sizes": dict(view.sizes)}
    maps |= {"failing": vars(view.failing)} | ({"paused": vars(view.paused)} if view.paused else {})
    plans = {"root": codec.encode(view.root), "read": codec.encode(view.read)}
    if view.coming is not None:
        properties = dict(view.coming.properties)
        maps["coming"] = {"query": view.coming.query, "root": codec.encode(view.coming.root), "properties": properties}
    return Fragment({**plain, **maps, **plans, "node_names": list(view.node_names)})


def _view_from_json(data: Mapping[str, Any]) -> View:
    failing = dict(data.get("failing", {}))
    failing["past"] = tuple((since, until, error) for since, until, error in failing.get("past", ()))
    plans: dict[str, Any] = {n: Encoded(data[n]) for n in ("root", "read")}
    names = tuple(data["node_names"])
    plain = {name: data[stored] for name, stored in _STORED.items()}
    maps = {n: data.get(n, {}) for n in ("properties", "sizes")}
    paused = Pause(**data["paused"]) if "paused" in data else None
    coming = None
    if "coming" in data:
        later = data["coming"]
        root: Any = Encoded(later["root"])
        coming = Coming(later["query"], root, later["properties"])
    rows = FailingRows(**failing)
    return View(**plain, **maps, **plans, node_names=names, failing=rows, paused=paused, coming=coming)
