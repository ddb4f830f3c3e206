"""A scan gives only the columns that are used: the others are never parsed.

Project [c]                     Project [c]
  Filter (a > 1)          ->      Filter (a > 1)
    Scan t [a, b, c]                Scan t [a, c]
"""

from __future__ import annotations

from tidemill.plan.algebra import Filter, Node, Project, Scan
from tidemill.plan.traverse import map_children
from tidemill.task.expressions import references, remap


def prune_scans(node: Node) -> Node:
    """Prune below every projection."""
    if isinstance(node, Project):
        used = frozenset(i for e in node.expressions for i in references(e))
        pruned = _prune(node.child, used)
        if pruned is not None:
            child, positions = pruned
            return Project(child, tuple(remap(e, positions) for e in node.expressions), node.names)
    return map_children(node, prune_scans)


def _prune(node: Node, used: frozenset[int]) -> tuple[Node, dict[int, int]] | None:
    """The node without unused columns, and where the used ones went; None when it is not a filtered scan."""
    if isinstance(node, Filter):
        below = _prune(node.child, used | references(node.condition))
        if below is None:
            return None
        child, positions = below
        return Filter(child, remap(node.condition, positions)), positions
    if isinstance(node, Scan):
        kept = sorted(used)
        return Scan(node.relation, tuple(node.columns[i] for i in kept)), {old: i for i, old in enumerate(kept)}
    return None
