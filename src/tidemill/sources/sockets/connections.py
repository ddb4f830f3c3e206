"""Connections of sockets: state, opening, reading and closing."""

from __future__ import annotations

import os
import random
import socket
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from tidemill.sources.sockets.endpoints import Address, Endpoint
from tidemill.sources.sockets.framing import Framer
from tidemill.sources.sockets.inlet import Inlet

READ_BYTES = 64 << 10
"""Most bytes read from one connection before others have their turn."""

_SHOWN_BYTES = 200
"""Of what a server that was greeted sent last."""
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 10.0


@dataclass(frozen=True)
class ConnectionStatus:
    """One row of a table's status.

    ``state`` is ``listening``, ``connecting``, ``connected``, ``waiting`` (to connect again), ``paused`` (the spool is
    full), ``ended`` (standard input) or ``closed``. ``peer`` is the address of the other side; for a
    listening socket its own address, and the numbers are sums over its closed connections. ``errors`` counts
    connections that failed or ended within a message, messages that were too long, and failed attempts to connect or
    listen.
    ``since`` are microseconds since 1970.
    """

    endpoint: str
    peer: str
    state: str
    bytes: int
    messages: int
    errors: int
    since: int
    last_error: str


class Connection:
    """A connection or a listening socket. Used by the reading thread only.

    A client connection remains the same object when it is opened again.
    """

    __slots__ = (
        "bytes", "endpoint", "errors", "framer", "inlet", "last_error", "messages", "open_since", "pauses", "peer",
        "registered", "since", "socket", "state",
    )  # fmt: skip

    def __init__(self, inlet: Inlet, endpoint: Endpoint, state: str, peer: str) -> None:
        self.inlet = inlet
        self.endpoint = endpoint
        self.peer = peer
        self.socket: Readable | None = None
        self.framer: Framer | None = None
        self.bytes = self.messages = self.errors = self.pauses = 0
        self.last_error = ""
        self.open_since = 0.0
        self.registered = 0
        self.state = state
        self.since = 0.0
        self.enter(state)

    def enter(self, state: str) -> None:
        """Set the state."""
        self.state = state
        self.since = time.time()

    def failed(self, why: str) -> None:
        """Count an error and keep its text."""
        self.errors += 1
        self.last_error = why

    def opened(self) -> None:
        """Begin to receive messages."""
        self.framer = self.inlet.options.framing.begin()
        self.open_since = 0.0
        self.enter("connected")

    def take(self, data: bytes, now: float) -> None:
        """Process received bytes."""
        framer = self.framer
        assert framer is not None
        self.bytes += len(data)
        messages, too_long = framer.messages, framer.too_long
        whole = framer.feed(data)
        if whole:
            self.pauses = 0
            self.messages += framer.messages - messages
            self.inlet.put(whole)
        if framer.too_long != too_long:
            self.errors += framer.too_long - too_long
            self.last_error = framer.broken or "a message longer than maxMessageBytes was left out"
        if not framer.is_open:
            self.open_since = 0.0
        elif whole or not self.open_since:
            self.open_since = now

    def finish(self, why: str) -> None:
        """Handle the end of the stream, or its failure (``why``); an incomplete message is counted and dropped."""
        framer, self.framer = self.framer, None
        self.open_since = 0.0
        if framer is None or framer.broken:
            return
        if why:
            self.failed(why)
        elif self.endpoint.is_stdin and (last := framer.last()):
            self.messages += 1
            self.inlet.put(last)
        elif framer.is_open:
            begin = framer.begin(_SHOWN_BYTES) if self.inlet.options.greeting else b""
            said = f": {begin.decode('utf-8', 'replace')}" if begin else ""  # a server may say why it refuses to go on
            self.failed(f"it ended within a message, of which {framer.open_bytes:,} bytes were left out{said}")

    def pause_before_retry(self) -> float:
        """Seconds until it may be opened again: growing with each attempt, with jitter."""
        pause = min(_FIRST_PAUSE * float(2**self.pauses), _LONGEST_PAUSE)
        self.pauses = min(self.pauses + 1, 20)
        return pause * random.uniform(0.5, 1.0)

    def status(self, paused: bool) -> ConnectionStatus:
        """As a row of the table's status."""
        state = "paused" if paused and self.state == "connected" else self.state
        since, error = int(self.since * 1e6), self.last_error
        return ConnectionStatus(
            self.endpoint.url, self.peer, state, self.bytes, self.messages, self.errors, since, error
        )


class Readable(Protocol):
    """A socket, or standard input with the same interface."""

    def fileno(self) -> int: ...

    def recv(self, size: int, /) -> bytes: ...

    def close(self) -> None: ...


class StandardInput:
    """File descriptor 0; it is not closed."""

    def fileno(self) -> int:
        """0."""
        return 0

    def recv(self, size: int, /) -> bytes:
        """The next bytes; empty at the end."""
        return os.read(0, size)

    def close(self) -> None:
        """Nothing."""


def listen(endpoint: Endpoint) -> socket.socket:
    """Open a listening socket. OSError as of sockets."""
    if isinstance(endpoint.address, str):
        _remove_stale(endpoint.address)
    found = socket.socket(endpoint.family, socket.SOCK_STREAM)
    try:
        found.setblocking(False)
        if endpoint.family != socket.AF_UNIX:
            found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind(endpoint.address)
        found.listen(4096)
    except BaseException:
        found.close()
        raise
    return found


def _remove_stale(path: str) -> None:
    """Remove the file of a Unix socket that no process listens on, such as a killed process leaves."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        try:
            probe.connect(path)
        except FileNotFoundError:
            return
        except ConnectionRefusedError:
            Path(path).unlink()


def dial(endpoint: Endpoint, address: Address) -> socket.socket:
    """Start to connect; the socket becomes writable when that has succeeded or failed. OSError as of sockets."""
    found = socket.socket(endpoint.family, socket.SOCK_STREAM)
    found.setblocking(False)
    try:
        found.connect(address)
    except BlockingIOError:
        if endpoint.family == socket.AF_UNIX:  # its queue is full; it is not being connected
            found.close()
            raise
    except BaseException:
        found.close()
        raise
    return found


def address_text(endpoint: Endpoint, address: object) -> str:
    """An address as text."""
    if isinstance(address, tuple):
        host, port = address[:2]
        return f"[{host}]:{port}" if ":" in str(host) else f"{host}:{port}"
    return str(address) if address else endpoint.url
