"""The contents of a view, as the first rows of a reader that came later."""

from __future__ import annotations

from collections.abc import Iterator

from tidemill.task.dataflow.deltas import Delta
from tidemill.task.dataflow.operator import Output, SourceOperator, carries_out
from tidemill.task.dataflow.read_view import read_parts
from tidemill.task.program import ViewSnapshot


@carries_out(ViewSnapshot)
class ViewSnapshotOperator(SourceOperator):
    """Emits the view's rows as of the previous epoch when it is asked to, and nothing otherwise.

    It is asked in the first epoch of the reader behind this step. Each partition reads the vnodes it owns.
    """

    def __init__(self, step: int, operation: ViewSnapshot) -> None:
        super().__init__(step)
        self.operation = operation
        self._asked = False
        self._barrier = False

    def give_snapshot(self) -> None:
        """Give, once, what the view contains."""
        self._asked = True

    def request_barrier(self) -> None:
        """The barrier comes behind the rows."""
        self._barrier = True

    def reached_barrier(self) -> bool:
        """Whether the barrier is next."""
        if self._barrier and not self._asked:
            self._barrier = False
            return True
        return False

    def get_output(self) -> Output | None:
        """Some rows of this partition's vnodes, until all have been given."""
        if (output := self._pending.pop()) is not None:
            return output
        if not self._asked:
            return None
        self._asked = False
        plan = self.operation.plan
        # The row of an aggregate without GROUP BY that has no state yet comes from the aggregate itself.
        deltas: Iterator[Delta] = read_parts(plan, self.context.state(plan.table).before)
        self._pending.put_all(Output(delta) for delta in deltas if len(delta))
        return self._pending.pop()
