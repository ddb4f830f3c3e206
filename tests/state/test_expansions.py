"""Sums of powers and central moments, against exact fractions."""

from __future__ import annotations

import random
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

from tidemill.kernels.columns import column
from tidemill.state.folds.expansions import central_moments, limit, sum_powers
from tidemill.state.keys.keys import KeyColumn, encode
from tidemill.state.merge.merge import consolidate, merge
from tidemill.state.merge.operations import MergeOp


def _exact(values: list[float], power: int) -> Fraction:
    mean = sum(map(Fraction, values), Fraction(0)) / len(values)
    return sum(((Fraction(v) - mean) ** power for v in values), Fraction(0))


def _moments(values: list[float | None], weights: list[int], count: int, power: int = 4) -> list[float]:
    ids = np.zeros(len(values), np.int64)
    sums, _, _ = sum_powers(ids, pa.array(values, pa.float64()), np.array(weights, np.int64), 1, power)
    return [float(m[0]) for m in central_moments(np.array([count]), sums, power)]


@pytest.mark.parametrize("base", [0.0, 1.0, 1e9, -1e12, 1e-9])
def test_moments_after_many_deletes(base: float, seed: int) -> None:
    rng = random.Random(seed)
    kept = [base + rng.uniform(-1, 1) for _ in range(rng.randrange(2, 60))]
    gone = [rng.uniform(-1, 1) * 10 ** rng.uniform(-3, 9) for _ in range(200)]
    rows = [(v, 1) for v in kept] + [(v, w) for v in gone for w in (3, -1, -2)] + [(None, 5)]
    rng.shuffle(rows)
    found = _moments([v for v, _ in rows], [w for _, w in rows], len(kept))
    for power, value in zip((2, 3, 4), found, strict=True):
        exact = _exact(kept, power)
        scale = _exact(kept, 2) / len(kept)
        assert abs(Fraction(value) - exact) <= Fraction(1, 10**9) * max(abs(exact), len(kept) * scale ** (power // 2))
    assert abs(Fraction(found[0]) / _exact(kept, 2) - 1) < Fraction(1, 10**13)


@pytest.mark.parametrize("value", [0.1, 1e9 + 0.1, -7.0, 1e-30, 1e50, 0.0])
@pytest.mark.parametrize("count", [1, 2, 3, 7, 1_000_003])
def test_equal_values_have_no_variance_at_all(value: float, count: int) -> None:
    assert _moments([value, value * 3, value * 3], [count, 5, -5], count)[0] == 0.0


def test_what_is_only_counted() -> None:
    values = [1.0, float("nan"), float("inf"), float("-inf"), limit(2), -limit(2), None]
    ids = np.array([0, 0, 1, 1, 1, 0, 0])
    sums, special, huge = sum_powers(ids, pa.array(values), np.array([2, 1, 1, 3, 4, -1, 1]), 2, 2)
    assert special.tolist() == [1, 4]
    assert huge.tolist() == [-1, 4]
    assert sums[0].tolist() == [2.0, 0.0] and sums[4].tolist() == [2.0, 0.0]


def test_runs_merge_to_the_same_sums(seed: int) -> None:
    rng = random.Random(seed)
    ops = (MergeOp.SUM, *(MergeOp.SUM_QD,) * 2)
    layout = (KeyColumn(pa.int64()),)
    runs, rows = [], []
    for _ in range(6):
        part = [
            (rng.randrange(3), rng.uniform(-1, 1) * 10 ** rng.uniform(-5, 10), rng.choice((1, 1, -1)))
            for _ in range(20)
        ]
        rows += part
        ids = np.array([k for k, _, _ in part])
        weights = np.array([w for _, _, w in part])
        sums, _, _ = sum_powers(ids, pa.array([v for _, v, _ in part]), weights, 3, 2)
        columns = [column(np.bincount(ids, weights, 3).astype(np.int64)), *map(column, sums)]
        runs.append(consolidate(encode([pa.array([0, 1, 2])], layout, 1), columns, ops, drop_zero=False))
    merged = merge(runs, ops, drop_zero=False)
    order = {merged.keys[i]: i for i in range(len(merged))}
    for key in range(3):
        row = order[encode([pa.array([key])], layout, 1)[0]]
        for power in (1, 2):
            exact = sum((Fraction(v) ** power * w for k, v, w in rows if k == key), Fraction(0))
            found = sum((Fraction(c[row].as_py()) for c in merged.values[1 + 4 * (power - 1) :][:4]), Fraction(0))
            assert abs(found - exact) <= Fraction(1, 10**40)


def test_no_rows() -> None:
    sums, special, huge = sum_powers(np.empty(0, np.int64), pa.array([], pa.float64()), None, 0, 4)
    assert len(sums) == 16 and not len(special) and not len(huge)
    assert [len(m) for m in central_moments(np.empty(0, np.int64), sums, 4)] == [0, 0, 0]
