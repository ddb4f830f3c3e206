"""Aggregates of all values of a frame against the scalar twin, frame by frame."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from group_values_reference import scalar

from tidemill.task.aggregates.accumulators import Accumulator
from tidemill.task.windows.groups import of_frames

PERCENTAGES = (("descending", False), ("many", False), ("percentages", (0.4,)))
MANY = (("descending", True), ("many", True), ("percentages", (0.0, 0.3, 1.0)))
KINDS = [
    Accumulator("collect_list", 0, recomputed=True),
    Accumulator("collect_set", 0, recomputed=True),
    Accumulator("percentile", 0, recomputed=True, options=PERCENTAGES),
    Accumulator("percentile_disc", 0, recomputed=True, options=MANY),
    Accumulator("mode", 0, recomputed=True, options=(("descending", True),)),
    *(Accumulator(kind, 0, recomputed=True) for kind in ("bit_and", "bit_or", "bit_xor")),
]


@pytest.mark.parametrize("pairs", [1, 7, 1 << 20])
@pytest.mark.parametrize("accumulator", KINDS, ids=lambda a: a.kind)
def test_frames(accumulator: Accumulator, pairs: int, seed: int) -> None:
    rng = random.Random(f"{seed} {accumulator} {pairs}")
    for _ in range(40):
        rows = rng.randrange(25)
        values = [None if rng.random() < 0.3 else rng.randrange(-6, 6) for _ in range(rows)]
        ends = sorted(rng.randrange(rows + 1) for _ in range(rows))
        starts = sorted(rng.randrange(rows + 1) for _ in range(rows))
        bounds = [(min(s, e), e) for s, e in zip(starts, ends, strict=True)]
        given = np.array([s for s, _ in bounds], np.int64), np.array(ends, np.int64)
        type_ = pa.float64() if accumulator.kind.startswith("percentile") else pa.int64()
        found = of_frames(accumulator, pa.array(values, type_), *given, pairs=pairs)
        for (start, end), result in zip(bounds, found.to_pylist(), strict=True):
            present: list[Any] = [v for v in values[start:end] if v is not None]
            if accumulator.kind != "collect_list":
                present.sort()
            assert result == scalar(accumulator, present), (values, start, end)


def test_equal_frames_are_computed_once() -> None:
    """A function of the whole partition of 20,000 rows would otherwise look at 400 million pairs."""
    rows = 20_000
    values = pa.array(np.arange(rows) % 7)
    whole = np.zeros(rows, np.int64), np.full(rows, rows, np.int64)
    found = of_frames(KINDS[1], values, *whole)
    assert found.slice(rows - 1).to_pylist() == [list(range(7))] and len(found) == rows
