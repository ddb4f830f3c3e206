"""``histogram_numeric``: its bins are those of the algorithm, and of Spark over sorted rows in one partition."""

from __future__ import annotations

import itertools
import math
import random

import pyarrow as pa
from pyspark.sql import SparkSession

from tidemill.task.expressions import Call, Ref
from tidemill.task.functions.evaluate import evaluate

BINS = pa.list_(pa.struct([pa.field("x", pa.float64()), pa.field("y", pa.float64())]))


class JavaRandom:
    """``java.util.Random``."""

    def __init__(self, seed: int) -> None:
        self._state = (seed ^ 0x5DEECE66D) % 2**48

    def _bits(self, count: int) -> int:
        self._state = (self._state * 0x5DEECE66D + 0xB) % 2**48
        return self._state >> (48 - count)

    def double(self) -> float:
        return ((self._bits(26) << 27) + self._bits(27)) * 2.0**-53


def model(values: list[float], most: int) -> list[dict[str, float]]:
    """The algorithm as the paper has it, with Spark's way to choose among equally close bins."""
    chance, bins = JavaRandom(31183), list[list[float]]()
    for value in values:
        place = next((i for i, (x, _) in enumerate(bins) if x >= value), len(bins))
        if place < len(bins) and bins[place][0] == value:
            bins[place][1] += 1
            continue
        bins.insert(place, [value, 1.0])
        if len(bins) <= most:
            continue
        gaps = [right[0] - left[0] for left, right in itertools.pairwise(bins)]
        at, ties = 0, 1
        for i, gap in enumerate(gaps[1:], 1):
            if gap < gaps[at]:
                at, ties = i, 1
            elif gap == gaps[at]:
                ties += 1
                at = i if chance.double() <= 1 / ties else at
        (x, y), (x2, y2) = bins[at : at + 2]
        bins[at : at + 2] = [[x * (y / (y + y2)) + x2 / (y + y2) * y2, y + y2]]
    return [{"x": x, "y": y} for x, y in bins]


def groups_of(chance: random.Random) -> list[list[float]]:
    """Ascending values: far apart, with many equal gaps, with many equal values, and special ones."""
    found = []
    for number in range(40):
        size = chance.randrange(0, 90)
        draw = (
            lambda: chance.gauss(0, 3),
            lambda: float(chance.randrange(60)),
            lambda: chance.randrange(9) / 2,
            lambda: chance.choice((math.inf, -math.inf, math.nan, -0.0, 0.0, chance.gauss(0, 1e300))),
        )
        found.append(sorted((draw[number % 4]() for _ in range(size)), key=lambda v: (math.isnan(v), v)))
    return found


def test_bins_are_those_of_the_model_and_of_spark(oracle: SparkSession, seed: int) -> None:
    groups = groups_of(random.Random(seed))
    batch = pa.RecordBatch.from_arrays([pa.array([*groups, None], pa.list_(pa.float64()))], names=["v"])
    rows = pa.table({"g": [g for g, v in enumerate(groups) for _ in v], "x": [x for v in groups for x in v]})
    oracle.createDataFrame(rows).coalesce(1).createOrReplaceTempView("sorted_rows")
    for most in (2, 5, 20):
        call = Call("histogram_bins", (Ref(0, batch.column(0).type),), BINS, True, (("bins", most),))
        found = evaluate(call, batch).to_pylist()
        for values, bins in zip([*groups, []], found, strict=True):
            if all(map(math.isfinite, values)):  # what infinities make of centres, NaN, has no place among the others
                assert bins == (model(values, most) if values else None)
        answers = oracle.sql(f"SELECT g, histogram_numeric(x, {most}) AS h FROM sorted_rows GROUP BY g").toArrow()
        expected = dict(zip(answers["g"].to_pylist(), answers["h"].to_pylist(), strict=True))
        there = {g: h for g, h in enumerate(found) if h is not None}
        assert repr(there) == repr(dict(sorted(expected.items())))  # NaN does not equal itself
