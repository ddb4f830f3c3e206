"""Projections and filters as calculations."""

from __future__ import annotations

from tidemill.plan.algebra.nodes import Aggregate, Filter, Node, Project
from tidemill.task.aggregates.functions import lookup
from tidemill.task.functions.evaluate import can_fail
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


def finishing_can_fail(root: Node) -> bool:
    """Whether what is applied to a stored aggregate when a view is read can fail for a group.

    Such a view looks at the groups that change in an epoch, so that it is known to be failing. A sum that does not
    fit its type is left to the reader: to look for it would cost every sum of integers a lookup.
    """
    steps, top = finishing(root)
    if not isinstance(top, Aggregate):
        return False
    expressions = [e for s in steps for e in (s.condition, *(s.expressions or ())) if e is not None]
    return any(map(can_fail, expressions)) or any(lookup(c.function).can_fail for c in top.calls)
