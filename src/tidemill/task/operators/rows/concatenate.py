"""UNION ALL: all rows of all inputs."""

from __future__ import annotations

from typing import ClassVar

from tidemill.task.dataflow.deltas import Item
from tidemill.task.dataflow.operator import Context, Operator, Output, carries_out
from tidemill.task.program import Concatenate


@carries_out(Concatenate)
class ConcatenateOperator(Operator):
    """Holds nothing: passes on what comes in. In a task all of the first input comes first, then all of the second."""

    holds_state: ClassVar[bool] = False

    def __init__(self, step: int, operation: Concatenate) -> None:
        super().__init__(step)
        self._drained = 0

    def begin(self, context: Context) -> None:
        """Start with the first input."""
        super().begin(context)
        self._drained = 0

    def add_input(self, item: Item, port: int) -> None:
        """Take an item from any input."""
        self._pending.put(Output(item))

    def wants(self, port: int) -> bool:
        """Whether those before it have drained."""
        return port <= self._drained

    def input_drained(self, port: int) -> None:
        """Go on with the next input."""
        self._drained = max(self._drained, port + 1)
