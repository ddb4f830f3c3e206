"""SQL over nodes of a plan: Spark analyses it, once, when the plan is made."""

from __future__ import annotations

from collections.abc import Mapping

from tidemill.plan.algebra.nodes import Node
from tidemill.plan.catalyst.analyser import Catalyst
from tidemill.plan.catalyst.sessions import any_session
from tidemill.plan.rules import rewrite
from tidemill.schema import Schema


def analysed(query: str, inputs: Mapping[str, Schema]) -> Node:
    """The algebra of a query over named inputs.

    Raises
    ------
    TidemillError
        TM2001 to TM2902, as for the query of a view.
    """
    catalyst = Catalyst(any_session())
    try:
        for name, schema in inputs.items():
            catalyst.register(name, schema)
        return rewrite(catalyst.plan(query))
    finally:
        for name in inputs:
            catalyst.forget(name)
