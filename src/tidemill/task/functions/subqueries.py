"""The value of a scalar subquery."""

from __future__ import annotations

import numpy as np

from tidemill.kernels.columns import numbers
from tidemill.task.expressions import Call
from tidemill.task.functions.columns.failures import several_rows
from tidemill.task.functions.columns.registry import Value, as_array, function


@function("only_row", sql=("(SELECT ... WHERE a = outer.a)",), strict=False, fails=True)
def _only_row(call: Call, args: list[Value], rows: int) -> Value:
    """The first argument; fails where the second, the number of rows of the subquery, is above 1."""
    value, counts = args
    found = numbers(as_array(counts, rows))
    if (found > 1).any():
        raise several_rows(int(np.max(found)))
    return value
