"""Steps of joins."""

from __future__ import annotations

from dataclasses import dataclass

from tidemill.task.expressions import Expression
from tidemill.task.program.operation import Operation
from tidemill.task.program.row_steps import Arrange
from tidemill.task.program.tables import StateTable


@dataclass(frozen=True)
class JoinChanges(Operation):
    """Changes of an inner equi-join: dL x R(new) + L(old) x dR. Inputs: arranged left, arranged right.

    Output columns are the left input's original order, then the right's. The tables are written by steps
    of their own, so joins that arrange the rows of a step alike share their state. With ``broadcast``, which has no
    keys, every partition has all right rows and left rows of its own.
    """

    left: Arrange
    right: Arrange
    key_width: int
    broadcast: bool = False

    @property
    def read_tables(self) -> tuple[StateTable, ...]:
        """See :class:`Operation`."""
        return (self.left.table, self.right.table)


@dataclass(frozen=True)
class LookupJoin(Operation):
    """Rows joined where they are with a side that has no change in the epoch: it is complete, or small and still.

    ``kind`` is ``inner``, ``semi`` or ``anti``. ``keys`` are columns of the input, equal to the first ones of the
    ``other`` side's table; a row with NULL in one of ``required`` meets nothing. An inner join gives the input's
    columns and the other side's in their original order, with ``other_first`` the other way round. ``residual``, only
    of a semi or anti join, is asked of the input's columns followed by the other side's.
    """

    kind: str
    keys: tuple[int, ...]
    required: tuple[int, ...]
    other: Arrange
    other_first: bool = False
    residual: Expression | None = None

    @property
    def read_tables(self) -> tuple[StateTable, ...]:
        """See :class:`Operation`."""
        return (self.other.table,)


@dataclass(frozen=True)
class SemiChanges(Operation):
    """Changes of a semi or anti join. Inputs: arranged left, right keys only (its table counts them)."""

    left: Arrange
    right: Arrange
    key_width: int
    anti: bool

    @property
    def read_tables(self) -> tuple[StateTable, ...]:
        """See :class:`Operation`."""
        return (self.left.table, self.right.table)
