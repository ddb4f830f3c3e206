"""Ranges of rows that satisfy comparisons, against asking every row."""

from __future__ import annotations

import math
import random
from itertools import product
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tidemill.state.keys.keys import KeyColumn, encode, sort
from tidemill.state.lookup.key_ranges import FORMS, OPS, ByteBound, Probes, byte_ranges, number_ranges
from tidemill.state.merge.merge import Rows

INF, NAN = math.inf, math.nan
EDGES = [
    None,
    NAN,
    INF,
    -INF,
    -0.0,
    0.0,
    0.1,
    0.2,
    0.1 + 0.2,
    0.3,
    1.0,
    -1.0,
    1e16,
    1e16 + 2,
    1.7e308,
    -1.7e308,
    5e-324,
]
LAYOUT = [KeyColumn(pa.string()), KeyColumn(pa.float64())]
Condition = tuple[int, str, str, float]


def compare(a: float, op: str, b: float) -> bool:
    """Spark's order of doubles."""
    left, right = ((math.isnan(v), 0.0 if math.isnan(v) else v) for v in (a, b))
    return {"lt": left < right, "le": left <= right, "gt": left > right, "ge": left >= right}[op]


def satisfied(y: float | None, bounds: tuple[float | None, ...], conditions: list[Condition], any_of: bool) -> bool:
    found = []
    for which, form, op, limit in conditions:
        bound = bounds[which]
        if y is None or bound is None:
            found.append(False)
        elif form == "value":
            found.append(compare(y, op, bound))
        else:
            found.append(compare(y - bound if form == "value_minus_bound" else bound - y, op, limit))
    return any(found) if any_of else all(found)


def sorted_run(heads: list[str], ys: list[float | None]) -> tuple[Rows, list[tuple[str, float | None]]]:
    """A run with every head and y once, and its rows in order."""
    rows = list(dict.fromkeys((h, "NaN" if y is not None and math.isnan(y) else y) for h, y in zip(heads, ys)))
    pairs = [(h, NAN if y == "NaN" else y) for h, y in rows]
    keys = encode([pa.array([p[0] for p in pairs]), pa.array([p[1] for p in pairs], pa.float64())], LAYOUT, 1)
    order = sort(keys)
    return Rows(keys.take(order), ()), [pairs[i] for i in order.tolist()]


def random_probes(rng: random.Random, count: int) -> list[tuple[str, float | None, float | None]]:
    found = [(rng.choice(["", "a", "b", "zz"]), rng.choice(EDGES), rng.choice(EDGES)) for _ in range(count)]
    keys = encode([pa.array([f[0] for f in found])], LAYOUT[:1], 1)
    return [found[i] for i in sort(keys).tolist()]


def random_conditions(rng: random.Random, forms: tuple[str, ...]) -> list[Condition]:
    limits = [0.0, 0.1, -0.1, 2.0, INF, -INF, NAN, 1.7e308]
    return [
        (rng.randrange(2), rng.choice(forms), rng.choice(OPS), rng.choice(limits)) for _ in range(rng.randint(1, 4))
    ]


def check(
    lows: np.ndarray,
    highs: np.ndarray,
    rows: list[tuple[str, float | None]],
    probes: list[tuple[str, float | None, float | None]],
    conditions: list[Condition],
    any_of: bool,
) -> None:
    for p, (head, *bounds) in enumerate(probes):
        found = [r for low, high in zip(lows[:, p], highs[:, p]) for r in range(low, high)]
        wanted = [r for r, (h, y) in enumerate(rows) if h == head and satisfied(y, tuple(bounds), conditions, any_of)]
        assert sorted(found) == wanted, (probes[p], conditions, any_of, [rows[r] for r in found])


def run_and_probes(rng: random.Random) -> tuple[Rows, list[tuple[str, float | None]], Any, Probes]:
    ys = rng.sample(EDGES, rng.randint(1, len(EDGES))) + [rng.gauss(0, 1) for _ in range(rng.choice([0, 60]))]
    run, rows = sorted_run([rng.choice(["", "a", "b"]) for _ in ys], ys)
    probes = random_probes(rng, 40)
    return run, rows, probes, Probes.of(encode([pa.array([p[0] for p in probes])], LAYOUT[:1], 1))


@pytest.mark.parametrize("any_of", [False, True], ids=["all", "any"])
def test_by_numbers(any_of: bool, seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(60):
        run, rows, probes, heads = run_and_probes(rng)
        conditions = random_conditions(rng, FORMS)
        y = np.array([0.5 if r[1] is None else r[1] + 0.0 for r in rows])
        bounds = np.array([[0.5 if p[1 + c[0]] is None else p[1 + c[0]] for p in probes] for c in conditions])
        missing = np.array([[p[1 + c[0]] is None for p in probes] for c in conditions])
        found = number_ranges(run, y, heads, bounds, missing, [c[1:] for c in conditions], any_of)
        check(*found, rows, probes, conditions, any_of)


@pytest.mark.parametrize("any_of", [False, True], ids=["all", "any"])
def test_by_bytes(any_of: bool, seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(60):
        run, rows, probes, heads = run_and_probes(rng)
        conditions = random_conditions(rng, ("value",))
        bounds = []
        for at in (1, 2):
            columns = [pa.array([p[0] for p in probes]), pa.array([p[at] for p in probes], pa.float64())]
            bounds.append(ByteBound.of(encode(columns, LAYOUT, 1), np.array([p[at] is None for p in probes])))
        found = byte_ranges(run, heads, bounds, [(c[0], c[2]) for c in conditions], any_of)
        check(*found, rows, probes, conditions, any_of)


def test_one_condition_on_all_edges() -> None:
    """Every form, comparison, bound and limit of the edge cases against every y of them."""
    run, rows = sorted_run(["a"] * len(EDGES), list(EDGES))
    y = np.array([0.0 if r[1] is None else r[1] for r in rows])
    bounds = [e for e in EDGES if e is not None]
    heads = Probes.of(encode([pa.array(["a"] * len(bounds))], LAYOUT[:1], 1))
    given, missing = np.array([bounds]), np.zeros((1, len(bounds)), np.bool_)
    for form, op, limit in product(FORMS, OPS, bounds):
        found = number_ranges(run, y, heads, given, missing, [(form, op, limit)], False)
        check(*found, rows, [("a", b, None) for b in bounds], [(0, form, op, limit)], False)
