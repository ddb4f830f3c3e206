"""Incremental ORDER BY with LIMIT and OFFSET: the first rows of a sorted table, before and after."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tidemill.state.columns import column, numbers
from tidemill.state.keys import decode
from tidemill.state.merge import MergeOp, Rows, merge
from tidemill.task.operator import HeldOutput, Operator, Output
from tidemill.task.operators.join import restore
from tidemill.task.program import TopChanges
from tidemill.task.streams import Delta, Item, Keyed, batch_of


class TopOperator(Operator):
    """Rows are arranged in the order wanted; the window of the first ones is read at each barrier."""

    def __init__(self, step: int, operation: TopChanges) -> None:
        super().__init__(step)
        self.operation = operation
        self._inputs: list[Rows] = []
        self._held = HeldOutput()

    def add_input(self, item: Item, port: int) -> None:
        """Hold a sorted run."""
        assert isinstance(item, Keyed)
        self._inputs.append(item.rows)

    def start_drain(self) -> bool:
        """The window of before with -1, that of now with +1, what is in both left out."""
        table = self.operation.rows.table
        if not self._inputs:
            return False
        changes = merge(self._inputs, table.ops, drop_zero=True)
        self._inputs = []
        runs = self.context.runs(table)
        old = window(runs, table.ops, self.operation.limit, self.operation.offset)
        new = window([*runs, changes], table.ops, self.operation.limit, self.operation.offset)
        gone = [Rows(r.keys, (column(-numbers(r.values[0])),)) for r in old]
        difference = [*gone, *new]
        if not difference:
            return False
        rows = merge(difference, table.ops, drop_zero=True)
        if not len(rows.keys):
            return False
        columns = restore(self.operation.rows, decode(rows.keys, table.key), np.arange(len(rows.keys)))
        return self._held.put([Output(Delta(batch_of(columns, len(rows.keys)), numbers(rows.values[0])))])

    def get_output(self) -> Output | None:
        """Rows that entered or left the window."""
        return self._held.pop()


def window(runs: Sequence[Rows], ops: Sequence[MergeOp], limit: int | None, offset: int) -> list[Rows]:
    """The rows ``offset .. offset + limit`` of merged runs, duplicates counted; no run or one.

    Parameters
    ----------
    runs : sequence of Rows
        Sorted multisets, oldest first.

    Notes
    -----
    Only the beginning of each run is merged, twice as much each time until the window is complete: a key
    is certain once it lies before the end of every run's beginning.
    """
    if not runs:
        return []
    longest = max(len(r.keys) for r in runs)
    reach = longest if limit is None else min(longest, 2 * (offset + limit) + 16)
    while True:
        rows = merge([r.slice(0, min(reach, len(r.keys))) for r in runs], ops, drop_zero=True)
        certain = len(rows.keys)
        cut = [r.keys[reach - 1] for r in runs if len(r.keys) > reach]
        if cut:
            last = min(cut)
            certain = _rank(rows, last)
        ends = np.cumsum(numbers(rows.values[0])[:certain])
        if reach >= longest or (limit is not None and len(ends) and ends[-1] >= offset + limit):
            break
        reach = min(longest, 2 * reach)
    starts = ends - numbers(rows.values[0])[:certain]
    stop = ends[-1] if limit is None and len(ends) else offset + (limit or 0)
    weights = np.minimum(ends, stop) - np.maximum(starts, offset)
    inside = np.flatnonzero(weights > 0)
    return [Rows(rows.keys.take(inside), (column(weights[inside].astype(np.int64)),))] if len(inside) else []


def _rank(rows: Rows, key: bytes) -> int:
    """Number of rows whose key is not greater than ``key``."""
    low, high = 0, len(rows.keys)
    while low < high:
        middle = (low + high) // 2
        if rows.keys[middle] <= key:
            low = middle + 1
        else:
            high = middle
    return low
