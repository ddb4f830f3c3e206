"""Chooses the accumulators of an aggregate node."""

from __future__ import annotations

import pyarrow as pa

from tidemill.plan.algebra.nodes import Aggregate
from tidemill.task.aggregates.accumulators import Accumulator, AggregateLayout, Multiset, Result
from tidemill.task.aggregates.functions import Need, lookup


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
        arguments = (call.argument, field.type, field.nullable, call.type, call.distinct, call.others, call.options)
        results.append(lookup(call.function).keep(Need(call.function, *arguments, append_only), keep))
    return AggregateLayout(tuple(kept), tuple(results), tuple(multisets))
