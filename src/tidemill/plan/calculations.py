"""Projections and filters as calculations."""

from __future__ import annotations

from tidemill.plan.algebra import Aggregate, Filter, Node, Project
from tidemill.task.program import Calculate


def finishing(root: Node) -> tuple[tuple[Calculate, ...], Node]:
    """The projections and filters on top of a view, as steps to apply when it is read, and what is below."""
    if isinstance(root, Project | Filter):
        operation, base = calculation(root)
        if isinstance(base, Aggregate):
            return (operation,), base
        steps, top = finishing(base)
        return (*steps, operation), top
    return (), root


def calculation(node: Node) -> tuple[Calculate, Node]:
    """A projection over a filter as one calculation, with the node below."""
    if isinstance(node, Filter):
        return Calculate(node.condition, None), node.child
    assert isinstance(node, Project)
    if isinstance(node.child, Filter):
        return Calculate(node.child.condition, node.expressions), node.child.child
    return Calculate(None, node.expressions), node.child
