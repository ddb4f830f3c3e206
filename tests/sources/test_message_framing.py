"""Where messages end: any cutting of the bytes gives the messages that were sent, and nothing else."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Literal

import pytest

from tidemill.sources.sockets.framing import Framing
from tidemill.sources.sockets.length_cut import cut_lengths, cut_lengths_plainly


def pieces(data: bytes, chance: random.Random) -> Iterator[bytes]:
    """The bytes, cut anywhere."""
    at = 0
    while at < len(data):
        end = at + chance.choice((1, 2, 3, 7, 50, 5000))
        yield data[at:end]
        at = end


def random_messages(chance: random.Random, most: int) -> list[bytes]:
    """Of letters and zero bytes, some empty, some longer than ``most``."""
    sizes = [chance.choice((0, 1, 5, most - 1, most, most + 1, 3 * most)) for _ in range(chance.randrange(1, 60))]
    return [bytes(chance.choices(b"ab\0\xff", k=size)) for size in sizes]


def test_lines_are_those_sent_without_the_long_ones(seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(200):
        sent = random_messages(chance, 20)
        framer = Framing(most=20).begin()
        got = b"".join(framer.feed(piece) for piece in pieces(b"".join(m + b"\n" for m in sent), chance))
        kept = [m for m in sent if len(m) <= 20]
        assert bytes(got) == b"".join(m + b"\n" for m in kept)
        assert (framer.messages, framer.too_long) == (len(kept), len(sent) - len(kept))
        assert not framer.is_open and framer.open_bytes == 0


@pytest.mark.parametrize("order", ["big", "little"])
@pytest.mark.parametrize("width", [1, 2, 4, 8])
def test_lengths(seed: int, width: int, order: Literal["big", "little"]) -> None:
    chance = random.Random(seed)
    for _ in range(50):
        sent = [m for m in random_messages(chance, 20) if len(m) <= 20]
        framer = Framing("length", width, order, 20).begin()
        data = b"".join(len(m).to_bytes(width, order) + m for m in sent)
        assert b"".join(framer.feed(p) for p in pieces(data, chance)) == b"".join(m + b"\n" for m in sent)
        assert (framer.messages, framer.too_long, framer.is_open, framer.broken) == (len(sent), 0, False, "")


@pytest.mark.parametrize("big", [True, False])
@pytest.mark.parametrize("width", [1, 2, 4, 8])
def test_the_kernel_cuts_as_its_twin(seed: int, width: int, big: bool) -> None:
    """Random bytes, messages with and without newlines, numbers that are too long."""
    chance = random.Random(seed)
    order: Literal["big", "little"] = "big" if big else "little"
    for _ in range(300):
        data = b""
        while len(data) < 300:
            message = bytes(chance.choices(b"ab\n\xff\0", k=chance.choice((0, 1, 9, 120))))
            length = len(message) if chance.random() < 0.97 else chance.randrange(1 << 8 * width)
            data += length.to_bytes(width, order) + message
        data = data[: chance.randrange(256, len(data) + 1)]
        one = bytes(chance.choices(b"a\n", k=chance.randrange(4)))
        one = len(one).to_bytes(width, order) + one
        assert cut_lengths(one, width, big, 3) == cut_lengths_plainly(one, width, big, 3)
        for most in (0, 100, 1 << 30):
            assert cut_lengths(data, width, big, most) == cut_lengths_plainly(data, width, big, most)


def test_a_message_that_ends_with_a_newline_gets_no_other() -> None:
    assert Framing("length").begin().feed(b"\0\0\0\4a\nb\n\0\0\0\1c") == b"a\nb\nc\n"


def test_a_length_that_is_too_long_breaks_the_connection_behind_whole_messages() -> None:
    framer = Framing("length", most=10).begin()
    assert framer.feed(b"\0\0\0\1a\0\0\0\x0bmore and more") == b"a\n"
    assert (framer.messages, framer.too_long) == (1, 1) and "11 bytes" in framer.broken


def test_what_is_open_is_kept_and_told() -> None:
    lines, lengths = Framing().begin(), Framing("length").begin()
    assert (lines.feed(b"a\nbc"), lengths.feed(b"\0\0\0\5abc")) == (b"a\n", b"")
    assert (lines.open_bytes, lengths.open_bytes) == (2, 7)
    assert (lines.last(), lengths.last()) == (b"bc\n", b"")


def test_a_long_line_that_never_ends_keeps_nothing() -> None:
    framer = Framing(most=10).begin()
    for _ in range(100):
        assert framer.feed(b"x" * 100) == b""
    assert (framer.too_long, framer.open_bytes, framer.is_open) == (1, 0, True)
    assert framer.feed(b"x\nnext\n") == b"next\n"
