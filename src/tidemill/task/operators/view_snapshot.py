"""The contents of a view, as the first rows of a reader that came later."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from tidemill.sources.split import Split
from tidemill.task.dataflow.deltas import Delta
from tidemill.task.dataflow.operator import Output, SourceOperator, carries_out
from tidemill.task.dataflow.read_view import read_parts
from tidemill.task.program import ViewSnapshot


@carries_out(ViewSnapshot)
class ViewSnapshotOperator(SourceOperator):
    """Emits the view's rows as of the previous epoch when it is given a split, and nothing otherwise.

    The split carries no bytes: it says that the reader behind this step has its first epoch. Each
    partition reads the vnodes it owns.
    """

    def __init__(self, step: int, operation: ViewSnapshot) -> None:
        super().__init__(step)
        self.operation = operation
        self._queue: deque[Split | None] = deque()

    def add_split(self, split: Split) -> None:
        """Ask for the snapshot."""
        self._queue.append(split)

    def request_barrier(self) -> None:
        """Queue the barrier."""
        self._queue.append(None)

    def reached_barrier(self) -> bool:
        """Whether the barrier is next."""
        if self._queue and self._queue[0] is None:
            self._queue.popleft()
            return True
        return False

    def get_output(self) -> Output | None:
        """Some rows of this partition's vnodes, until all have been given."""
        if (output := self._held.pop()) is not None:
            return output
        if not self._queue or self._queue[0] is None:
            return None
        self._queue.popleft()
        plan = self.operation.plan
        # The row of an aggregate without GROUP BY that has no state yet comes from the aggregate itself.
        deltas: Iterator[Delta] = read_parts(plan, self.context.state(plan.table).before)
        self._held.follow(Output(delta) for delta in deltas if len(delta))
        return self._held.pop()
