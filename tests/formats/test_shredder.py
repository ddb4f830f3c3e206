"""Who parses what: claims tile the stream, whatever the order of buffers and the number of threads."""

from __future__ import annotations

import heapq
import os
import random
import sys
import threading
import time
from collections.abc import Iterator, Sequence

import pytest
from long_form import times

from tidemill.errors import FormatError
from tidemill.formats.text.sequence_numbers import LARGEST, number_after
from tidemill.formats.unordered.shredder import Claim, SequenceShredder

SEEDS = int(os.environ.get("TIDEMILL_SHREDDER_SEEDS", "2"))
BUFFERS = int(os.environ.get("TIDEMILL_SHREDDER_BUFFERS", "10000"))
THREADS = 16
PAUSE = 1e-4
"""Seconds; a thread that only tried again would keep the one that it waits for from running."""


def ends(buffer: bytes) -> tuple[int, int]:
    """First and last newline."""
    return buffer.find(b"\n"), buffer.rfind(b"\n")


def offer(shredder: SequenceShredder, sequence: int, buffer: bytes) -> Claim | None:
    return shredder.offer(sequence, memoryview(buffer), *ends(buffer))


def claimed(claim: Claim, buffer: bytes) -> bytes:
    return b"".join((*claim.before, buffer[claim.own_begin : claim.own_end], *claim.after))


def numbers(first: int, count: int, largest: int) -> Iterator[int]:
    for _ in range(count):
        yield first
        first = number_after(first, largest)


def shred(
    buffers: Sequence[bytes],
    order: Sequence[int],
    threads: int = 1,
    first: int = 1,
    largest: int = LARGEST,
    end_after: int | None = None,
    most: int = 1 << 20,
) -> list[tuple[Claim, bytes]]:
    """Offer buffers in an order; what is out of reach goes back to the queue. Claims with their bytes."""
    shredder = SequenceShredder(first=first, largest=largest, most=most)
    names = list(numbers(first, len(buffers), largest))
    last = names[-1] if names else (first - 1 or largest)
    found: list[tuple[Claim, bytes]] = []
    queue = list(reversed(order))
    parked: list[int] = []
    taken: list[int] = []
    held = 0

    def end() -> None:
        claim = shredder.end(last)
        if claim is not None:
            found.append((claim, claimed(claim, b"")))

    def work() -> None:
        nonlocal held
        while True:
            try:
                # What is out of reach waits until the first of it is within.
                first = parked[0] if parked else -1
                ready = parked and (not queue or shredder.in_reach(names[first]))
                place = heapq.heappop(parked) if ready else queue.pop()
            except IndexError:
                if len(taken) == len(order):
                    return
                time.sleep(PAUSE)
                continue
            if not shredder.in_reach(names[place]):
                heapq.heappush(parked, place)
                time.sleep(PAUSE)
                continue
            taken.append(place)
            claim = offer(shredder, names[place], buffers[place])
            held = max(held, shredder.held_bytes)
            if claim is not None:
                found.append((claim, claimed(claim, buffers[place])))
            if len(taken) >= (end_after or len(order) + 1):
                ending.acquire(blocking=False) and end()

    ending = threading.Semaphore(1)
    workers = [threading.Thread(target=work) for _ in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    if ending.acquire(blocking=False):
        end()
    shredder.validate()
    assert shredder.held_bytes == 0
    assert held <= sum(map(len, buffers))
    return found


def check(found: Sequence[tuple[Claim, bytes]], buffers: Sequence[bytes], first: int = 1, largest: int = LARGEST):
    """Claims tile the stream, in whole rows, and their bytes are those of their span."""
    names = list(numbers(first, len(buffers), largest))
    place_of = {name: place for place, name in enumerate(names)}
    starts = [0]
    for buffer in buffers:
        starts.append(starts[-1] + len(buffer))
    stream = b"".join(buffers)
    spans = sorted(
        (starts[place_of[c.first_sequence]] + c.begin, starts[place_of[c.last_sequence]] + c.end, c.ends_stream, data)
        for c, data in found
    )
    at = 0
    for begin, end, ends_stream, data in spans:
        assert begin == at and end > begin
        assert data == stream[begin:end]
        assert data.endswith(b"\n") or (ends_stream and end == len(stream))
        at = end
    assert at == len(stream)
    assert sum(ends_stream for _, _, ends_stream, _ in spans) == int(bool(stream) and not stream.endswith(b"\n"))


def random_buffers(rng: random.Random, count: int) -> list[bytes]:
    """Rare and frequent delimiters, empty buffers among them."""
    density = rng.choice([0.02, 0.3, 0.9])
    return [
        b"".join(b"\n" if rng.random() < 0.3 else b"x" for _ in range(rng.randrange(8)))
        if rng.random() < density
        else b"x" * rng.randrange(4)
        for _ in range(count)
    ]


def nearly_in_order(rng: random.Random, count: int, far: int) -> list[int]:
    return sorted(range(count), key=lambda i: i + rng.random() * far)


def test_sixteen_threads(seed):
    """A short form; ``make shredder`` runs 50 seeds with 100,000 buffers each."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        for turn in range(SEEDS):
            rng = random.Random(seed + turn)
            buffers = random_buffers(rng, BUFFERS)
            order = nearly_in_order(rng, BUFFERS, rng.choice([1, 20, 300, BUFFERS]))
            most = rng.choice([1 << 20, 64])
            if most == 64:
                order = nearly_in_order(rng, BUFFERS, 100)
            check(shred(buffers, order, THREADS, end_after=rng.randrange(1, BUFFERS), most=most), buffers)
    finally:
        sys.setswitchinterval(before)


def test_every_order_of_few_buffers(seed):
    rng = random.Random(seed)
    for _ in range(times(1500)):
        count = rng.randrange(7)
        buffers = [rng.choice([b"", b"\n", b"a", b"a\n", b"\nb", b"a\nb", b"a\nb\nc", b"\n\n"]) for _ in range(count)]
        order = rng.sample(range(count), count)
        check(shred(buffers, order, end_after=rng.randrange(count + 1)), buffers)


def test_numbers_wrap_around(seed):
    rng = random.Random(seed)
    for largest in (LARGEST, 2**32 - 1, 1000):
        for first in (largest - 200, largest, 1):
            buffers = random_buffers(rng, 700)
            order = nearly_in_order(rng, len(buffers), 100)
            found = shred(buffers, order, 4, first, largest, most=300)
            check(found, buffers, first, largest)
            assert any(c.first_sequence > c.last_sequence for c, _ in found) or first == 1


def test_numbers_wrap_around_many_times():
    shredder = SequenceShredder(largest=10, most=5)
    pieces = []
    sequence = 1
    for turn in range(1000):
        ahead = number_after(sequence, 10)
        for number, buffer in ((ahead, b"%d\nc" % turn), (sequence, b"a\nb")):
            claim = offer(shredder, number, buffer)
            assert (claim is None) == (number == ahead)
            if claim is not None:
                pieces.append(claimed(claim, buffer))
        sequence = number_after(ahead, 10)
    assert shredder.end(10) is not None
    shredder.validate()
    assert sum(map(len, pieces)) == sum(len(b"a\nb%d\nc" % t) for t in range(1000)) - 1


def test_a_tuple_over_many_buffers_is_one_claim_of_the_last_that_comes():
    buffers = [b"a\nb", *[b"x"] * 5000, b"c\n"]
    for order in (range(5002), range(5001, -1, -1), [*range(0, 5002, 2), *range(1, 5002, 2)]):
        found = shred(buffers, list(order))
        check(found, buffers)
        assert max(found, key=lambda pair: len(pair[1]))[1].startswith(b"b" + b"x" * 5000 + b"c\n") or order[0] == 5001


def test_claims_name_the_buffers_they_come_from():
    shredder = SequenceShredder()
    assert offer(shredder, 3, b"c\nd") is None
    assert offer(shredder, 2, b"b") is None
    claim = offer(shredder, 1, b"0\n1\na")
    assert claim is not None
    assert (claim.first_sequence, claim.begin, claim.last_sequence, claim.end) == (1, 0, 3, 2)
    assert (claim.before, claim.after, claim.leading, claim.trailing) == ((), (b"b", b"c\n"), True, True)
    end = shredder.end(3)
    assert end is not None
    assert (end.before, end.first_sequence, end.begin, end.last_sequence, end.end) == ((b"d",), 3, 2, 3, 3)
    assert end.ends_stream


def test_the_end_may_be_told_before_the_last_buffers_come():
    shredder = SequenceShredder()
    assert shredder.end(2) is None
    assert offer(shredder, 2, b"b") is None
    claim = offer(shredder, 1, b"a")
    assert claim is not None and claim.ends_stream
    assert claimed(claim, b"a") == b"ab"
    shredder.validate()


def test_streams_without_bytes():
    check(shred([], []), [])
    check(shred([b"", b""], [1, 0]), [b"", b""])


def test_gaps_are_reported_by_number():
    shredder = SequenceShredder()
    for sequence in (1, 2, 5, 6, 9):
        offer(shredder, sequence, b"x\n")
    with pytest.raises(FormatError, match="TM4062") as told:
        shredder.validate()
    assert told.value.got == "3 to 4, 7 to 8"
    assert shredder.end(12) is None
    with pytest.raises(FormatError, match="TM4062") as told:
        shredder.validate()
    assert told.value.got == "3 to 4, 7 to 8, 10 to 12"


def test_a_stream_that_was_not_ended():
    shredder = SequenceShredder()
    offer(shredder, 1, b"x\n")
    with pytest.raises(FormatError, match="its end was not given"):
        shredder.validate()


@pytest.mark.parametrize("sequence", [0, -1, 1, 2, 4, 5, LARGEST, LARGEST + 1, 104])
def test_wrong_numbers(sequence):
    shredder = SequenceShredder(most=100)
    for given in (1, 2, 4):
        offer(shredder, given, b"x")
    if sequence == 5:
        shredder.end(4)
    with pytest.raises(FormatError, match="TM4061"):
        offer(shredder, sequence, b"x")
    assert offer(shredder, 3, b"x\n") is not None


def test_an_end_before_buffers_that_were_offered():
    shredder = SequenceShredder()
    offer(shredder, 5, b"x")
    with pytest.raises(FormatError, match="TM4061"):
        shredder.end(4)


def test_only_heads_and_tails_are_kept():
    shredder = SequenceShredder()
    buffer = b"head\n" + b"x\n" * 30_000 + b"tail"
    for sequence in range(1001, 1, -2):
        offer(shredder, sequence, buffer)
        assert shredder.held_bytes == (1003 - sequence) // 2 * len(b"head\ntail")
    for sequence in range(1, 1002, 2):
        if sequence > 1:
            offer(shredder, sequence - 1, buffer)
    offer(shredder, 1, buffer)
    assert shredder.held_bytes == len(b"tail")


def test_numbers_further_ahead_than_most_must_wait():
    shredder = SequenceShredder(most=10)
    assert shredder.in_reach(10) and not shredder.in_reach(11)
    offer(shredder, 1, b"x")
    assert shredder.in_reach(11)
    assert shredder.in_reach(1), "what is behind is refused, not put off"


def test_it_grows_with_what_is_outstanding_and_shrinks_again():
    count = 200_000
    shredder = SequenceShredder()
    for sequence in range(count, 1, -1):
        shredder.offer(sequence, memoryview(b"x"), -1, -1)
    assert shredder.held_bytes == count - 1
    assert shredder.end(count) is None
    claim = shredder.offer(1, memoryview(b"\n"), 0, 0)
    assert claim is not None and len(claim.after) == count - 1
    assert shredder.held_bytes == 0
    shredder.validate()
