"""Rows and records of formats of bytes: any cutting of a connection gives them whole, and as they came."""

from __future__ import annotations

import random
from typing import Literal

import pytest
from test_message_framing import pieces

from tidemill.sources.sockets.framing import RecordFraming, RowFraming
from tidemill.sources.sockets.record_cut import cut_records, cut_records_plainly

Order = Literal["big", "little"]
ORDERS: tuple[Order, ...] = ("big", "little")


def test_rows_of_one_width(seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(200):
        width = chance.choice((1, 2, 13, 300, 6000))
        data = chance.randbytes(chance.randrange(20_000))
        framer = RowFraming(width).begin()
        got = [framer.feed(piece) for piece in pieces(data, chance)]
        whole = len(data) // width
        assert all(len(part) % width == 0 for part in got)
        assert b"".join(got) == data[: whole * width]
        assert (framer.messages, framer.too_long, framer.broken) == (whole, 0, "")
        assert (framer.open_bytes, framer.is_open) == (len(data) % width, len(data) % width > 0)
        assert framer.last() == b""


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("width", [1, 2, 4, 8])
def test_records_keep_their_sizes(seed: int, width: int, order: Order) -> None:
    """The framer gives what is whole at any time, and keeps the rest."""
    chance = random.Random(seed)
    for _ in range(50):
        least = chance.choice((0, 3))
        sizes = [chance.choice((least, 5, 20, chance.randrange(least, 200))) for _ in range(chance.randrange(120))]
        records = [size.to_bytes(width, order) + chance.randbytes(size) for size in sizes]
        data = b"".join(records)
        framer = RecordFraming(width, order, least, 200).begin()
        sent = got = b""
        for piece in pieces(data, chance):
            sent += piece
            got += framer.feed(piece)
            assert len(sent) == len(got) + framer.open_bytes and data.startswith(got)
            assert framer.is_open == (len(sent) > len(got))
        assert got == data
        assert (framer.messages, framer.too_long, framer.is_open, framer.broken) == (len(sizes), 0, False, "")


@pytest.mark.parametrize("big", [True, False])
@pytest.mark.parametrize("width", [1, 2, 4, 8])
def test_the_kernel_cuts_as_its_twin(seed: int, width: int, big: bool) -> None:
    """Random bytes, whole and half records, sizes that are too small and too large."""
    chance = random.Random(seed)
    order = "big" if big else "little"
    stops = set()
    for _ in range(300):
        data = b""
        while len(data) < 300:
            record = chance.randbytes(chance.choice((0, 1, 9, 120)))
            size = len(record) if chance.random() < 0.97 else chance.randrange(1 << 8 * width)
            data += size.to_bytes(width, order) + record  # type: ignore[arg-type]
        data = data[: chance.randrange(256, len(data) + 1)]
        for least, most in ((0, 0), (0, 100), (1, 1 << 30), (0, 1 << 30)):
            found = cut_records(data, width, big, least, most)
            assert found == cut_records_plainly(data, width, big, least, most)
            stops.add(found[2] == 0)
    assert stops == {True, False}


def test_a_size_out_of_bounds_breaks_the_connection_behind_whole_records() -> None:
    for size in (1, 11, 0xFFFFFFFF):
        framer = RecordFraming(4, "little", 2, 10).begin()
        assert framer.feed(b"\2\0\0\0ab" + size.to_bytes(4, "little") + b"more") == b"\2\0\0\0ab"
        assert (framer.messages, framer.too_long) == (1, 1)
        assert f"{size:,} bytes, where 2 to 10" in framer.broken
