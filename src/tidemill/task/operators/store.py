"""The ends of a program: what a view keeps."""

from __future__ import annotations

from tidemill.kernels.columns import column
from tidemill.state.keys.keys import encode
from tidemill.task.dataflow.deltas import Delta, Item, Keyed
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
        keys = encode(item.batch.columns, self.table.key, self.table.distribution)
        self.context.state(self.table).write_unsorted(keys, [column(item.explicit_weights())])


@carries_out(StoreKeyed)
class StoreKeyedOperator(Operator):
    """Appends keyed rows to their table. Readers merge, so nothing is looked up."""

    def __init__(self, step: int, operation: StoreKeyed) -> None:
        super().__init__(step)
        self.table = operation.table

    def add_input(self, item: Item, port: int) -> None:
        """Write a sorted run, or rows in any order."""
        assert isinstance(item, Keyed)
        state, rows = self.context.state(self.table), item.rows
        if item.ordered:
            state.write(rows)
        else:
            state.write_unsorted(rows.keys, rows.values)
