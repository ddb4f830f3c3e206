"""Change messages arranged by key and place."""

from __future__ import annotations

from collections.abc import Iterator

from tidemill.state.keys.keys import encode
from tidemill.state.lookup.reader import TableState
from tidemill.task.dataflow.deltas import Delta, Item
from tidemill.task.dataflow.holding_operator import HoldingOperator
from tidemill.task.dataflow.operator import Output, carries_out
from tidemill.task.operators.joins.arrange import outputs_of
from tidemill.task.program import ArrangeMessages


@carries_out(ArrangeMessages)
class ArrangeMessagesOperator(HoldingOperator):
    """Sorts the epoch's messages by (key, place) at the barrier; places are unique, so none is lost."""

    def __init__(self, step: int, operation: ArrangeMessages) -> None:
        super().__init__(step, operation.table)
        self.operation = operation

    def add_input(self, item: Item, port: int) -> None:
        """Encode a batch."""
        assert isinstance(item, Delta)
        table, columns = self.operation.table, item.batch.columns
        keys = encode([columns[i] for i in self.operation.key], table.key, table.distribution)
        self.input_of(0).write_unsorted(keys, [columns[i] for i in self.operation.values])

    def changes(self, *inputs: TableState) -> Iterator[Output]:
        """The epoch's messages as one keyed run, or a few if there is no room for one."""
        return outputs_of(inputs[0])
