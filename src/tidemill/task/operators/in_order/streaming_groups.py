"""Streaming aggregation: groups of rows that are sorted by the keys of the groups."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from tidemill.kernels.columns import nulls
from tidemill.state.keys.keys import Keys, decode
from tidemill.state.merge.combining import combine
from tidemill.state.merge.merge import segment_starts
from tidemill.task.aggregates.functions import finish
from tidemill.task.dataflow.deltas import Delta, Item, batch_of, single_rows
from tidemill.task.dataflow.operator import Context, Operator, Output, carries_out
from tidemill.task.dataflow.sorted_rows import SortedRows
from tidemill.task.program import StreamingGroups


@carries_out(StreamingGroups)
class StreamingGroupsOperator(Operator):
    """Groups in the order of their keys, each as soon as a row with another key has come.

    Holds one row of accumulators: those of the group that is open. A reset barrier ends it: a key on either side of the
    barrier gives two rows. Without keys there is one group for each barrier, also over nothing. It cannot keep its
    state: ``aggregate`` can.
    """

    holds_state: ClassVar[bool] = False

    def __init__(self, step: int, operation: StreamingGroups) -> None:
        super().__init__(step)
        self.operation = operation
        self._ops = operation.layout.merge_ops()
        self._sorted = SortedRows("input of a streaming aggregation", operation.keys, operation.key_columns)
        self._open: tuple[Keys, list[pa.Array[Any]]] | None = None

    def begin(self, context: Context) -> None:
        """Begin without a group, or with the only one."""
        super().begin(context)
        self._sorted.clear()
        self._open = None if self.operation.keys else (_ONE, self._fold(batch_of((), 0), np.zeros(0, np.int64), 1))

    def add_input(self, item: Item, port: int) -> None:
        """Fold a batch; all groups but the last come out."""
        assert isinstance(item, Delta)
        rows = single_rows(item)
        if not rows.num_rows:
            return
        if self.operation.keys:
            self._sorted.append(rows)
            _, keys = self._sorted.take(rows.num_rows)
        else:
            keys = Keys(np.arange(0, 2 * rows.num_rows + 1, 2, dtype=np.int64), np.zeros(2 * rows.num_rows, np.uint8))
        starts = segment_starts(keys.offsets, keys.data)
        ids = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
        groups, values = keys.take(starts[:-1]), self._fold(rows, ids, len(starts) - 1)
        if self._open is not None:
            groups = Keys.concat([self._open[0], groups])
            values = [pa.concat_arrays([a, b]) for a, b in zip(self._open[1], values, strict=True)]
            parts = segment_starts(groups.offsets, groups.data)
            _, combined = combine(np.arange(len(groups)), parts, values, self._ops, drop_zero=False)
            groups, values = groups.take(parts[:-1]), list(combined)
        last = len(groups) - 1
        self._open = groups.slice(last, last + 1), [v.slice(last) for v in values]
        if last:
            self._give(groups.slice(0, last), [v.slice(0, last) for v in values])

    def start_drain(self) -> bool:
        """Give the open group."""
        if self._open is None:
            return False
        groups, values = self._open
        self._open = None
        self._give(groups, values)
        return True

    def _fold(self, rows: pa.RecordBatch, ids: np.ndarray[Any, np.dtype[np.int64]], groups: int) -> list[pa.Array[Any]]:
        found: list[pa.Array[Any]] = []
        types = self.operation.input_types
        for accumulator in self.operation.layout.accumulators:
            at, others = accumulator.argument, accumulator.others
            columns = rows.columns if rows.num_columns else [nulls(0, t) for t in types]
            values = None if at is None else columns[at]
            other = columns[others[0]] if others else None
            found += accumulator.fold(ids, values, other, None, groups)
        return found

    def _give(self, groups: Keys, values: list[pa.Array[Any]]) -> None:
        operation = self.operation
        columns = decode(groups, operation.key_columns) if operation.keys else []
        columns += finish(operation.layout, operation.input_types, values)
        self._pending.put(Output(Delta(batch_of(columns, len(groups)))))


_ONE = Keys(np.array([0, 2], np.int64), np.zeros(2, np.uint8))
"""The key of the only group."""
