"""Scalar expressions as immutable trees, with columns by position.

Four kinds of node are enough: a column of the input, a constant, a call of a named function, and a variable of a
function's body (``x`` in ``transform(a, x -> x + 1)``).
Positions (not names, not Catalyst's ids) make equal expressions equal objects, so that equal
sub-plans of different views are found by comparing them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import pyarrow as pa


@dataclass(frozen=True)
class Ref:
    """Column ``index`` of the input batch."""

    index: int
    type: pa.DataType
    nullable: bool = True


@dataclass(frozen=True, eq=False)
class Literal:
    """A constant. ``value`` is a plain Python value, ``None`` for NULL.

    int, float, bool, str and bytes stand for themselves; a decimal is ``decimal.Decimal``, a date is the
    int of days and a timestamp the int of microseconds since 1970-01-01. NaN equals NaN and -0.0 is not 0.0: what is
    equal is computed once.
    """

    value: Any
    type: pa.DataType

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Literal) and self._identity == other._identity

    def __hash__(self) -> int:
        return hash(self._identity)

    @property
    def _identity(self) -> tuple[Any, pa.DataType]:
        return repr(self.value) if isinstance(self.value, float) else self.value, self.type

    @property
    def nullable(self) -> bool:
        """Whether the constant is NULL."""
        return self.value is None


@dataclass(frozen=True)
class Variable:
    """What a function with a body gives its body for each element, such as the element.

    ``number`` is the depth at which it is bound: 0 for the first variable of an outermost function. It is no column,
    so moving columns leaves it alone; a function inside that binds the same number hides it.
    """

    number: int
    type: pa.DataType
    nullable: bool = True


@dataclass(frozen=True)
class Call:
    """``function(args...)``.

    ``function`` is a name of the registry in ``tidemill.task.functions``. ``options`` are sorted
    (name, value) pairs that are not rows, e.g. ``(("mode", "ansi"),)``.

    The option ``binds`` says that the last arguments are bodies: for each of them it has the numbers of the variables
    that the function binds there.
    """

    function: str
    args: tuple[Expression, ...]
    type: pa.DataType
    nullable: bool = True
    options: tuple[tuple[str, Any], ...] = ()

    def option(self, name: str, default: Any = None) -> Any:
        """The value of an option, or ``default``."""
        for key, value in self.options:
            if key == name:
                return value
        return default

    @property
    def plain(self) -> int:
        """Number of arguments that are not bodies; they come first."""
        return len(self.args) - len(self.option("binds", ()))


Expression: TypeAlias = Ref | Literal | Variable | Call
