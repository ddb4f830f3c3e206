"""Requests and messages in text."""

from __future__ import annotations

import random

import numpy as np
import pytest

from tidemill.exchange import rejections
from tidemill.exchange.wire import MESSAGE, OWN_BROKERS, TYPES, BadLineError, Role, lines, parsed, trace_lines

SYMBOLS = {"ACME": 0, "ZED": 1}


def test_requests_come_as_they_were_written(seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(500):
        time, id_, price = (chance.randrange(-(2**63), 2**63) for _ in range(3))
        broker, volume, letter = chance.randrange(OWN_BROKERS), chance.randrange(10**6), chance.choice("BSDXR")
        symbol, type_ = chance.choice(("ACME", "ZED")), chance.choice(TYPES)
        fields = [time, id_, broker, letter, volume, price, symbol, type_][: chance.choice((6, 7, 8))]
        line = chance.choice((" ", "  ", "\t")).join(map(str, fields)) + chance.choice(("", "\r", " "))
        known = SYMBOLS[symbol] if len(fields) > 6 else 0
        types = TYPES.index(type_) if len(fields) > 7 else 0
        assert parsed(line.encode(), SYMBOLS) == (ord(letter), types, known, broker, time, id_, volume, price), line


@pytest.mark.parametrize(
    ("line", "reason", "time"),
    [
        (b"", rejections.BAD_LINE, 0),
        (b"GET / HTTP/1.1", rejections.BAD_LINE, 0),
        (b"5 0 1 B 10", rejections.BAD_LINE, 0),
        (b"5 0 1 B 10 20 ACME limit more", rejections.BAD_LINE, 0),
        (b"x 0 1 B 10 20", rejections.BAD_LINE, 0),
        (b"5 0 1 B 1.5 20", rejections.BAD_LINE, 5),
        (b"5 0 1 B +1 20", rejections.BAD_LINE, 5),
        (b"5 0 1 B 1_0 20", rejections.BAD_LINE, 5),
        (b"5 0 -1 B 10 20", rejections.BAD_LINE, 5),
        (b"5 0 4294967296 B 10 20", rejections.BAD_LINE, 5),
        (b"5 0 1 BUY 10 20", rejections.BAD_LINE, 5),
        (b"5 0 1 B 10 9223372036854775808", rejections.BAD_LINE, 5),
        (b"5 0 1 B 10 20 ACME often", rejections.BAD_LINE, 5),
        (b"5 0 1 B 10 20 NONE", rejections.UNKNOWN_SYMBOL, 5),
        ("5 0 1 B 10 20 ÄCME".encode(), rejections.BAD_LINE, 0),
        (b"\xff\xfe\x00", rejections.BAD_LINE, 0),
        ("5 0 ٣ B 10 20".encode(), rejections.BAD_LINE, 0),
    ],
)
def test_what_is_no_request(line: bytes, reason: int, time: int) -> None:
    with pytest.raises(BadLineError) as error:
        parsed(line, SYMBOLS)
    assert (error.value.reason, error.value.time) == (reason, time)


def test_any_bytes_are_a_request_or_none(seed: int) -> None:
    chance = random.Random(seed)
    good = b"5 0 1 B 10 20 ACME limit"
    for _ in range(3_000):
        line = bytearray(good)
        for _ in range(chance.randrange(1, 5)):
            at = chance.randrange(len(line) + 1)
            line[at : at + chance.randrange(3)] = chance.randbytes(chance.randrange(3))
        try:
            found = parsed(bytes(line), SYMBOLS)
        except BadLineError as error:
            assert rejections.rejection(error.reason).number.startswith("TM95")
        else:
            assert len(found) == 8 and all(-(2**63) <= value < 2**63 for value in found)


def test_messages_in_text() -> None:
    rows = [
        (ord("B"), 0, 1, 4, 1, 500, 12, 0, 10, 99, 10),
        (ord("E"), 0, 1, 4, 2, 500, 12, 11, 3, 99, 7),
        (ord("J"), rejections.BAD_LINE, 0, 4, 0, 500, 0, 0, 0, 0, 0),
    ]
    messages = np.array(rows, MESSAGE)
    assert lines(messages, ["ACME", "ZED"]).decode().splitlines() == [
        "500 12 4 B 10 99 ZED 0 10",
        "500 12 4 E 3 99 ZED 11 7",
        "500 0 4 J TM9511 a line is no request",
    ]
    assert trace_lines(messages[:2]) == b"500,12,B,10,99\n500,12,E,3,99\n"
    assert lines(messages[:0], []) == trace_lines(messages[:0]) == b""


def test_roles() -> None:
    assert [role for role in Role if role.listens] == [Role.LISTENER, Role.BINARY_LISTENER]
    assert [role for role in Role if role.binary] == [Role.BINARY_INTERACTIVE, Role.BINARY_LISTENER]
