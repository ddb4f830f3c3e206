"""COUNT, and the number of rows of a group."""

from __future__ import annotations

import pyarrow as pa

from tidemill.kernels.columns import column
from tidemill.state.folds import accumulate
from tidemill.state.merge.merge import MergeOp
from tidemill.task.aggregates.accumulators import Accumulator, Array, Ints, Kind, Result, Weights, declare_kinds
from tidemill.task.aggregates.functions import AggregateFunction, Keep, Need, count_of, declare_functions


def _fold(ids: Ints, values: Array, other: Array, weights: Weights, groups: int) -> list[Array]:
    return [column(accumulate.count_nonnull(ids, values, weights, groups))]


def _keep(need: Need, keep: Keep) -> Result:
    if need.others:
        several = keep(Accumulator("count", need.argument, True, others=need.others))
        return need.result(several, several)
    count = count_of(need, keep)
    return need.result(count, count)


declare_kinds(
    *(
        Kind(name, lambda _, types: (pa.int64(),), lambda _: (MergeOp.SUM,), _fold, carried=True)
        for name in ("rows", "count")
    )
)
declare_functions(AggregateFunction("count", _keep))
