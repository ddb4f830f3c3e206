"""Buffers the messages of one table between its connections and its spool."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from tidemill.sources.sockets.framing import Framing, RecordFraming, RowFraming
from tidemill.sources.sockets.spool import Spool, last_line

BUFFER_BYTES = 256 << 10
"""Bytes of messages that are collected before they are written."""

LINES, LAST = "{lines}", "{last}"
_MOST_LAST = 256
"""Bytes of a line that a greeting repeats."""

_RETRY_SECONDS = 1.0


def no_boundary(_: bytes | bytearray) -> int:
    """Every newline of the format ends a row."""
    return -1


@dataclass(frozen=True)
class InletOptions:
    """How a table takes messages.

    framing : Framing, RowFraming or RecordFraming
    message_timeout : float
        Seconds that a message may stay incomplete before its connection is closed.
    most_unread : int
        Bytes of the spool that no epoch has read at which its sockets are paused.
    boundary : callable
        Given messages with their newlines, the offset after the first message that the table's format does not take to
        be complete, since a quote is open at its end; -1 if there is none. The spool begins a segment there.
    greeting : str
        What is sent to a peer to which a connection has been opened. ``LINES`` in it stands for how many lines have
        been received from all connections, ``LAST`` for the last one, which is left out when it is not known any more
        or has more than 256 bytes.
    """

    framing: Framing | RowFraming | RecordFraming = field(default_factory=Framing)
    message_timeout: float = 30.0
    most_unread: int = 1 << 30
    boundary: Callable[[bytes | bytearray], int] = no_boundary
    greeting: str = ""


class Inlet:
    """One buffer of fixed size, and the spool that it is written to. Used by the reading thread alone.

    Attributes
    ----------
    buffers : int
        Number of the buffer being filled; the buffers before it are in the spool.
    error : str
        Why the spool could not be written, else empty; writing is retried once a second.
    over : bool
        Whether sockets are paused, as of the last flush.
    consumed : int
        Bytes of messages that sealed epochs have read; set when an epoch is sealed.
    """

    def __init__(self, name: str, spool: Spool, options: InletOptions) -> None:
        self.name = name
        self.spool = spool
        self.options = options
        self.buffers = 0
        self.error = ""
        self.over = False
        self.consumed = spool.begin
        self._buffer = bytearray()
        self._unwritten: list[bytes] = []
        self._retry_at = 0.0

    def put(self, messages: bytes | bytearray) -> None:
        """Add complete messages."""
        if self._unwritten:
            self._unwritten.append(bytes(messages))  # no more than one read of each socket: they are paused now
            return
        if len(self._buffer) + len(messages) > BUFFER_BYTES:
            self.flush()
        if self._unwritten or len(messages) > BUFFER_BYTES:
            self._unwritten.append(bytes(messages))
            self.flush()
        else:
            self._buffer += messages

    @property
    def waits(self) -> bool:
        """Whether there is something to flush."""
        return bool(self._buffer or self._unwritten)

    def flush(self) -> None:
        """Write the buffer to the spool; it is kept if that fails."""
        if self._buffer:
            self._unwritten.append(bytes(self._buffer))
            self._buffer.clear()
            self.buffers += 1
        self._write()
        self.over = bool(self._unwritten) or self.unread >= self.options.most_unread

    def _write(self) -> None:
        if self.error and time.monotonic() < self._retry_at:
            return
        while self._unwritten:
            batch = self._unwritten[0]
            try:
                at = self.options.boundary(batch)
                self.spool.append(batch if at < 0 else batch[:at])
                if at >= 0:
                    self.spool.complete()
            except OSError as error:
                self.error = f"the spool cannot be written: {error.strerror or error}"
                self._retry_at = time.monotonic() + _RETRY_SECONDS
                return
            self.error = ""
            self._unwritten[0] = b"" if at < 0 else batch[at:]
            if not self._unwritten[0]:
                self._unwritten.pop(0)

    def greeting(self) -> bytes:
        """What is sent to a peer now."""
        waiting = [part for part in (*self._unwritten, bytes(self._buffer)) if part]
        count = sum(part.count(b"\n") for part in waiting)
        last = last_line(waiting[-1]) if waiting else self.spool.last_line()
        greeting = self.options.greeting.replace(LINES, str(self.spool.lines + count)).encode()
        return greeting.replace(LAST.encode(), last if len(last) <= _MOST_LAST else b"")

    @property
    def unread(self) -> int:
        """Bytes in the spool that no sealed epoch has read."""
        return self.spool.end - self.consumed + len(self._buffer) + sum(map(len, self._unwritten))

    @property
    def has_room(self) -> bool:
        """Whether paused sockets may be read again."""
        return not self._unwritten and self.unread <= self.options.most_unread * 3 // 4

    def close(self) -> None:
        """Flush, and close the spool."""
        self._retry_at = 0.0
        self.flush()
        self.spool.close()
