"""The rows of several sorted inputs, in order."""

from __future__ import annotations

from typing import ClassVar

import pyarrow as pa

from tidemill.kernels.columns import column
from tidemill.state.keys.keys import Keys, sort
from tidemill.task.dataflow.deltas import Delta, Item, batch_of, single_rows
from tidemill.task.dataflow.operator import Context, Operator, Output, carries_out
from tidemill.task.dataflow.sorted_rows import SortedRows
from tidemill.task.program import MergeSorted


@carries_out(MergeSorted)
class MergeSortedOperator(Operator):
    """Rows in the order of the keys; of equal keys those of the first input come first, each input's in their order.

    Holds of each input what is not smaller than the newest key of all others. At a reset barrier all of it comes out.
    It cannot keep its state, as a merge join.
    """

    holds_state: ClassVar[bool] = False

    def __init__(self, step: int, operation: MergeSorted) -> None:
        super().__init__(step)
        self.operation = operation
        self._inputs = [
            SortedRows(f"input {i} of a sorted merge", operation.columns, operation.keys)
            for i in range(operation.inputs)
        ]
        self._drained = [False] * operation.inputs

    def begin(self, context: Context) -> None:
        """Forget all inputs."""
        super().begin(context)
        self._drained = [False] * len(self._inputs)
        for rows in self._inputs:
            rows.clear()

    def add_input(self, item: Item, port: int) -> None:
        """Hold rows of an input, and give what is in order."""
        assert isinstance(item, Delta)
        self._inputs[port].append(single_rows(item))
        self._give()

    def wants(self, port: int) -> bool:
        """Whether the others wait for this input."""
        waiting = [i for i, drained in enumerate(self._drained) if not drained]
        newest = {i: self._inputs[i].newest for i in waiting}
        return port == min(waiting, key=lambda i: (newest[i] or b"", i))

    def input_drained(self, port: int) -> None:
        """Note that an input is complete."""
        self._drained[port] = True

    def start_drain(self) -> bool:
        """Give all that is held."""
        self._give()
        return True

    def _give(self) -> None:
        open_ = [r.last for r, drained in zip(self._inputs, self._drained, strict=True) if not drained]
        if None in open_:
            return
        frontier = min((key for key in open_ if key is not None), default=None)
        taken = [r.take(len(r) if frontier is None else r.before(frontier)) for r in self._inputs if len(r)]
        taken = [(rows, keys) for rows, keys in taken if rows.num_rows]
        if not taken:
            return
        order = column(sort(Keys.concat([keys for _, keys in taken])))
        width = taken[0][0].num_columns
        columns = [pa.concat_arrays([rows.column(i) for rows, _ in taken]).take(order) for i in range(width)]
        self._pending.put(Output(Delta(batch_of(columns, len(order)))))
