"""Variance, standard deviation, skewness and kurtosis of sums of powers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidemill.kernels.columns import column, numbers
from tidemill.state.folds.expansions import TERMS, central_moments
from tidemill.task.accumulators import POWERS

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


def finish_moments(function: str, kind: str, values: Sequence[pa.Array], counts: npt.NDArray[np.int64]) -> pa.Array:
    """The function's column, with Spark's NULL and NaN.

    Parameters
    ----------
    function : str
        One of :data:`MOMENT_FUNCTIONS`. ``regr_sxx`` is the sum of the squares of the distances from the mean.
    kind : str
        One of :data:`~tidemill.task.accumulators.POWERS`, which says what ``values`` are.
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
