"""Incremental semi and anti join: a left row is in the result if its key has right rows, or has none.

A changed left row is judged by the new number of right rows of its key. Where that number changed
between none and some, the left rows that were there before come or go.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidemill.kernels.columns import numbers
from tidemill.state.keys.keys import Keys, decode, group
from tidemill.state.lookup.reader import TableReader, TableState
from tidemill.state.merge.merge import Rows
from tidemill.task.dataflow.deltas import Delta, batch_of
from tidemill.task.dataflow.holding_operator import HoldingOperator
from tidemill.task.dataflow.matching import matches
from tidemill.task.dataflow.operator import Output, carries_out
from tidemill.task.operators.joins.arrange import key_prefixes
from tidemill.task.operators.joins.join import restore
from tidemill.task.program import SemiChanges


@carries_out(SemiChanges)
class SemiJoinOperator(HoldingOperator):
    """Input port 0: left rows arranged by key; port 1: right keys with their multiplicities."""

    def __init__(self, step: int, operation: SemiChanges) -> None:
        super().__init__(step, operation.left.table, operation.right.table)
        self.operation = operation

    def changes(self, *inputs: TableState) -> Iterator[Output]:
        """Judge the changes."""
        left, right = inputs
        try:
            for changes in left.blocks():
                yield from self._judge(changes, right.now)
            for changes in right.blocks():
                yield from self._turn(changes, left.before, right.before)
        finally:
            left.close()
            right.close()

    def _judge(self, changes: Rows, right: TableReader) -> list[Output]:
        """Changed left rows whose key now has right rows (semi) or none (anti)."""
        columns = decode(changes.keys, self.operation.left.table.key)
        prefixes = key_prefixes(columns[: self.operation.key_width], self.operation.left.table, len(changes.keys))
        ids, first = group(prefixes)  # sorted input: ids ascend
        matched = _counts(right, prefixes.take(first)) > 0
        rows = np.flatnonzero(matched[ids] != self.operation.anti)
        weights = numbers(changes.values[0])[rows]
        return self._output(columns, rows, weights)

    def _turn(self, changed_right: Rows, left: TableReader, right: TableReader) -> Iterator[Output]:
        """Left rows of before whose key went from no right rows to some, or back."""
        before = _counts(right, changed_right.keys)
        after = before + numbers(changed_right.values[0])
        turned = np.flatnonzero((before > 0) != (after > 0))
        if not len(turned) or not left:
            return
        came = (after[turned] > 0) != self.operation.anti
        for start, _, found, rows in matches(left, changed_right.keys.take(turned)):
            weights = numbers(rows.values[0]) * np.where(came[start + found], 1, -1)
            columns = decode(rows.keys, self.operation.left.table.key)
            yield from self._output(columns, np.arange(len(rows.keys)), weights)

    def _output(
        self, columns: list[pa.Array[Any]], rows: npt.NDArray[np.int64], weights: npt.NDArray[np.int64]
    ) -> list[Output]:
        if not len(rows):
            return []
        restored = restore(self.operation.left, columns, rows)
        return [Output(Delta(batch_of(restored, len(rows)), weights.astype(np.int64)))]


def _counts(right: TableReader, keys: Keys) -> npt.NDArray[np.int64]:
    _, values = right.get(keys)
    counts: npt.NDArray[np.int64] = numbers(values[0])
    return counts
