"""Rows for several pipelines, and of several nodes."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tidemill.errors import TidemillError
from tidemill.plan.loading.nodes.lowering import Lowering
from tidemill.plan.loading.nodes.node import PlanNode, key_column
from tidemill.schema import Schema
from tidemill.task.program import Concatenate, Gather, Input, MergeSorted, Operation, PartRows


@dataclass(frozen=True, eq=False)
class Parted(PlanNode):
    """Rows that are sent to several pipelines."""

    child: PlanNode
    parts: int
    keys: tuple[str, ...]

    @property
    def schema(self) -> Schema:  # type: ignore[override]
        return self.child.schema

    def children(self) -> tuple[PlanNode, ...]:
        return (self.child,)

    def lower(self, lowering: Lowering) -> Input:
        keys = tuple(self.schema.names.index(k) for k in self.keys)
        return lowering.add(PartRows(self.parts, keys or None), lowering.rows(self.child))


@dataclass(frozen=True, eq=False)
class Part(PlanNode):
    """The rows of one pipeline."""

    parted: Parted
    number: int

    @property
    def schema(self) -> Schema:  # type: ignore[override]
        return self.parted.schema

    def children(self) -> tuple[PlanNode, ...]:
        return (self.parted,)

    def lower(self, lowering: Lowering) -> Input:
        return replace(lowering.rows(self.parted), port=self.number)


@dataclass(frozen=True, eq=False)
class Several(PlanNode):
    """Rows of several nodes of equal columns."""

    nodes: tuple[PlanNode, ...]

    @property
    def schema(self) -> Schema:  # type: ignore[override]
        first = self.nodes[0].schema
        nullable = [any(n.schema.fields[i].nullable for n in self.nodes) for i in range(len(first))]
        return Schema(tuple(replace(f, nullable=null) for f, null in zip(first, nullable, strict=True)))

    def __post_init__(self) -> None:
        first = self.nodes[0].schema
        for node in self.nodes[1:]:
            if (node.schema.names, node.schema.types) != (first.names, first.types):
                raise TidemillError(
                    "TM9019",
                    "these nodes have different columns",
                    got=f"{node.schema.to_ddl()}; the first: {first.to_ddl()}",
                    hint="select() the same columns of all",
                )

    def children(self) -> tuple[PlanNode, ...]:
        return self.nodes

    def _operation(self) -> Operation:
        raise NotImplementedError(type(self).__name__)

    def lower(self, lowering: Lowering) -> Input:
        return lowering.add(self._operation(), *(lowering.rows(node) for node in self.nodes))


class Gathered(Several):
    """The rows of parallel pipelines."""

    def _operation(self) -> Operation:
        return Gather()


class Concatenated(Several):
    """Rows of nodes, one node after the other."""

    def _operation(self) -> Operation:
        return Concatenate()


@dataclass(frozen=True, eq=False)
class MergedSorted(Several):
    """Rows of sorted nodes, in order."""

    on: tuple[str, ...]
    descending: bool

    def _operation(self) -> Operation:
        places = tuple(self.schema.names.index(c) for c in self.on)
        keys = tuple(key_column(self.schema.types[p], self.descending) for p in places)
        return MergeSorted(len(self.nodes), places, keys)
