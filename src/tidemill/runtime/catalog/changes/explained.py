"""``EXPLAIN INCREMENTAL``: the plan of a query as it would be maintained beside the existing views."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from pyspark.sql import SparkSession

from tidemill.plan.algebra.nodes import Node
from tidemill.plan.explain.texts import QUERY, explain
from tidemill.plan.lowering.analysis.definition import ViewDefinition
from tidemill.runtime.catalog import small_tables
from tidemill.runtime.catalog.catalog import Catalog, View
from tidemill.runtime.catalog.changes.declaration import Declaration
from tidemill.runtime.catalog.view_plans import with_names
from tidemill.sources.locations.allowed_paths import AllowedPaths


def explain_query(
    spark: SparkSession, catalog: Catalog, epoch: int, size_of: Callable[[str], int | None], query: str
) -> str:
    """The incremental plan of a query, were a view of it created after an epoch; nothing is created.

    Errors as for creating a view of it.
    """
    root = Declaration(spark, catalog, epoch, AllowedPaths()).plan(query)
    return explained(catalog, root, epoch, size_of)


def explained(catalog: Catalog, root: Node, created_at_epoch: int, size_of: Callable[[str], int | None]) -> str:
    """The plan of a query's algebra, were it created after an epoch; ``size_of`` as in :mod:`small_tables`."""
    catalog = replace(catalog, views={**catalog.views, QUERY: View(QUERY, QUERY, "", root, created_at_epoch)})
    catalog = small_tables.with_sizes(with_names(catalog), created_at_epoch, size_of)
    return explained_beside(catalog, catalog.views[QUERY].definition)


def explained_beside(catalog: Catalog, query: ViewDefinition) -> str:
    """The plan of a view, or of a query, among the views of a catalogue."""
    views = [v.definition for v in catalog.active_views()]
    return explain(views, {t.name: t.source() for t in catalog.tables.values()}, query)
