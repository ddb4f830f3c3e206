"""Index lookup join: rows with what an index has for their keys, looked up ahead."""

from __future__ import annotations

from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidemill.kernels.columns import column, nulls
from tidemill.task.dataflow.deltas import Delta, Item, batch_of
from tidemill.task.dataflow.operator import Context, Operator, Output, carries_out
from tidemill.task.program import LookUp

_Found = tuple[npt.NDArray[np.int64], pa.RecordBatch]


@dataclass(frozen=True)
class _Asked:
    rows: Delta
    found: Future[_Found]
    done: Future[None]


@carries_out(LookUp)
class LookUpOperator(Operator):
    """Rows in their order, for each those of the index in its order; with ``left`` once, with NULL, where it has none.

    Holds batches whose lookups are under way, at most ``prefetch`` of them. At a barrier, of either kind, it waits for
    them and gives what they found; nothing stays. What the index has at the time of the lookup counts: changes of an
    index are no changes of its readers.
    """

    def __init__(self, step: int, operation: LookUp) -> None:
        super().__init__(step)
        self.operation = operation
        self._asked: deque[_Asked] = deque()
        self._draining = False
        self._pool = ThreadPoolExecutor(operation.prefetch, "lookup")

    def begin(self, context: Context) -> None:
        """Go on behind a barrier."""
        super().begin(context)
        self._asked.clear()
        self._draining = False

    def add_input(self, item: Item, port: int) -> None:
        """Begin to look up a batch."""
        assert isinstance(item, Delta)
        keys = batch_of([item.batch.column(k) for k in self.operation.keys], len(item))
        found = self._pool.submit(self.operation.index.look_up, keys)
        done: Future[None] = Future()
        found.add_done_callback(lambda _: done.set_result(None))
        self._asked.append(_Asked(item, found, done))

    def get_output(self) -> Output | None:
        """What the oldest lookup has found, once it is done; it is waited for when no more can be under way."""
        while self._asked:
            oldest = self._asked[0]
            if not oldest.found.done() and len(self._asked) < self.operation.prefetch:
                return None
            if not oldest.found.done() and self._draining:
                return None
            self._asked.popleft()
            joined = self._joined(oldest.rows, *oldest.found.result())
            if len(joined):
                return Output(joined)
        return None

    def waiting(self) -> Future[None] | None:
        """The oldest lookup under way."""
        return self._asked[0].done if self._draining and self._asked else None

    def discard(self) -> None:
        """Forget lookups under way."""
        super().discard()
        self._asked.clear()

    def start_drain(self) -> bool:
        """Wait for all lookups."""
        self._draining = True
        return bool(self._asked)

    def _joined(self, rows: Delta, probes: npt.NDArray[np.int64], found: pa.RecordBatch) -> Delta:
        if self.operation.kind == "inner":
            owners, places = probes, np.arange(len(probes))
            missing = np.zeros(len(probes), np.bool_)
        else:
            counts = np.bincount(probes, minlength=len(rows))
            owners = np.repeat(np.arange(len(rows)), np.maximum(counts, 1))
            missing = (counts == 0)[owners]
            places = np.zeros(len(owners), np.int64)
            places[~missing] = np.arange(len(probes))
        columns = [c.take(column(owners)) for c in rows.batch.columns]
        if found.num_rows:
            columns += [c.take(column(places, missing)) for c in found.columns]
        else:
            columns += [nulls(len(owners), t) for t in found.schema.types]
        weights = None if rows.weights is None else rows.weights[owners]
        return Delta(batch_of(columns, len(owners)), weights)
