"""Reads splits of files."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

import pyarrow as pa

from tidemill.sources.split import Split
from tidemill.task.dataflow.deltas import Delta
from tidemill.task.dataflow.operator import Context, Output, SourceOperator, carries_out
from tidemill.task.dataflow.split_queue import SplitQueue
from tidemill.task.program import ReadFiles


@carries_out(ReadFiles)
class ReadFilesOperator(SourceOperator):
    """Holds nothing at a barrier: all splits before it have been read to their end, or nobody needs them.

    When the rest is not needed, the open split is closed and the others are not opened. Copies take splits from one
    queue; the number of a split is the sequence number of its rows.
    """

    holds_state: ClassVar[bool] = False

    per_item: ClassVar[bool] = True

    def __init__(self, step: int, operation: ReadFiles) -> None:
        super().__init__(step)
        self.operation = operation
        self.splits = SplitQueue()
        self._open: Iterator[pa.RecordBatch] | None = None

    def begin(self, context: Context) -> None:
        """Go on behind a barrier."""
        super().begin(context)
        self.sequence = ()

    def get_output(self) -> Output | None:
        """Rows of the next buffer."""
        while True:
            if self._open is None:
                taken = self.splits.take()
                if taken is None:
                    return None
                number, split = taken
                self.sequence = (number,)
                self._open = self.operation.files.read(split)
            try:
                batch = next(self._open, None)
            except BaseException:
                self._open = None
                raise
            if batch is not None:
                return Output(Delta(batch))
            self._open = None

    def add_split(self, split: Split) -> None:
        """Queue a split."""
        self.splits.add(split)

    def progress(self) -> tuple[int, ...]:
        """The number of the open split, or of the one that is taken next."""
        return self.sequence if self._open is not None else (self.splits.next_number,)

    def request_barrier(self) -> None:
        """Queue the barrier."""
        self.splits.put_barrier()

    def reached_barrier(self) -> bool:
        """Whether the barrier is next."""
        return self._open is None and self.splits.at_barrier

    def skip_to_barrier(self) -> None:
        """Close the open split, and leave out all others."""
        if self._open is not None:
            close = getattr(self._open, "close", None)
            if close is not None:
                close()
            self._open = None
        self.splits.skip_to_barrier()
