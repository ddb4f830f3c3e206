"""The algebra of a view that is to be created."""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import DataFrame

from tidemill.errors import TidemillError
from tidemill.plan.algebra.nodes import Node, Project
from tidemill.plan.rules import rewrite
from tidemill.plan.sql.empty_sums import zero_for_empty
from tidemill.plan.sql.statements import CreateView
from tidemill.runtime.catalog import replacements
from tidemill.runtime.catalog.catalog import View
from tidemill.task.expressions import Ref


def view_root(plan: Callable[..., Node], statement: CreateView, frame: DataFrame | None = None) -> Node:
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


def is_view(view: View, plan: Callable[..., Node], statement: CreateView) -> bool:
    """Whether a view is what a statement would create, by the text of its query or by its plan."""
    if dict(view.properties) != dict(statement.properties):
        return False
    if view.query.split() == statement.query.split():
        return True
    try:
        return view_root(plan, statement) == view.root
    except TidemillError:
        return False
