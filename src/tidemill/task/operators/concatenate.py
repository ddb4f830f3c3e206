"""UNION ALL: all rows of all inputs."""

from __future__ import annotations

from tidemill.task.operator import HeldOutput, Operator, Output
from tidemill.task.streams import Item


class ConcatenateOperator(Operator):
    """Stateless: passes on what comes in on any port."""

    def __init__(self, step: int) -> None:
        super().__init__(step)
        self._held = HeldOutput()

    def add_input(self, item: Item, port: int) -> None:
        """Take an item from any input."""
        self._held.put([Output(item)])

    def get_output(self) -> Output | None:
        """The item taken last."""
        return self._held.pop()
