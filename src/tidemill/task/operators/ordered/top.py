"""Incremental ORDER BY with LIMIT and OFFSET: the first rows of a sorted table, before and after."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tidemill.kernels.columns import column, numbers
from tidemill.state.keys.keys import decode
from tidemill.state.lookup.reader import TableReader, TableState
from tidemill.state.merge.merge import Rows
from tidemill.task.dataflow.deltas import Delta, batch_of
from tidemill.task.dataflow.holding_operator import HoldingOperator
from tidemill.task.dataflow.operator import Output, carries_out
from tidemill.task.operators.joins.join import restore
from tidemill.task.program import TopChanges


@carries_out(TopChanges)
class TopOperator(HoldingOperator):
    """Rows are arranged in the order wanted; the window of the first ones is read at each barrier."""

    def __init__(self, step: int, operation: TopChanges) -> None:
        super().__init__(step, operation.rows.table)
        self.operation = operation

    def changes(self, *inputs: TableState) -> Iterator[Output]:
        """The window of before with -1, that of now with +1, what is in both left out."""
        (held,) = inputs
        operation, table = self.operation, self.operation.rows.table
        difference = self.context.hold(table)
        for rows in window(held.before, operation.limit, operation.offset):
            difference.write(Rows(rows.keys, (column(-numbers(rows.values[0])),)))
        for rows in window(held.now, operation.limit, operation.offset):
            difference.write(rows)
        held.close()
        yield from self._outputs(difference)

    def _outputs(self, difference: TableState) -> Iterator[Output]:
        try:
            for rows in difference.blocks():
                columns = decode(rows.keys, self.operation.rows.table.key)
                restored = restore(self.operation.rows, columns, np.arange(len(rows.keys)))
                yield Output(Delta(batch_of(restored, len(rows.keys)), numbers(rows.values[0])))
        finally:
            difference.close()


def window(table: TableReader, limit: int | None, offset: int) -> Iterator[Rows]:
    """The rows ``offset .. offset + limit`` of a multiset, duplicates counted; ascending, in parts.

    Only the beginning of the table is read.
    """
    seen, stop = 0, None if limit is None else offset + limit
    for rows in table.iterate(block=1 << 16 if stop is None else 2 * stop + 16):
        ends = seen + np.cumsum(numbers(rows.values[0]))
        starts = ends - numbers(rows.values[0])
        seen = int(ends[-1])
        weights = (ends if stop is None else np.minimum(ends, stop)) - np.maximum(starts, offset)
        inside = np.flatnonzero(weights > 0)
        if len(inside):
            yield Rows(rows.keys.take(inside), (column(weights[inside].astype(np.int64)),))
        if stop is not None and seen >= stop:
            return
