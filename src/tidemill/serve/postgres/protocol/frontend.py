"""Messages that clients send, taken apart."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass

from tidemill.serve.postgres.protocol.errors import not_understood


@dataclass(frozen=True)
class Parse:
    """Prepare a statement; ``types`` are what the client says of its parameters, 0 for nothing."""

    name: str
    text: str
    types: tuple[int, ...]


@dataclass(frozen=True)
class Bind:
    """Make a portal of a prepared statement. ``values`` are bytes, None for NULL; ``formats`` 0 for text, 1 for
    binary."""

    portal: str
    statement: str
    formats: tuple[int, ...]
    values: tuple[bytes | None, ...]
    result_formats: tuple[int, ...]


@dataclass(frozen=True)
class Named:
    """Describe or Close: ``kind`` is ``S`` for a statement and ``P`` for a portal."""

    kind: str
    name: str


@dataclass(frozen=True)
class Execute:
    """Give rows of a portal, at most ``rows``; 0 for all."""

    portal: str
    rows: int


class _Reader:
    """Reads a message from its beginning; TM8101 where it is shorter than it says."""

    def __init__(self, kind: str, data: bytes) -> None:
        self._kind, self._data, self._at = kind, data, 0

    def text(self) -> str:
        end = self._data.find(b"\0", self._at)
        if end < 0:
            raise not_understood(f"{self._kind}: a text without an end")
        found, self._at = self._data[self._at : end], end + 1
        try:
            return found.decode()
        except UnicodeDecodeError as error:
            raise not_understood(f"{self._kind}: a text that is not UTF-8") from error

    def take(self, count: int) -> bytes:
        found = self._data[self._at : self._at + count]
        if count < 0 or len(found) < count:
            raise not_understood(f"{self._kind}: {count} bytes are announced, {len(found)} are there")
        self._at += count
        return found

    def int16(self) -> int:
        return int(struct.unpack("!h", self.take(2))[0])

    def int32(self) -> int:
        return int(struct.unpack("!i", self.take(4))[0])

    def int16s(self) -> tuple[int, ...]:
        return tuple(self.int16() for _ in range(self.count()))

    def count(self) -> int:
        return int(struct.unpack("!H", self.take(2))[0])

    def value(self) -> bytes | None:
        length = self.int32()
        return None if length == -1 else self.take(length)

    def end(self) -> None:
        if self._at != len(self._data):
            raise not_understood(f"{self._kind}: {len(self._data) - self._at} bytes too many")


def text_of(data: bytes) -> str:
    """Of Query and Password: one text. TM8101 for anything else."""
    reader = _Reader("Query", data)
    found = reader.text()
    reader.end()
    return found


def start_up_of(data: bytes) -> Mapping[str, str]:
    """Of the start-up message: parameters by name. TM8101 for anything else."""
    reader, found = _Reader("StartupMessage", data), {}
    while name := reader.text():
        found[name] = reader.text()
    reader.end()
    return found


def parse_of(data: bytes) -> Parse:
    """A message Parse. TM8101 for anything else."""
    reader = _Reader("Parse", data)
    name, text = reader.text(), reader.text()
    types = tuple(reader.int32() for _ in range(reader.count()))
    reader.end()
    return Parse(name, text, types)


def bind_of(data: bytes) -> Bind:
    """A message Bind. TM8101 for anything else."""
    reader = _Reader("Bind", data)
    portal, statement, formats = reader.text(), reader.text(), reader.int16s()
    values = tuple(reader.value() for _ in range(reader.count()))
    result_formats = reader.int16s()
    reader.end()
    for found, what in ((formats, len(values)), (result_formats, None)):
        if not set(found) <= {0, 1} or (what is not None and len(found) not in (0, 1, what)):
            raise not_understood(f"Bind: formats {found[:10]}")
    return Bind(portal, statement, _each(formats, len(values)), values, result_formats)


def _each(formats: tuple[int, ...], count: int) -> tuple[int, ...]:
    return formats * count if len(formats) == 1 else formats or (0,) * count


def named_of(data: bytes) -> Named:
    """A message Describe or Close. TM8101 for anything else."""
    reader = _Reader("Describe or Close", data)
    kind, name = reader.take(1).decode("latin-1"), reader.text()
    reader.end()
    if kind not in "SP":
        raise not_understood(f"Describe or Close of {kind!r}")
    return Named(kind, name)


def execute_of(data: bytes) -> Execute:
    """A message Execute. TM8101 for anything else."""
    reader = _Reader("Execute", data)
    found = Execute(reader.text(), reader.int32())
    reader.end()
    return found
