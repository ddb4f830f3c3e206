"""Some rows by their place."""

from __future__ import annotations

from typing import ClassVar

import pyarrow as pa

from tidemill.task.dataflow.deltas import Delta, Item, single_rows
from tidemill.task.dataflow.operator import Context, Operator, Output, carries_out
from tidemill.task.program import Limit


@carries_out(Limit)
class LimitOperator(Operator):
    """At a reset barrier it holds nothing, and counts anew. It cannot keep its state: which rows are first would change
    with every deletion; ``top`` can.

    Once all rows are there it drops the rest of its input.
    """

    holds_state: ClassVar[bool] = False

    def __init__(self, step: int, operation: Limit) -> None:
        super().__init__(step)
        self.operation = operation
        self._seen = 0

    def begin(self, context: Context) -> None:
        """Count from 0."""
        super().begin(context)
        self._seen = 0

    def add_input(self, item: Item, port: int) -> None:
        """Give what lies between the first and the last wanted row."""
        assert isinstance(item, Delta)
        batch: pa.RecordBatch = single_rows(item)
        first = max(0, self.operation.offset - self._seen)
        stop = self.operation.offset + self.operation.rows - self._seen
        self._seen += batch.num_rows
        if first < min(stop, batch.num_rows):
            self._pending.put(Output(Delta(batch.slice(first, stop - first))))

    def drops(self, port: int) -> bool:
        """Whether all wanted rows have come."""
        return self._seen >= self.operation.offset + self.operation.rows
