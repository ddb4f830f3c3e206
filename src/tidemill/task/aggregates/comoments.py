"""Covariance, correlation and linear regression of sums over pairs of values."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidemill.errors import EvaluationError
from tidemill.kernels.columns import column, numbers
from tidemill.state.folds.comoments import SUMS, central_products, sum_products
from tidemill.state.folds.expansions import TERMS
from tidemill.state.merge.merge import MergeOp
from tidemill.task.aggregates.accumulators import Accumulator, Array, Ints, Kind, Result, Weights, declare_kinds
from tidemill.task.aggregates.functions import AggregateFunction, Arguments, Catalyst, Keep, Need, declare_functions

COMOMENTS = "comoments"
"""The kind that sums two columns, their squares and their products: ``argument`` is x, ``others`` has y."""

_CATALYST = {
    "covar_pop": "CovPopulation",
    "covar_samp": "CovSample",
    "corr": "Corr",
    "regr_sxy": "RegrSXY",
    "regr_slope": "RegrSlope",
    "regr_intercept": "RegrIntercept",
    "regr_r2": "RegrR2",
}

COMOMENT_FUNCTIONS = frozenset(_CATALYST)
"""Functions of two columns. x is the first argument here, which of ``regr_`` functions is the second one in SQL."""


def _fold(ids: Ints, values: Array, other: Array, weights: Weights, groups: int) -> list[Array]:
    products, counted = sum_products(ids, values, other, weights, groups)
    return [column(part) for part in (*products, *counted)]


def _keep(need: Need, keep: Keep) -> Result:
    present = keep(Accumulator("count", need.argument)) if need.nullable else 0
    both = keep(Accumulator(COMOMENTS, need.argument, others=need.others))
    return need.result(both, present)


def finish_comoments(function: str, values: Sequence[Array], counts: npt.NDArray[np.int64]) -> Array:
    """The function's column, with Spark's NULL and NaN.

    Parameters
    ----------
    function : str
        One of :data:`COMOMENT_FUNCTIONS`.
    values : Arrow arrays
        The columns of a comoments accumulator.
    counts : int64 array
        Numbers of pairs of which neither is NULL.

    Returns
    -------
    Arrow float64 array
        NULL over no pairs; for one pair of a sample, a correlation or a regression; and where a quotient has the
        divisor 0. With NaN or an infinity among the values NaN.

    Raises
    ------
    EvaluationError
        TM3002 for values that are too large to be multiplied.
    """
    sums = [numbers(v) for v in values[: TERMS * SUMS]]
    odd_x, odd_y, huge = (numbers(v) > 0 for v in values[TERMS * SUMS :])
    if huge.any():
        raise EvaluationError(
            "TM3002",
            "a sum does not fit its type",
            got=f"{function} of values of 1e117 and more",
            hint="divide the arguments by a constant",
        )
    xx, yy, xy = central_products(counts, sums)
    xx, yy = np.where(odd_x, np.nan, xx), np.where(odd_y, np.nan, yy)
    xy = np.where(odd_x | odd_y, np.nan, xy)
    missing = counts <= 0
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        match function:
            case "covar_pop":
                result = xy / counts
            case "covar_samp":
                missing |= counts == 1
                result = xy / (counts - 1)
            case "regr_sxy":
                result = xy
            case "corr":
                missing |= (counts == 1) | (xx * yy == 0)
                result = xy / np.sqrt(xx * yy)
            case "regr_r2":
                missing |= xx == 0
                result = np.where(yy == 0, 1.0, xy * xy / (xx * yy))
            case _:
                missing |= xx == 0
                result = xy / xx
                if function == "regr_intercept":
                    result = _mean(sums[TERMS : 2 * TERMS], odd_y, counts) - result * _mean(sums[:TERMS], odd_x, counts)
    return column(np.ascontiguousarray(result, np.float64), missing)


def _mean(
    terms: list[npt.NDArray[np.float64]], odd: npt.NDArray[np.bool_], counts: npt.NDArray[np.int64]
) -> npt.NDArray[np.float64]:
    found: npt.NDArray[np.float64] = np.where(odd, np.nan, (terms[0] + terms[1]) / counts)
    return found


def _finish(result: Result, kind: str, values: Sequence[Array], counts: Ints) -> Array:
    return finish_comoments(result.function, values, counts)


def _function(name: str, catalyst: str) -> AggregateFunction:
    arguments = Arguments.Y_AND_X if name.startswith("regr_") else Arguments.X_AND_Y
    return AggregateFunction(name, _keep, _finish, catalyst=Catalyst(catalyst, (name,), pa.float64(), None, arguments))


declare_kinds(
    Kind(
        COMOMENTS,
        lambda _, types: (pa.float64(),) * (TERMS * SUMS) + (pa.int64(),) * 3,
        lambda _: (MergeOp.SUM_QD,) * SUMS + (MergeOp.SUM,) * 3,
        _fold,
    )
)
declare_functions(*(_function(name, catalyst) for name, catalyst in _CATALYST.items()))
