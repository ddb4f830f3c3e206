"""Records that go through Spark's shuffle: those that belong together, and never many large ones at once."""

from __future__ import annotations

import pickle
import random
import struct
from collections.abc import Iterator

from tidemill.runtime.job.shuffle import gathered
from tidemill.runtime.job.superstep import Record


def received(sent: Iterator[bytes]) -> list[Record]:
    """What comes out: the number of a partition and a list of records, in turn."""
    found = []
    for number in sent:
        (partition,) = struct.unpack("!q", number)
        records = pickle.loads(next(sent))
        assert {p for p, _ in records} == {partition}
        found += records
    return found


def test_all_records_arrive_in_order(seed: int) -> None:
    rng = random.Random(seed)
    records = [(rng.randrange(4), rng.randbytes(rng.randrange(300))) for _ in range(rng.randrange(100))]
    for most in (1, 1000, 1 << 20):
        found = received(gathered(most, iter(records)))
        for partition in range(4):
            assert [r for r in found if r[0] == partition] == [r for r in records if r[0] == partition]


def test_large_records_do_not_wait_for_one_another() -> None:
    made = 0

    def records() -> Iterator[Record]:
        nonlocal made
        for i in range(100):
            made += 1
            yield i % 3, bytes(1 << 18)

    sent = 0
    for data in gathered(1 << 20, records()):
        assert (made << 18) - sent <= 1 << 20
        sent += len(data) // (1 << 18) << 18
