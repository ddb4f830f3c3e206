"""How the rows of a view are made of its state table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from tidemill.schema import Schema
from tidemill.state.tables import StateTable

if TYPE_CHECKING:
    from tidemill.task.aggregates.accumulators import AggregateLayout
    from tidemill.task.program.row_steps import Calculate


@dataclass(frozen=True)
class ReadPlan:
    """How a view's rows are read from its state table, without any engine.

    With ``groups`` the table holds accumulators and each live group is finished into a row (group columns,
    then results); without, rows are keys with multiplicities, followed by the values after the first if the
    table has any. ``steps`` are applied to that, in order.
    ``single`` marks an aggregate without GROUP BY: one row even over nothing.
    """

    table: StateTable
    layout: AggregateLayout | None
    input_types: tuple[pa.DataType, ...]
    steps: tuple[Calculate, ...]
    schema: Schema

    @property
    def single(self) -> bool:
        """Whether there is exactly one group."""
        return self.layout is not None and not self.table.key

    @property
    def arrow_schema(self) -> pa.Schema:
        """Names and types of the columns, any of which may be NULL."""
        return pa.schema([pa.field(f.name, f.type) for f in self.schema])
