"""One row per element of several arrays or maps side by side."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar, cast

import numpy as np
import pyarrow as pa

from tidemill.kernels.columns import column
from tidemill.task.dataflow.deltas import Delta, Item, batch_of
from tidemill.task.dataflow.expanding import owners_of, pieces, widths
from tidemill.task.dataflow.matching import slice_bytes
from tidemill.task.dataflow.operator import Operator, Output, carries_out
from tidemill.task.functions.columns.lists import offsets_of, take_apart
from tidemill.task.program import Unnest


@carries_out(Unnest)
class UnnestOperator(Operator):
    """Rows in their order, for each its elements in theirs; each has the weight of the row it comes from.

    A batch is expanded piece by piece, as its rows are fetched. A barrier, of either kind, comes when all pieces have
    been: no array lies on both sides of it.
    """

    holds_state: ClassVar[bool] = False

    per_item: ClassVar[bool] = True

    def __init__(self, step: int, operation: Unnest) -> None:
        super().__init__(step)
        self.operation = operation

    def add_input(self, item: Item, port: int) -> None:
        """Hold a batch, and expand it as it is fetched."""
        assert isinstance(item, Delta)
        self._pending.put_all(self._expanded(item))

    def _expanded(self, delta: Delta) -> Iterator[Output]:
        operation, rows = self.operation, len(delta)
        arrays = [delta.batch.column(a) for a in operation.arrays]
        lists = [take_apart(array, rows) for array in arrays]
        counts = np.maximum.reduce([found.lengths for found in lists])
        if operation.outer:
            counts = np.maximum(counts, 1)
        kept = [delta.batch.column(k) for k in operation.kept]
        values = [
            (found, cast("pa.StructArray", found.values).flatten() if pa.types.is_map(array.type) else [found.values])
            for found, array in zip(lists, arrays, strict=True)
        ]
        each = sum(v.nbytes // max(1, len(v)) for _, columns in values for v in columns)
        offsets = offsets_of(counts)
        for start, stop in pieces(counts, widths(kept, rows) + each, slice_bytes(self.context.budget)):
            owners = owners_of(offsets, start, stop)
            index = np.arange(start, stop) - offsets[owners]
            made: list[pa.Array[Any]] = [c.take(column(owners)) for c in kept]
            for found, columns in values:
                missing = index >= found.lengths[owners]
                taken = column(np.where(missing, 0, found.offsets[owners] + index), missing)
                made += [v.take(taken) for v in columns]
            if operation.ordinality:
                none = counts[owners] > np.maximum.reduce([found.lengths[owners] for found in lists])
                made.append(column(index + 1, none))
            yield Output(Delta(batch_of(made, len(owners)), None if delta.weights is None else delta.weights[owners]))
