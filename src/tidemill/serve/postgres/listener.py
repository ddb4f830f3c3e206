"""Listens for clients of PostgreSQL's protocol."""

from __future__ import annotations

import contextlib
import hmac
import logging
import os
import socket
import threading
import time
from collections.abc import Callable

from tidemill.errors import TidemillError
from tidemill.serve.access.tls import tls_context
from tidemill.serve.postgres.connection import Connection
from tidemill.serve.postgres.query.answering import Answering
from tidemill.serve.postgres.query.duckdb_engine import DuckDBEngine
from tidemill.serve.postgres.start_up import CancelRequest
from tidemill.serve.service.service import Service

_LOG = logging.getLogger("tidemill.serve")
_TICK_SECONDS = 0.05
_END_SECONDS = 5.0
"""How long a server that stops waits for connections to end by themselves."""
_LAST_SECONDS = 30.0
"""And then for statements that cannot be interrupted; their threads end with the process."""
_MOST_PROCESS = 1 << 30


class PostgresListener:
    """Accepts connections, each on a thread of its own, until it is closed.

    Parameters
    ----------
    service : Service
    listening : socket
        Bound and listening already; it is closed with the listener.
    """

    def __init__(self, service: Service, listening: socket.socket) -> None:
        settings = service.settings
        self._service, self._socket = service, listening
        self._tls = tls_context(settings.tls_certificate, settings.tls_key)
        if self._tls is not None:
            self._tls.set_alpn_protocols(["postgresql"])
        self._engine = DuckDBEngine(settings.pg_memory_bytes, max(1, os.cpu_count() or 1))
        self._answering = Answering(service.mill, self._engine, settings.pg_duckdb_bytes, service.long_statement)
        self._lock = threading.Lock()
        self._connections: dict[int, tuple[Connection, threading.Thread]] = {}
        self._next = 1
        self._closed, self._ended = threading.Event(), threading.Event()
        self._threads = [
            threading.Thread(target=target, name=f"serve-postgres-{name}", daemon=True)
            for name, target in (("accept", self._accept), ("cancel", self._tick))
        ]

    def start(self) -> None:
        """Begin to accept."""
        for thread in self._threads:
            thread.start()

    @property
    def port(self) -> int:
        """Where it listens."""
        found: int = self._socket.getsockname()[1]
        return found

    @property
    def connections(self) -> int:
        """How many clients are connected."""
        return len(self._connections)

    def close(self) -> None:
        """End all connections: statements are cancelled, clients get an error, those that do not read are cut off."""
        accepting, cancelling = self._threads
        self._closed.set()
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        accepting.join()
        with self._lock:
            found = list(self._connections.values())
        for at_once, seconds in ((False, _END_SECONDS), (True, _LAST_SECONDS)):
            for connection, _ in found:
                connection.end(at_once)
            deadline = time.monotonic() + seconds
            for _, thread in found:
                thread.join(max(0.0, deadline - time.monotonic()))
            found = [(c, t) for c, t in found if t.is_alive()]
        if found:
            _LOG.error("%d statements over PostgreSQL's protocol did not end", len(found))
        self._ended.set()  # not before: a statement that begins meanwhile has to be interrupted again
        cancelling.join()
        self._engine.close()

    def _accept(self) -> None:
        while not self._closed.is_set():
            try:
                client, address = self._socket.accept()
            except OSError:  # no file descriptors are left, or the client has gone again
                self._closed.wait(_TICK_SECONDS)
                continue
            try:
                client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                client.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)  # a client whose host is gone is noticed
                self._begin(client, str(address[0]))
            except (OSError, RuntimeError):  # RuntimeError: there can be no more threads
                _LOG.warning("a connection of PostgreSQL's protocol could not be served", exc_info=True)
                client.close()

    def _begin(self, client: socket.socket, address: str) -> None:
        with self._lock:
            if self._closed.is_set() or len(self._connections) >= 2 * self._service.settings.pg_max_connections:
                client.close()
                return
            process = self._next
            self._next = self._next % _MOST_PROCESS + 1
            connection = Connection(process, client, address, self._service, self._answering)
            thread = threading.Thread(
                target=self._run, args=(connection,), name=f"serve-postgres-{process}", daemon=True
            )
            thread.start()
            self._connections[process] = connection, thread  # it takes itself out under the lock, so later

    def _run(self, connection: Connection) -> None:
        try:
            connection.run(self._tls, self._cancel, self._counted(connection))
        finally:
            with self._lock:
                self._connections.pop(connection.process, None)

    def _counted(self, connection: Connection) -> Callable[[], None]:
        def check() -> None:
            most = self._service.settings.pg_max_connections
            with self._lock:
                before = sum(1 for process in self._connections if process < connection.process)
            if before >= most:
                raise TidemillError(
                    "TM8105",
                    "too many connections",
                    got=f"{most:,} are open",
                    hint="close some, or raise the setting pg_max_connections",
                )

        return check

    def _cancel(self, request: CancelRequest) -> None:
        """Cancel a statement for whoever shows the secret of its connection; others are not answered."""
        with self._lock:
            found = self._connections.get(request.process)
        secret = found[0].secret if found is not None else 0
        shown = request.secret.to_bytes(4, "big")
        if hmac.compare_digest(secret.to_bytes(4, "big"), shown) and found is not None:
            found[0].cancellation.cancel("a client asked for it")

    def _tick(self) -> None:
        while not self._ended.wait(_TICK_SECONDS):
            with self._lock:
                found = [connection for connection, _ in self._connections.values()]
            for connection in found:
                try:
                    connection.tick()
                except Exception:  # else no statement of any connection would be cancelled from now on
                    _LOG.exception("a statement over PostgreSQL's protocol could not be interrupted")
