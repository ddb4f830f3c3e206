"""Functions of all values of a group, against one group in plain Python."""

from __future__ import annotations

import math
import random

import numpy as np
import pyarrow as pa
import pytest

from tidemill.task.accumulators import Accumulator
from tidemill.task.group_values import of_group, scalar

_ASCENDING = (("descending", False),)
_DESCENDING = (("descending", True),)


def _percentile(kind: str, order: tuple[tuple[str, bool], ...], many: bool, *percentages: float) -> Accumulator:
    return Accumulator(kind, 0, False, True, (), (*order, ("many", many), ("percentages", percentages)))


ACCUMULATORS = [
    Accumulator("collect_list", 0, False, True),
    Accumulator("collect_set", 0, False, True),
    Accumulator("mode", 0, False, True, (), _ASCENDING),
    Accumulator("mode", 0, False, True, (), _DESCENDING),
    Accumulator("bit_and", 0, False, True),
    Accumulator("bit_or", 0, False, True),
    Accumulator("bit_xor", 0, False, True),
    Accumulator("bit_xor", 0, True, True),
    _percentile("percentile", _ASCENDING, False, 0.3),
    _percentile("percentile", _DESCENDING, True, 0.0, 0.25, 0.5, 1.0),
    _percentile("percentile", _ASCENDING, True),
    _percentile("percentile_disc", _ASCENDING, True, 0.0, 0.1, 0.5, 0.9, 1.0),
    _percentile("percentile_disc", _DESCENDING, False, 1 / 3),
]


@pytest.mark.parametrize("number", range(len(ACCUMULATORS)))
def test_groups_equal_one_group_in_python(number: int, seed: int) -> None:
    accumulator = ACCUMULATORS[number]
    rng = random.Random(seed)
    for _ in range(30):
        groups = [sorted(rng.choices(range(-6, 7), k=rng.choice((0, 0, 1, 2, 9)))) for _ in range(rng.randrange(1, 6))]
        counted = [(g, v, values.count(v)) for g, values in enumerate(groups) for v in sorted(set(values))]
        ids, values, weights = (list(c) for c in zip(*counted, strict=True)) if counted else ([], [], [])
        found = of_group(
            accumulator,
            np.array(ids, np.int64),
            pa.array(values, pa.int32()),
            np.array(weights, np.int64),
            len(groups),
        )
        assert found.type == accumulator.columns((pa.int32(),))[0]
        assert found.to_pylist() == [scalar(accumulator, list(v)) for v in groups]


def test_a_distinct_percentile_counts_values_once() -> None:
    values, weights = pa.array([1.0, 2.0, 3.0]), np.array([9, 1, 1])
    plain = _percentile("percentile", _ASCENDING, False, 0.5)
    once = Accumulator("percentile", 0, True, True, (), plain.options)
    assert of_group(plain, np.zeros(3, np.int64), values, weights, 1).to_pylist() == [1.0]
    assert of_group(once, np.zeros(3, np.int64), values, weights, 1).to_pylist() == [2.0]


def test_percentiles_at_the_infinities_and_nan() -> None:
    """What Spark 4.3 gives: it goes from the lower value towards the higher one."""
    inf, nan = math.inf, math.nan
    quarters = _percentile("percentile", _ASCENDING, True, 0.25, 0.5, 0.75)

    def found(*values: float) -> list[str]:
        ids, weights = np.zeros(len(values), np.int64), np.ones(len(values), np.int64)
        return [str(v) for v in of_group(quarters, ids, pa.array(values), weights, 1)[0].as_py()]

    assert found(-inf, 1.0) == ["nan", "nan", "nan"]
    assert found(1.0, inf) == ["inf", "inf", "inf"]
    assert found(1.0, 2.0, nan) == ["1.5", "2.0", "nan"]
    # Between two equal values there is nothing to add, not inf - inf.
    for value in (inf, -inf):
        twice = of_group(quarters, np.zeros(1, np.int64), pa.array([value]), np.full(1, 2, np.int64), 1)
        assert twice[0].as_py() == [value] * 3


@pytest.mark.parametrize("type_", [pa.int8(), pa.int16(), pa.int32(), pa.int64()])
def test_bits_keep_their_type(type_: pa.DataType) -> None:
    values = pa.array([-128, -1, 7], type_)
    for accumulator in ACCUMULATORS[4:8]:
        found = of_group(accumulator, np.array([0, 0, 2]), values, np.ones(3, np.int64), 3)
        assert found.type == type_
        assert found.to_pylist() == [scalar(accumulator, [-128, -1]), None, 7]
