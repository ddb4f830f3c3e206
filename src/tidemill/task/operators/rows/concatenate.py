"""UNION ALL: all rows of all inputs."""

from __future__ import annotations

from tidemill.task.dataflow.deltas import Item
from tidemill.task.dataflow.operator import Operator, Output, carries_out
from tidemill.task.program import Concatenate


@carries_out(Concatenate)
class ConcatenateOperator(Operator):
    """Stateless: passes on what comes in on any port."""

    def __init__(self, step: int, operation: Concatenate) -> None:
        super().__init__(step)

    def add_input(self, item: Item, port: int) -> None:
        """Take an item from any input."""
        self._pending.put(Output(item))
