"""Each row as often as one of its columns says: what INTERSECT ALL and EXCEPT ALL end with."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from tidemill.kernels.columns import numbers
from tidemill.task.dataflow.deltas import Delta, Item, batch_of
from tidemill.task.dataflow.operator import Operator, Output, carries_out
from tidemill.task.program import RepeatRows


@carries_out(RepeatRows)
class RepeatRowsOperator(Operator):
    """Stateless: a row is not copied, its weight is multiplied."""

    holds_state: ClassVar[bool] = False

    per_item: ClassVar[bool] = True

    def __init__(self, step: int, operation: RepeatRows) -> None:
        super().__init__(step)
        self.operation = operation

    def add_input(self, item: Item, port: int) -> None:
        """Multiply weights by the count; rows whose count is NULL or not positive are left out."""
        assert isinstance(item, Delta)
        at = self.operation.column
        counts = item.batch.column(at).fill_null(0)
        weights = item.explicit_weights() * np.maximum(numbers(counts), 0)
        columns = [c for i, c in enumerate(item.batch.columns) if i != at]
        kept = np.flatnonzero(weights)
        if len(kept):
            result = Delta(batch_of(columns, len(item)), weights, item.backfill_target)
            self._pending.put(Output(result if len(kept) == len(item) else result.take(kept)))
