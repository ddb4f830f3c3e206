"""The declarations of a script or pipeline, compared with a catalogue: what would be added, replaced and dropped.

Adding to a declaration changes only :attr:`Declaration.catalog`, so one that fails, or is only shown, changes nothing
in the mill. It needs no mill.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from tidemill.errors import TidemillError, placed
from tidemill.options.views import fixed
from tidemill.plan.algebra.nodes import Node
from tidemill.plan.catalyst.analyser import Catalyst
from tidemill.plan.catalyst.frames import description, struct, unreadable_frame
from tidemill.plan.rules import rewrite
from tidemill.plan.sql.statement_words import declares_nothing
from tidemill.plan.sql.statements import (
    AlterSink,
    AlterTable,
    AlterView,
    CreateSink,
    CreateTable,
    CreateView,
    Drop,
    Source,
)
from tidemill.runtime.catalog import replacements
from tidemill.runtime.catalog.catalog import Catalog, View
from tidemill.runtime.catalog.changes import sink_changes
from tidemill.runtime.catalog.changes.declared_views import DeclaredView, Resolver, add_declared_view
from tidemill.runtime.catalog.changes.definitions import (
    altered,
    altered_view,
    changed_limits,
    changed_properties,
    checked_root,
    with_table,
    with_view,
)
from tidemill.sources.locations.allowed_paths import AllowedPaths


@dataclass(frozen=True)
class Change:
    """One line of a plan. ``action`` is ``add``, ``change``, ``replace``, ``drop`` or ``keep``."""

    action: str
    kind: str
    name: str


class Declaration:
    """A catalogue as a script wants it.

    Parameters
    ----------
    spark : SparkSession
        Plans the queries; nothing is run.
    catalog : Catalog
        The present one.
    created_at_epoch : int
        The newest epoch.
    allowed : AllowedPaths
        Where tables may have their files.
    functions : mapping
        Python functions that queries may call, by name.

    Attributes
    ----------
    catalog : Catalog
        The declared one.
    changes : list of Change
        How they differ, in the order of the script.
    changed : list of str
        Views that are declared with another query than they have, and may not be replaced.
    """

    def __init__(
        self,
        spark: SparkSession,
        catalog: Catalog,
        created_at_epoch: int,
        allowed: AllowedPaths,
        functions: Mapping[str, Any] | None = None,
    ) -> None:
        self.spark, self.catalog = spark, catalog
        self.changes: list[Change] = []
        self.changed: list[str] = []
        self.catalyst = Catalyst(spark, catalog.time_zone)
        self._created_at_epoch, self._allowed = created_at_epoch, allowed
        self._declared: set[str] = set()
        for name in (*catalog.tables, *catalog.views):
            self.catalyst.register(name, catalog.described(name)[0])
        for name, function in (functions or {}).items():
            self.catalyst.register_function(name, function, None, True)

    def register_function(self, name: str, function: Any, return_type: Any, deterministic: bool) -> None:
        """Let queries call a Python function by name. Errors as :meth:`Catalyst.register_function`."""
        self.catalyst.register_function(name, function, return_type, deterministic)

    def relation(self, name: str) -> DataFrame:
        """A table or view as a DataFrame to build queries of. TM2012 when there is none."""
        schema, uid = self.catalog.described(name)
        return unreadable_frame(self.spark, name, struct(self.spark, schema), self.catalyst.mark(name, uid))

    def add_script(self, sources: Sequence[Source], *, may_replace: bool) -> None:
        """The statements of a script, in their order.

        Parameters
        ----------
        may_replace : bool
            Views with another query are replaced, as by ``CREATE OR REPLACE``.

        Raises
        ------
        TidemillError
            What is wrong with a statement, with its line; TM2003 for one that declares nothing.
        """
        for source in sources:
            with placed(f"in the statement on line {source.line}: {source.text.splitlines()[0][:80]}"):
                statement = self.catalyst.parse(source)
                match statement:
                    case CreateTable():
                        self._table(statement)
                    case CreateView():
                        self._view(statement, None, may_replace)
                    case AlterTable():
                        self._alter(statement)
                    case AlterView():
                        self._alter_view(statement)
                    case CreateSink():
                        self._sink(statement)
                    case AlterSink():
                        changed = sink_changes.altered_sink(self.catalog, statement, self._allowed)
                        self._adopt_sinks("change", statement.name, changed)
                    case Drop():
                        self._drop(statement)
                    case _:
                        raise declares_nothing(source)

    def add_declared_views(
        self, functions: Mapping[str, DeclaredView], views: Sequence[Source], *, may_replace: bool
    ) -> list[str]:
        """Views declared by functions or statements, in the order in which they read each other.

        Returns
        -------
        list of str
            Names of the views, upstream first.

        Raises
        ------
        TidemillError
            TM7020 to TM7024, or what is wrong with a query, with the place of the declaration.
        """
        declared = dict(functions)
        for source in views:
            parsed = self.catalyst.parse(source)
            assert isinstance(parsed, CreateView)
            place = f"the statement that creates {parsed.name}"
            add_declared_view(declared, DeclaredView(parsed.name, parsed.query, place, parsed.properties))
        resolved = Resolver(self, declared).resolve_all()
        for found in resolved:
            frame = None if isinstance(found.query, str) else found.query
            text = found.query if isinstance(found.query, str) else description(found.query)
            with placed(f"in {found.view.place}"):
                self._view(CreateView(found.view.name, text, found.view.properties), frame, may_replace)
        return [r.view.name for r in resolved]

    def prune(self, *, may_drop: bool) -> None:
        """Views that were there and are not declared any more are dropped, or noted as kept."""
        gone = [n for n in replacements.ordered(self.catalog.views) if n not in self._declared]
        for name in reversed(gone):
            if may_drop:
                self.catalog = self.catalog.without("view", name)
                self.catalyst.forget(name)
            self.changes.append(Change("drop" if may_drop else "keep", "view", name))

    def check(self) -> None:
        """TM2010 when views are declared with another query than they have, and may not be replaced."""
        if self.changed:
            raise TidemillError(
                "TM2010",
                "this name is taken",
                got=f"{', '.join(self.changed)}: declared with another query than the view of this name has",
                hint="--replace builds the new one beside the old and swaps them, and so does CREATE OR REPLACE "
                "MATERIALIZED VIEW; --plan shows what would be done",
            )

    def _table(self, statement: CreateTable) -> None:
        limits = changed_limits(self.catalog, statement)
        if limits is not None:
            if limits:
                self._alter(AlterTable(statement.name, limits))
            return
        if statement.if_not_exists and statement.name in self.catalog.tables:
            return
        self.catalog = with_table(self.catalog, statement, self._created_at_epoch, self._allowed)
        self.catalyst.register(statement.name, self.catalog.tables[statement.name].schema)
        self.changes.append(Change("add", "table", statement.name))

    def _alter(self, statement: AlterTable) -> None:
        before = self.catalog
        self.catalog = altered(before, statement, self._allowed)
        if before.tables[statement.name] != self.catalog.tables[statement.name]:
            self.changes.append(Change("change", "table", statement.name))

    def _alter_view(self, statement: AlterView) -> None:
        before = self.catalog
        self.catalog = altered_view(before, statement, self._created_at_epoch, {})
        if before.views[statement.name] != self.catalog.views[statement.name] or before.pending != self.catalog.pending:
            self.changes.append(Change("change", "view", statement.name))

    def _sink(self, statement: CreateSink) -> None:
        repeated = sink_changes.repeated(self.catalog, statement)
        if repeated is not None:
            self.catalog = repeated
            return
        made = sink_changes.with_sink(self.catalog, statement, self._created_at_epoch, self._allowed)
        if made is not self.catalog:
            made.sinks[statement.name].check_free()
        self._adopt_sinks("add", statement.name, made)

    def _adopt_sinks(self, action: str, name: str, catalog: Catalog) -> None:
        if catalog is not self.catalog:
            self.changes.append(Change(action, "sink", name))
        self.catalog = catalog

    def _drop(self, statement: Drop) -> None:
        if statement.kind == "sink":
            if not statement.if_exists or statement.name in self.catalog.sinks:
                self._adopt_sinks("drop", statement.name, sink_changes.without_sink(self.catalog, statement.name))
            return
        present = self.catalog.tables if statement.kind == "table" else self.catalog.views
        if statement.if_exists and statement.name not in present:
            return
        self.catalog = self.catalog.without(statement.kind, statement.name)
        self.catalyst.forget(statement.name)
        self.changes.append(Change("drop", statement.kind, statement.name))

    def _view(self, statement: CreateView, frame: DataFrame | None, may_replace: bool) -> None:
        name = statement.name
        self._declared.add(name)
        present = self.catalog.views.get(name)
        if present is not None and (statement.if_not_exists or (frame is None and self._is(present, statement))):
            changed = {} if statement.if_not_exists else changed_properties(self.catalog, statement)
            if changed:
                self._alter_view(AlterView(name, properties=changed))
            return
        root = checked_root(self.catalog, statement, frame, self.plan)
        if present is None:
            self.catalog = with_view(self.catalog, statement, root, self._created_at_epoch, replace=False)
            self.catalyst.register(name, root.schema)
            self.changes.append(Change("add", "view", name))
            return
        steady = not statement.or_replace and name not in self.catalog.pending
        if steady and root == present.root and fixed(statement.properties) == fixed(present.properties):
            return
        catalog = with_view(self.catalog, statement, root, self._created_at_epoch, replace=True)
        if catalog.pending is self.catalog.pending:
            self.catalog = catalog
            return
        self.changes.append(Change("replace", "view", name))
        if may_replace or statement.or_replace:
            self.catalog = catalog
        else:
            self.changed.append(name)

    def _is(self, view: View, statement: CreateView) -> bool:
        """Whether a view is as declared by the text of its query alone, so that it need not be planned."""
        steady = not statement.or_replace and view.name not in self.catalog.pending
        alike = view.query.split() == statement.query.split() and not self.catalyst.functions
        return steady and alike and fixed(view.properties) == fixed(statement.properties)

    def plan(self, query: str | DataFrame, at: tuple[int, int] = (1, 1)) -> Node:
        """The algebra of a query that stands at a line and column. Errors as :meth:`Catalyst.plan`."""
        return rewrite(self.catalyst.plan(query, at))
