"""``histogram_numeric``: the bins of a group's values when these come in ascending order."""

from __future__ import annotations

import pyarrow as pa

from tidemill.errors import TidemillError
from tidemill.plan.algebra.nodes import AggregateCall
from tidemill.plan.catalyst.aggregates.reader import Function
from tidemill.schema import DAY_TIME, TIMESTAMP, TIMESTAMP_NTZ, YEAR_MONTH, type_to_ddl
from tidemill.task.expressions import Call, Expression

IN_ORDER = (
    "the bins that Spark gives when the values of a group come in ascending order, NaN last, in one partition; so each "
    "value with its count where a group has at most nb different values"
)


def histogram(function: Function) -> Expression:
    """A function of the list of the group's values, which is in ascending order."""
    value, bins = function.argument(), function.constant(1)
    type_ = value.type
    known = pa.types.is_integer(type_) or pa.types.is_floating(type_) or pa.types.is_date(type_)
    if not known and type_ not in (TIMESTAMP, TIMESTAMP_NTZ, DAY_TIME, YEAR_MONTH):
        raise TidemillError(
            "TM2102",
            "this aggregate is not supported yet for this type",
            got=f"histogram_numeric({type_to_ddl(type_)})",
            hint="cast the argument to DOUBLE",
        )
    kind = "collect_set" if function.distinct else "collect_list"
    values = function.result(AggregateCall(kind, function.place(value), pa.list_(type_), False))
    result = pa.list_(pa.struct([pa.field("x", type_), pa.field("y", pa.float64())]))
    return Call("histogram_bins", (values,), result, True, (("bins", int(bins)),))
