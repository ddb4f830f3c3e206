"""Rewrite rules: algebra in, algebra out, equal rows. One rule a file; applied in this order."""

from __future__ import annotations

from collections.abc import Callable

from tidemill.plan.algebra import Node
from tidemill.plan.rules.limit_windows import limit_windows
from tidemill.plan.rules.merge_projections import merge_projections
from tidemill.plan.rules.prune_scans import prune_scans

RULES: tuple[Callable[[Node], Node], ...] = (merge_projections, prune_scans, merge_projections, limit_windows)


def rewrite(node: Node) -> Node:
    """Apply all rules."""
    for rule in RULES:
        node = rule(node)
    return node
