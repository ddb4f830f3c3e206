"""Queries in SQL, and groups of sorted rows."""

from __future__ import annotations

from dataclasses import dataclass

from tidemill.errors import TidemillError
from tidemill.plan.algebra.aggregates import layout
from tidemill.plan.algebra.nodes import Aggregate, Node
from tidemill.plan.loading.nodes.lowering import Lowering
from tidemill.plan.loading.nodes.names import INPUT
from tidemill.plan.loading.nodes.node import PlanNode
from tidemill.plan.lowering.analysis.calculations import finishing
from tidemill.schema import Schema
from tidemill.state.keys.keys import KeyColumn
from tidemill.task.aggregates.accumulators import AggregateLayout
from tidemill.task.program import Calculate, Input, StreamingGroups


@dataclass(frozen=True, eq=False)
class Query(PlanNode):
    """A query over named nodes."""

    root: Node
    inputs: tuple[tuple[str, PlanNode], ...]

    @property
    def schema(self) -> Schema:  # type: ignore[override]
        return self.root.schema

    def children(self) -> tuple[PlanNode, ...]:
        return tuple(node for _, node in self.inputs)

    def lower(self, lowering: Lowering) -> Input:
        return lowering.query(self.root, dict(self.inputs))


@dataclass(frozen=True, eq=False)
class Grouped(PlanNode):
    """Groups of sorted rows: ``root`` is an aggregate over the child."""

    child: PlanNode
    root: Node

    @property
    def schema(self) -> Schema:  # type: ignore[override]
        return self.root.schema

    def __post_init__(self) -> None:
        self._aggregate()

    def children(self) -> tuple[PlanNode, ...]:
        return (self.child,)

    def _aggregate(self) -> tuple[Aggregate, AggregateLayout, tuple[Calculate, ...]]:
        steps, top = finishing(self.root)
        assert isinstance(top, Aggregate) and top.pairs is None and not top.parts
        chosen = layout(top, append_only=True)
        if chosen.multisets:
            raise TidemillError(
                "TM9016",
                "this result needs all values of a group",
                got=", ".join(c.function for c in top.calls),
                hint="aggregate() computes it: it holds all groups up to the barrier",
            )
        return top, chosen, steps

    def lower(self, lowering: Lowering) -> Input:
        top, chosen, steps = self._aggregate()
        rows = lowering.query(top.child, {INPUT: self.child})
        types = top.child.schema.types
        keys = tuple(KeyColumn(types[k]) for k in top.keys)
        found = lowering.add(StreamingGroups(top.keys, keys, chosen, types), rows)
        for step in steps:
            found = lowering.add(step, found)
        return found
