"""A connection as a stream of messages, with limits on time and memory."""

from __future__ import annotations

import socket
import struct
import time

from tidemill.serve.postgres.protocol.errors import not_understood

_HEAD = struct.Struct("!ci")
_SENT_AT_ONCE = 256 << 10


class ConnectionEndedError(Exception):
    """The client has gone, or has done nothing for too long in the middle of something."""


class Channel:
    """Reads whole messages and collects what is written.

    Parameters
    ----------
    connection : socket
        Of TCP, or TLS over it.
    most_bytes : int
        Of one message that is read.
    stalled_seconds : float
        After so long without a byte, in the middle of a message that is read or written, the connection is given up.
    """

    def __init__(self, connection: socket.socket, most_bytes: int, stalled_seconds: float) -> None:
        self._socket = connection
        self._most = most_bytes
        self._stalled = stalled_seconds
        self._written = bytearray()

    def read(self, count: int, seconds: float | None) -> bytes:
        """So many bytes, the first within some seconds, or whenever it comes.

        Raises
        ------
        ConnectionEndedError
            At the end of the stream.
        TimeoutError
            When the first byte does not come in time.
        """
        found = bytearray()
        self._socket.settimeout(seconds)
        while len(found) < count:
            try:
                part = self._socket.recv(min(count - len(found), 1 << 16))
            except TimeoutError:
                if found:
                    raise ConnectionEndedError("it stalled") from None
                raise
            except OSError as error:
                raise ConnectionEndedError(str(error)) from error
            if not part:
                raise ConnectionEndedError("it was closed")
            if not found:
                self._socket.settimeout(self._stalled)
            found += part
        return bytes(found)

    def message(self, seconds: float | None, most_bytes: int | None = None) -> tuple[bytes, bytes]:
        """The kind and content of the next message. TM8101 for an impossible length; otherwise as :meth:`read`."""
        kind, length = _HEAD.unpack(self.read(5, seconds))
        most = self._most if most_bytes is None else most_bytes
        if not 4 <= length <= most:
            raise not_understood(f"a message {kind!r} of {length:,} bytes; at most {most:,} are read")
        try:
            return kind, self.read(length - 4, self._stalled) if length > 4 else b""
        except TimeoutError as error:
            raise ConnectionEndedError("it stalled") from error

    def start_up(self, seconds: float, most_bytes: int) -> tuple[int, bytes]:
        """The code and content of a message that has no kind: the first ones. Errors as :meth:`message`."""
        end = time.monotonic() + seconds
        length, code = struct.unpack("!ii", self.read(8, seconds))
        if not 8 <= length <= most_bytes:
            raise not_understood(f"a first message of {length:,} bytes")
        rest = max(0.1, end - time.monotonic())
        return code, self.read(length - 8, rest) if length > 8 else b""

    def write(self, data: bytes | memoryview) -> None:
        """Add to what is sent by the next :meth:`flush`; large data are sent at once."""
        if len(data) >= _SENT_AT_ONCE:
            self.flush()
            self._send(memoryview(data))
            return
        self._written += data
        if len(self._written) >= _SENT_AT_ONCE:
            self.flush()

    def flush(self) -> None:
        """Send everything. ConnectionEndedError when the client has gone, or takes nothing for too long."""
        if self._written:
            data, self._written = self._written, bytearray()
            self._send(memoryview(data))

    def _send(self, data: memoryview) -> None:
        try:
            self._socket.settimeout(self._stalled)
            while len(data):
                data = data[self._socket.send(data[:_SENT_AT_ONCE]) :]
        except OSError as error:  # a time-out is one, too
            raise ConnectionEndedError(str(error)) from error
