"""What CREATE and ALTER statements make of a catalogue. All functions are pure: catalog in, catalog out."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pyspark.sql import DataFrame

from tidemill.errors import TidemillError
from tidemill.options.option import lowered
from tidemill.plan.algebra.nodes import Node, Project
from tidemill.plan.rules import rewrite
from tidemill.plan.sql.empty_sums import zero_for_empty
from tidemill.plan.sql.statements import CreateTable, CreateView
from tidemill.runtime.catalog import replacements
from tidemill.runtime.catalog.adaptor_changes import resolved
from tidemill.runtime.catalog.catalog import Catalog, View, check_properties
from tidemill.runtime.tables.table_options import alterable
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


def altered(catalog: Catalog, name: str, options: Mapping[str, str | None], allowed: AllowedPaths) -> Catalog:
    """The catalog with other options of a table. Errors as :meth:`AllowedPaths.check`, :meth:`Catalog.with_options`."""
    allowed.check(name, {k.lower(): v for k, v in options.items() if v is not None})
    return catalog.with_options(name, options)


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
        As ``plan``; TM2014 for a bad property; TM2015 when it reads a view in error; TM2019 when it reads itself.
    """
    check_properties(statement.properties)
    root = _view_root(plan, statement, frame)
    catalog.check_reads_no_failed(root)
    return root


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
    return replacements.follow(catalog, name, created_at_epoch)


def is_view(view: View, plan: Callable[..., Node], statement: CreateView) -> bool:
    """Whether a view is what a statement would create, by the text of its query or by its plan."""
    if dict(view.properties) != dict(statement.properties):
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
        if statement.properties.get("emptySum") != "zero":
            return root
        if frame is not None:
            raise TidemillError(
                "TM2014", "this property is only for queries in SQL", got="emptySum", hint="use coalesce()"
            )
        zero = plan(zero_for_empty(statement.query))
        columns = tuple(Ref(i, f.type, f.nullable) for i, f in enumerate(zero.schema))
        return rewrite(Project(zero, columns, root.schema.names))
    except TidemillError as error:
        if "TABLE_OR_VIEW_NOT_FOUND" in error.got and f"`{statement.name}`" in error.got:
            raise replacements.reads_itself((statement.name, statement.name)) from error
        raise
