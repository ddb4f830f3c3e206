"""Timestamps as text: few texts for many rows, against Python's own."""

from __future__ import annotations

import datetime
import random
from unittest import mock

import pyarrow as pa
import pytest

from tidemill.task.functions.columns.registry import apply
from tidemill.task.functions.times import date_patterns

EPOCH = datetime.datetime(1970, 1, 1)
PATTERNS = {
    "yyyy-MM-dd": lambda t: t.strftime("%Y-%m-%d"),
    "HH:mm": lambda t: t.strftime("%H:%M"),
    "d MMMM yyyy, hh a": lambda t: f"{t.day} {t.strftime('%B %Y, %I %p')}",
    "EEE 'at' H'h'": lambda t: f"{t.strftime('%a')} at {t.hour}h",
    "yy DDD": lambda t: t.strftime("%y %j"),
    "ss.S": lambda t: f"{t.strftime('%S')}.{t.microsecond // 100_000}",
    "mm:ss.SSS": lambda t: f"{t.strftime('%M:%S')}.{t.microsecond // 1000:03}",
    "SSSSSS": lambda t: f"{t.microsecond:06}",
    "'no field'": lambda t: "no field",
}


@pytest.mark.parametrize("pattern", PATTERNS)
def test_timestamps_close_together_and_far_apart(pattern: str, seed: int) -> None:
    chance = random.Random(seed)
    for rows, spread in ((1, 1), (300, 40), (3000, 10**3), (3000, 10**7), (3000, 10**11), (300, 10**15)):
        middle = chance.choice([0, -1, 951_782_400_000_000, 1_700_000_000_000_000])
        micros = [chance.randrange(middle - spread, middle + spread) for _ in range(rows)]
        given = [None if chance.random() < 0.1 else EPOCH + datetime.timedelta(microseconds=m) for m in micros]
        before = pa.array([EPOCH, None, *given], pa.timestamp("us")).slice(2)
        date_patterns._texts_between.cache_clear()
        with mock.patch.object(date_patterns, "_texts", wraps=date_patterns._texts) as texts:
            found = apply("date_format", before, pa.string(), pattern=pattern)
            assert apply("date_format", before.slice(1), pa.string(), pattern=pattern).equals(found.slice(1))
        assert found.to_pylist() == [None if t is None else PATTERNS[pattern](t) for t in given]
        made = sum(len(call.args[1]) for call in texts.call_args_list)
        if spread == 10**3 and pattern != "SSSSSS":
            assert made <= rows / 4, "each text once, and not again for the same units"
