"""Gives rows that are in memory."""

from __future__ import annotations

from typing import ClassVar

from tidemill.task.dataflow.deltas import Delta
from tidemill.task.dataflow.operator import Context, Output, SourceOperator, carries_out
from tidemill.task.program import GiveRows


@carries_out(GiveRows)
class GiveRowsOperator(SourceOperator):
    """All rows before each barrier where state is forgotten, and before the first one where it is kept."""

    holds_state: ClassVar[bool] = False

    def __init__(self, step: int, operation: GiveRows) -> None:
        super().__init__(step)
        self._batches = operation.rows.combine_chunks().to_batches(max_chunksize=1 << 16)
        self._given = 0
        self._barrier = False
        self._once = False

    def begin(self, context: Context) -> None:
        """Go on behind a barrier."""
        super().begin(context)
        self._barrier = False
        if not (context.keeps_state and self._once):
            self._given = 0
        self._once = True

    def get_output(self) -> Output | None:
        """The next rows."""
        if self._given == len(self._batches):
            return None
        self._given += 1
        return Output(Delta(self._batches[self._given - 1]))

    def request_barrier(self) -> None:
        """Note that a barrier comes."""
        self._barrier = True

    def reached_barrier(self) -> bool:
        """Whether all has been given and a barrier comes."""
        return self._barrier and self._given == len(self._batches)

    def skip_to_barrier(self) -> None:
        """Leave out the rest."""
        self._given = len(self._batches)
