"""Change messages arranged by key and place."""

from __future__ import annotations

from tidemill.state.keys.keys import encode
from tidemill.state.lookup.reader import TableState
from tidemill.task.dataflow.deltas import Delta, Item
from tidemill.task.dataflow.operator import Operator, carries_out
from tidemill.task.operators.joins.arrange import outputs_of
from tidemill.task.program import ArrangeMessages


@carries_out(ArrangeMessages)
class ArrangeMessagesOperator(Operator):
    """Sorts the epoch's messages by (key, place) at the barrier; places are unique, so none is lost."""

    def __init__(self, step: int, operation: ArrangeMessages) -> None:
        super().__init__(step)
        self.operation = operation
        self._rows: TableState | None = None

    def add_input(self, item: Item, port: int) -> None:
        """Encode a batch."""
        assert isinstance(item, Delta)
        table = self.operation.table
        columns = item.batch.columns
        if self._rows is None:
            self._rows = self.context.hold(table)
        keys = encode([columns[i] for i in self.operation.key], table.key, table.distribution)
        self._rows.write_unsorted(keys, [columns[i] for i in self.operation.values])

    def start_drain(self) -> bool:
        """The epoch's messages as one keyed run, or a few if there is no room for one."""
        if self._rows is None:
            return False
        held, self._rows = self._rows, None
        return self._pending.follow(outputs_of(held))
