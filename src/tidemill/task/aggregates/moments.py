"""Variance, standard deviation, skewness and kurtosis of sums of powers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidemill.kernels.columns import column, numbers
from tidemill.state.folds.expansions import TERMS, central_moments, sum_powers
from tidemill.state.merge.merge import MergeOp
from tidemill.task.aggregates.accumulators import (
    Accumulator,
    Array,
    Fold,
    Ints,
    Kind,
    Result,
    Weights,
    declare_kinds,
)
from tidemill.task.aggregates.functions import AggregateFunction, Catalyst, Keep, Need, count_of, declare_functions

POWERS = {"moments2": 2, "moments3": 3, "moments4": 4}
"""Kinds that sum powers of values, with the highest power."""

MOMENT_FUNCTIONS = {
    "var_samp": "moments2",
    "var_pop": "moments2",
    "stddev_samp": "moments2",
    "stddev_pop": "moments2",
    "regr_sxx": "moments2",
    "skewness": "moments3",
    "kurtosis": "moments4",
}
"""Functions of one column's moments, with the kind of accumulator that they need."""


def _fold(power: int) -> Fold:
    def fold(ids: Ints, values: Array, other: Array, weights: Weights, groups: int) -> list[Array]:
        sums, special, huge = sum_powers(ids, values, weights, groups, power)
        return [column(part) for part in (*sums, special, huge)]

    return fold


def _keep(need: Need, keep: Keep) -> Result:
    count = count_of(need, keep)
    return need.result(keep(Accumulator(MOMENT_FUNCTIONS[need.function], need.argument, need.distinct)), count)


def finish_moments(function: str, kind: str, values: Sequence[Array], counts: npt.NDArray[np.int64]) -> Array:
    """The function's column, with Spark's NULL and NaN.

    Parameters
    ----------
    function : str
        One of :data:`MOMENT_FUNCTIONS`. ``regr_sxx`` is the sum of the squares of the distances from the mean.
    kind : str
        One of :data:`POWERS`, which says what ``values`` are.
    counts : int64 array
        Numbers of values that are not NULL.

    Returns
    -------
    Arrow float64 array
        NULL over no values, for a sample of one, and for skewness and kurtosis without variance. With NaN or an
        infinity among the values NaN; with a value that is too large to be squared, an infinite variance.
    """
    power = POWERS[kind]
    special, huge = (numbers(v) > 0 for v in values[TERMS * power :])
    moments = central_moments(counts, [numbers(v) for v in values[: TERMS * power]], power)
    second = np.where(special, np.nan, np.where(huge & (counts > 1), np.inf, moments[0]))
    missing = counts <= 0
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        if function in ("skewness", "kurtosis"):
            missing |= second == 0
            if function == "skewness":
                result = np.sqrt(counts.astype(np.float64)) * moments[1] / np.sqrt(second * second * second)
            else:
                result = counts * moments[2] / (second * second) - 3.0
            result = np.where(np.isfinite(second), result, np.nan)
        elif function == "regr_sxx":
            result = second
        else:
            sample = function.endswith("_samp")
            missing |= sample & (counts == 1)
            result = second / (counts - 1 if sample else counts)
            if function.startswith("stddev"):
                result = np.sqrt(result)
    return column(result, missing)


def _finish(result: Result, kind: str, values: Sequence[Array], counts: Ints) -> Array:
    return finish_moments(result.function, kind, values, counts)


def _kind(name: str, power: int) -> Kind:
    columns = (pa.float64(),) * (TERMS * power) + (pa.int64(), pa.int64())
    merge = (MergeOp.SUM_QD,) * power + (MergeOp.SUM, MergeOp.SUM)
    return Kind(name, lambda _, types: columns, lambda _: merge, _fold(power))


def _function(name: str, catalyst: str, *sql: str) -> AggregateFunction:
    read = Catalyst(catalyst, sql or (name,), pa.float64(), pa.float64(), keeps_distinct=True)
    return AggregateFunction(name, _keep, _finish, catalyst=read)


declare_kinds(*(_kind(name, power) for name, power in POWERS.items()))
declare_functions(
    _function("var_samp", "VarianceSamp", "var_samp", "variance"),
    _function("var_pop", "VariancePop"),
    _function("stddev_samp", "StddevSamp", "stddev_samp", "stddev", "std"),
    _function("stddev_pop", "StddevPop"),
    _function("skewness", "Skewness"),
    _function("kurtosis", "Kurtosis"),
    _function("regr_sxx", "RegrReplacement", "regr_sxx", "regr_syy"),
)
