"""Rows arranged by a join key."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidemill.kernels.columns import column
from tidemill.state.keys.keys import Keys, encode
from tidemill.state.lookup.reader import TableState
from tidemill.task.dataflow.deltas import Delta, Item, Keyed
from tidemill.task.dataflow.holding_operator import HoldingOperator
from tidemill.task.dataflow.operator import Output, carries_out
from tidemill.task.program import Arrange, StateTable


@carries_out(Arrange)
class ArrangeOperator(HoldingOperator):
    """Encodes rows as (join key, other columns) and consolidates the epoch's rows at the barrier."""

    def __init__(self, step: int, operation: Arrange) -> None:
        super().__init__(step, operation.table)
        self.operation = operation

    def add_input(self, item: Item, port: int) -> None:
        """Encode a batch; rows whose key cannot match anything are left out."""
        assert isinstance(item, Delta)
        for required in self.operation.required:
            values = item.batch.column(required)
            if values.null_count:
                item = item.filter(pc.is_valid(values))
        if len(item):
            columns = [item.batch.column(c) for c in self.operation.columns]
            table = self.operation.table
            keys = encode(columns, table.key, table.distribution) if columns else empty_keys(len(item))
            self.input_of(0).write_unsorted(keys, [column(item.explicit_weights())])

    def changes(self, *inputs: TableState) -> Iterator[Output]:
        """The epoch's rows as one keyed run, or a few if there is no room for one."""
        return outputs_of(inputs[0])


def outputs_of(held: TableState) -> Iterator[Output]:
    """The rows of a table as keyed output, run by run; the table is closed at the end."""
    try:
        yield from (Output(Keyed(rows)) for rows in held.blocks())
    finally:
        held.close()


def empty_keys(rows: int) -> Keys:
    """Keys without columns: vnode 0 and nothing else."""
    return Keys(np.arange(0, 2 * rows + 1, 2, dtype=np.int64), np.zeros(2 * rows, np.uint8))


def key_prefixes(columns: list[pa.Array[Any]], table: StateTable, rows: int) -> Keys:
    """The join key of each row as a prefix of its key in an arranged table."""
    width = len(columns)
    return encode(columns, table.key[:width], min(width, table.distribution)) if width else empty_keys(rows)
