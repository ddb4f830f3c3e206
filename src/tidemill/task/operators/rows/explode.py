"""explode and its kin: one row per element of an array or map."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tidemill.kernels.columns import column
from tidemill.task.dataflow.deltas import Delta, Item, batch_of
from tidemill.task.dataflow.failing_row import passing_parts
from tidemill.task.dataflow.matching import slice_bytes
from tidemill.task.dataflow.operator import Operator, Output, carries_out
from tidemill.task.functions.columns.lists import offsets_of, take_apart
from tidemill.task.functions.evaluate import evaluate
from tidemill.task.program import Explode

_Int64s = npt.NDArray[np.int64]

_MOST_ROWS = 1 << 18
"""Rows that are made at once, fewer where they are large."""


@carries_out(Explode)
class ExplodeOperator(Operator):
    """Stateless: each row that comes out has the weight of the row it comes from."""

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
        for start, stop in _pieces(counts, _widths(kept, len(delta)) + elements, slice_bytes(self.context.budget)):
            places = np.arange(start, stop)
            owners = np.searchsorted(offsets, places, side="right") - 1
            index = places - offsets[owners]
            missing = index >= lists.lengths[owners]
            taken = column(np.where(missing, 0, lists.offsets[owners] + index), missing)
            found = [c.take(column(owners)) for c in kept]
            if operation.position:
                found.append(column(index, missing).cast(pa.int32()))
            found += [v.take(taken) for v in values]
            weights = None if delta.weights is None else delta.weights[owners]
            yield Output(Delta(batch_of(found, len(owners)), weights))


def _widths(columns: list[pa.Array[Any]], rows: int) -> _Int64s:
    """About how many bytes each row has: texts as they are, other columns by the average."""
    widths = np.full(rows, 16, np.int64)
    for values in columns:
        if isinstance(values, pa.StringArray | pa.BinaryArray):
            widths += pc.binary_length(values).fill_null(0).to_numpy(zero_copy_only=False)
        widths += 0 if pa.types.is_string(values.type) else values.nbytes // max(1, rows)
    return widths


def _pieces(counts: _Int64s, widths: _Int64s, most_bytes: int) -> Iterator[tuple[int, int]]:
    """Ranges of the rows that come out, of about so many bytes each, and no more than ``_MOST_ROWS``."""
    ends, sizes = np.cumsum(counts), np.cumsum(counts * widths)
    row, start = 0, 0
    while row < len(counts):
        before = int(sizes[row] - (int(ends[row]) - start) * widths[row])
        stop_row = int(np.searchsorted(sizes, before + most_bytes, side="right"))
        if stop_row > row:
            stop = int(ends[stop_row - 1])
        else:  # one row gives more than that
            stop = min(int(ends[row]), start + max(1, most_bytes // int(widths[row])))
        stop = min(stop, start + _MOST_ROWS)
        if stop > start:
            yield start, stop
        start = stop
        row = int(np.searchsorted(ends, start, side="right"))
