"""Aggregate functions: what each needs of a group, and how its result is made of that."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

import pyarrow as pa

from tidemill.errors import TidemillError
from tidemill.kernels.columns import numbers
from tidemill.task.aggregates.accumulators import Accumulator, AggregateLayout, Array, Ints, Option, Result, Types


@dataclass(frozen=True)
class Need:
    """One call of an aggregate function, as the plan has it.

    Attributes
    ----------
    argument : int
        Position of the argument in the aggregate's input.
    argument_type, type : pa.DataType
        Of the argument and of the result.
    nullable : bool
        Whether the argument may be NULL.
    append_only : bool
        Whether the input never retracts a row.
    """

    function: str
    argument: int
    argument_type: pa.DataType
    nullable: bool
    type: pa.DataType
    distinct: bool
    others: tuple[int, ...]
    options: tuple[tuple[str, Option], ...]
    append_only: bool

    def result(self, value: int, count: int = 0) -> Result:
        """The result, given the accumulators of its value and of the number of its arguments that are not NULL."""
        lenient = bool(dict(self.options).get("lenient"))
        return Result(self.function, self.argument_type, self.type, value, count, lenient)


Keep: TypeAlias = Callable[[Accumulator], int]
"""Keeps an accumulator, once, and gives its place."""

Finish: TypeAlias = Callable[[Result, str, Sequence[Array], Ints], Array]
"""The result, the kind and columns of its accumulator, and the counts."""


class Arguments(Enum):
    """What the arguments of a function are, in the order of SQL."""

    VALUE = 1
    X_AND_Y = 2
    Y_AND_X = 3
    VALUE_AND_ORDER = 4


@dataclass(frozen=True)
class Catalyst:
    """How a function of columns is read from Catalyst's plan, where no rule of its own is needed.

    A function whose types or options take more than that has a rule in ``plan/catalyst/aggregates/``.

    Attributes
    ----------
    name : str
        Catalyst's class.
    sql : tuple of str
        Names in SQL.
    type : pa.DataType or None
        Of the result; None for that of the argument.
    takes : pa.DataType or None
        The only type that arguments may have; None for any that Spark allows.
    arguments : Arguments
        Pairs (x, y) in which one is NULL are left out, and so are values whose order is NULL.
    keeps_distinct : bool
        Whether DISTINCT makes a difference; of pairs it is refused.
    meaning : str
        What a view means by it where Spark leaves that open, for the documentation.
    """

    name: str
    sql: tuple[str, ...]
    type: pa.DataType | None = None
    takes: pa.DataType | None = None
    arguments: Arguments = Arguments.VALUE
    keeps_distinct: bool = False
    meaning: str = ""


def _value(result: Result, kind: str, values: Sequence[Array], counts: Ints) -> Array:
    return values[0]


@dataclass(frozen=True)
class AggregateFunction:
    """A function, by the name that the algebra of plans has for it.

    Attributes
    ----------
    keep : callable
        Keeps what it needs of a group.
    finish : callable
        Its column, one entry a group.
    can_fail : bool
        Whether its result may be an error where no other sum is.
    catalyst : Catalyst or None
        None where a rule reads it, or it is none of SQL's.
    """

    name: str
    keep: Callable[[Need, Keep], Result]
    finish: Finish = _value
    can_fail: bool = False
    catalyst: Catalyst | None = None

    @property
    def of_two(self) -> bool:
        """Whether it is a function of two columns."""
        return self.catalyst is not None and self.catalyst.arguments is not Arguments.VALUE


_functions: dict[str, AggregateFunction] = {}


def declare_functions(*functions: AggregateFunction) -> None:
    """Make functions known, by name."""
    _functions.update((function.name, function) for function in functions)


def declared_functions() -> tuple[AggregateFunction, ...]:
    """All functions."""
    return tuple(_functions.values())


def lookup(name: str) -> AggregateFunction:
    """The function of a name. TM2102 when there is none."""
    found = _functions.get(name)
    if found is None:
        raise TidemillError("TM2102", "this aggregate function is not supported yet", got=name)
    return found


def from_all_values(need: Need, keep: Keep) -> Result:
    """What is looked up in, or made of, the multiset of a group's values; the kind has the name of the function."""
    again = Accumulator(need.function, need.argument, need.distinct, True, need.others, need.options)
    return need.result(keep(again))


def count_of(need: Need, keep: Keep) -> int:
    """The accumulator with the number of arguments that are not NULL: ``rows`` where none can be."""
    return keep(Accumulator("count", need.argument, need.distinct)) if need.nullable or need.distinct else 0


def finish(layout: AggregateLayout, input_types: Types, values: Sequence[Array]) -> list[Array]:
    """One column per aggregate call.

    Parameters
    ----------
    values : arrays
        The value columns of the state table, as ``layout.value_types(input_types)``.

    Raises
    ------
    EvaluationError
        TM3002 when a sum does not fit its type, as Spark's ANSI mode does; TM3015 for a second row of a subquery;
        TM3020 for the list of a group that was too large.
    """
    offsets = layout.offsets(input_types)
    columns = []
    for result in layout.results:
        at = offsets[result.value]
        accumulator = layout.accumulators[result.value]
        width = len(accumulator.columns(input_types))
        counts = numbers(values[offsets[result.count]])
        column = lookup(result.function).finish(result, accumulator.kind, values[at : at + width], counts)
        assert column.type == result.type, f"{result.function}: {column.type} is not {result.type}"
        columns.append(column)
    return columns
