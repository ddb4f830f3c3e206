"""MIN and MAX, MIN_BY and MAX_BY, and the value of a scalar subquery."""

from __future__ import annotations

from collections.abc import Sequence

from tidemill.state.folds import accumulate
from tidemill.state.merge.merge import MergeOp
from tidemill.task.aggregates.accumulators import (
    Accumulator,
    Array,
    Fold,
    Ints,
    Kind,
    Result,
    Types,
    Weights,
    declare_kinds,
)
from tidemill.task.aggregates.functions import (
    AggregateFunction,
    Arguments,
    Catalyst,
    Keep,
    Need,
    declare_functions,
    from_all_values,
)
from tidemill.task.functions.columns.failures import several_rows

ONLY = "only"
"""The value of a scalar subquery: that of the group's only row, an error while there are several."""


def _columns(accumulator: Accumulator, types: Types) -> Types:
    assert accumulator.argument is not None
    return (types[accumulator.others[0] if accumulator.others else accumulator.argument],)


def _fold(greatest: bool) -> Fold:
    def fold(ids: Ints, values: Array, other: Array, weights: Weights, groups: int) -> list[Array]:
        return [accumulate.extreme(ids, values, groups, greatest)]

    return fold


def _keep(need: Need, keep: Keep) -> Result:
    count = keep(Accumulator("count", need.argument)) if need.nullable else 0
    return need.result(keep(Accumulator(need.function, need.argument, recomputed=not need.append_only)), count)


def _keep_only(need: Need, keep: Keep) -> Result:
    return need.result(keep(Accumulator("max", need.argument, recomputed=not need.append_only)))


def _only(result: Result, kind: str, values: Sequence[Array], counts: Ints) -> Array:
    if (counts > 1).any():
        raise several_rows(int(counts.max()))
    return values[0]


def _by(name: str, catalyst: str, meaning: str) -> AggregateFunction:
    read = Catalyst(catalyst, (name,), arguments=Arguments.VALUE_AND_ORDER, meaning=meaning)
    return AggregateFunction(name, from_all_values, catalyst=read)


declare_kinds(
    Kind("min", _columns, lambda _: (MergeOp.MIN,), _fold(False), carried=True),
    Kind("max", _columns, lambda _: (MergeOp.MAX,), _fold(True), greatest=True, carried=True),
    Kind("min_by", _columns, lambda _: (MergeOp.LAST,), of_any=True),
    Kind("max_by", _columns, lambda _: (MergeOp.LAST,), of_any=True, greatest=True),
)
declare_functions(
    AggregateFunction("min", _keep, catalyst=Catalyst("Min", ("min", "bool_and", "every"))),
    AggregateFunction("max", _keep, catalyst=Catalyst("Max", ("max", "bool_or", "some", "any"))),
    _by("min_by", "MinBy", "of several rows with the least order, the smallest value"),
    _by("max_by", "MaxBy", "of several rows with the greatest order, the greatest value"),
    AggregateFunction(ONLY, _keep_only, _only, can_fail=True),
)
