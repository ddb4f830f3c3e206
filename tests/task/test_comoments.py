"""Covariances and regressions of groups with deletes, against exact fractions."""

from __future__ import annotations

import math
import random
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

from tidemill.errors import EvaluationError
from tidemill.kernels.columns import column
from tidemill.state.folds.comoments import sum_products
from tidemill.state.keys.keys import Keys
from tidemill.state.merge.merge import Rows, merge
from tidemill.task.aggregates.accumulators import Accumulator
from tidemill.task.aggregates.comoments import COMOMENT_FUNCTIONS, COMOMENTS, finish_comoments

OPS = Accumulator(COMOMENTS, 0, others=(1,)).merge_ops()


def _state(pairs: list[tuple[float, float]], weights: list[int]) -> list[pa.Array]:
    """The columns of one group."""
    x, y = (pa.array([p[i] for p in pairs], pa.float64()) for i in range(2))
    sums, counted = sum_products(np.zeros(len(pairs), np.int64), x, y, np.array(weights, np.int64), 1)
    return [column(part) for part in (*sums, *counted)]


def _merged(*states: list[pa.Array]) -> list[pa.Array]:
    key = Keys(np.array([0, 2], np.int64), np.zeros(2, np.uint8))
    return list(merge([Rows(key, tuple(state)) for state in states], OPS, drop_zero=False).values)


def _found(function: str, state: list[pa.Array], count: int) -> float | None:
    found: float | None = finish_comoments(function, state, np.array([count], np.int64))[0].as_py()
    return found


def _exact(pairs: list[tuple[float, float]]) -> dict[str, float | None]:
    n = len(pairs)
    x, y = ([Fraction(p[i]) for p in pairs] for i in range(2))
    mx, my = sum(x) / n, sum(y) / n
    xx, yy = sum((a - mx) ** 2 for a in x), sum((b - my) ** 2 for b in y)
    xy = sum((a - mx) * (b - my) for a, b in zip(x, y, strict=True))
    return {
        "covar_pop": float(xy / n),
        "covar_samp": float(xy / (n - 1)) if n > 1 else None,
        "regr_sxy": float(xy),
        "corr": float(xy) / math.sqrt(float(xx) * float(yy)) if n > 1 and xx and yy else None,
        "regr_slope": float(xy / xx) if xx else None,
        "regr_intercept": float(my - xy / xx * mx) if xx else None,
        "regr_r2": None if not xx else 1.0 if not yy else float(xy * xy / xx / yy),
    }


def test_values_after_deletes_equal_exact_fractions(seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(30):
        far = rng.choice((0.0, 1e9, 1e15))
        kept = [(far + rng.randrange(-9, 9), rng.randrange(-9, 9) / 8) for _ in range(rng.randrange(1, 12))]
        gone = [(rng.uniform(-1e30, 1e30), rng.uniform(-1e30, 1e30)) for _ in range(rng.randrange(3))]
        rows = [*kept, *gone]
        state = _merged(_state(rows, [1] * len(rows)), _state(gone, [-1] * len(gone)))
        for function, expected in _exact(kept).items():
            found = _found(function, state, len(kept))
            if expected is None or found is None:
                assert found == expected, (function, kept)
            else:
                scale = max(1.0, far if function == "regr_intercept" else 1.0)
                assert math.isclose(found, expected, rel_tol=1e-9, abs_tol=1e-9 * scale), (function, kept, found)


def test_all_functions_are_compared() -> None:
    assert _exact([(1.0, 2.0)]).keys() == COMOMENT_FUNCTIONS


@pytest.mark.parametrize(
    ("pairs", "expected"),
    [
        ([], dict.fromkeys(COMOMENT_FUNCTIONS)),
        ([(1.0, math.inf)], {"covar_pop": "nan", "covar_samp": None, "corr": None, "regr_slope": None}),
        ([(1.0, math.nan), (2.0, 1.0)], {"covar_samp": "nan", "corr": "nan", "regr_slope": "nan", "regr_r2": "nan"}),
    ],
)
def test_what_is_no_number(pairs: list[tuple[float, float]], expected: dict[str, object]) -> None:
    """What Spark 4.3 gives."""
    state = _state(pairs, [1] * len(pairs))
    for function, value in expected.items():
        found = _found(function, state, len(pairs))
        assert (str(found) if found is not None else None) == value, function


def test_values_that_cannot_be_multiplied_are_an_error_until_they_are_gone() -> None:
    rows = [(1e200, 1.0), (1.0, 2.0), (2.0, 4.0)]
    state = _state(rows, [1, 1, 1])
    with pytest.raises(EvaluationError, match="TM3002"):
        _found("covar_pop", state, 3)
    assert _found("regr_slope", _merged(state, _state(rows[:1], [-1])), 2) == 2.0
