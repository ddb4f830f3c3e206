"""What CREATE and ALTER of tables and views make of a catalogue. Functions change nothing: they return a new one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from pyspark.sql import DataFrame

from tidemill.errors import TidemillError
from tidemill.options.option import lowered
from tidemill.options.views import (
    BACKFILL,
    EMPTY_SUM,
    POSITION,
    TAIL,
    check_properties,
    fixed,
    value_of,
    with_changes,
)
from tidemill.plan.algebra.nodes import Node, Project
from tidemill.plan.rules import rewrite
from tidemill.plan.sql.empty_sums import zero_for_empty
from tidemill.plan.sql.statements import AlterTable, AlterView, CreateTable, CreateView
from tidemill.runtime.catalog import replacements
from tidemill.runtime.catalog.catalog import NEXT, Catalog, View
from tidemill.runtime.catalog.changes import pauses
from tidemill.runtime.catalog.changes.adaptor_changes import resolved
from tidemill.runtime.tables.table_options import alterable
from tidemill.schema import quoted
from tidemill.sources.locations.allowed_paths import AllowedPaths
from tidemill.task.expressions import Ref


def with_table(catalog: Catalog, statement: CreateTable, created_at_epoch: int, allowed: AllowedPaths) -> Catalog:
    """The catalog with one more table, unless it is there and the statement says IF NOT EXISTS.

    Errors as :meth:`AllowedPaths.check`, :func:`resolved` and :meth:`Catalog.add_table`.
    """
    allowed.check(statement.name, lowered(statement.options), looks_into=not len(statement.schema))
    if statement.if_not_exists and statement.name in catalog.tables:
        return catalog
    return catalog.add_table(resolved(catalog, statement), created_at_epoch)


def altered(catalog: Catalog, statement: AlterTable, allowed: AllowedPaths) -> Catalog:
    """The catalog with a table paused, resumed, or with other options.

    Errors as :meth:`AllowedPaths.check`, :meth:`Catalog.with_options`.
    """
    if statement.paused is not None:
        return catalog.with_paused_table(statement.name, statement.paused)
    allowed.check(statement.name, {k.lower(): v for k, v in statement.options.items() if v is not None})
    return catalog.with_options(statement.name, statement.options)


def altered_view(catalog: Catalog, statement: AlterView, epoch: int, admitted: Mapping[str, int]) -> Catalog:
    """The catalog with a view paused, resumed, or with other properties.

    Errors as :func:`pauses.paused`, :func:`pauses.resumed`, :func:`with_changes`.
    """
    if statement.paused is None:
        return _with_properties(catalog, statement.name, lambda p: with_changes(p, statement.properties))
    if statement.paused:
        return pauses.paused(catalog, statement.name, epoch, admitted)
    return pauses.resumed(catalog, statement.name, epoch)


def changed_properties(catalog: Catalog, statement: CreateView) -> dict[str, str | None]:
    """The properties that a repeated CREATE MATERIALIZED VIEW changes as ALTER VIEW would; None takes one back."""
    before, after = catalog.views[statement.name].properties, statement.properties
    names = (before.keys() | after.keys()) - fixed(before).keys() - fixed(after).keys()
    return {name: after.get(name) for name in sorted(names) if before.get(name) != after.get(name)}


def changed_limits(catalog: Catalog, statement: CreateTable) -> dict[str, str | None] | None:
    """The options that a repeated CREATE TABLE changes with ALTER; None when it declares another table."""
    table = catalog.tables.get(statement.name)
    if table is None:
        return None
    statement = resolved(catalog, statement)
    if not table.same_but_for_limits(statement):
        return None
    options = lowered(statement.options)
    names = alterable({**options, **table.options})
    return {k: options.get(k) for k in names if options.get(k) != table.options.get(k)}


def checked_root(catalog: Catalog, statement: CreateView, frame: DataFrame | None, plan: Callable[..., Node]) -> Node:
    """The algebra of a view that may be created.

    Raises
    ------
    TidemillError
        As ``plan``; TM2014 for a bad property; TM2015 when it reads a failing view; TM2019 when it reads itself.
    """
    check_properties(statement.properties)
    root = _view_root(plan, statement, frame)
    catalog.check_reads_no_failed(root)
    if value_of(POSITION, statement.properties) == TAIL:
        _check_tail(catalog, statement.name, root)
    return root


def _check_tail(catalog: Catalog, name: str, root: Node) -> None:
    """TM2064 for a view without history over a table that may delete rows of its history."""
    deleting = [t for t in sorted(catalog.tables_read_by(root) - catalog.kept_tables) if catalog.tables[t].op_column]
    if deleting:
        raise TidemillError(
            "TM2064",
            "a view of a table with deletions cannot begin at the tail",
            got=f"{name} reads {', '.join(deleting)}",
            hint="rows that it never had would be deleted from it: leave 'position' out, or read the table through a "
            "view",
        )


def with_view(catalog: Catalog, statement: CreateView, root: Node, created_at_epoch: int, replace: bool) -> Catalog:
    """The catalog with a view of this algebra.

    With ``replace`` a view of its name is replaced, unless it is, or will be, the same: then the catalog as it is.

    Raises
    ------
    TidemillError
        TM2010 when the name is taken; TM2018 and TM2019 as :func:`replacements.begin`.
    """
    name, properties = statement.name, dict(statement.properties)
    if replace and name in catalog.views:
        view = View(name, "", statement.query, root, created_at_epoch, properties=properties)
        return replacements.replaced(catalog, view, created_at_epoch)
    catalog = catalog.add_view(name, statement.query, root, created_at_epoch, properties)
    return replacements.over_replacements(catalog, name, created_at_epoch)


def checked_history(view: View, gone: list[str]) -> list[str]:
    """Warnings about rows that a new view cannot have any more. TM2061 if it must have all of them."""
    if gone and value_of(POSITION, view.properties) == BACKFILL:
        raise TidemillError(
            "TM2061",
            "a view cannot have all rows of its tables: some are gone",
            got=f"{view.name.removesuffix(NEXT)}: {gone[0].splitlines()[0]}",
            hint="with 'position' = 'head' it begins with the rows that are there",
        )
    return gone


def is_view(view: View, plan: Callable[..., Node], statement: CreateView) -> bool:
    """Whether a view is what a statement would create, by the text of its query or by its plan.

    Properties that ALTER VIEW can change do not count.
    """
    if fixed(view.properties) != fixed(statement.properties):
        return False
    if view.query.split() == statement.query.split():
        return True
    try:
        return _view_root(plan, statement) == view.root
    except TidemillError:
        return False


def _view_root(plan: Callable[..., Node], statement: CreateView, frame: DataFrame | None = None) -> Node:
    """The algebra of a statement's query, or of the frame that takes its place; properties of the view included.

    Parameters
    ----------
    plan : callable
        Of a query, which may stand at a line and column.

    Raises
    ------
    TidemillError
        As ``plan``; TM2014 for ``emptySum`` with a frame; an error of its own for a view that reads itself.
    """
    try:
        root = plan(statement.query if frame is None else frame, statement.at)
        if value_of(EMPTY_SUM, statement.properties) != "zero":
            return root
        if frame is not None:
            raise TidemillError(
                "TM2014", "this property is only for queries in SQL", got="emptySum", hint="use coalesce()"
            )
        zero = plan(zero_for_empty(statement.query))
        columns = tuple(Ref(i, f.type, f.nullable) for i, f in enumerate(zero.schema))
        return rewrite(Project(zero, columns, root.schema.names))
    except TidemillError as error:
        if "TABLE_OR_VIEW_NOT_FOUND" in error.got and quoted(statement.name) in error.got:
            raise replacements.reads_itself((statement.name, statement.name)) from error
        raise


def _with_properties(catalog: Catalog, name: str, change: Callable[[Mapping[str, str]], dict[str, str]]) -> Catalog:
    """The catalog with other properties of a view, also of one that is built to replace it.

    Errors as ``change``, and TM2012 when there is no such view.
    """
    view = pauses.found(catalog, name)
    coming = view.coming and replace(view.coming, properties=change(view.coming.properties))
    views = {**catalog.views, name: replace(view, properties=change(view.properties), coming=coming)}
    pending = dict(catalog.pending)
    if name in pending:
        pending[name] = replace(pending[name], properties=change(pending[name].properties))
    return replace(catalog, views=views, pending=pending)
