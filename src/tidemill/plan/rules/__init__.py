"""Rewrite rules: algebra in, algebra out, equal rows. One rule a file; applied in this order."""

from __future__ import annotations

from collections.abc import Callable

from tidemill.plan.algebra.nodes import Node
from tidemill.plan.rules.factorise_aggregates import factorise_aggregates
from tidemill.plan.rules.filters_into_joins import filters_into_joins
from tidemill.plan.rules.limit_windows import limit_windows
from tidemill.plan.rules.merge_projections import merge_projections
from tidemill.plan.rules.one_row_joins import one_row_joins
from tidemill.plan.rules.prune_columns import prune_columns
from tidemill.plan.rules.reassociate_joins import reassociate_joins
from tidemill.plan.rules.running_sums import running_sums

RULES: tuple[Callable[[Node], Node], ...] = (
    merge_projections,
    filters_into_joins,
    one_row_joins,
    reassociate_joins,
    prune_columns,
    merge_projections,
    limit_windows,
    running_sums,
    factorise_aggregates,
)


def rewrite(node: Node) -> Node:
    """Apply all rules."""
    for rule in RULES:
        node = rule(node)
    return node
