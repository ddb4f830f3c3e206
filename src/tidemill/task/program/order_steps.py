"""Steps of rows in an order: ORDER BY with LIMIT, and windows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tidemill.state.keys.keys import KeyColumn
from tidemill.state.tables import StateTable
from tidemill.task.aggregates.accumulators import AggregateLayout
from tidemill.task.expressions.texts import Names, listed
from tidemill.task.program.costs import Cost, CostClass
from tidemill.task.program.operation import Operation, TableNames
from tidemill.task.program.row_steps import Arrange
from tidemill.task.program.window_calls import WindowCall


@dataclass(frozen=True)
class TopChanges(Operation):
    """Changes of the first rows in an order. The input is arranged by that order, all in one vnode."""

    rows: Arrange
    limit: int | None
    offset: int

    @property
    def read_tables(self) -> tuple[StateTable, ...]:
        return (self.rows.table,)

    @property
    def cost(self) -> Cost:
        if self.limit is None:
            return Cost(CostClass.EVERYTHING)
        return Cost(CostClass.LOOKUPS, f"and the first {self.offset + self.limit} rows")

    def text(self, inputs: Sequence[Names], output: Names) -> str:
        shown = "all" if self.limit is None else self.limit
        return f"Top {shown} after {self.offset} in {listed(inputs[0], self.rows.columns)}"


@dataclass(frozen=True)
class WindowChanges(Operation):
    """Changes of rows with window functions. The input is arranged by partition, then by ORDER BY.

    Output columns are the input's in their original order, then one per call.
    """

    rows: Arrange
    partition: int
    """Columns of the key that make a partition."""
    order: int
    """Columns of the key behind those that ORDER BY has."""
    range_order: tuple[int, KeyColumn] | None
    """The only column of ORDER BY, by its position in the input, where a RANGE frame has an offset."""
    calls: tuple[WindowCall, ...]
    layouts: tuple[AggregateLayout | None, ...]
    """For each call that aggregates what it is made of."""
    failing: StateTable
    """Partitions that fail, and have no rows in the output as long as they do; the value is 1."""
    limit: int | None
    """The first rows of each partition that come out; None for all."""
    limited: str = "row_number"
    """What ``limit`` is the greatest value of: ``row_number``, ``rank`` or ``dense_rank``."""

    @property
    def written_tables(self) -> tuple[StateTable, ...]:
        return (self.failing,)

    @property
    def read_tables(self) -> tuple[StateTable, ...]:
        return (self.rows.table, self.failing)

    @property
    def cost(self) -> Cost:
        if self.limit is not None:
            which = f"first {self.limit} rows" if self.limited == "row_number" else "first ranks"
            return Cost(CostClass.LOOKUPS, f"and the {which} of affected partitions")
        if not self.partition:
            return Cost(CostClass.EVERYTHING)
        return Cost(CostClass.GROUPS, "reads the rows of affected partitions")

    def column_names(self, inputs: Sequence[Names], arranged_in: TableNames) -> Names:
        return (*inputs[0], *(c.function for c in self.calls))

    def text(self, inputs: Sequence[Names], output: Names) -> str:
        columns = self.rows.columns
        partition = listed(inputs[0], columns[: self.partition])
        order = listed(inputs[0], columns[self.partition :][: self.order])
        limit = ""
        if self.limit is not None:
            limit = f" first {self.limit}" if self.limited == "row_number" else f" up to {self.limited} {self.limit}"
        calls = ", ".join(c.function for c in self.calls)
        return f"Window [{calls}] by {partition} order {order}{limit}"

    def table_names(self, table: StateTable, first_input: Names, keyed: Names) -> Names:
        return keyed[: len(table.key)]
