"""What the rules that read aggregate functions share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tidemill.errors import TidemillError
from tidemill.plan.algebra.build import where
from tidemill.plan.algebra.nodes import AggregateCall
from tidemill.plan.catalyst.expressions.expressions import JsonTree, translate
from tidemill.task.expressions import Expression


@dataclass(frozen=True)
class AggregateReader:
    """The context in which the aggregate functions of a node are read.

    Attributes
    ----------
    inputs : mapping
        Position of the input column of each ``exprId``.
    place : callable
        Gives the position of an expression among the columns of the aggregate's input.
    result : callable
        Gives a reference to the result of a call.
    over_window : bool
        Whether the functions are over a window.
    rows : tuple of Expression
        The arguments of all ``first``, ``last`` and ``any_value`` of the node: what orders its rows for them.
    nulls_last : bool
        Whether NULL is last in that order.
    """

    inputs: Mapping[int, int]
    place: Callable[[Expression], int]
    result: Callable[[AggregateCall], Expression]
    over_window: bool = False
    rows: tuple[Expression, ...] = ()
    nulls_last: bool = True

    def translate(self, tree: JsonTree) -> Expression:
        """A scalar expression over the input."""
        return translate(tree, self.inputs)


@dataclass(frozen=True)
class Function:
    """One aggregate function as it is written, with DISTINCT and FILTER."""

    tree: JsonTree
    reader: AggregateReader
    distinct: bool
    condition: Expression | None

    def argument(self, position: int = 0) -> Expression:
        """An argument that is evaluated row by row."""
        return self.reader.translate(self.tree.children[position])

    def only_where(self, value: Expression) -> Expression:
        """FILTER as a value that is NULL for the other rows; every aggregate leaves NULL out."""
        return where(self.condition, value)

    def place(self, value: Expression) -> int:
        """The position of a column with the value, NULL for rows that FILTER leaves out."""
        return self.reader.place(self.only_where(value))

    def result(self, call: AggregateCall) -> Expression:
        """A reference to the result of a call."""
        return self.reader.result(call)

    def constant(self, position: int) -> Any:
        """The value of an argument that must be a constant, None for NULL."""
        tree = self.tree.children[position]
        if tree.name != "Literal":
            raise unsupported(f"{self.tree.name} whose argument {position + 1} is not a constant", "write a constant")
        return tree.fields.get("nested", tree.fields["value"])


def unsupported(what: str, hint: str) -> TidemillError:
    """TM2102 for a form of a function."""
    return TidemillError("TM2102", "this form of an aggregate function is not supported yet", got=what, hint=hint)
