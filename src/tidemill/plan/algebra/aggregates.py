"""Chooses the accumulators of an aggregate node."""

from __future__ import annotations

import pyarrow as pa

from tidemill.errors import TidemillError
from tidemill.plan.algebra.nodes import Aggregate
from tidemill.task.accumulators import COMOMENTS, OF_GROUP, ONLY, Accumulator, AggregateLayout, Multiset, Result
from tidemill.task.comoments import COMOMENT_FUNCTIONS
from tidemill.task.moments import MOMENT_FUNCTIONS


def layout(aggregate: Aggregate, append_only: bool) -> AggregateLayout:
    """Decide what to keep for each aggregate call; equal needs are kept once.

    Parameters
    ----------
    append_only : bool
        Whether the input never retracts a row.

    Raises
    ------
    TidemillError
        TM2102 for an aggregate function, or an argument type of one, that is not supported yet.
    """
    fields = aggregate.child.schema.fields
    kept: dict[Accumulator, int] = {Accumulator("rows"): 0}
    multisets: dict[Multiset, None] = {}

    def keep(accumulator: Accumulator) -> int:
        if accumulator.multiset is not None:
            multisets.setdefault(accumulator.multiset)
        return kept.setdefault(accumulator, len(kept))

    results = []
    for call in aggregate.calls:
        if call.argument is None:
            results.append(Result("count", pa.null(), call.type, 0, 0))
            continue
        field = fields[call.argument]
        name = call.function
        if name in OF_GROUP or name in ("min_by", "max_by"):
            again = Accumulator(name, call.argument, call.distinct, True, call.others, call.options)
            results.append(Result(name, field.type, call.type, keep(again), 0))
            continue
        if name in COMOMENT_FUNCTIONS:
            present = keep(Accumulator("count", call.argument)) if field.nullable else 0
            both = keep(Accumulator(COMOMENTS, call.argument, others=call.others))
            results.append(Result(name, field.type, call.type, both, present))
            continue
        distinct = call.distinct and name not in ("min", "max")
        if name == ONLY:
            value = keep(Accumulator("max", call.argument, recomputed=not append_only))
            results.append(Result(name, field.type, call.type, value, 0))
            continue
        if call.others:
            several = keep(Accumulator("count", call.argument, True, others=call.others))
            results.append(Result(name, field.type, call.type, several, several))
            continue
        count = keep(Accumulator("count", call.argument, distinct)) if field.nullable or distinct else 0
        if name == "count":
            value = count
        elif name in MOMENT_FUNCTIONS:
            value = keep(Accumulator(MOMENT_FUNCTIONS[name], call.argument, distinct))
        elif name in ("min", "max"):
            value = keep(Accumulator(name, call.argument, recomputed=not append_only))
        else:
            exact = not append_only
            value = keep(Accumulator(_sum_kind(name, field.type, exact), call.argument, distinct))
        results.append(Result(name, field.type, call.type, value, count, bool(dict(call.options).get("lenient"))))
    return AggregateLayout(tuple(kept), tuple(results), tuple(multisets))


def is_wide(type_: pa.DataType) -> bool:
    """Whether sums of a type may be beyond 128 bits: those of decimals with more digits than Spark adds ten to."""
    return bool(pa.types.is_decimal(type_)) and type_.precision > 28


def _sum_kind(function: str, type_: pa.DataType, exact: bool) -> str:
    if pa.types.is_floating(type_):
        return "sum_exact" if exact else "sum_f64"
    if is_wide(type_):
        return "sum_wide"
    if pa.types.is_decimal(type_) or pa.types.is_int64(type_):
        return "sum_i128"
    if pa.types.is_integer(type_):
        return "sum_i64"
    raise TidemillError(
        "TM2102",
        "this aggregate is not supported yet for this type",
        got=f"{function}({type_})",
        hint="cast the argument to a number",
    )
