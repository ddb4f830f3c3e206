"""Grouping by columns whose values have numbers, against a dictionary."""

from __future__ import annotations

import datetime
import decimal
import random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tidemill.state.keys.column_groups import group_columns

GREATEST = (1 << 63) - 1
TYPES = (pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.date32(), pa.timestamp("us"), pa.timestamp("us", "UTC"))


def groups_of(columns: list[list[Any]]) -> tuple[list[int], list[int]]:
    """Group of each row by first appearance, and first row of each group."""
    numbers: dict[tuple[Any, ...], int] = {}
    firsts: list[int] = []
    ids = []
    for row, values in enumerate(zip(*columns, strict=True)):
        if values not in numbers:
            numbers[values] = len(firsts)
            firsts.append(row)
        ids.append(numbers[values])
    return ids, firsts


def check(columns: list[pa.Array[Any]]) -> bool:
    """Compare; returns whether there are numbers for the rows."""
    found = group_columns(columns)
    if found is None:
        return False
    expected = groups_of([c.to_pylist() for c in columns])
    assert ([*map(int, found[0])], [*map(int, found[1])]) == expected
    return True


def random_column(chance: random.Random, rows: int) -> pa.Array[Any]:
    """Values of a type, from a range that is narrow or as wide as the type."""
    if chance.random() < 0.3:
        return random_names(chance, rows)
    kind = chance.choice(TYPES)
    if kind == pa.date32():
        days = [chance.randrange(-chance.choice((3, 100_000)), 40_000) for _ in range(rows)]
        values: list[Any] = [datetime.date(1970, 1, 1) + datetime.timedelta(d) for d in days]
    else:
        most = 1 << (kind.bit_width - 1)
        low = -most if chance.random() < 0.3 else chance.randrange(-most, most)
        width = min(chance.choice((1, 2, 50, 3000, 1 << 40, 1 << 64)), most - low)
        values = [low + chance.randrange(width) for _ in range(rows)]
        if pa.types.is_timestamp(kind):
            values = [v % (1 << 50) for v in values]
    nulls = chance.choice((0.0, 0.0, 0.1, 1.0))
    array = pa.array([None if chance.random() < nulls else v for v in values], None if values else kind)
    return array.cast(kind) if array.type != kind else array


def random_names(chance: random.Random, rows: int) -> pa.Array[Any]:
    """Texts, bytes, decimals or truths."""
    kind = chance.choice((pa.string(), pa.large_string(), pa.binary(), pa.decimal128(20, 3), pa.bool_()))
    some = [chance.randrange(chance.choice((2, 20, 10_000))) for _ in range(rows)]
    if kind == pa.bool_():
        values: list[Any] = [v % 2 == 0 for v in some]
    elif kind == pa.decimal128(20, 3):
        values = [decimal.Decimal(v - 7) / 8 for v in some]
    else:
        texts = ["" if v == 1 else f"{v}" * (v % 5 + 1) for v in some]
        values = [t.encode() for t in texts] if kind == pa.binary() else texts
    return pa.array([None if chance.random() < 0.1 else v for v in values], kind)


def test_random_columns(seed: int) -> None:
    chance = random.Random(seed)
    numbered = 0
    for _ in range(80):
        rows = chance.choice((512, 1500, 5000))
        columns = [random_column(chance, rows) for _ in range(chance.choice((1, 1, 2, 3)))]
        cut = chance.randrange(1, 300)
        if chance.random() < 0.3:
            columns = [pa.concat_arrays([c.slice(cut), c, c])[chance.randrange(cut) :] for c in columns]
            columns = [c[len(c) - min(map(len, columns)) :] for c in columns]
        numbered += check(columns)
    assert numbered > 40


@pytest.mark.parametrize("spread", [1, 7, 1 << 33, 6_364_136_223_846_793_005])
@pytest.mark.parametrize("groups", [1, 10, 4000, 90_000])
def test_tables_that_grow(spread: int, groups: int, seed: int) -> None:
    numbers = np.random.default_rng(seed).integers(0, groups, 100_000)
    with np.errstate(over="ignore"):
        assert check([pa.array(numbers * np.int64(spread))])


def test_ends_of_the_range() -> None:
    ends = [-GREATEST - 1, GREATEST, 0, -1] * 300
    assert check([pa.array(ends)])
    assert group_columns([pa.array([*ends, None])]) is None, "no number is left for NULL"
    assert check([pa.array([*[v - 1 for v in ends if v > 0], None] * 4)])
    assert check([pa.array([None] * 1200, pa.int64())])
    assert group_columns([pa.array(ends), pa.array([1] * 1200)]) is None
    assert check([pa.array([1] * 1200), pa.array([0, GREATEST // 4] * 600)])


def test_what_has_no_numbers() -> None:
    for values in ([1.5] * 2000, [[1]] * 2000):
        assert group_columns([pa.array(values)]) is None
        assert group_columns([pa.array([1] * 2000), pa.array(values)]) is None
    assert group_columns([pa.array([1, 2])]) is None, "a few rows"
    for array in (pa.array(["a"] * 2000), pa.array([decimal.Decimal(1)] * 2000)):
        assert group_columns([array], dictionaries=False) is None
    assert group_columns([pa.array([True] * 2000)], dictionaries=False) is not None
