"""Rows for several pipelines, and the rows of several pipelines in the order in which they would have come from one."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from tidemill.state.keys.encoding import encode_datums, hash_rows
from tidemill.task.dataflow.deltas import Delta, Item
from tidemill.task.dataflow.operator import Context, Operator, Output, carries_out
from tidemill.task.program import Gather, PartRows


@carries_out(PartRows)
class PartRowsOperator(Operator):
    """Holds nothing at a barrier, of either kind; batches are sent in turn from the first pipeline on."""

    holds_state: ClassVar[bool] = False

    parts_rows: ClassVar[bool] = True

    def __init__(self, step: int, operation: PartRows) -> None:
        super().__init__(step)
        self.operation = operation
        self._batches = 0

    def begin(self, context: Context) -> None:
        """Start with the first pipeline."""
        super().begin(context)
        self._batches = 0

    def add_input(self, item: Item, port: int) -> None:
        """Send a batch to one pipeline, or its rows to those that their keys belong to."""
        assert isinstance(item, Delta)
        keys, parts = self.operation.keys, self.operation.parts
        if keys is None:
            self._pending.put(Output(item, self._batches % parts))
            self._batches += 1
            return
        hashes = hash_rows(*encode_datums([item.batch.column(k) for k in keys]))
        owners = hashes % np.uint64(parts)
        for part in range(parts):
            rows = np.flatnonzero(owners == part)
            if len(rows):
                self._pending.put(Output(item.take(rows), part))


@carries_out(Gather)
class GatherOperator(Operator):
    """Holds nothing at a barrier, of either kind.

    Rows come in the order of the batches that they were parted from, those of one batch by pipeline; behind them what
    the pipelines held at the barrier, by pipeline.
    """

    holds_state: ClassVar[bool] = False

    gathers: ClassVar[bool] = True

    def __init__(self, step: int, operation: Gather) -> None:
        super().__init__(step)

    def add_input(self, item: Item, port: int) -> None:
        """Pass on an item."""
        self._pending.put(Output(item))
