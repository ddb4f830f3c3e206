"""Consolidating and merging against a plain dictionary, for every operation and type."""

from __future__ import annotations

import math
from datetime import date
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidemill.state.keys.keys import KeyColumn, Keys, encode
from tidemill.state.merge.merge import MergeOp, Rows, consolidate, merge

SUM, MIN, MAX, LAST = MergeOp.SUM, MergeOp.MIN, MergeOp.MAX, MergeOp.LAST

keys_strategy = st.lists(st.sampled_from([b"", b"\0", b"a", b"b"]), max_size=3).map(b"".join) | st.integers(0, 30).map(
    lambda i: b"a common prefix" + i.to_bytes(12, "big")
)
weights = st.integers(-2, 2)
floats = st.sampled_from([math.nan, math.inf, -math.inf, 0.0, 1.5, -1.5, 1e300])
COMPARED: list[tuple[pa.DataType, st.SearchStrategy[Any]]] = [
    (pa.bool_(), st.booleans()),
    (pa.int32(), st.integers(-3, 3)),
    (pa.float64(), floats),
    (pa.decimal128(20, 2), st.integers(-(10**18), 10**18).map(lambda i: Decimal(i).scaleb(-2))),
    (pa.string(), st.text("ab\0é", max_size=10)),
    (pa.date32(), st.dates(date(1969, 1, 1), date(1971, 1, 1))),
    (pa.null(), st.none()),
]


def wrap(value: int, bits: int) -> int:
    return (value + 2 ** (bits - 1)) % 2**bits - 2 ** (bits - 1)


def order_of(value: Any) -> Any:
    if isinstance(value, float):
        return (math.isnan(value), 0.0 if math.isnan(value) else value)
    return value.encode() if isinstance(value, str) else value


def best(values: list[Any], largest: bool) -> Any:
    present = [v for v in values if v is not None]
    return (max if largest else min)(present, key=order_of) if present else None


def canonical(value: Any) -> Any:
    return "NaN" if isinstance(value, float) and math.isnan(value) else value


def model(rows: list[tuple[bytes, int, int, Any, Any, Any]], drop_zero: bool) -> list[tuple[Any, ...]]:
    """Rows (key, weight, int64, value, value, value) of the operations below, in order of age."""
    grouped: dict[bytes, list[tuple[Any, ...]]] = {}
    for key, *values in rows:
        grouped.setdefault(key, []).append(tuple(values))
    result = []
    for key in sorted(grouped):
        weight, total, low, high, last = (list(column) for column in zip(*grouped[key]))
        if sum(weight) or not drop_zero:
            combined = (sum(weight), wrap(sum(total), 64), best(low, False), best(high, True), last[-1])
            result.append((key, *map(canonical, combined)))
    return result


OPS = [SUM, SUM, MIN, MAX, LAST]


def columns_of(rows: list[tuple[Any, ...]], type_: pa.DataType) -> tuple[Keys, list[pa.Array]]:
    types = [pa.int64(), pa.int64(), type_, type_, type_]
    key = Keys.from_arrow(pa.array([row[0] for row in rows], pa.large_binary()))
    # Sliced, so that offsets of arrays are seen.
    values = [pa.array([None, *(row[i + 1] for row in rows)], t).slice(1) for i, t in enumerate(types)]
    return key, values


def listed(rows: Rows) -> list[tuple[Any, ...]]:
    for column in rows.values:
        column.validate(full=True)
    values = [list(map(canonical, column.to_pylist())) for column in rows.values]
    return list(zip(rows.keys.to_arrow().to_pylist(), *values))


def rows_of(values: st.SearchStrategy[Any]) -> st.SearchStrategy[list[tuple[Any, ...]]]:
    optional = st.none() | values
    big = st.integers(-(2**63), 2**63 - 1)
    return st.lists(st.tuples(keys_strategy, weights, big, optional, optional, optional), max_size=25)


@pytest.mark.parametrize(("type_", "values"), COMPARED, ids=[str(t) for t, _ in COMPARED])
@settings(max_examples=60, deadline=None)
@given(data=st.data(), drop_zero=st.booleans())
def test_consolidate_and_merge(
    type_: pa.DataType, values: st.SearchStrategy[Any], data: st.DataObject, drop_zero: bool
) -> None:
    batches = data.draw(st.lists(rows_of(values), min_size=1, max_size=5))
    runs = []
    for batch in batches:
        run = consolidate(*columns_of(batch, type_), OPS, drop_zero)
        assert listed(run) == model(batch, drop_zero)
        runs.append(run)
    merged = merge(runs, OPS, drop_zero)
    assert [column.type for column in merged.values] == [pa.int64(), pa.int64(), type_, type_, type_]
    kept = [row for run in runs for row in unlist(run)]
    assert listed(merged) == model(kept, drop_zero)


def unlist(run: Rows) -> list[Any]:
    return list(zip(run.keys.to_arrow().to_pylist(), *(column.to_pylist() for column in run.values)))


@settings(max_examples=150, deadline=None)
@given(
    batches=st.lists(
        st.lists(st.tuples(keys_strategy, st.floats(-1e9, 1e9), st.integers(-(2**127), 2**127 - 1)), max_size=12),
        min_size=1,
        max_size=4,
    )
)
def test_wide_sums(batches: list[list[tuple[bytes, float, int]]]) -> None:
    ops = [MergeOp.SUM_DD, MergeOp.SUM_I128, SUM]
    runs = []
    exact: dict[bytes, Fraction] = {}
    wide: dict[bytes, int] = {}
    scale: dict[bytes, float] = {}
    for batch in batches:
        for key, number, integer in batch:
            exact[key] = exact.get(key, Fraction(0)) + Fraction(number)
            wide[key] = wide.get(key, 0) + integer
            scale[key] = scale.get(key, 0.0) + abs(number)
        keys = Keys.from_arrow(pa.array([row[0] for row in batch], pa.large_binary()))
        numbers = pa.array([row[1] for row in batch], pa.float64())
        low = pa.array([wrap(row[2], 64) for row in batch], pa.int64())
        high = pa.array([row[2] >> 64 for row in batch], pa.int64())
        zeros = pa.array([0.0] * len(batch), pa.float64())
        runs.append(consolidate(keys, [numbers, zeros, low, high, numbers], ops, False))
    merged = merge(runs, ops, False)
    hi, lo, low, high, plain = (column.to_pylist() for column in merged.values)
    for i, key in enumerate(merged.keys.to_arrow().to_pylist()):
        assert abs(Fraction(hi[i]) + Fraction(lo[i]) - exact[key]) <= Fraction(scale[key]) * Fraction(1, 2**98)
        assert (high[i] << 64) + low[i] % 2**64 == wrap(wide[key], 128)
        assert plain[i] == pytest.approx(float(exact[key]), abs=1e-12 * (scale[key] + 1))
    assert len(merged) == len(exact)


def test_double_double_overflow_leaves_no_low_part() -> None:
    keys = Keys.from_arrow(pa.array([b"a", b"a", b"a", b"b", b"b"], pa.large_binary()))
    high = pa.array([1.5e308, 1.5e308, 1.0, math.inf, -math.inf])
    rows = consolidate(keys, [high, pa.array([0.0] * 5)], [MergeOp.SUM_DD], False)
    assert list(map(canonical, rows.values[0].to_pylist())) == [math.inf, "NaN"]
    assert rows.values[1].to_pylist() == [0.0, 0.0]


def test_float_sum_is_added_in_order_of_age() -> None:
    keys = Keys.from_arrow(pa.array([b"a"], pa.large_binary()))
    runs = [Rows(keys, (pa.array([x]),)) for x in (1e16, 1.0, -1e16)]
    assert merge(runs, [SUM], False).values[0].to_pylist() == [0.0]
    assert merge([runs[0], runs[2], runs[1]], [SUM], False).values[0].to_pylist() == [1.0]


@pytest.mark.parametrize("sizes", [(20_000, 20_000, 20_000), (60_000, 40), (40, 60_000, 40), (30_000, 1, 29_000)])
@pytest.mark.parametrize("spread", [2_000, 10**6, 2**62])
def test_merge_of_long_runs(sizes: tuple[int, ...], spread: int) -> None:
    """Long enough that even merges, galloping and skipping of constant bytes are all used."""
    random = np.random.default_rng(spread % 997 + len(sizes))
    layout = [KeyColumn(pa.int64())]
    runs, expected = [], {}
    for size in sizes:
        numbers = random.integers(0, spread, size)
        amounts = random.integers(-1, 2, size)
        keys = encode([pa.array(numbers)], layout, 1)
        run = consolidate(keys, [pa.array(amounts), pa.array(numbers)], [SUM, LAST], True)
        for key, amount in zip(run.keys.to_arrow().to_pylist(), run.values[0].to_pylist()):
            expected[key] = expected.get(key, 0) + amount
        runs.append(run)
    merged = merge(runs, [SUM, LAST], True)
    kept = sorted(key for key, amount in expected.items() if amount)
    assert merged.keys.to_arrow().to_pylist() == kept
    assert merged.values[0].to_pylist() == [expected[key] for key in kept]
    assert encode([merged.values[1]], layout, 1).to_arrow().to_pylist() == kept


def test_merge_of_runs_that_do_not_overlap() -> None:
    numbers = pa.array(range(1000))
    keys = encode([numbers], [KeyColumn(pa.int64())], 0)
    run = Rows(keys, (numbers,))
    merged = merge([run.slice(700, 1000), run.slice(0, 700)], [LAST], False)
    assert merged.values[0].to_pylist() == list(range(1000))


def test_empty_and_wrong_input() -> None:
    empty = Keys.empty()
    rows = consolidate(empty, [pa.array([], pa.int64()), pa.array([], pa.string())], [SUM, MAX], True)
    assert len(rows) == 0 and [c.type for c in rows.values] == [pa.int64(), pa.string()]
    assert len(merge([rows, rows], [SUM, MAX], True)) == 0
    one = Keys.from_arrow(pa.array([b"a"], pa.large_binary()))
    assert len(consolidate(one, [], [], False)) == 1
    with pytest.raises(ValueError, match="no runs"):
        merge([], [SUM], True)
    with pytest.raises(ValueError, match="NULL"):
        consolidate(one, [pa.array([None], pa.int64())], [SUM], False)
    with pytest.raises(TypeError, match="int32"):
        consolidate(one, [pa.array([1], pa.int32())], [SUM], False)
    with pytest.raises(ValueError, match="columns"):
        consolidate(one, [pa.array([1])], [MergeOp.SUM_I128], False)
    with pytest.raises(ValueError, match="weight"):
        consolidate(one, [pa.array([1])], [LAST], True)
