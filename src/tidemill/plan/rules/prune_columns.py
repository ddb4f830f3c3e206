"""Joins keep and scans give only the columns that are used: the others are never parsed.

Project [c]                     Project [c]
  Filter (a > 1)          ->      Filter (a > 1)
    Scan t [a, b, c]                Scan t [a, c]
"""

from __future__ import annotations

from dataclasses import replace

from tidemill.plan.algebra.nodes import Filter, Join, Node, Project, Scan
from tidemill.plan.algebra.traverse import map_children
from tidemill.task.expressions import references, remap


def prune_columns(node: Node) -> Node:
    """Prune below every projection."""
    if isinstance(node, Project):
        used = frozenset(i for e in node.expressions for i in references(e))
        pruned = _prune(node.child, used)
        if pruned is not None:
            child, positions = pruned
            return Project(child, tuple(remap(e, positions) for e in node.expressions), node.names)
    return map_children(node, prune_columns)


def _prune(node: Node, used: frozenset[int]) -> tuple[Node, dict[int, int]] | None:
    """The node without unused columns, and where the used ones went; None when it can have no fewer columns."""
    match node:
        case Filter():
            below = _prune(node.child, used | references(node.condition))
            if below is None:
                return None
            child, positions = below
            return Filter(child, remap(node.condition, positions)), positions
        case Scan():
            kept = sorted(used)
            return Scan(node.relation, tuple(node.columns[i] for i in kept)), {old: i for i, old in enumerate(kept)}
        case Project():
            kept = sorted(used)
            cut = Project(node.child, tuple(node.expressions[i] for i in kept), tuple(node.names[i] for i in kept))
            return prune_columns(cut), {old: i for i, old in enumerate(kept)}
        case Join():
            return _prune_join(node, used)
    return None


def _prune_join(node: Join, used: frozenset[int]) -> tuple[Node, dict[int, int]]:
    width = len(node.left.schema)
    if node.residual is not None:
        used = used | references(node.residual)
    left, from_left = _side(node.left, frozenset(i for i in used if i < width) | set(node.left_keys))
    right, from_right = _side(node.right, frozenset(i - width for i in used if i >= width) | set(node.right_keys))
    shift = len(left.schema)
    positions = {**from_left, **{old + width: new + shift for old, new in from_right.items()}}
    cut = replace(
        node,
        left=left,
        right=right,
        left_keys=tuple(from_left[k] for k in node.left_keys),
        right_keys=tuple(from_right[k] for k in node.right_keys),
        residual=None if node.residual is None else remap(node.residual, positions),
    )
    return cut, positions


def _side(node: Node, used: frozenset[int]) -> tuple[Node, dict[int, int]]:
    pruned = _prune(node, used)
    if pruned is None:
        return map_children(node, prune_columns), {i: i for i in range(len(node.schema))}
    return pruned
