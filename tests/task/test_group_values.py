"""Functions of all values of a group, against one group in plain Python."""

from __future__ import annotations

import itertools
import math
import random
from decimal import Decimal
from functools import partial

import numpy as np
import pyarrow as pa
import pytest
from group_values_reference import scalar

from tidemill.errors import EvaluationError
from tidemill.task.aggregates.accumulators import Accumulator, Part
from tidemill.task.aggregates.group_values import of_group, of_large_group
from tidemill.task.functions.columns import sizes

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
    _percentile("percentile_approx", _ASCENDING, True, 0.0, 0.4, 1.0),
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


def in_parts(rng: random.Random, values: pa.Array, weights: np.ndarray) -> list[Part]:
    """The values of a group cut at random places; no part is empty."""
    cuts = sorted({0, len(values), *(rng.randrange(len(values) + 1) for _ in range(rng.randrange(4)))})
    return [(values.slice(low, high - low), weights[low:high]) for low, high in itertools.pairwise(cuts)]


@pytest.mark.parametrize("number", range(len(ACCUMULATORS)))
def test_a_group_read_in_parts_equals_one_in_python(number: int, seed: int) -> None:
    accumulator = ACCUMULATORS[number]
    rng = random.Random(seed)
    for _ in range(100):
        group = sorted(rng.choices(range(-6, 7), k=rng.choice((0, 1, 2, 9, 30))))
        different = sorted(set(group))
        weights = np.array([group.count(v) for v in different], np.int64)
        parts = in_parts(rng, pa.array(different, pa.int32()), weights)
        found = of_large_group(accumulator, pa.int32(), partial(iter, parts))
        assert found.to_pylist() == [scalar(accumulator, list(group))]


def test_a_product_and_frequencies_read_in_parts(seed: int) -> None:
    rng = random.Random(seed)
    half = _percentile("percentile", _ASCENDING, True, 0.0, 0.5, 0.8)
    product, zeros = Accumulator("product", 0, False, True), np.zeros(8, np.int64)
    type_ = pa.struct([("value", pa.float64()), ("frequency", pa.int64())])
    pairs = sorted({(float(rng.randrange(9)), rng.randrange(3)) for _ in range(8)})
    values, weights = pa.array([{"value": v, "frequency": f} for v, f in pairs], type_), np.ones(len(pairs), np.int64)
    parts = in_parts(rng, values, weights)
    expected = of_group(half, zeros[: len(pairs)], values, weights, 1)
    assert of_large_group(half, type_, partial(iter, parts)).to_pylist() == expected.to_pylist()
    numbers, weights = pa.array([0.5, 1.5, 2.0, 3.0]), np.array([1, 2, 1, 3])
    parts = in_parts(rng, numbers, weights)
    assert of_large_group(product, pa.float64(), partial(iter, parts)).to_pylist() == [0.5 * 1.5**2 * 2 * 27]


def test_a_list_that_is_too_large_is_not_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sizes, "_most", 1000)
    listed, first = Accumulator("collect_list", 0, False, True), (("descending", (False,)), ("nulls_last", (False,)))
    values, ids = pa.array([1, 2, 3], pa.int64()), np.zeros(3, np.int64)
    for weights, fits in ((np.array([1, 1, 1]), True), (np.array([1, 10**12, 1]), False)):
        parts = [(values.slice(i, 1), weights[i : i + 1]) for i in range(3)]
        if fits:
            assert of_large_group(listed, pa.int64(), partial(iter, parts)).to_pylist() == [[1, 2, 3]]
            continue
        with pytest.raises(sizes.TooLargeError, match="TM3020"):
            of_group(listed, ids, values, weights, 1)
        with pytest.raises(sizes.TooLargeError, match="TM3020"):
            of_large_group(listed, pa.int64(), partial(iter, parts))
        limited = Accumulator("ordered_list", 0, False, True, (), (*first, ("limit", 2)))
        rows = pa.StructArray.from_arrays([values, values], ["a", "b"])
        parts = [(rows.slice(i, 1), weights[i : i + 1]) for i in range(3)]
        assert of_large_group(limited, rows.type, partial(iter, parts)).to_pylist() == [[1, 2]]
        assert of_group(limited, ids, rows, weights, 1).to_pylist() == [[1, 2]]


@pytest.mark.parametrize("limit", [0, 1, 3])
def test_ordered_lists_equal_sorting_in_python(limit: int, seed: int) -> None:
    rng = random.Random(seed)
    type_ = pa.struct([("a", pa.int32()), ("b", pa.string()), ("value", pa.string())])
    for _ in range(40):
        flags = tuple(tuple(rng.random() < 0.5 for _ in range(2)) for _ in range(2))
        options = (("descending", flags[0]), ("limit", limit), ("nulls_last", flags[1]))
        accumulator = Accumulator("ordered_list", 0, rng.random() < 0.2, True, (), options)
        rows = [
            (group, (rng.choice((None, 1, 2)), rng.choice((None, "x", "y")), rng.choice("pqr")), rng.randrange(1, 3))
            for group in range(4)
            for _ in range(rng.choice((0, 1, 6)))
        ]
        counted = {(group, row): count for group, row, count in rows}
        ordered = sorted(counted, key=lambda k: (k[0], [(v is not None, v or 0) for v in k[1][:1]],
                                                 [(v is not None, v or "") for v in k[1][1:]]))  # fmt: skip
        found = of_group(
            accumulator,
            np.array([group for group, _ in ordered], np.int64),
            pa.array([dict(zip(("a", "b", "value"), row, strict=True)) for _, row in ordered], type_),
            np.array([counted[k] for k in ordered], np.int64),
            4,
        )
        for group in range(4):
            mine = [i for i, (g, _) in enumerate(ordered) if g == group]
            rows_of = pa.array([dict(zip(("a", "b", "value"), ordered[i][1], strict=True)) for i in mine], type_)
            parts = in_parts(rng, rows_of, np.array([counted[ordered[i]] for i in mine], np.int64))
            assert of_large_group(accumulator, type_, partial(iter, parts))[0].as_py() == found[group].as_py()
            values = [
                dict(zip(("a", "b", "value"), row, strict=True))
                for g, row in ordered
                if g == group
                for _ in range(1 if accumulator.distinct else counted[g, row])
            ]
            assert (found[group].as_py() or None) == scalar(accumulator, values)


def test_products() -> None:
    product = Accumulator("product", 0, False, True)
    ids, weights = np.array([0, 0, 2], np.int64), np.array([2, 1, 1], np.int64)
    found = of_group(product, ids, pa.array([-3.0, 0.5, math.inf]), weights, 3)
    assert found.to_pylist() == [4.5, None, math.inf]


def test_percentiles_of_dates_decimals_and_large_integers() -> None:
    ids, weights = np.zeros(3, np.int64), np.ones(3, np.int64)
    ends = _percentile("percentile_approx", _ASCENDING, True, 0.0, 0.5, 1.0)
    for values in (
        pa.array([1, 2, 3], pa.int32()).cast(pa.date32()),
        pa.array([Decimal("1.10"), Decimal("2.20"), Decimal("9.99")], pa.decimal128(10, 2)),
        pa.array([-5, 7, 2**63 - 1], pa.int64()),
    ):
        assert of_group(ends, ids, values, weights, 1)[0].as_py() == values.to_pylist()


def test_frequencies_count_and_must_not_be_negative() -> None:
    type_ = pa.struct([("value", pa.float64()), ("frequency", pa.int64())])
    half = _percentile("percentile", _ASCENDING, False, 0.5)

    def found(*pairs: tuple[float, int]) -> list[float | None]:
        values = pa.array([{"value": v, "frequency": f} for v, f in pairs], type_)
        return of_group(half, np.zeros(len(pairs), np.int64), values, np.ones(len(pairs), np.int64), 1).to_pylist()

    assert found((1.0, 2), (3.0, 0), (7.0, 1)) == [1.0]
    assert found((1.0, 0), (3.0, 0)) == [None]
    with pytest.raises(EvaluationError, match="TM3004"):
        found((1.0, -1))


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
