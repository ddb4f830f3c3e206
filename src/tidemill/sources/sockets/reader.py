"""One thread reads all connections of all tables."""

from __future__ import annotations

import contextlib
import heapq
import itertools
import os
import selectors
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path

from tidemill.errors import TidemillError
from tidemill.sources.sockets.connections import (
    READ_BYTES,
    Connection,
    ConnectionStatus,
    Readable,
    StandardInput,
    address_text,
    dial,
    listen,
)
from tidemill.sources.sockets.endpoints import Address, Endpoint
from tidemill.sources.sockets.inlet import Inlet

_FLUSH_SECONDS = 0.005
"""Seconds until received messages are written, at most."""

_SWEEP_SECONDS = 0.25
_KEPT_CLOSED = 100
"""Closed connections with errors whose status is kept, for each table."""

_MOST_OPEN_BYTES = 64 << 20
"""Most bytes of all incomplete messages together; above it the longest one is dropped."""


@dataclass
class _Table:
    inlet: Inlet
    connections: dict[Connection, None] = field(default_factory=dict)
    places: dict[Endpoint, Connection] = field(default_factory=dict)
    closed: deque[ConnectionStatus] = field(default_factory=lambda: deque(maxlen=_KEPT_CLOSED))
    paused: bool = False
    removed: bool = False


class SocketReader:
    """Opens connections, reads them, and opens them again. Its methods may be called from any thread.

    Hazard: errors of connections are shown in their status only. Any other error ends the thread; :meth:`check` raises
    it.
    """

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()
        self._tables: dict[str, _Table] = {}
        self._commands: deque[Callable[[], None]] = deque()
        self._timers: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = itertools.count()
        self._always: dict[Connection, None] = {}
        self._dirty: dict[str, _Table] = {}
        self._flush_at = 0.0
        self._now = time.monotonic()
        self._closing = False
        self._failure: Exception | None = None
        self._resolver: ThreadPoolExecutor | None = None
        self._wake_read, self._wake_write = socket.socketpair()
        self._wake_read.setblocking(False)
        self._wake_write.setblocking(False)
        self._selector.register(self._wake_read, selectors.EVENT_READ, None)
        self._at(_SWEEP_SECONDS, self._sweep)
        self._thread = threading.Thread(target=self._run, name="sockets", daemon=True)
        self._thread.start()

    # -- from any thread ------------------------------------------------------------------------------

    def add(self, inlet: Inlet, endpoints: Sequence[Endpoint], must_open: bool) -> None:
        """Begin to read a table's connections.

        Parameters
        ----------
        must_open : bool
            Whether a socket that cannot be opened for listening is an error; else opening is retried.

        Raises
        ------
        TidemillError
            TM5021 when a listening socket cannot be opened; then none has been opened.
        """
        self._ask(lambda: self._add(inlet, endpoints, must_open))

    def remove(self, name: str) -> None:
        """Close a table's connections and its spool."""
        self._ask(lambda: self._remove(name))

    def flush(self) -> None:
        """Write all messages read so far to the spools."""
        self._ask(self._flush)

    def status(self, name: str) -> list[ConnectionStatus]:
        """Status of the connections of a table, and of those closed with an error last."""
        found: list[ConnectionStatus] = []
        self._ask(lambda: found.extend(self._status(name)))
        return found

    def check(self) -> None:
        """TM5022 when the thread has ended with an error."""
        if self._failure is not None:
            raise TidemillError(
                "TM5022",
                "reading sockets failed",
                got=f"{type(self._failure).__name__}: {self._failure}",
                hint="open the mill again: what is in the spool is not lost",
            ) from self._failure

    @property
    def closed(self) -> bool:
        """Whether it has been closed, or has failed."""
        return self._closing or self._failure is not None

    def close(self) -> None:
        """Close all connections and end the thread; may be called twice."""
        if self._closing:
            return
        self._closing = True
        self._wake()
        self._thread.join()
        if self._resolver is not None:
            self._resolver.shutdown(wait=False, cancel_futures=True)
        self._wake_read.close()
        self._wake_write.close()

    def _ask(self, work: Callable[[], None]) -> None:
        """Run a function in the thread and wait for it."""
        done: Future[None] = Future()

        def command() -> None:
            try:
                work()
            except BaseException as error:
                done.set_exception(error)
            else:
                done.set_result(None)

        self.check()
        self._commands.append(command)
        self._wake()
        while True:
            try:
                return done.result(timeout=0.5)
            except TimeoutError:
                self.check()
                if not self._thread.is_alive():
                    raise TidemillError(
                        "TM5022",
                        "reading sockets failed",
                        got="the reading thread has ended",
                        hint="open the mill again: what is in the spool is not lost",
                    ) from None

    def _wake(self) -> None:
        with contextlib.suppress(OSError):  # it is full, so the thread will wake; or closed, so it need not
            self._wake_write.send(b"\0")

    # -- the thread -----------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            while not self._closing:
                self._turn()
        except Exception as error:  # raised in the next call
            self._failure = error
        for name in list(self._tables):
            self._remove(name)
        self._selector.close()

    def _turn(self) -> None:
        wait = self._timers[0][0] - self._now if self._timers else 1.0
        if self._always:
            wait = 0.0
        elif self._dirty:
            wait = min(wait, self._flush_at - self._now)
        events = self._selector.select(max(wait, 0.0))
        self._now = now = time.monotonic()
        for key, _ in events:
            connection = key.data
            if connection is None:
                self._wake_read.recv(4096)
            elif connection.registered:
                self._ready(connection)
        for connection in list(self._always):
            self._read(connection)
        if self._dirty and now >= self._flush_at:
            self._flush()
        while self._timers and self._timers[0][0] <= now:
            heapq.heappop(self._timers)[2]()
        while self._commands:
            self._commands.popleft()()

    def _at(self, seconds: float, work: Callable[[], None]) -> None:
        heapq.heappush(self._timers, (time.monotonic() + seconds, next(self._numbers), work))

    def _flush(self) -> None:
        """Write what has been read, and pause the sockets of full spools."""
        dirty, self._dirty = self._dirty, {}
        for name, table in dirty.items():
            table.inlet.flush()
            if table.inlet.over and not table.paused:
                table.paused = True
                for connection in table.connections:
                    if connection.state == "connected":
                        self._unwatch(connection)
            if table.paused and not table.removed:
                self._dirty[name] = table
                if table.inlet.has_room:
                    self._resume(name, table)
        if self._dirty:
            self._flush_at = self._now + 0.02

    def _resume(self, name: str, table: _Table) -> None:
        table.paused = table.inlet.over = False
        del self._dirty[name]
        for connection in table.connections:
            if connection.state == "connected":
                connection.open_since = self._now if connection.open_since else 0.0
                self._watch(connection, selectors.EVENT_READ)

    def _sweep(self) -> None:
        """Close connections whose message has been incomplete for too long."""
        self._at(_SWEEP_SECONDS, self._sweep)
        opened: list[Connection] = []
        for table in self._tables.values():
            if table.paused:
                continue
            longest = table.inlet.options.message_timeout
            for connection in [c for c in table.connections if c.open_since]:
                if self._now - connection.open_since > longest:
                    self._end(table, connection, f"a message was not complete after {longest:g} s (messageTimeout)")
                else:
                    opened.append(connection)
        sizes = [(c.framer.open_bytes, n) for n, c in enumerate(opened) if c.framer is not None]
        total = sum(size for size, _ in sizes)
        for size, number in sorted(sizes, reverse=True):
            if total <= _MOST_OPEN_BYTES:
                break
            total -= size
            why = f"incomplete messages have more than {_MOST_OPEN_BYTES:,} bytes together, and this is the longest"
            self._end(self._tables[opened[number].inlet.name], opened[number], why)

    # -- tables ---------------------------------------------------------------------------------------

    def _add(self, inlet: Inlet, endpoints: Sequence[Endpoint], must_open: bool) -> None:
        if any(e.is_stdin for e in endpoints) and any(
            c.endpoint.is_stdin for t in self._tables.values() for c in t.connections
        ):
            raise TidemillError(
                "TM5021",
                "a socket cannot be opened",
                got="stdin://",
                hint="another table reads standard input",
            )
        table = self._tables[inlet.name] = _Table(inlet)
        try:
            for endpoint in endpoints:
                if endpoint.listens:
                    self._listen(table, Connection(inlet, endpoint, "waiting", ""), must_open)
        except TidemillError:
            self._remove(inlet.name)
            raise
        self._dirty[inlet.name] = table
        for endpoint in endpoints:
            if endpoint.is_stdin:
                self._opened(table, Connection(inlet, endpoint, "connecting", "stdin"), StandardInput())
            elif not endpoint.listens:
                self._dial(table, Connection(inlet, endpoint, "waiting", address_text(endpoint, endpoint.address)))

    def _remove(self, name: str) -> None:
        table = self._tables.pop(name, None)
        if table is None:
            return
        table.removed = True
        self._dirty.pop(name, None)
        for connection in list(table.connections):
            self._shut(connection)
        table.inlet.close()

    def _status(self, name: str) -> list[ConnectionStatus]:
        table = self._tables.get(name)
        if table is None:
            return []
        rows = [c.status(table.paused) for c in table.connections]
        return [*rows, *table.closed]

    # -- connections ----------------------------------------------------------------------------------

    def _watch(self, connection: Connection, events: int) -> None:
        assert connection.socket is not None
        if connection.registered == 0:
            try:
                self._selector.register(connection.socket, events, connection)
            except PermissionError:  # standard input is a file: it can always be read
                self._always[connection] = None
        elif connection.registered != events:
            self._selector.modify(connection.socket, events, connection)
        connection.registered = events

    def _unwatch(self, connection: Connection) -> None:
        if connection.registered:
            if self._always.pop(connection, connection) is connection:
                assert connection.socket is not None
                self._selector.unregister(connection.socket)
            connection.registered = 0

    def _ready(self, connection: Connection) -> None:
        if connection.state == "connected":
            self._read(connection)
        elif connection.state == "listening":
            self._accept(connection)
        else:
            self._connected(connection)

    def _read(self, connection: Connection) -> None:
        inlet = connection.inlet
        if inlet.over:
            return
        assert connection.socket is not None
        try:
            data = connection.socket.recv(READ_BYTES)
        except BlockingIOError:
            return
        except OSError as error:
            self._end(self._tables[inlet.name], connection, error.strerror or str(error))
            return
        if data:
            connection.take(data, self._now)
        if inlet.waits and inlet.name not in self._dirty:
            if not self._dirty:
                self._flush_at = self._now + _FLUSH_SECONDS
            self._dirty[inlet.name] = self._tables[inlet.name]
        broken = connection.framer is not None and connection.framer.broken
        if not data or broken:
            self._end(self._tables[inlet.name], connection)

    def _opened(self, table: _Table, connection: Connection, opened: Readable) -> None:
        connection.socket = opened
        connection.opened()
        table.connections[connection] = None
        if not table.paused:
            self._watch(connection, selectors.EVENT_READ)

    def _shut(self, connection: Connection) -> None:
        self._unwatch(connection)
        if connection.socket is not None:
            connection.socket.close()
            connection.socket = None
            if connection.state == "listening" and isinstance(connection.endpoint.address, str):
                Path(connection.endpoint.address).unlink(missing_ok=True)

    def _end(self, table: _Table, connection: Connection, why: str = "") -> None:
        """Handle the end of a connection: one from a peer is dropped, one to a peer is opened again."""
        connection.finish(why)
        self._shut(connection)
        if connection.inlet.waits:
            self._dirty.setdefault(connection.inlet.name, table)
        if connection.endpoint.is_stdin:
            connection.enter("ended")
        elif connection.endpoint.listens:
            del table.connections[connection]
            connection.enter("closed")
            if connection.errors:
                table.closed.append(connection.status(False))
            place = table.places[connection.endpoint]
            place.bytes += connection.bytes
            place.messages += connection.messages
            place.errors += connection.errors
            place.last_error = connection.last_error or place.last_error
        else:
            self._again(table, connection, self._dial)

    def _again(self, table: _Table, connection: Connection, work: Callable[[_Table, Connection], None]) -> None:
        """Open a connection again later."""
        connection.enter("waiting")

        def later() -> None:
            if not table.removed:
                work(table, connection)

        self._at(connection.pause_before_retry(), later)

    # -- opening --------------------------------------------------------------------------------------

    def _listen(self, table: _Table, connection: Connection, must_open: bool = False) -> None:
        table.connections[connection] = None
        table.places[connection.endpoint] = connection
        try:
            opened = listen(connection.endpoint)
        except OSError as error:
            if must_open:
                raise TidemillError(
                    "TM5021",
                    "a socket cannot be opened",
                    got=f"{connection.endpoint.url}: {error.strerror or error}",
                    hint="another process may listen there; port 0 takes a free one, which the status shows",
                ) from error
            connection.failed(error.strerror or str(error))
            self._again(table, connection, self._listen)
            return
        connection.socket = opened
        connection.pauses = 0
        connection.peer = address_text(connection.endpoint, opened.getsockname())
        connection.enter("listening")
        self._watch(connection, selectors.EVENT_READ)

    def _accept(self, place: Connection) -> None:
        table = self._tables[place.inlet.name]
        assert isinstance(place.socket, socket.socket)
        for _ in range(256):
            try:
                opened, address = place.socket.accept()
            except BlockingIOError:
                return
            except ConnectionAbortedError as error:
                place.failed(error.strerror or str(error))
                continue
            except OSError as error:  # no more file descriptors: others go on, and peers wait
                place.failed(error.strerror or str(error))
                self._unwatch(place)
                self._at(1.0, lambda: None if table.removed else self._watch(place, selectors.EVENT_READ))
                return
            opened.setblocking(False)
            with contextlib.suppress(OSError):  # it is gone again, which reading tells
                _keep_alive(opened)
            peer = address_text(place.endpoint, address)
            self._opened(table, Connection(place.inlet, place.endpoint, "connected", peer), opened)

    def _dial(self, table: _Table, connection: Connection) -> None:
        table.connections[connection] = None
        connection.enter("connecting")
        address = connection.endpoint.address
        if isinstance(address, str) or _is_number(address[0]):
            self._dial_to(table, connection, address)
            return
        if self._resolver is None:
            self._resolver = ThreadPoolExecutor(1, "stream-names")
        family, (host, port) = connection.endpoint.family, address

        def resolve() -> None:
            try:
                found: Address | OSError = socket.getaddrinfo(host, port, family, socket.SOCK_STREAM)[0][4][:2]  # type: ignore[assignment]
            except OSError as error:
                found = error
            self._commands.append(lambda: None if table.removed else self._resolved(table, connection, found))
            self._wake()

        self._resolver.submit(resolve)

    def _resolved(self, table: _Table, connection: Connection, found: Address | OSError) -> None:
        if isinstance(found, OSError):
            connection.failed(f"{connection.peer}: {found.strerror or found}")
            self._again(table, connection, self._dial)
        else:
            self._dial_to(table, connection, found)

    def _dial_to(self, table: _Table, connection: Connection, address: Address) -> None:
        try:
            connection.socket = dial(connection.endpoint, address)
        except OSError as error:
            connection.failed(error.strerror or str(error))
            self._again(table, connection, self._dial)
            return
        self._watch(connection, selectors.EVENT_WRITE)

    def _connected(self, connection: Connection) -> None:
        """Handle the result of an attempt to connect."""
        table = self._tables[connection.inlet.name]
        opened = connection.socket
        assert isinstance(opened, socket.socket)
        code = opened.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        self._unwatch(connection)
        if code:
            connection.failed(os.strerror(code))
            self._shut(connection)
            self._again(table, connection, self._dial)
            return
        _keep_alive(opened)
        try:
            _send(opened, connection.inlet.greeting())
        except OSError as error:
            connection.failed(f"the greeting cannot be sent: {error.strerror or error}")
            self._shut(connection)
            self._again(table, connection, self._dial)
            return
        self._opened(table, connection, opened)


def _send(opened: socket.socket, greeting: bytes) -> None:
    """Send a greeting, which the buffer of a new connection has room for."""
    if greeting and opened.send(greeting) < len(greeting):
        raise BlockingIOError("no room for it")


def _keep_alive(opened: socket.socket) -> None:
    """Have the kernel detect a peer that has gone without closing."""
    if opened.family != socket.AF_UNIX:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)


def _is_number(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True
