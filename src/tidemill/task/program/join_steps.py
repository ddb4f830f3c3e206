"""Steps of joins."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tidemill.state.tables import StateTable
from tidemill.task.expressions import Expression
from tidemill.task.expressions.texts import Names, listed
from tidemill.task.program.costs import Cost, CostClass
from tidemill.task.program.operation import Operation, TableNames
from tidemill.task.program.row_steps import Arrange


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
        return (self.left.table, self.right.table)

    @property
    def cost(self) -> Cost:
        if self.broadcast:
            return Cost(CostClass.EVERYTHING, "when the one row changes; else O(Δ)")
        return Cost(CostClass.LOOKUPS, "and matches") if self.key_width else Cost(CostClass.EVERYTHING)

    def column_names(self, inputs: Sequence[Names], arranged_in: TableNames) -> Names:
        return _both(inputs[0], inputs[1])

    def text(self, inputs: Sequence[Names], output: Names) -> str:
        if self.broadcast:
            return "Join with one row"
        if not self.key_width:
            return "Join all pairs"
        pairs = zip(self.left.columns[: self.key_width], self.right.columns, strict=False)
        return "Join on " + " and ".join(f"{inputs[0][a]} = {inputs[1][b]}" for a, b in pairs)


@dataclass(frozen=True)
class LookupJoin(Operation):
    """Joins rows, without an exchange, with a side that does not change in the epoch: complete, or small and unchanged.

    ``kind`` is ``inner``, ``semi`` or ``anti``. ``keys`` are columns of the input, equal to the first ones of the
    ``other`` side's table; a row with NULL in one of ``required`` matches nothing. An inner join gives the input's
    columns and the other side's in their original order, with ``other_first`` the other way round. ``residual``, only
    of a semi or anti join, is evaluated over the input's columns followed by the other side's.
    """

    kind: str
    keys: tuple[int, ...]
    required: tuple[int, ...]
    other: Arrange
    other_first: bool = False
    residual: Expression | None = None

    @property
    def read_tables(self) -> tuple[StateTable, ...]:
        return (self.other.table,)

    @property
    def cost(self) -> Cost:
        if not self.keys:
            return Cost(CostClass.CHANGES, "and pairs with the complete side")
        return Cost(CostClass.LOOKUPS, "and matches" if self.kind == "inner" or self.residual else "")

    def column_names(self, inputs: Sequence[Names], arranged_in: TableNames) -> Names:
        if self.kind != "inner":
            return inputs[0]
        other = arranged_in(self.other.table)
        return _both(other, inputs[0]) if self.other_first else _both(inputs[0], other)

    def text(self, inputs: Sequence[Names], output: Names) -> str:
        kind = {"inner": "Join", "semi": "Semi join", "anti": "Anti join"}[self.kind]
        return f"{kind} by lookup of {listed(inputs[0], self.keys)} in a complete side"


@dataclass(frozen=True)
class SemiChanges(Operation):
    """Changes of a semi or anti join. Inputs: arranged left, right keys only (its table counts them)."""

    left: Arrange
    right: Arrange
    key_width: int
    anti: bool

    @property
    def read_tables(self) -> tuple[StateTable, ...]:
        return (self.left.table, self.right.table)

    @property
    def cost(self) -> Cost:
        return Cost(CostClass.LOOKUPS, "and matches") if self.key_width else Cost(CostClass.EVERYTHING)

    def text(self, inputs: Sequence[Names], output: Names) -> str:
        keys = listed(inputs[0], self.left.columns[: self.key_width])
        return f"{'Anti' if self.anti else 'Semi'} join on {keys}"


def _both(left: Names, right: Names) -> Names:
    """The columns of two sides, with different names where they have the same one."""
    return left + tuple(f"right.{n}" if n in left else n for n in right)
