"""A Spark stage whose tasks stay: each connects to this process, and carries out what it is asked until the end.

This process listens; every task of the stage connects to it, shows a token and says where it runs. What is said over a
connection is up to a :class:`Host`, which is sent to the tasks. A task that is lost, with its process or its machine,
is a connection that ends; Spark runs it again, and this process runs the stage again when Spark has given it up.
"""

from __future__ import annotations

import hmac
import json
import re
import secrets
import socket
import threading
import time
import uuid
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import astuple
from functools import partial
from typing import Any, Protocol

from tidemill.runtime.spark.messages import LostError, receive, received, send, sent
from tidemill.runtime.spark.task_place import Place, this_place

_TOKEN_BYTES = 32
_MOST_FAILURES = 4
"""Failures of the stage, one soon after the other without an answer in between, that are taken for its end."""
_GONE = {"TCP_KEEPIDLE": 10, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 3, "TCP_USER_TIMEOUT": 30_000}
"""Seconds until the kernel asks an idle peer, between two questions, and how many; ms for what it does not confirm."""
_CLOSE_SECONDS = 30.0
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
    per_executor : int
        The stage ends when more of its tasks are in one executor; 0 for as many as Spark sends there.
    """

    def __init__(self, context: Any, host: Host, tasks: int, purpose: str, per_executor: int = 0) -> None:
        self._context, self._host, self.tasks, self.per_executor = context, host, tasks, per_executor
        self._given = _given_to_tasks(context)
        self._token = secrets.token_bytes(_TOKEN_BYTES)
        self._free: set[socket.socket] = set()
        self._open: dict[socket.socket, tuple[Place, int]] = {}
        """With their places, and the order in which they came."""
        self._lock = threading.Condition()
        self._came = 0
        self._ending = threading.Event()
        self._failures = 0
        self._purpose = purpose
        self._group = f"tidemill {purpose} {uuid.uuid4().hex}"
        self.closed = False
        self.welcomed = False
        """Whether any task has connected."""
        self.complete = False
        """Whether all tasks have been connected at a time."""
        self.missing_since: float | None = time.monotonic()
        """Since when that is not so, as far as is known."""
        self.failure: str | None = None
        """Why the stage is not run any more, except by :meth:`close`."""
        conf = context._conf
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

    def _note_missing(self) -> None:
        """Under the lock, after tasks have come or gone."""
        if len(self._open) >= self.tasks:
            self.complete, self.missing_since = True, None
        elif self.missing_since is None:
            self.missing_since = time.monotonic()

    def is_current(self) -> bool:
        """Whether tasks that begin now would have the same environment variables and Python packages."""
        return self._given == _given_to_tasks(self._context)

    def take(self, count: int = 1, timeout: float = 0.0) -> list[socket.socket]:
        """Connections to as many tasks that nobody else uses; none when there are not enough within some seconds.

        The same tasks come first every time, those of a host one after the other: state that one of them has written is
        on its host.
        """
        with self._lock:
            if not self._lock.wait_for(lambda: self._living() >= count, timeout):
                return []
            found = sorted(self._free, key=self._open.__getitem__)[:count]
            self._free.difference_update(found)
        return found

    def _living(self) -> int:
        """How many tasks are free. Those whose connections have ended are forgotten."""
        for connection in [connection for connection in self._free if _has_ended(connection)]:
            self._free.remove(connection)
            del self._open[connection]
            self._note_missing()
            _end(connection)
        return len(self._free)

    def give_back(self, connections: Iterable[socket.socket]) -> None:
        """The tasks have answered, and can be asked again."""
        self._failures = 0
        with self._lock:
            self._free.update(connection for connection in connections if connection in self._open)
            self._lock.notify_all()

    def forget(self, connections: Iterable[socket.socket]) -> None:
        """End connections whose tasks are lost, or are not to go on; a task that lives connects again."""
        for connection in connections:
            with self._lock:
                self._open.pop(connection, None)
                self._note_missing()
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
            place = Place(*json.loads(receive(connection)[1])) if known else None
        except LostError:
            place = None
        if place is None:
            connection.close()
            return
        connection.settimeout(None)
        _prepare(connection)
        with self._lock:
            taken = not self.closed
            if taken:
                self.welcomed = True
                self._came += 1
                self._open[connection] = place, self._came
                self._free.add(connection)
                self._note_missing()
                self._lock.notify_all()
        if not taken:
            connection.close()
        elif self.per_executor and self._most_in_one_executor() > self.per_executor:
            self.failure = "Spark has sent so many tasks to one executor that no slot of it is left"
            self.close()

    def _most_in_one_executor(self) -> int:
        with self._lock:
            places = [place for connection, (place, _) in self._open.items() if not _has_ended(connection)]
        return max(Counter(places).values(), default=0)

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
            open_, self._open, self._free = self._open, {}, set()
            self._note_missing()
        self._cancel()
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for connection in open_:
            _end(connection)
        end = time.monotonic() + _CLOSE_SECONDS
        for thread in self._threads:
            while thread is not threading.current_thread() and thread.is_alive() and time.monotonic() < end:
                thread.join(timeout=0.2)
                self._cancel()  # a job that has begun just now

    def _cancel(self) -> None:
        with suppress(Exception):  # the session may be stopped
            self._context.cancelJobGroup(self._group)


def _given_to_tasks(context: Any) -> tuple[object, ...]:
    """What Spark gives to Python's processes when they begin: variables, and packages of ``addPyFile``."""
    return tuple(sorted(context.environment.items())), tuple(context._python_includes)


def _prepare(connection: socket.socket) -> None:
    """Send at once, and have the kernel end a connection whose other host is gone within half a minute."""
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _GONE.items():
        if hasattr(socket, name):  # Linux has all of them
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


def _has_ended(connection: socket.socket) -> bool:
    """Whether the other end is gone, as far as this host knows; what has come is not read."""
    try:
        return connection.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True


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
        _prepare(connection)
        with connection, suppress(LostError):
            sent(connection, token)
            send(connection, b"P", json.dumps(astuple(this_place())).encode())
            host.serve(connection)
