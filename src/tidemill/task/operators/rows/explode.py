"""explode and its kin: one row per element of an array or map."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any, ClassVar, cast

import numpy as np
import pyarrow as pa

from tidemill.kernels.columns import column
from tidemill.task.dataflow.deltas import Delta, Item, batch_of
from tidemill.task.dataflow.expanding import owners_of, pieces, widths
from tidemill.task.dataflow.failing_row import passing_parts
from tidemill.task.dataflow.matching import slice_bytes
from tidemill.task.dataflow.operator import Operator, Output, carries_out
from tidemill.task.functions.columns.lists import offsets_of, take_apart
from tidemill.task.functions.evaluate import evaluate
from tidemill.task.program import Explode


@carries_out(Explode)
class ExplodeOperator(Operator):
    """Stateless: each row that comes out has the weight of the row it comes from."""

    holds_state: ClassVar[bool] = False

    per_item: ClassVar[bool] = True

    def __init__(self, step: int, operation: Explode) -> None:
        super().__init__(step)
        self.operation = operation

    def add_input(self, item: Item, port: int) -> None:
        """Hold a batch; it is exploded piece by piece, as rows are fetched.

        Rows that fail are left out and reported.
        """
        assert isinstance(item, Delta)
        self._pending.put_all(self._evaluated(item))

    def _argument(self, delta: Delta) -> pa.Array[Any]:
        return evaluate(self.operation.argument, delta.batch)

    def _evaluated(self, item: Delta) -> Iterator[Output]:
        """The rows of a batch, of fewer rows at a time where their arrays together are too large."""
        for part, array in passing_parts(self._argument, item, partial(self.context.failing, self.step)):
            yield from self._exploded(part, array)

    def _exploded(self, delta: Delta, array: pa.Array[Any]) -> Iterator[Output]:
        operation = self.operation
        lists = take_apart(array, len(delta))
        counts = np.maximum(lists.lengths, 1) if operation.outer else lists.lengths
        kept = [delta.batch.column(k) for k in operation.kept]
        offsets = offsets_of(counts)
        spread = operation.spread or pa.types.is_map(array.type)
        values = cast("pa.StructArray", lists.values).flatten() if spread else [lists.values]
        elements = sum(v.nbytes for v in values) // max(1, len(lists.values))
        for start, stop in pieces(counts, widths(kept, len(delta)) + elements, slice_bytes(self.context.budget)):
            owners = owners_of(offsets, start, stop)
            index = np.arange(start, stop) - offsets[owners]
            missing = index >= lists.lengths[owners]
            taken = column(np.where(missing, 0, lists.offsets[owners] + index), missing)
            found = [c.take(column(owners)) for c in kept]
            if operation.position:
                found.append(column(index, missing).cast(pa.int32()))
            found += [v.take(taken) for v in values]
            weights = None if delta.weights is None else delta.weights[owners]
            yield Output(Delta(batch_of(found, len(owners)), weights))
