"""Totals over ranges of runs, against adding up the rows in exact fractions."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

from tidemill.state.keys.keys import KeyColumn, encode
from tidemill.state.merge.merge import MergeOp, Rows
from tidemill.state.runs import derived
from tidemill.state.runs.prefix_sums import RangeTotals

TYPES = [pa.int64(), pa.float64(), pa.float64(), pa.int64(), pa.int64(), pa.float64()]
COLUMNS = [(MergeOp.SUM, 0), (MergeOp.SUM_DD, 1), (MergeOp.SUM_I128, 3), (MergeOp.SUM, 5)]
FLOATS = [0.0, -0.0, 0.1, -3.5, 1e17, -1e17, 5e-324, 1e-300]
GREAT = [*FLOATS, 1e300, -1e300, 1.7e308]


def random_run(rng: random.Random, rows: int, floats: list[float]) -> Rows:
    keys = encode([pa.array(range(rows), pa.int64())], [KeyColumn(pa.int64())], 0)
    ints = [pa.array([rng.choice([0, 1, -1, 2**63 - 1, -(2**63), rng.randrange(99)]) for _ in range(rows)])] * 3
    high = [rng.choice(floats) for _ in range(rows)]
    low = [h * rng.choice([0.0, 1e-17, -3e-18]) for h in high]
    plain = [rng.choice([*floats, math.nan, math.inf, -math.inf]) for _ in range(rows)]
    doubles = [pa.array(c, pa.float64()) for c in (high, low, plain)]
    return Rows(keys, (ints[0].cast(pa.int64()), *doubles[:2], ints[1].cast(pa.int64()), ints[2], doubles[2]))


def random_ranges(rng: random.Random, rows: int, probes: int) -> tuple[np.ndarray, np.ndarray]:
    """Two disjoint ranges a probe; some empty or turned around."""
    cuts = [sorted(rng.randint(0, rows) for _ in range(4)) for _ in range(probes)]
    lows, highs = ([[c[0], c[2]] for c in cuts], [[c[1], c[3]] for c in cuts])
    for low, high in zip(lows, highs):
        if rng.random() < 0.2:
            low[0], high[0] = high[0], low[0]
    return np.array(lows).T.copy(), np.array(highs).T.copy()


def rows_of(lows: np.ndarray, highs: np.ndarray, probe: int) -> list[int]:
    return [r for low, high in zip(lows[:, probe], highs[:, probe]) for r in range(low, high)]


@pytest.mark.parametrize("make", [lambda n: n, lambda n: n * 40], ids=["small", "large"])
@pytest.mark.parametrize("floats", [FLOATS, GREAT], ids=["moderate", "great"])
def test_random_runs(make: Callable[[int], int], floats: list[float], seed: int) -> None:
    rng = random.Random(seed)
    runs = [random_run(rng, make(rng.choice([0, 1, 15, 16, 17, 300])), floats) for _ in range(3)]
    probes = 40
    totals = RangeTotals(COLUMNS, TYPES, probes)
    chosen = []
    for run in runs:
        lows, highs = random_ranges(rng, len(run), probes)
        totals.add(run, lows, highs)
        chosen.append((run, lows, highs))
    (ints,), (high, low), (wide_low, wide_high), exact = totals.totals
    for p in range(probes):
        found = [[c[r].as_py() for c in run.values] for run, lows, highs in chosen for r in rows_of(lows, highs, p)]
        assert (int(ints[p]) - sum(v[0] for v in found)) % 2**64 == 0
        wide = (int(wide_low[p]) % 2**64) + 2**64 * int(wide_high[p])
        assert (wide - sum(v[3] % 2**64 + 2**64 * v[4] for v in found)) % 2**128 == 0
        pairs = [Fraction(v[1]) + Fraction(v[2]) for v in found]
        if sum(map(abs, pairs)) < Fraction(2) ** 1023:
            check(Fraction(float(high[p])) + Fraction(float(low[p])), pairs)
        plain = [v[5] for v in found]
        high_, low_, units, rest = (Fraction(float(part[p])) for part in exact[:4])
        check(high_ + low_ + 2**100 * (units + rest), [Fraction(x) for x in plain if math.isfinite(x)])
        counts = sum(map(math.isnan, plain)), plain.count(math.inf), plain.count(-math.inf)
        assert (exact[4][p], exact[5][p], exact[6][p]) == counts


def check(total: Fraction, values: list[Fraction]) -> None:
    """Only what is within the range may add to the error."""
    assert abs(total - sum(values)) <= sum(map(abs, values), Fraction(0)) / 2**60


def test_a_column_of_zeros_and_no_rows() -> None:
    run = random_run(random.Random(1), 5, [0.0])
    run = replace(run, values=(pa.array([0] * 5, pa.int64()), *run.values[1:]))
    totals = RangeTotals(COLUMNS[:2], TYPES, 1)
    totals.add(run, np.array([[0]]), np.array([[5]]))
    totals.add(run.slice(0, 0), np.array([[0]]), np.array([[0]]))
    assert [t.tolist() for total in totals.totals for t in total] == [[0], [0.0], [0.0]]


def test_what_is_kept_is_bound_to_where_the_rows_lie(monkeypatch: pytest.MonkeyPatch) -> None:
    derived.forget()
    made: list[str] = []

    def make(name: str, size: int = 10) -> Callable[[], derived.Arrays]:
        return lambda: (made.append(name), (np.full(size, ord(name)),))[1]  # type: ignore[func-returns-value]

    run = random_run(random.Random(1), 20, FLOATS)
    first, second = (replace(run, origin=("file", 0, *rows)) for rows in ((0, 10), (10, 20)))
    assert derived.derived(first, "x", make("a"))[0][0] == ord("a")
    assert derived.derived(replace(first), "x", make("b"))[0][0] == ord("a")
    assert derived.derived(second, "x", make("c"))[0][0] == ord("c")
    assert derived.derived(first, "y", make("d"))[0][0] == ord("d")
    for _ in range(2):
        derived.derived(run, "x", make("e"))
    assert made == list("acdee"), "rows in memory are kept for no one"
    assert derived.kept_bytes() == 240
    derived.derived(first, "x", make("f"))
    monkeypatch.setattr(derived, "LIMIT", 170)
    derived.derived(first, "z", make("g"))
    assert derived.kept_bytes() == 160, "the oldest go: (second, x) and (first, y)"
    assert derived.derived(first, "x", make("h"))[0][0] == ord("a")
    derived.derived(first, "big", make("i", 100))
    assert derived.kept_bytes() == 800
    derived.forget()
    assert derived.kept_bytes() == 0


def test_part_of_a_run_has_no_origin() -> None:
    run = replace(random_run(random.Random(1), 20, FLOATS), origin=("file", 0, 0, 20))
    assert run.slice(2, 5).origin is None
    assert run.take(np.array([1, 2])).origin is None
