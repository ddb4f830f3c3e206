"""The step of WITH RECURSIVE."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tidemill.state.tables import StateTable
from tidemill.task.expressions.texts import Names
from tidemill.task.program.costs import Cost, CostClass
from tidemill.task.program.operation import Operation
from tidemill.task.program.row_steps import Arrange, Calculate, Explode


@dataclass(frozen=True)
class RecursionJoin:
    """Joins the rows of a recursion with those of a relation, given by its position among the relations of the step.

    ``then`` are calculations over the joined rows: columns of the rows, then those of the relation.
    ``rows`` says how the rows are kept: by key, with the level, which is the column after theirs. Rows of earlier
    epochs joined with changes of the relation are kept in ``pending``, by level, until the loop reaches that level;
    this table is not stored.
    """

    relation: int
    rows: Arrange
    key_width: int
    then: tuple[Calculate, ...]
    pending: StateTable


@dataclass(frozen=True)
class RecursionPath:
    """One path of the step of a recursion; ``sign`` as in the algebra."""

    parts: tuple[Calculate | Explode | RecursionJoin, ...]
    sign: int


@dataclass(frozen=True)
class RecursiveChanges(Operation):
    """Changes of the rows of a recursion. Inputs: the anchor, then the relations, all with vnode 0.

    ``anchor`` says how rows of any level are keyed in transit; its table is not stored. ``counted`` has the number of
    rows.
    """

    anchor: Arrange
    relations: tuple[Arrange, ...]
    paths: tuple[RecursionPath, ...]
    counted: StateTable
    levels: int | None
    """The greatest level; rows beyond it are an error."""
    rows: int | None
    """How many rows there may be."""
    last: int | None
    """The level after which no rows are computed."""

    @property
    def joins(self) -> tuple[RecursionJoin, ...]:
        """The joins of all paths."""
        return tuple(part for path in self.paths for part in path.parts if isinstance(part, RecursionJoin))

    @property
    def written_tables(self) -> tuple[StateTable, ...]:
        return (self.counted, *(join.rows.table for join in self.joins))

    @property
    def read_tables(self) -> tuple[StateTable, ...]:
        kept = (join.rows.table for join in self.joins)
        return (self.counted, *kept, *(relation.table for relation in self.relations))

    @property
    def cost(self) -> Cost:
        return Cost(CostClass.LOOKUPS, "and the rows that come or go, level by level")

    def text(self, inputs: Sequence[Names], output: Names) -> str:
        joins = len(self.joins)
        bound = self.last or self.levels
        steps = f"{joins} join{'' if joins == 1 else 's'} a level"
        return f"Recursion, {steps}" + ("" if bound is None else f", at most {bound} levels")
