"""Rebuilding algebra trees."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tidemill.plan.algebra.nodes import (
    Aggregate,
    Filter,
    Generate,
    Join,
    Node,
    Pairs,
    Project,
    Recursion,
    Repeat,
    Scan,
    SemiJoin,
    TopRows,
    Union,
    Window,
)


def map_children(node: Node, change: Callable[[Node], Node]) -> Node:
    """The same node over changed inputs."""
    match node:
        case Scan():
            return node
        case Union():
            return Union(tuple(change(c) for c in node.children))
        case Join() | SemiJoin():
            return replace(node, left=change(node.left), right=change(node.right))
        case Aggregate(pairs=Pairs() as pairs):
            left, right = change(pairs.left), change(pairs.right)
            assert isinstance(left, Aggregate) and isinstance(right, Aggregate)
            return replace(node, child=change(node.child), pairs=replace(pairs, left=left, right=right))
        case Aggregate(parts=(_, *_) as parts):
            changed = [change(p) for p in parts]
            return replace(node, child=change(node.child), parts=tuple(p for p in changed if isinstance(p, Aggregate)))
        case Recursion():
            return node.over(change(node.anchor), tuple(map(change, node.relations)))
        case Project() | Filter() | TopRows() | Generate() | Repeat() | Aggregate() | Window():
            return replace(node, child=change(node.child))
