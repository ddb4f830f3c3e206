"""Nodes of single rows and of rows by their place; they keep the order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tidemill.errors import TidemillError
from tidemill.plan.loading.nodes.lowering import Lowering, columns_of
from tidemill.plan.loading.nodes.node import PlanNode, check_distinct
from tidemill.schema import Field, Schema, nullable_type
from tidemill.task.expressions.arrow import passing
from tidemill.task.program import ArrowColumns, ArrowFilter, Input, Limit, Unnest


@dataclass(frozen=True, eq=False)
class Selected(PlanNode):
    """Some columns."""

    child: PlanNode
    columns: tuple[str, ...]

    @property
    def schema(self) -> Schema:  # type: ignore[override]
        fields = {f.name: f for f in self.child.schema}
        return Schema(tuple(fields[c] for c in self.columns))

    def children(self) -> tuple[PlanNode, ...]:
        return (self.child,)

    def lower(self, lowering: Lowering) -> Input:
        return lowering.add(columns_of(self.child.schema, self.columns), lowering.rows(self.child))


@dataclass(frozen=True, eq=False)
class Filtered(PlanNode):
    """The rows for which an expression of Arrow is true."""

    child: PlanNode
    condition: pc.Expression

    def __post_init__(self) -> None:
        passing(self.child.schema.to_arrow().empty_table(), self.condition)

    @property
    def schema(self) -> Schema:  # type: ignore[override]
        return self.child.schema

    def children(self) -> tuple[PlanNode, ...]:
        return (self.child,)

    def lower(self, lowering: Lowering) -> Input:
        return lowering.add(ArrowFilter(self.child.schema.to_arrow(), self.condition), lowering.rows(self.child))


@dataclass(frozen=True, eq=False)
class Computed(PlanNode):
    """Columns that are expressions of Arrow."""

    child: PlanNode
    names: tuple[str, ...]
    expressions: tuple[pc.Expression, ...]

    def __post_init__(self) -> None:
        self._operation().output_schema()

    @property
    def schema(self) -> Schema:  # type: ignore[override]
        found = self._operation().output_schema()
        return Schema(tuple(Field(f.name, nullable_type(f.type)) for f in found))

    def children(self) -> tuple[PlanNode, ...]:
        return (self.child,)

    def lower(self, lowering: Lowering) -> Input:
        return lowering.add(self._operation(), lowering.rows(self.child))

    def _operation(self) -> ArrowColumns:
        return ArrowColumns(self.child.schema.to_arrow(), self.names, self.expressions)


@dataclass(frozen=True, eq=False)
class Unnested(PlanNode):
    """A row for each element of arrays or maps."""

    child: PlanNode
    columns: tuple[str, ...]
    ordinality: str | None
    outer: bool

    @property
    def schema(self) -> Schema:  # type: ignore[override]
        found = [f for f in self.child.schema if f.name not in self.columns]
        types = {f.name: f.type for f in self.child.schema}
        for name in self.columns:
            type_: Any = types[name]
            if pa.types.is_map(type_):
                found += [Field(f"{name}_key", type_.key_type), Field(f"{name}_value", type_.item_type)]
            elif pa.types.is_list(type_):
                found.append(Field(name, type_.value_type))
            else:
                raise TidemillError(
                    "TM9018",
                    "only arrays and maps have elements",
                    got=f"{name} {type_}",
                    hint="unnest() columns of arrays or maps",
                )
        return Schema((*found, *([] if self.ordinality is None else [Field(self.ordinality, pa.int64())])))

    def __post_init__(self) -> None:
        check_distinct(self.schema.names)

    def children(self) -> tuple[PlanNode, ...]:
        return (self.child,)

    def lower(self, lowering: Lowering) -> Input:
        names = self.child.schema.names
        kept = tuple(i for i, name in enumerate(names) if name not in self.columns)
        arrays = tuple(names.index(name) for name in self.columns)
        return lowering.add(Unnest(arrays, kept, self.ordinality is not None, self.outer), lowering.rows(self.child))


@dataclass(frozen=True, eq=False)
class Limited(PlanNode):
    """Some rows by their place."""

    child: PlanNode
    rows: int
    offset: int

    @property
    def schema(self) -> Schema:  # type: ignore[override]
        return self.child.schema

    def children(self) -> tuple[PlanNode, ...]:
        return (self.child,)

    def lower(self, lowering: Lowering) -> Input:
        return lowering.add(Limit(self.rows, self.offset), lowering.rows(self.child))
