"""Operators that hold an epoch's input until the barrier."""

from __future__ import annotations

from collections.abc import Iterator

from tidemill.state.lookup.reader import TableState
from tidemill.task.dataflow.deltas import Item, Keyed
from tidemill.task.dataflow.operator import Operator, Output
from tidemill.task.program import StateTable


class HoldingOperator(Operator):
    """Collects the input of each port in a state table; at the barrier it computes the output from all of them.

    Parameters
    ----------
    step : int
    inputs : StateTable
        The layout of the rows on each port.
    everywhere : collection of int
        Ports whose tables are looked up in the vnodes of all partitions.
    """

    def __init__(self, step: int, *inputs: StateTable, everywhere: tuple[int, ...] = ()) -> None:
        super().__init__(step)
        self._layouts = inputs
        self._everywhere = everywhere
        self._inputs: tuple[TableState, ...] | None = None

    def input_of(self, port: int) -> TableState:
        """The rows of a port in this epoch."""
        if self._inputs is None:
            layouts = enumerate(self._layouts)
            self._inputs = tuple(self.context.hold(table, at in self._everywhere) for at, table in layouts)
        return self._inputs[port]

    def add_input(self, item: Item, port: int) -> None:
        """Hold a sorted run."""
        assert isinstance(item, Keyed)
        self.input_of(port).write(item.rows)

    def start_drain(self) -> bool:
        """Begin with :meth:`changes`, if anything came in."""
        if self._inputs is None:
            return False
        inputs, self._inputs = self._inputs, None
        return self._pending.put_all(self.changes(*inputs))

    def changes(self, *inputs: TableState) -> Iterator[Output]:
        """The output for the input of an epoch; closes the tables of the input."""
        raise NotImplementedError(type(self).__name__)
