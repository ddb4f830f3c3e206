"""Steps of rows in an order: ORDER BY with LIMIT, and windows."""

from __future__ import annotations

from dataclasses import dataclass

from tidemill.state.keys.keys import KeyColumn
from tidemill.task.aggregates.accumulators import AggregateLayout
from tidemill.task.program.operation import Operation
from tidemill.task.program.row_steps import Arrange
from tidemill.task.program.tables import StateTable
from tidemill.task.program.window_calls import WindowCall


@dataclass(frozen=True)
class TopChanges(Operation):
    """Changes of the first rows in an order. The input is arranged by that order, all in one vnode."""

    rows: Arrange
    limit: int | None
    offset: int

    @property
    def read_tables(self) -> tuple[StateTable, ...]:
        """See :class:`Operation`."""
        return (self.rows.table,)


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
        """See :class:`Operation`."""
        return (self.failing,)

    @property
    def read_tables(self) -> tuple[StateTable, ...]:
        """See :class:`Operation`."""
        return (self.rows.table, self.failing)
