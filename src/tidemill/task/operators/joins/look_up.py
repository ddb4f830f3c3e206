"""Index lookup join: rows with what an index has for their keys, looked up ahead."""

from __future__ import annotations

from collections import deque
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidemill.errors import TidemillError
from tidemill.kernels.columns import column, nulls
from tidemill.schema import nullable_type
from tidemill.task.dataflow.daemon_pool import DaemonPool
from tidemill.task.dataflow.deltas import Delta, Item, batch_of
from tidemill.task.dataflow.operator import Context, Operator, Output, carries_out
from tidemill.task.program import LookUp

_Found = tuple[npt.NDArray[np.int64], pa.RecordBatch]


@dataclass(frozen=True)
class _Asked:
    rows: Delta
    sequence: tuple[int, ...]
    found: Future[_Found]
    done: Future[None]


@carries_out(LookUp)
class LookUpOperator(Operator):
    """Rows in their order, for each those of the index in its order; with ``left`` once, with NULL, where it has none.

    Holds batches whose lookups are under way, at most ``prefetch`` of them. At a barrier, of either kind, it waits for
    them and gives what they found; nothing stays. What the index has at the time of the lookup counts: changes of an
    index are no changes of its readers.
    """

    holds_state: ClassVar[bool] = False

    def __init__(self, step: int, operation: LookUp) -> None:
        super().__init__(step)
        self.operation = operation
        self._asked: deque[_Asked] = deque()
        self._draining = False
        self._pool = DaemonPool(operation.prefetch, "lookup")

    def begin(self, context: Context) -> None:
        """Go on behind a barrier."""
        super().begin(context)
        self._asked.clear()
        self._draining = False

    def add_input(self, item: Item, port: int) -> None:
        """Begin to look up a batch."""
        assert isinstance(item, Delta)
        keys = batch_of([item.batch.column(k) for k in self.operation.keys], len(item))
        found = self._pool.submit(partial(self.operation.index.look_up, keys))
        done: Future[None] = Future()
        found.add_done_callback(lambda _: None if done.done() else done.set_result(None))
        self._asked.append(_Asked(item, self.taking, found, done))

    def get_output(self) -> Output | None:
        """What the oldest lookup has found, once it is done.

        Raises
        ------
        TidemillError
            What the index raises; TM9022 when that has no number, or when it gives what is no answer.
        """
        while self._asked and self._asked[0].found.done():
            oldest = self._asked.popleft()
            self.given = oldest.sequence
            joined = self._joined(oldest.rows, *self._answer(oldest))
            if len(joined):
                return Output(joined)
        return None

    def _answer(self, asked: _Asked) -> _Found:
        operation = self.operation
        try:
            probes, rows = asked.found.result()
            probes = np.asarray(probes, np.int64)
            if rows.schema.types != [nullable_type(t) for t in operation.index.schema.types]:
                raise ValueError(f"rows of {rows.schema.types}")
            if len(probes) != rows.num_rows or (np.diff(probes) < 0).any():
                raise ValueError(f"{rows.num_rows} rows for {len(probes)} probes, which must be ascending")
            if len(probes) and not 0 <= probes[0] <= probes[-1] < len(asked.rows):
                raise ValueError(f"probes {probes[0]} to {probes[-1]} of {len(asked.rows)} keys")
        except TidemillError:
            raise
        except Exception as error:
            raise TidemillError(
                "TM9022",
                "an index has failed",
                got=f"{operation.index}: {type(error).__name__}: {' '.join(str(error).split())[:300]}",
                hint="see what `look_up` of the index raises or returns",
            ) from error
        return probes, rows

    def waiting(self) -> Future[None] | None:
        """The oldest lookup under way, when no more may be, or at a barrier."""
        full = self._draining or len(self._asked) >= self.operation.prefetch
        return self._asked[0].done if full and self._asked and not self._asked[0].found.done() else None

    def held(self) -> tuple[int, ...] | None:
        """The number of the batch of the oldest lookup."""
        return self._asked[0].sequence if self._asked else None

    def close(self) -> None:
        """Let the threads end."""
        self._pool.close()

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
