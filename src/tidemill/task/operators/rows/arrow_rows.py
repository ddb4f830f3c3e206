"""Filters and columns that are expressions of Arrow."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import pyarrow as pa

from tidemill.kernels.columns import column
from tidemill.task.dataflow.deltas import Delta, Item, batch_of
from tidemill.task.dataflow.operator import Operator, Output, carries_out
from tidemill.task.expressions.arrow import computed, passing
from tidemill.task.program import ArrowColumns, ArrowFilter

_WEIGHT = "__weight"


@carries_out(ArrowFilter)
class ArrowFilterOperator(Operator):
    """Holds nothing at a barrier, of either kind: each batch is filtered as it comes."""

    holds_state: ClassVar[bool] = False

    per_item: ClassVar[bool] = True

    def __init__(self, step: int, operation: ArrowFilter) -> None:
        super().__init__(step)
        self.operation = operation

    def add_input(self, item: Item, port: int) -> None:
        """Filter one batch."""
        assert isinstance(item, Delta)
        table = _named(item, self.operation.schema)
        if item.weights is not None:
            table = table.append_column(_WEIGHT, column(item.weights))
        found = _one_batch(passing(table, self.operation.condition))
        if not found.num_rows:
            return
        columns = found.columns[: len(self.operation.schema)]
        weights = None if item.weights is None else np.asarray(found.column(_WEIGHT))
        self._pending.put(Output(Delta(batch_of(columns, found.num_rows), weights)))


@carries_out(ArrowColumns)
class ArrowColumnsOperator(Operator):
    """Holds nothing at a barrier, of either kind: each batch is computed as it comes."""

    holds_state: ClassVar[bool] = False

    per_item: ClassVar[bool] = True

    def __init__(self, step: int, operation: ArrowColumns) -> None:
        super().__init__(step)
        self.operation = operation

    def add_input(self, item: Item, port: int) -> None:
        """Compute one batch."""
        assert isinstance(item, Delta)
        operation = self.operation
        found = _one_batch(computed(_named(item, operation.schema), operation.names, operation.expressions))
        self._pending.put(Output(Delta(batch_of(found.columns, len(item)), item.weights)))


def _named(item: Delta, schema: pa.Schema) -> pa.Table:
    return pa.Table.from_arrays(item.batch.columns, schema=schema)


def _one_batch(table: pa.Table) -> pa.RecordBatch:
    found = table.combine_chunks().to_batches()
    return found[0] if found else pa.RecordBatch.from_pylist([], schema=table.schema)
