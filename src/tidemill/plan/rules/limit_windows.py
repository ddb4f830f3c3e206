"""A filter on a ranking function tells a window that only the first rows of each partition are wanted.

Filter (rn <= 3)                    Filter (rn <= 3)
  Window [row_number() AS rn]  ->     Window [row_number() AS rn] first 3 rows
    Scan t                              Scan t

With ``rank()`` and ``dense_rank()`` these are all rows up to that rank, so peers come out together or not at all.
The other functions of the window must not look ahead: running frames of ROWS, and LAG; with ranks also functions that
are equal for peers, such as frames of RANGE up to the current row.
"""

from __future__ import annotations

from dataclasses import replace

from tidemill.plan.algebra.build import conjuncts
from tidemill.plan.algebra.nodes import Filter, Node, Window
from tidemill.plan.algebra.traverse import map_children
from tidemill.task.expressions import Call, Expression, Literal, Ref
from tidemill.task.program.window_calls import RANKINGS, WindowCall

_LARGEST = 10_000
_LIMITED = ("row_number", "rank", "dense_rank")
"""Functions that a filter may be on, the most selective one first."""
_FLIPPED = {"le": "ge", "lt": "gt", "eq": "eq", "ge": "le", "gt": "lt"}


def limit_windows(node: Node) -> Node:
    """Limit every window below a filter that allows it."""
    node = map_children(node, limit_windows)
    if not isinstance(node, Filter) or not isinstance(node.child, Window):
        return node
    window = node.child
    width = len(window.child.schema)
    for function in _LIMITED:
        numbers = {width + i for i, call in enumerate(window.calls) if call.function == function}
        limits = [n for part in conjuncts(node.condition) if (n := _limit(part, numbers)) is not None]
        backward = all(_looks_back(call, with_peers=function != "row_number") for call in window.calls)
        if backward and limits and 0 <= min(limits) <= _LARGEST:
            return Filter(replace(window, limit=min(limits), limited=function), node.condition)
    return node


def _looks_back(call: WindowCall, with_peers: bool) -> bool:
    """Whether the function of a row depends on no row behind it, or behind its peers."""
    if call.function in RANKINGS:
        return call.function == "row_number" or (with_peers and call.function in _LIMITED)
    if call.function == "shift":
        return call.number <= 0
    upper = call.frame.upper
    return (call.frame.rows or with_peers) and isinstance(upper, int) and upper <= 0


def _limit(part: Expression, numbers: set[int]) -> int | None:
    """The largest row number that a condition lets through."""
    if isinstance(part, Call) and part.function == "in":
        listed = [_limit(Call("eq", (part.args[0], value), part.type), numbers) for value in part.args[1:]]
        return max((n for n in listed if n is not None), default=None) if None not in listed else None
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
