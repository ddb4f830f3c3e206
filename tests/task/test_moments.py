"""Variance and its like through groups and deletes, against the standard library's exact arithmetic."""

from __future__ import annotations

import math
import random
import statistics

import pyarrow as pa
import pytest
from operator_runs import changes, keyed, run

from tidemill.state.keys.keys import KeyColumn
from tidemill.task.aggregates.accumulators import Accumulator, AggregateLayout, Result
from tidemill.task.build import build
from tidemill.task.program import GroupChanges, GroupPartial, StateTable
from tidemill.testing import MemoryContext, delta

INT, DOUBLE = pa.int64(), pa.float64()
FUNCTIONS = ("var_samp", "var_pop", "stddev_samp", "stddev_pop", "skewness", "kurtosis")
TYPES = (INT, DOUBLE)


def _grouping() -> GroupPartial:
    kinds = ("moments2", "moments3", "moments4")
    accumulators = (Accumulator("rows"), Accumulator("count", 1), *(Accumulator(k, 1) for k in kinds))
    at = {"skewness": 3, "kurtosis": 4}
    results = tuple(Result(f, DOUBLE, DOUBLE, at.get(f, 2), 1) for f in FUNCTIONS)
    layout = AggregateLayout(accumulators, results, ())
    groups = StateTable("groups", (KeyColumn(INT),), 1, layout.value_types(TYPES), layout.merge_ops())
    return GroupPartial((0,), layout, TYPES, groups, ())


MOMENTS = _grouping()


def _after(*epochs: str) -> tuple[object, ...] | None:
    """The one row after some epochs, without its group."""
    operator, context = build(0, GroupChanges(MOMENTS, True)), MemoryContext()
    total: dict[tuple[object, ...], int] = {}
    for epoch in epochs:
        for row, weight in changes(run(operator, context, keyed(MOMENTS, delta(epoch, *TYPES)))).items():
            total[row] = total.get(row, 0) + weight
    rows = [row for row, weight in total.items() if weight]
    assert len(rows) <= 1
    return rows[0][1:] if rows else None


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ("+ 1 NULL", (None,) * 6),
        ("+ 1 5", (None, 0.0, None, 0.0, None, None)),
        ("+3 1 0.1", (0.0, 0.0, 0.0, 0.0, None, None)),
        ("+ 1 inf", (None, "NaN", None, "NaN", "NaN", "NaN")),
        ("+ 1 nan | + 1 2", ("NaN",) * 6),
        ("+ 1 inf | + 1 -inf | + 1 1", ("NaN",) * 6),
        ("+ 1 1e200", (None, 0.0, None, 0.0, None, None)),
        ("+ 1 1e200 | + 1 1", (math.inf, math.inf, math.inf, math.inf, "NaN", "NaN")),
    ],
)
def test_edges_are_those_of_spark(rows: str, expected: tuple[object, ...]) -> None:
    assert _after(rows) == expected


def test_what_was_special_can_be_deleted() -> None:
    expected = _after("+ 1 1 | + 1 2 | + 1 4")
    assert _after("+ 1 1 | + 1 nan | + 1 1e300", "+ 1 2 | + 1 inf", "- 1 nan | - 1 1e300 | + 1 4 | - 1 inf") == expected
    assert _after("+ 1 1", "- 1 1") is None
    assert _after("+ 1 7", "- 1 7", "+ 1 1 | + 1 2 | + 1 4") == expected


def test_far_from_zero_after_many_deletes(seed: int) -> None:
    rng = random.Random(seed)
    live: list[float] = []
    epochs = []
    for _ in range(12):
        come = [1e9 + rng.random() for _ in range(10)] + [rng.uniform(-1e12, 1e12)]
        gone = [live.pop(rng.randrange(len(live))) for _ in range(min(len(live), 7))]
        live += come
        epochs.append(" | ".join([f"+ 1 {v!r}" for v in come] + [f"- 1 {v!r}" for v in gone]))
    outliers = [v for v in live if abs(v - 1e9) > 2]
    live = [v for v in live if abs(v - 1e9) <= 2]
    found = _after(*epochs, " | ".join(f"- 1 {v!r}" for v in outliers) or "+ 1 NULL")
    assert found is not None
    expected = [f(live) for f in (statistics.variance, statistics.pvariance, statistics.stdev, statistics.pstdev)]
    assert found[:4] == pytest.approx(expected, rel=1e-12)
    mean, n = statistics.mean(live), len(live)
    second = statistics.pvariance(live)
    third, fourth = (math.fsum((v - mean) ** p for v in live) / n for p in (3, 4))
    assert found[4] == pytest.approx(third / second**1.5, abs=1e-5)
    assert found[5] == pytest.approx(fourth / second**2 - 3, abs=1e-5)
