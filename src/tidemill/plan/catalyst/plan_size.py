"""How large a plan may be."""

from __future__ import annotations

from tidemill.errors import TidemillError
from tidemill.plan.algebra.nodes import Node, children

_MOST = 20_000
"""Operators. The largest query of TPC-DS has 2,200 of them; with 20,000 a view is created in about a minute."""


def check_size(root: Node) -> None:
    """TM2902 when a plan has too many operators; one that is used in several places counts in each."""
    counted: dict[int, int] = {}

    def count(node: Node) -> int:
        if id(node) not in counted:
            counted[id(node)] = 1 + sum(map(count, children(node)))
        return counted[id(node)]

    operators = count(root)
    if operators > _MOST:
        raise TidemillError(
            "TM2902",
            "the plan of this query is too large",
            got=f"{operators:,} operators, and {_MOST:,} at most",
            hint="conditions with NOT IN or IN within CASE or OR multiply what is below them, several columns most: "
            "write them as joins or NOT EXISTS, or keep a part of the query as a view of its own",
        )
