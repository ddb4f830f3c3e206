"""``EXPLAIN INCREMENTAL``: the plan of a query as it would be maintained beside the views that there are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from pyspark.sql import SparkSession

from tidemill.config import Settings
from tidemill.plan.algebra import Node
from tidemill.plan.assemble import ViewDefinition
from tidemill.plan.explain import QUERY, explain
from tidemill.runtime import small_tables
from tidemill.runtime.catalog import Catalog, View
from tidemill.runtime.declaration import Declaration
from tidemill.runtime.root import Recovered
from tidemill.runtime.view_plans import with_names
from tidemill.sources.within import Within


def explain_query(spark: SparkSession, found: Recovered, query: str) -> str:
    """The incremental plan of a query over a root that nobody needs to write now.

    Errors as for creating a view of it.
    """
    born = found.version.epoch
    root = Declaration(spark, found.catalog, born, Within()).plan(query)
    return explained(found.catalog, root, born, partial(found.intake.size, most=Settings().broadcast_bytes))


def explained(catalog: Catalog, root: Node, born: int, size_of: Callable[[str], int | None]) -> str:
    """The plan of a query's algebra, were it created after an epoch; ``size_of`` as in :mod:`small_tables`."""
    catalog = replace(catalog, views={**catalog.views, QUERY: View(QUERY, QUERY, "", root, born)})
    catalog = small_tables.with_sizes(with_names(catalog), born, size_of)
    return explained_beside(catalog, catalog.views[QUERY].definition())


def explained_beside(catalog: Catalog, query: ViewDefinition) -> str:
    """The plan of a view, or of a query, among the views of a catalogue."""
    views = [v.definition() for v in catalog.active_views()]
    return explain(views, {t.name: t.source() for t in catalog.tables.values()}, query)
