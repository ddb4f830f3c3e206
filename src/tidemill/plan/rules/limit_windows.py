"""A filter on ``row_number()`` tells a window that only the first rows of each partition are wanted.

Filter (rn <= 3)                    Filter (rn <= 3)
  Window [row_number() AS rn]  ->     Window [row_number() AS rn] first 3 rows
    Scan t                              Scan t

The other functions of the window must not look ahead: running frames of ROWS, and LAG.
"""

from __future__ import annotations

from dataclasses import replace

from tidemill.plan.algebra import Filter, Node, Window
from tidemill.plan.traverse import map_children
from tidemill.task.expressions import Call, Expression, Literal, Ref
from tidemill.task.window_calls import WindowCall

_LARGEST = 10_000
_FLIPPED = {"le": "ge", "lt": "gt", "eq": "eq", "ge": "le", "gt": "lt"}


def limit_windows(node: Node) -> Node:
    """Limit every window below a filter that allows it."""
    node = map_children(node, limit_windows)
    if not isinstance(node, Filter) or not isinstance(node.child, Window):
        return node
    window = node.child
    if not all(_looks_back(call) for call in window.calls):
        return node
    width = len(window.child.schema)
    numbers = {width + i for i, call in enumerate(window.calls) if call.function == "row_number"}
    limits = [n for part in _conjuncts(node.condition) if (n := _limit(part, numbers)) is not None]
    if not limits or not 0 <= min(limits) <= _LARGEST:
        return node
    return Filter(replace(window, limit=min(limits)), node.condition)


def _looks_back(call: WindowCall) -> bool:
    """Whether the function of a row depends on no row behind it."""
    if call.function == "row_number":
        return True
    if call.function == "shift":
        return call.number <= 0
    upper = call.frame.upper
    return call.frame.rows and isinstance(upper, int) and upper <= 0 and call.function not in _LOOK_AT_PEERS


_LOOK_AT_PEERS = frozenset({"rank", "dense_rank", "percent_rank", "cume_dist", "ntile"})


def _conjuncts(condition: Expression) -> list[Expression]:
    if isinstance(condition, Call) and condition.function == "and":
        return [part for arg in condition.args for part in _conjuncts(arg)]
    return [condition]


def _limit(part: Expression, numbers: set[int]) -> int | None:
    """The largest row number that a condition lets through."""
    if not isinstance(part, Call) or part.function not in _FLIPPED:
        return None
    function, (left, right) = part.function, part.args
    if isinstance(left, Literal):
        function, left, right = _FLIPPED[function], right, left
    if function not in ("le", "lt", "eq"):
        return None
    if not isinstance(left, Ref) or left.index not in numbers or not isinstance(right, Literal) or right.value is None:
        return None
    return int(right.value) - (1 if function == "lt" else 0)
