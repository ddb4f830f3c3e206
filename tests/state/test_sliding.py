"""Folds over sliding frames against Python over each frame on its own."""

from __future__ import annotations

import datetime
import itertools
import math
import random
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tidemill.schema import TIMESTAMP
from tidemill.state.folds.sliding import (
    order_words,
    range_ends,
    range_starts,
    slide_double_doubles,
    slide_extremes,
    slide_ints,
    slide_wide,
)
from tidemill.state.folds.sliding_quads import slide_quads

Bounds = list[tuple[int, int]]


def partitions(rng: random.Random, rows: int) -> Bounds:
    """First and last row of each of some partitions."""
    cuts = sorted({0, rows, *(rng.randrange(rows + 1) for _ in range(rng.randrange(5)))})
    return list(itertools.pairwise(cuts))


def frames(rng: random.Random, rows: int) -> Bounds:
    """Frames of every shape, each within its partition, that never go back."""
    found: Bounds = []
    for first, last in partitions(rng, rows):
        lower = rng.choice((None, *range(-4, 4)))
        upper = rng.choice((None, *range(-4 if lower is None else lower, 5)))
        for i in range(first, last):
            start = first if lower is None else min(max(i + lower, first), last)
            end = last if upper is None else min(max(i + upper + 1, first), last)
            found.append((min(start, end), end))
    return found


def arrays(bounds: Bounds) -> tuple[np.ndarray, np.ndarray]:
    return np.array([s for s, _ in bounds], np.int64), np.array([e for _, e in bounds], np.int64)


def wrapped(value: int, bits: int) -> int:
    return (value + 2 ** (bits - 1)) % 2**bits - 2 ** (bits - 1)


@pytest.mark.parametrize("rows", [0, 1, 2, 40])
def test_integer_sums_wrap_around(rows: int, seed: int) -> None:
    rng = random.Random(f"{seed} {rows}")
    for _ in range(50):
        values = [rng.choice((rng.randrange(-9, 9), rng.randrange(-(2**63), 2**63))) for _ in range(rows)]
        bounds = frames(rng, rows)
        found = slide_ints(np.array(values, np.int64), *arrays(bounds))
        assert found.tolist() == [wrapped(sum(values[s:e]), 64) for s, e in bounds]


@pytest.mark.parametrize("rows", [0, 1, 2, 40])
def test_wide_sums(rows: int, seed: int) -> None:
    rng = random.Random(f"{seed} {rows}")
    for _ in range(50):
        values = [rng.choice((rng.randrange(-9, 9), rng.randrange(-(2**127), 2**127))) for _ in range(rows)]
        low = np.array([wrapped(v, 64) for v in values], np.int64)
        high = np.array([v >> 64 for v in values], np.int64)
        bounds = frames(rng, rows)
        lows, highs = slide_wide(low, high, *arrays(bounds))
        found = [(h << 64) + (w % 2**64) for w, h in zip(lows.tolist(), highs.tolist(), strict=True)]
        assert found == [wrapped(sum(values[s:e]), 128) for s, e in bounds]


@pytest.mark.parametrize("rows", [0, 1, 2, 60])
def test_sums_of_doubles_are_rounded_once(rows: int, seed: int) -> None:
    """Also where a value that is 1e30 times the others has come and gone."""
    rng = random.Random(f"{seed} {rows}")
    for _ in range(50):
        values = [rng.choice((rng.uniform(-1, 1), 0.1, 1e30, -3e14, rng.uniform(-1e9, 1e9))) for _ in range(rows)]
        bounds = frames(rng, rows)
        high, low = slide_double_doubles(np.array(values, np.float64), np.zeros(rows), *arrays(bounds))
        for (start, end), h, w in zip(bounds, high.tolist(), low.tolist(), strict=True):
            exact = sum(map(Fraction, values[start:end]), Fraction(0))
            largest = max((abs(Fraction(v)) for v in values[start:end]), default=Fraction(0))
            assert abs(Fraction(h) + Fraction(w) - exact) <= largest * Fraction(rows, 2**100)
            assert largest > 1e20 or h == float(exact)


@pytest.mark.parametrize("rows", [0, 1, 2, 60])
def test_sums_of_quad_doubles(rows: int, seed: int) -> None:
    """Nothing is left of a value that is 1e50 times the others and has gone."""
    rng = random.Random(f"{seed} {rows}")
    for _ in range(50):
        values = [rng.choice((rng.uniform(-1, 1), 0.1, 1e50, -3e24, rng.uniform(-1e9, 1e9))) for _ in range(rows)]
        bounds = frames(rng, rows)
        quads = [np.array(values, np.float64), *(np.zeros(rows) for _ in range(3))]
        found = slide_quads(quads, *arrays(bounds))
        for (start, end), *terms in zip(bounds, *(f.tolist() for f in found), strict=True):
            exact = sum(map(Fraction, values[start:end]), Fraction(0))
            largest = max((abs(Fraction(v)) for v in values[start:end]), default=Fraction(0))
            assert abs(sum(map(Fraction, terms)) - exact) <= largest * Fraction(rows, 2**210)


def text(rng: random.Random) -> str:
    return rng.choice(("", "a", "ab", "b", "é", "日本", "a" * 20, "a" * 19 + "b"))


VALUES: dict[str, tuple[pa.DataType, Callable[[random.Random], Any]]] = {
    "int": (pa.int32(), lambda rng: rng.randrange(-5, 5)),
    "bool": (pa.bool_(), lambda rng: rng.random() < 0.5),
    "double": (pa.float64(), lambda rng: rng.choice((math.nan, math.inf, -math.inf, 0.0, 1.5, -2.25))),
    "decimal": (pa.decimal128(38, 2), lambda rng: Decimal(rng.choice((-1, 1)) * rng.choice((1, 10**30, 7))) / 100),
    "string": (pa.string(), text),
    "timestamp": (TIMESTAMP, lambda rng: datetime.datetime(2020, 1, rng.randrange(1, 9), tzinfo=datetime.UTC)),
}


def place(value: Any) -> Any:
    """Spark's order: NaN is the greatest float, strings are compared as bytes."""
    if isinstance(value, float):
        return (math.isnan(value), 0.0 if math.isnan(value) else value)
    return value.encode() if isinstance(value, str) else value


@pytest.mark.parametrize("name", VALUES)
def test_extremes(name: str, seed: int) -> None:
    type_, draw = VALUES[name]
    rng = random.Random(f"{seed} {name}")
    for _ in range(60):
        rows = rng.randrange(30)
        values = [None if rng.random() < 0.3 else draw(rng) for _ in range(rows)]
        array = pa.array([None, *values], type_).slice(1)
        bounds = frames(rng, rows)
        for largest in (False, True):
            found = slide_extremes(array, *arrays(bounds), largest)
            for (start, end), row in zip(bounds, found.tolist(), strict=True):
                present = [i for i in range(start, end) if values[i] is not None]
                best = (max if largest else min)(present, key=lambda i: place(values[i]), default=-1)
                assert row == best, (values, start, end)
            found = slide_extremes(array, *arrays(bounds), largest, latest=True)
            for (start, end), row in zip(bounds, found.tolist(), strict=True):
                present = [i for i in range(end - 1, start - 1, -1) if values[i] is not None]
                best = (max if largest else min)(present, key=lambda i: place(values[i]), default=-1)
                assert row == best, (values, start, end)


@pytest.mark.parametrize("name", VALUES)
def test_words_order_like_values(name: str, seed: int) -> None:
    type_, draw = VALUES[name]
    rng = random.Random(f"{seed} {name}")
    values = [draw(rng) for _ in range(50)]
    high, low = order_words(pa.array(values, type_))
    words = list(zip(high.tolist(), low.tolist(), strict=True))
    for a, x in zip(values, words, strict=True):
        for b, y in zip(values, words, strict=True):
            assert (x < y) == (place(a) < place(b)) and (x == y) == (place(a) == place(b)), (a, b)


def test_range_frames(seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(200):
        rows = rng.randrange(30)
        bounds = partitions(rng, rows)
        keys = [
            k
            for first, last in bounds
            for k in sorted((rng.randrange(-1, 2), rng.randrange(9)) for _ in range(last - first))
        ]
        keys = [(c, v if c == 0 else 0) for c, v in keys]
        firsts, lasts = (np.array([b[end] for b in bounds for _ in range(b[1] - b[0])], np.int64) for end in (0, 1))

        def words(found: list[tuple[int, int]]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
            high = np.array([v for _, v in found], np.uint64)
            return np.array([c for c, _ in found], np.int64), np.zeros(len(found), np.uint64), high

        offset, width = rng.randrange(4), rng.randrange(4)
        upper = [(c, v + offset + width) if c == 0 else (c, v) for c, v in keys]
        lower = [(c, v + offset) if c == 0 else (c, v) for c, v in keys]
        ends = range_ends(firsts, lasts, *words(keys), *words(upper))
        starts = range_starts(firsts, ends, *words(keys), *words(lower))
        for i in range(rows):
            inside = [j for j in range(firsts[i], lasts[i]) if lower[i] <= keys[j] <= upper[i]]
            assert list(range(starts[i], ends[i])) == inside
