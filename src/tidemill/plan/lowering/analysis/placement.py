"""Where the rows of a step are: which partition holds a row is decided by the vnode of some of its columns.

A placement is the set of column lists of which that is true. Rows that lie where a step wants them are not
exchanged, so the step runs in the superstep that made them.
"""

from __future__ import annotations

from typing import TypeAlias

from tidemill.task.expressions import Ref
from tidemill.task.program import Calculate

Placement: TypeAlias = frozenset[tuple[int, ...]]

NOWHERE: Placement = frozenset()
"""Rows are wherever they happen to be, for example where their split was read."""

ONE_PLACE: Placement = frozenset({()})
"""All rows are with vnode 0."""


def after_calculation(placement: Placement, operation: Calculate) -> Placement:
    """Where rows are after a calculation: known by those columns that come through unchanged."""
    if operation.expressions is None:
        return placement
    moved: dict[int, int] = {}
    for position, expression in enumerate(operation.expressions):
        if isinstance(expression, Ref):
            moved.setdefault(expression.index, position)
    return frozenset(tuple(moved[c] for c in columns) for columns in placement if all(c in moved for c in columns))
