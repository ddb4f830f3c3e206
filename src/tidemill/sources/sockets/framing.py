"""Framing: where messages end in the bytes of a connection, and which bytes go into the spool.

Either a newline ends a message, or a number of bytes before it says how long it is; in the spool every such message
ends with a newline. Or messages are the rows or records of a binary format, which are written to the spool unchanged.
Bytes are received in pieces of any length; an incomplete message is kept until more bytes come.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

from tidemill.sources.sockets.length_cut import cut_lengths
from tidemill.sources.sockets.record_cut import cut_records

NEWLINE = b"\n"


@dataclass(frozen=True)
class Framing:
    """Messages are lines, or have their length in front.

    kind : "lines" or "length"
    length_bytes : int
        Size of the number before a message: 1, 2, 4 or 8.
    byte_order : "big" or "little"
        Of that number, which has no sign and does not count itself.
    most : int
        Bytes of the longest message, without what frames it.
    """

    kind: Literal["lines", "length"] = "lines"
    length_bytes: int = 4
    byte_order: Literal["big", "little"] = "big"
    most: int = 1 << 20

    def begin(self) -> Lines | Lengths:
        """For a new connection."""
        return Lines(self.most) if self.kind == "lines" else Lengths(self)


@dataclass(frozen=True)
class RowFraming:
    """Messages are rows of ``width`` bytes each."""

    width: int

    def begin(self) -> FixedRows:
        """For a new connection."""
        return FixedRows(self.width)


@dataclass(frozen=True)
class RecordFraming:
    """Messages are records that begin with their size.

    size_bytes : int
        Size of that number: 1, 2, 4 or 8.
    byte_order : "big" or "little"
        Of that number, which has no sign and does not count itself.
    least, most : int
        Bounds of it.
    """

    size_bytes: int
    byte_order: Literal["big", "little"]
    least: int
    most: int

    def begin(self) -> SizedRecords:
        """For a new connection."""
        return SizedRecords(self)


class Framer(Protocol):
    """Splits the bytes of one connection into messages.

    Attributes
    ----------
    messages : int
        Complete messages so far.
    too_long : int
        Messages that were dropped because they are longer than allowed.
    broken : str
        Why the end of the next message cannot be found; empty while it can.
    """

    messages: int
    too_long: int
    broken: str

    @property
    def open_bytes(self) -> int:
        """Bytes kept of a message that is not complete."""
        ...

    @property
    def is_open(self) -> bool:
        """Whether more bytes are needed to complete a message."""
        ...

    def begin(self, most: int) -> bytes:
        """The first bytes of a message that is not complete."""
        ...

    def feed(self, data: bytes) -> bytes | bytearray:
        """Process bytes; returns the messages they complete, as written to the spool."""
        ...

    def last(self) -> bytes:
        """The incomplete message if the end of the stream completes it; else nothing."""
        ...


class _Kept:
    """Base of framers: keeps the bytes of an incomplete message."""

    __slots__ = ("_tail", "broken", "messages", "too_long")

    def __init__(self) -> None:
        self._tail: bytearray | None = None  # idle connections keep nothing
        self.messages = 0
        self.too_long = 0
        self.broken = ""

    @property
    def open_bytes(self) -> int:
        """See :class:`Framer`."""
        return len(self._tail or b"")

    @property
    def is_open(self) -> bool:
        """See :class:`Framer`."""
        return self._tail is not None

    def begin(self, most: int) -> bytes:
        """See :class:`Framer`."""
        return bytes((self._tail or b"")[:most])

    def _joined(self, data: bytes, need: int) -> bytes:
        """The kept bytes and the new ones, or nothing while there are fewer than ``need``."""
        if self._tail is None:
            return data
        self._tail += data
        if len(self._tail) < need:
            return b""
        data, self._tail = bytes(self._tail), None
        return data

    def last(self) -> bytes:
        """See :class:`Framer`."""
        return b""


class Lines(_Kept):
    """Messages end with a newline. One that is too long is skipped."""

    __slots__ = ("_most", "_passing")

    def __init__(self, most: int) -> None:
        super().__init__()
        self._most = most
        self._passing = False

    @property
    def is_open(self) -> bool:
        """See :class:`Framer`."""
        return self._tail is not None or self._passing

    def feed(self, data: bytes) -> bytes | bytearray:
        """See :class:`Framer`."""
        if self._passing:
            begin = data.find(NEWLINE) + 1
            if not begin:
                return b""
            self._passing = False
            data = data[begin:]
        end = data.rfind(NEWLINE) + 1
        whole: bytes | bytearray = data[:end]
        if end and self._tail is not None:
            self._tail += whole
            whole, self._tail = self._tail, None
        if end < len(data):
            self._keep(data[end:])
        if not end:
            return b""
        if len(whole) > self._most + 1:
            whole = self._short(whole)
        self.messages += whole.count(NEWLINE)
        return whole

    def _keep(self, rest: bytes) -> None:
        if self._tail is None:
            self._tail = bytearray(rest)
        else:
            self._tail += rest
        if len(self._tail) > self._most:
            self._tail = None
            self._passing = True
            self.too_long += 1

    def _short(self, whole: bytes | bytearray) -> bytes | bytearray:
        """Without the messages that are too long."""
        lines = whole[:-1].split(NEWLINE)
        kept = [line for line in lines if len(line) <= self._most]
        if len(kept) == len(lines):
            return whole
        self.too_long += len(lines) - len(kept)
        return b"".join(bytes(line) + NEWLINE for line in kept)

    def last(self) -> bytes:
        """See :class:`Framer`."""
        tail, self._tail = self._tail, None
        if tail is None:
            return b""
        self.messages += 1
        return bytes(tail) + NEWLINE


class Lengths(_Kept):
    """A number before each message is its length. One that is too long breaks the connection.

    A message may have several lines, and so several rows; a missing newline at its end is added.
    """

    __slots__ = ("_framing", "_need")

    def __init__(self, framing: Framing) -> None:
        super().__init__()
        self._framing = framing
        self._need = 0

    def feed(self, data: bytes) -> bytes | bytearray:
        """See :class:`Framer`."""
        data = self._joined(data, self._need)
        if not data:
            return b""
        rules = self._framing
        whole, messages, at, need, too_long = cut_lengths(
            data, rules.length_bytes, rules.byte_order == "big", rules.most
        )
        self.messages += messages
        self._need = need
        if not need:
            self.too_long += 1
            self.broken = f"a message of {too_long:,} bytes, more than maxMessageBytes"
        elif at < len(data):
            self._tail = bytearray(data[at:])
        return whole


class FixedRows(_Kept):
    """Each message is a row of the same width."""

    __slots__ = ("_width",)

    def __init__(self, width: int) -> None:
        super().__init__()
        self._width = width

    def feed(self, data: bytes) -> bytes | bytearray:
        """See :class:`Framer`."""
        data = self._joined(data, self._width)
        if not data:
            return b""
        rows, rest = divmod(len(data), self._width)
        self.messages += rows
        if not rest:
            return data
        self._tail = bytearray(data[-rest:])
        return data[:-rest]


class SizedRecords(_Kept):
    """A size before each record is its length. One that is out of bounds breaks the connection."""

    __slots__ = ("_framing", "_need")

    def __init__(self, framing: RecordFraming) -> None:
        super().__init__()
        self._framing = framing
        self._need = 0

    def feed(self, data: bytes) -> bytes | bytearray:
        """See :class:`Framer`."""
        data = self._joined(data, self._need)
        if not data:
            return b""
        rules = self._framing
        records, end, self._need, size = cut_records(
            data, rules.size_bytes, rules.byte_order == "big", rules.least, rules.most
        )
        self.messages += records
        if not self._need:
            self.too_long += 1
            self.broken = f"a record of {size:,} bytes, where {rules.least:,} to {rules.most:,} may be"
        elif end < len(data):
            self._tail = bytearray(data[end:])
        return data[:end]
