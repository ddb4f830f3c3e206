"""Joins of rows that are sorted, and with an index."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pyarrow as pa

from tidemill.errors import TidemillError
from tidemill.plan.loading.nodes.lowering import Lowering
from tidemill.plan.loading.nodes.node import PlanNode, check_distinct, key_column
from tidemill.schema import Schema
from tidemill.task.indexes.index import Index
from tidemill.task.program import Input, LookUp, MergeJoin


@dataclass(frozen=True, eq=False)
class Merged(PlanNode):
    """A merge join."""

    left: PlanNode
    right: PlanNode
    on: tuple[tuple[str, str], ...]
    how: str
    descending: bool
    drop_input: bool

    @property
    def schema(self) -> Schema:  # type: ignore[override]
        left = self.left.schema.fields
        if self.how in ("semi", "anti"):
            return self.left.schema
        taken = set(self.left.schema.names)
        right = [replace(f, name=f"{f.name}_right" if f.name in taken else f.name) for f in self.right.schema]
        if self.how in ("right", "full"):
            left = tuple(replace(f, nullable=True) for f in left)
        if self.how in ("left", "full"):
            right = [replace(f, nullable=True) for f in right]
        return Schema((*left, *right))

    def __post_init__(self) -> None:
        check_distinct(self.schema.names)
        for (left, right), (one, other) in zip(self.on, self._types_of_keys(), strict=True):
            if one != other:
                raise TidemillError(
                    "TM9017",
                    "keys that are merged are of different types",
                    got=f"{left} {one}, {right} {other}",
                    hint="select() with a CAST for one of them",
                )

    def _types_of_keys(self) -> list[tuple[pa.DataType, pa.DataType]]:
        left, right = ({f.name: f.type for f in side.schema} for side in (self.left, self.right))
        return [(left[one], right[other]) for one, other in self.on]

    def children(self) -> tuple[PlanNode, ...]:
        return (self.left, self.right)

    def lower(self, lowering: Lowering) -> Input:
        names = self.left.schema.names, self.right.schema.names
        operation = MergeJoin(
            tuple(names[0].index(left) for left, _ in self.on),
            tuple(names[1].index(right) for _, right in self.on),
            tuple(key_column(type_, self.descending) for type_, _ in self._types_of_keys()),
            self.how,
            self.drop_input,
            self.left.schema.types,
            self.right.schema.types,
        )
        return lowering.add(operation, lowering.rows(self.left), lowering.rows(self.right))


@dataclass(frozen=True, eq=False)
class LookedUp(PlanNode):
    """An index lookup join."""

    child: PlanNode
    index: Index
    keys: tuple[str, ...]
    how: str
    prefetch: int

    @property
    def schema(self) -> Schema:  # type: ignore[override]
        taken = set(self.child.schema.names)
        found = [replace(f, name=f"{f.name}_right" if f.name in taken else f.name) for f in self.index.schema]
        if self.how == "left":
            found = [replace(f, nullable=True) for f in found]
        return Schema((*self.child.schema.fields, *found))

    def __post_init__(self) -> None:
        check_distinct(self.schema.names)
        types = {f.name: f.type for f in self.child.schema}
        mine = tuple(types[k] for k in self.keys)
        if mine != self.index.key_types:
            raise TidemillError(
                "TM9017",
                "keys that are looked up are of other types than those of the index",
                got=f"{', '.join(map(str, mine))}; the index: {', '.join(map(str, self.index.key_types))}",
                hint="select() with a CAST",
            )

    def children(self) -> tuple[PlanNode, ...]:
        return (self.child,)

    def lower(self, lowering: Lowering) -> Input:
        keys = tuple(self.child.schema.names.index(k) for k in self.keys)
        return lowering.add(LookUp(keys, self.index, self.how, self.prefetch), lowering.rows(self.child))
