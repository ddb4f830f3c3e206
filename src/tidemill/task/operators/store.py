"""The ends of a program: what a view keeps."""

from __future__ import annotations

from tidemill.kernels.columns import column
from tidemill.state.keys.keys import encode
from tidemill.state.merge.unordered import unordered
from tidemill.task.dataflow.deltas import Delta, Item, Keyed, Loose
from tidemill.task.dataflow.operator import Operator, carries_out
from tidemill.task.program import StoreKeyed, StoreRows


@carries_out(StoreRows)
class StoreRowsOperator(Operator):
    """Appends rows to a multiset table keyed by the whole row.

    Rows of one epoch that cancel out are never written.
    """

    def __init__(self, step: int, operation: StoreRows) -> None:
        super().__init__(step)
        self.table = operation.table

    def add_input(self, item: Item, port: int) -> None:
        """Encode and write a batch."""
        assert isinstance(item, Delta)
        state, table = self.context.state(self.table), self.table
        columns, weights = item.batch.columns, [column(item.explicit_weights())]
        loose = unordered(columns, weights, table.key, table.distribution)
        if loose is not None:
            state.write_unordered(loose)
        else:
            state.write_unsorted(encode(columns, table.key, table.distribution), weights)


@carries_out(StoreKeyed)
class StoreKeyedOperator(Operator):
    """Appends keyed rows to their table. Readers merge, so nothing is looked up."""

    def __init__(self, step: int, operation: StoreKeyed) -> None:
        super().__init__(step)
        self.table = operation.table

    def add_input(self, item: Item, port: int) -> None:
        """Write a sorted run, or rows in any order."""
        state = self.context.state(self.table)
        if isinstance(item, Loose):
            state.write_unordered(item.rows)
        else:
            assert isinstance(item, Keyed)
            state.write(item.rows)
