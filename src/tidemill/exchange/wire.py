"""What clients and the exchange send each other: lines for people and programs, fixed records for fast ones.

A connection begins with four bytes, a little-endian integer that says what the client is (:class:`Role`). Requests and
messages follow without further framing; all numbers of records are little-endian.

A request in text is ``time order broker action volume price [symbol [type]]``, separated by blanks. ``time`` is the
client's own number for it, which the answers repeat; ``order`` is 0 for a new one; prices are integers. The symbol is
the first one of the exchange unless it is given, the type ``limit``.

A client that begins with a line ``trace SYMBOL [NUMBER [LINE]]`` is sent the messages of a symbol behind a number, and
those that follow, as lines of a trace.

A message in text is ``time order broker action volume price symbol other left``: to who sent the request with the
``time`` of that, to all others with the exchange's own, in ms since midnight. A rejection is ``time order broker J
number text``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import Any

import numpy as np
import numpy.typing as npt

from tidemill.exchange import rejections
from tidemill.exchange.matching import REJECTED

TYPES = ("limit", "market", "ioc", "fok")
"""By their number in :mod:`~tidemill.exchange.matching`."""

REQUEST = np.dtype(
    [
        ("letter", "u1"),
        ("type", "i1"),
        ("symbol", "<u2"),
        ("broker", "<u4"),
        ("time", "<i8"),
        ("id", "<i8"),
        ("volume", "<i8"),
        ("price", "<i8"),
    ]
)
"""A request, 40 bytes. ``symbol`` is a place in the exchange's list."""

MESSAGE = np.dtype(
    [
        ("letter", "u1"),
        ("rejected", "u1"),
        ("symbol", "<u2"),
        ("broker", "<u4"),
        ("sequence", "<i8"),
        ("time", "<i8"),
        ("id", "<i8"),
        ("other", "<i8"),
        ("volume", "<i8"),
        ("price", "<i8"),
        ("left", "<i8"),
    ]
)
"""A message, 64 bytes. ``sequence`` counts the messages of a symbol from 1 without gaps. A rejection (J) has none, 0,
and a reason in ``rejected``."""

Records = npt.NDArray[Any]
"""An array of one of these types."""

MOST_LINE = 256
"""Bytes of a request in text."""

_INT64 = range(-(2**63), 2**63)
OWN_BROKERS = 1 << 31
"""Brokers from this on are those of simulated traders and traces, which clients do not speak for."""
_BROKERS = range(OWN_BROKERS)


class Role(IntEnum):
    """What a client is."""

    INTERACTIVE = 0
    LISTENER = 1
    BINARY_INTERACTIVE = 2
    BINARY_LISTENER = 3
    TRACER = int.from_bytes(b"trac", "little")

    @property
    def listens(self) -> bool:
        """Whether it is sent all messages, and sends no requests."""
        return self in (Role.LISTENER, Role.BINARY_LISTENER)

    @property
    def binary(self) -> bool:
        """Whether it speaks in records."""
        return self in (Role.BINARY_INTERACTIVE, Role.BINARY_LISTENER)


class BadLineError(Exception):
    """A line is no request.

    Attributes
    ----------
    reason : int
        Of :mod:`~tidemill.exchange.rejections`.
    time : int
        The client's number of the request, as far as it could be read; 0 else.
    """

    def __init__(self, reason: int, time: int = 0) -> None:
        super().__init__(reason)
        self.reason, self.time = reason, time


def parsed(line: bytes, symbols: Mapping[str, int]) -> tuple[int, ...]:
    """A line as the fields of a ``REQUEST``. BadLineError when it is none."""
    fields = line.split()
    if not 6 <= len(fields) <= 8 or not line.isascii():
        raise BadLineError(rejections.BAD_LINE)
    time = _number(fields[0], 0)
    id_, broker, volume, price = (_number(fields[at], time) for at in (1, 2, 4, 5))
    letter = fields[3].upper()
    type_ = fields[7].decode().lower() if len(fields) > 7 else TYPES[0]
    if broker not in _BROKERS or len(letter) != 1 or type_ not in TYPES:
        raise BadLineError(rejections.BAD_LINE, time)
    symbol = symbols.get(fields[6].decode()) if len(fields) > 6 else 0
    if symbol is None:
        raise BadLineError(rejections.UNKNOWN_SYMBOL, time)
    return letter[0], TYPES.index(type_), symbol, broker, time, id_, volume, price


def _number(field: bytes, time: int) -> int:
    digits = field[1:] if field[:1] == b"-" else field
    value = int(field) if digits.isdigit() and len(field) <= 20 else None
    if value is None or value not in _INT64:
        raise BadLineError(rejections.BAD_LINE, time)
    return value


def lines(messages: Records, symbols: Sequence[str]) -> bytes:
    """Messages as text."""
    columns = (messages[name].tolist() for name in ("letter", *_SHOWN))
    found = []
    for letter, rejected, symbol, broker, time, id_, other, volume, price, left in zip(*columns, strict=True):
        if letter == REJECTED:
            error = rejections.rejection(rejected)
            found.append(f"{time} {id_} {broker} J {error.number} {error.what}\n")
        else:
            shown = f"{time} {id_} {broker} {chr(letter)} {volume} {price}"
            found.append(f"{shown} {symbols[symbol]} {other} {left}\n")
    return "".join(found).encode()


_SHOWN = ("rejected", "symbol", "broker", "time", "id", "other", "volume", "price", "left")


def trace_lines(messages: Records) -> bytes:
    """Messages as lines of a trace, ``t,id,action,volume,price``, which tables ``USING orderbook`` read."""
    columns = (messages[name].tolist() for name in ("time", "id", "letter", "volume", "price"))
    found = [f"{t},{id_},{chr(letter)},{volume},{price}\n" for t, id_, letter, volume, price in zip(*columns)]
    return "".join(found).encode()
