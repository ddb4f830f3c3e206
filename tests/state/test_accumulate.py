"""Group-wise folds against Python integers and fractions."""

from __future__ import annotations

import math
import sys
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidemill.errors import TidemillError
from tidemill.state.folds.accumulate import (
    count_nonnull,
    count_special,
    extreme,
    sum_dd,
    sum_float,
    sum_i128,
    sum_int64,
)

GROUPS = 4
group_ids = st.integers(0, GROUPS - 1)
weight = st.integers(-3, 3) | st.integers(-(2**63), 2**63 - 1)


def rows(values: st.SearchStrategy[Any], weights: st.SearchStrategy[int] = weight) -> st.SearchStrategy[Any]:
    return st.lists(st.tuples(group_ids, st.none() | values, weights), max_size=30)


def split(
    table: list[tuple[int, Any, int]], type_: pa.DataType, weighted: bool
) -> tuple[np.ndarray, pa.Array, np.ndarray | None, list[list[tuple[Any, int]]]]:
    """Ids, a sliced array, weights, and (value, weight) per group without NULLs."""
    ids = np.array([row[0] for row in table], np.int64)
    values = pa.array([None, *(row[1] for row in table), None], type_).slice(1, len(table))
    weights = np.array([row[2] for row in table], np.int64) if weighted else None
    grouped: list[list[tuple[Any, int]]] = [[] for _ in range(GROUPS)]
    for group, value, w in table:
        if value is not None:
            grouped[group].append((value, w if weighted else 1))
    return ids, values, weights, grouped


def wrap(value: int, bits: int) -> int:
    return (value + 2 ** (bits - 1)) % 2**bits - 2 ** (bits - 1)


@pytest.mark.parametrize("bits", [8, 16, 32, 64])
@settings(max_examples=60, deadline=None)
@given(data=st.data(), weighted=st.booleans())
def test_integer_sums_and_counts(bits: int, data: st.DataObject, weighted: bool) -> None:
    table = data.draw(rows(st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)))
    ids, values, weights, grouped = split(table, getattr(pa, f"int{bits}")(), weighted)
    totals = [sum(v * w for v, w in group) for group in grouped]
    assert sum_int64(ids, values, weights, GROUPS).tolist() == [wrap(t, 64) for t in totals]
    low, high = sum_i128(ids, values, weights, GROUPS)
    assert low.dtype == high.dtype == np.int64
    wide = [(int(h) << 64) + int(lo) % 2**64 for lo, h in zip(low, high)]
    assert wide == [wrap(t, 128) for t in totals]
    counts = [wrap(sum(w for _, w in group), 64) for group in grouped]
    assert count_nonnull(ids, values, weights, GROUPS).tolist() == counts
    everything = [wrap(sum(w if weighted else 1 for g, _, w in table if g == i), 64) for i in range(GROUPS)]
    assert count_nonnull(ids, None, weights, GROUPS).tolist() == everything


@settings(max_examples=150, deadline=None)
@given(table=rows(st.integers(-(10**38) + 1, 10**38 - 1)), weighted=st.booleans())
def test_decimal_sums_wrap_at_128_bits(table: list[tuple[int, int | None, int]], weighted: bool) -> None:
    decimals = [(g, None if v is None else Decimal((v < 0, tuple(map(int, str(abs(v)))), -5)), w) for g, v, w in table]
    ids, values, weights, _ = split(decimals, pa.decimal128(38, 5), weighted)
    low, high = sum_i128(ids, values, weights, GROUPS)
    for group in range(GROUPS):
        total = sum(v * (w if weighted else 1) for g, v, w in table if g == group and v is not None)
        assert (int(high[group]) << 64) + int(low[group]) % 2**64 == wrap(total, 128)


ordinary = st.floats(-1e100, 1e100, allow_subnormal=False).filter(lambda x: x == 0 or abs(x) > 1e-100)


@settings(max_examples=200, deadline=None)
@given(table=rows(ordinary | st.sampled_from([math.nan, math.inf, -math.inf, 0.1])), weighted=st.booleans())
def test_double_double_sums(table: list[tuple[int, float | None, int]], weighted: bool) -> None:
    ids, values, weights, grouped = split(table, pa.float64(), weighted)
    high, low, *huge = sum_dd(ids, values, weights, GROUPS)
    assert not np.any(huge)
    for group in range(GROUPS):
        finite = [(Fraction(v), w) for v, w in grouped[group] if math.isfinite(v)]
        exact = sum((v * w for v, w in finite), Fraction(0))
        scale = sum((abs(v * w) for v, w in finite), Fraction(0))
        assert abs(Fraction(float(high[group])) + Fraction(float(low[group])) - exact) <= scale / 2**98
        if not weighted:
            whole = math.fsum(v for v, _ in grouped[group] if math.isfinite(v))
            assert float(high[group]) == pytest.approx(whole, rel=1e-14, abs=float(scale) * 1e-29)
    nan, positive, negative = count_special(ids, values, weights, GROUPS)
    assert nan.tolist() == [wrap(sum(w for v, w in g if math.isnan(v)), 64) for g in grouped]
    assert positive.tolist() == [wrap(sum(w for v, w in g if v == math.inf), 64) for g in grouped]
    assert negative.tolist() == [wrap(sum(w for v, w in g if v == -math.inf), 64) for g in grouped]


@settings(max_examples=100, deadline=None)
@given(values=st.lists(ordinary, max_size=20), seed=st.integers(0, 99))
def test_double_double_retraction_leaves_zero(values: list[float], seed: int) -> None:
    """What is added and taken back is gone, whatever the order, up to 2**-98 of what was added."""
    order = np.random.default_rng(seed).permutation(2 * len(values))
    array = pa.array(np.array(values * 2)[order]) if values else pa.array([], pa.float64())
    signs = np.array([1] * len(values) + [-1] * len(values), np.int64)[order]
    high, *_ = sum_dd(np.zeros(len(array), np.int64), array, signs, 1)
    assert abs(high[0]) <= sum(map(abs, values)) * 2.0**-98


LARGEST = sys.float_info.max
great = st.floats(2.0**900, LARGEST) | st.floats(-LARGEST, -(2.0**900)) | st.sampled_from([2.0**960, LARGEST, 1.0])


@settings(max_examples=200, deadline=None)
@given(table=rows(great), weighted=st.booleans())
def test_sums_beyond_doubles(table: list[tuple[int, float | None, int]], weighted: bool) -> None:
    """Sums that no double holds are exact, too: high and low, and units of 2**100."""
    ids, values, weights, grouped = split(table, pa.float64(), weighted)
    parts = sum_dd(ids, values, weights, GROUPS)
    assert np.isfinite(parts).all()
    for group in range(GROUPS):
        high, low, units, rest = (Fraction(float(part[group])) for part in parts)
        exact = sum((Fraction(v) * w for v, w in grouped[group]), Fraction(0))
        scale = sum((abs(Fraction(v) * w) for v, w in grouped[group]), Fraction(0))
        assert abs(high + low + 2**100 * (units + rest) - exact) <= scale / 2**98


@pytest.mark.parametrize("type_", [pa.float32(), pa.float64(), pa.int32()])
@settings(max_examples=60, deadline=None)
@given(data=st.data(), weighted=st.booleans())
def test_float_sums(type_: pa.DataType, data: st.DataObject, weighted: bool) -> None:
    table = data.draw(rows(st.integers(-1000, 1000), st.integers(-3, 3)))
    table = table if type_ == pa.int32() else [(g, None if v is None else v / 8, w) for g, v, w in table]
    ids, values, weights, grouped = split(table, type_, weighted)
    # Eighths of this size add without rounding, so the order does not matter.
    expected = [float(sum(v * w for v, w in group)) for group in grouped]
    assert sum_float(ids, values, weights, GROUPS).tolist() == expected


def test_float_sum_of_infinities() -> None:
    ids = np.array([0, 0, 1, 2])
    values = pa.array([math.inf, -math.inf, math.inf, math.nan])
    sums = sum_float(ids, values, np.array([1, 1, -1, 0]), 3)
    assert math.isnan(sums[0]) and sums[1:].tolist() == [-math.inf, 0.0]


def rank(value: Any) -> Any:
    if isinstance(value, float):
        return (math.isnan(value), 0.0 if math.isnan(value) else value)
    return value.encode() if isinstance(value, str) else value


@pytest.mark.parametrize(
    ("type_", "values"),
    [
        (pa.bool_(), st.booleans()),
        (pa.int8(), st.integers(-128, 127)),
        (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
        (pa.float32(), st.floats(width=32)),
        (pa.float64(), st.floats()),
        (pa.decimal128(38, 0), st.integers(-(10**37), 10**37).map(Decimal)),
        (pa.string(), st.text("ab\0é", max_size=12)),
        (pa.large_binary(), st.binary(max_size=12)),
        (pa.date32(), st.dates()),
        (pa.null(), st.none()),
    ],
    ids=str,
)
@settings(max_examples=50, deadline=None)
@given(data=st.data(), largest=st.booleans())
def test_extremes(type_: pa.DataType, values: st.SearchStrategy[Any], data: st.DataObject, largest: bool) -> None:
    ids, array, _, grouped = split(data.draw(rows(values)), type_, False)
    result = extreme(ids, array, GROUPS, largest)
    assert result.type == type_ and len(result) == GROUPS
    for got, group in zip(result.to_pylist(), grouped):
        expected = (max if largest else min)((v for v, _ in group), key=rank, default=None)
        assert rank(got) == rank(expected)


def test_null_columns_and_wrong_types() -> None:
    ids = np.zeros(2, np.int64)
    nulls = pa.nulls(2)
    assert sum_int64(ids, nulls, None, 1).tolist() == [0]
    assert [part.tolist() for part in sum_i128(ids, nulls, None, 1)] == [[0], [0]]
    assert sum_float(ids, nulls, None, 1).tolist() == [0.0]
    assert [part.tolist() for part in sum_dd(ids, nulls, None, 1)] == [[0.0]] * 4
    assert count_nonnull(ids, nulls, None, 1).tolist() == [0]
    assert [part.tolist() for part in count_special(ids, nulls, None, 1)] == [[0], [0], [0]]
    texts = pa.array(["a", "b"])
    for fold in (sum_int64, sum_i128, sum_float, sum_dd, count_special):
        with pytest.raises(TidemillError, match="TM1103"):
            fold(ids, texts, None, 1)
    with pytest.raises(ValueError, match="rows"):
        sum_int64(ids, pa.array([1]), None, 1)
    with pytest.raises(TidemillError, match="TM1101"):
        extreme(ids, pa.array([1, 2], pa.uint64()), 1, True)
    assert extreme(ids, pa.array([[2, None], [2, 1]]), 1, True).to_pylist() == [[2, 1]]
    assert extreme(ids, pa.array([[2, None], [2, 1]]), 1, False).to_pylist() == [[2, None]]
