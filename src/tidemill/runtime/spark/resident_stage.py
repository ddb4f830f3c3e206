"""A Spark stage whose tasks stay: each connects to this process, and carries out what it is asked until the end.

This process listens; every task of the stage connects to it and shows a token. What is said over a connection is up to
a :class:`Host`, which is sent to the tasks. A task that is lost, with its process or its machine, is a connection that
ends; Spark runs it again, and this process runs the stage again when Spark has given it up.
"""

from __future__ import annotations

import hmac
import queue
import re
import secrets
import socket
import threading
import time
import uuid
from collections.abc import Iterable
from contextlib import suppress
from functools import partial
from typing import Any, Protocol

from tidemill.runtime.spark.messages import LostError, received, sent

_TOKEN_BYTES = 32
_MOST_FAILURES = 4
"""Failures of the stage, one soon after the other without an answer in between, that are taken for its end."""
_LONG = 60.0
"""Seconds for which a stage ran that is no failure soon after the one before."""


class Host(Protocol):
    """What a task does, pickled with the stage."""

    def serve(self, connection: socket.socket) -> None:
        """Carry out what comes over a connection; LostError when that ends."""

    def close(self) -> None:
        """The task ends."""


class ResidentStage:
    """A stage that begins with it and ends with :meth:`close`.

    Parameters
    ----------
    context : pyspark.SparkContext
        Each of ``tasks`` takes one of its slots for as long.
    host : Host
        What the tasks do.
    tasks : int
    purpose : str
        For Spark's pages, and the names of threads.
    """

    def __init__(self, context: Any, host: Host, tasks: int, purpose: str) -> None:
        self._context, self._host, self.tasks = context, host, tasks
        self._given = _given_to_tasks(context)
        self._token = secrets.token_bytes(_TOKEN_BYTES)
        self._free: queue.Queue[socket.socket] = queue.Queue()
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._ending = threading.Event()
        self._failures = 0
        self._purpose = purpose
        self._group = f"tidemill {purpose} {uuid.uuid4().hex}"
        self.closed = False
        self.welcomed = False
        """Whether any task has connected."""
        self.failure: str | None = None
        """Why the stage is not run any more, except by :meth:`close`."""
        conf = context.getConf()
        local = re.fullmatch(r"local(\[.*\])?", str(context.master)) is not None
        told = "127.0.0.1" if local else str(conf.get("spark.driver.host"))
        bound = told if local else str(conf.get("spark.driver.bindAddress") or told)
        self._listener = socket.create_server((bound, 0))
        self.address: tuple[str, int] = (told, self._listener.getsockname()[1])
        """Where tasks connect to."""
        self._threads = [
            threading.Thread(target=target, daemon=True, name=f"{purpose}-{name}")
            for name, target in (("accept", self._accept), ("stage", self._run))
        ]
        for thread in self._threads:
            thread.start()

    def is_current(self) -> bool:
        """Whether tasks that begin now would have the same environment variables and Python packages."""
        return self._given == _given_to_tasks(self._context)

    def take(self, count: int = 1, timeout: float = 0.0) -> list[socket.socket]:
        """Connections to as many tasks that nobody else uses; none when there are not enough within some seconds."""
        found: list[socket.socket] = []
        end = time.monotonic() + timeout
        try:
            while len(found) < count:
                left = end - time.monotonic()
                found.append(self._free.get(timeout=left) if left > 0 else self._free.get_nowait())
        except queue.Empty:
            for connection in found:
                self._free.put(connection)
            return []
        return found

    def give_back(self, connections: Iterable[socket.socket]) -> None:
        """The tasks have answered, and can be asked again."""
        self._failures = 0
        for connection in connections:
            self._free.put(connection)

    def forget(self, connections: Iterable[socket.socket]) -> None:
        """End connections whose tasks are lost, or are not to go on; a task that lives connects again."""
        for connection in connections:
            with self._lock:
                self._open.discard(connection)
            _end(connection)

    def _accept(self) -> None:
        while not self.closed:
            try:
                connection, _ = self._listener.accept()
            except OSError:  # closed, or too many open files
                self._ending.wait(0.05)
                continue
            name = f"{self._purpose}-welcome"
            threading.Thread(target=self._welcome, args=(connection,), daemon=True, name=name).start()

    def _welcome(self, connection: socket.socket) -> None:
        """Take a connection that shows the token."""
        connection.settimeout(10)
        try:
            known = hmac.compare_digest(received(connection, _TOKEN_BYTES), self._token)
        except LostError:
            known = False
        if not known:
            connection.close()
            return
        connection.settimeout(None)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with self._lock:
            if not self.closed:
                self.welcomed = True
                self._open.add(connection)
                self._free.put(connection)
                return
        connection.close()

    def _run(self) -> None:
        """Run the stage, again when it has failed."""
        serve = partial(_serve, self.address, self._token, self._host)
        while not self.closed:
            begin = time.monotonic()
            try:
                self._context.setJobGroup(self._group, f"{self._purpose} of Tidemill", True)
                self._context.parallelize(range(self.tasks), self.tasks).foreachPartition(serve)
            except Exception as error:
                self._failures = 1 if time.monotonic() - begin > _LONG else self._failures + 1
                if self._failures >= _MOST_FAILURES and not self.closed:
                    said = " ".join(str(error).split("Driver stacktrace")[0].split())
                    self.failure = f"{type(error).__name__}: {said[:150]} ... {said[-250:]}"
                    return
                self._ending.wait(0.1 * self._failures)

    def close(self) -> None:
        """End the stage: its tasks end with their connections. It may be called twice."""
        with self._lock:
            self.closed = True
            self._ending.set()
            open_, self._open = self._open, set()
        with suppress(Exception):  # the session may be stopped
            self._context.cancelJobGroup(self._group)
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for connection in open_:
            _end(connection)
        for thread in self._threads:
            thread.join(timeout=30)


def _given_to_tasks(context: Any) -> tuple[object, ...]:
    """What Spark gives to Python's processes when they begin: variables, and packages of ``addPyFile``."""
    return tuple(sorted(context.environment.items())), tuple(context._python_includes)


def _end(connection: socket.socket) -> None:
    """End a connection for all processes that have it: a fork of this one has it, too."""
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
    connection.close()


# -- in a task of Spark -----------------------------------------------------------------------------------


def _serve(address: tuple[str, int], token: bytes, host: Host, _: Iterable[int]) -> None:
    """Serve one connection after the other, until nobody listens any more. OSError when that was never so."""
    served = False
    while True:
        try:
            connection = socket.create_connection(address, timeout=30)
        except OSError:
            host.close()
            if not served:
                raise
            return
        served = True
        connection.settimeout(None)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with connection, suppress(LostError):
            sent(connection, token)
            host.serve(connection)
