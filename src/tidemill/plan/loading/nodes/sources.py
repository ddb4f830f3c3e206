"""What is read: files, and rows in memory."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from tidemill.plan.loading.nodes.lowering import Lowering
from tidemill.plan.loading.nodes.node import PlanNode
from tidemill.schema import Field, Schema, nullable_type
from tidemill.task.files.divided_rows import DividedRows
from tidemill.task.program import GiveRows, Input, ReadFiles


@dataclass(frozen=True, eq=False)
class ScanNode(PlanNode):
    """The rows of the splits that the task is given for ``name``: splits as they are given, rows as in their file."""

    name: str
    files: DividedRows

    @property
    def schema(self) -> Schema:  # type: ignore[override]
        types = {f.name: f for f in self.files.schema}
        return Schema(tuple(types[name] for name in self.files.columns))

    def lower(self, lowering: Lowering) -> Input:
        return lowering.add(ReadFiles(self.name, self.files))


@dataclass(frozen=True, eq=False)
class Values(PlanNode):
    """Rows in memory: all of them in each set of splits, with a retain barrier in the first one only."""

    table: pa.Table

    @property
    def schema(self) -> Schema:  # type: ignore[override]
        return Schema(tuple(Field(f.name, nullable_type(f.type), f.nullable) for f in self.table.schema))

    def lower(self, lowering: Lowering) -> Input:
        return lowering.add(GiveRows(self.table))
