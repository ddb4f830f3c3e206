"""Messages over a connection between two processes of Tidemill: a letter, a length, and as many bytes."""

from __future__ import annotations

import socket
import struct
from typing import Any

_HEAD = struct.Struct("!cI")
_READ_BYTES = 1 << 20


class LostError(Exception):
    """A connection has ended: its other end has closed it, was killed, or cannot be reached any more."""


def sent(connection: socket.socket, *parts: Any) -> None:
    """Send buffers, one after the other. LostError when the connection ends."""
    try:
        for part in parts:
            connection.sendall(part)
    except OSError as error:
        raise LostError from error


def received(connection: socket.socket, count: int) -> bytearray:
    """Receive exactly ``count`` bytes. LostError when the connection ends before."""
    found = bytearray(count)
    view = memoryview(found)
    while view:
        try:
            read = connection.recv_into(view, min(len(view), _READ_BYTES))
        except OSError as error:
            raise LostError from error
        if not read:
            raise LostError
        view = view[read:]
    return found


def send(connection: socket.socket, kind: bytes, body: Any = b"") -> None:
    """Send a message: a letter and a buffer. LostError when the connection ends."""
    sent(connection, _HEAD.pack(kind, memoryview(body).nbytes), body)


def receive(connection: socket.socket) -> tuple[bytes, bytearray]:
    """The next message. LostError when the connection ends."""
    kind, length = _HEAD.unpack(received(connection, _HEAD.size))
    return kind, received(connection, length)
