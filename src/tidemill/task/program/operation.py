"""What a step does, as plain data."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar, TypeAlias

from tidemill.state.tables import StateTable
from tidemill.task.expressions.texts import Names
from tidemill.task.program.costs import Cost, CostClass

TableNames: TypeAlias = Callable[[StateTable], Names]
"""Gives the names of the columns of the rows that were arranged for a table; none where they are not known."""


class Operation:
    """One operation of a program: a frozen dataclass that holds what its operator needs.

    It declares which state tables it reads and writes, its cost class, and what EXPLAIN shows of it. Its operator, in
    ``task/operators/``, names it with :func:`~tidemill.task.dataflow.operator.carries_out`. The defaults are those of
    an operation without state that passes on the columns of its first input.
    """

    retains: ClassVar[bool] = True
    """Whether it can keep its state at a barrier of a task and give the changes of what comes then."""

    @property
    def written_tables(self) -> tuple[StateTable, ...]:
        """State tables that a step appends to."""
        return ()

    @property
    def read_tables(self) -> tuple[StateTable, ...]:
        """State tables that a step looks up while it runs."""
        return ()

    @property
    def cost(self) -> Cost:
        """How the work of an epoch grows."""
        return Cost(CostClass.CHANGES)

    def identity(self) -> str:
        """Says all that decides which rows come out, without names of files."""
        return repr(self)

    def text(self, inputs: Sequence[Names], output: Names) -> str:
        """The operation in one line, given the names of the columns that come in and go out."""
        return type(self).__name__

    def column_names(self, inputs: Sequence[Names], arranged_in: TableNames) -> Names:
        """The names of the columns that go out; of arranged rows in the order of the rows arranged."""
        return inputs[0] if inputs else ()

    def port_names(self, port: int, output: Names) -> Names:
        """The names of the columns on an output port, given those of port 0."""
        return output

    def exchange_names(self, output: Names, first_input: Names | None) -> Names | None:
        """By which columns rows are sent to other partitions; None where they stay in theirs.

        ``first_input`` is the same of the step that gives the first input.
        """
        return None

    def keyed_names(self, table: StateTable, first_input: Names, output: Names) -> Names:
        """The names of the key columns of the keyed rows that it gives for a table, as far as they are known."""
        return output[: len(table.key)]

    def table_names(self, table: StateTable, first_input: Names, keyed: Names) -> Names:
        """The names of the key columns of a table that it writes, as far as they are known.

        ``keyed`` is :meth:`keyed_names` of the step that gives the first input.
        """
        return ()
