"""Tasks inside one long Spark stage: each Spark task reads sets of splits for the loader until it is closed.

The loader listens; every task of the stage connects to it and shows a token. Then a connection carries one set of
splits after the other, and the batches that become of them:

    loader to task     length (4 bytes, big endian), then a pickled set of splits
    task to loader     a letter and a length: B and an Arrow IPC stream of one batch; E for the end of the set; X and a
                       pickled error

A task that is lost, with its process or host, is a connection that ends: the set is read again by another one, and the
rows that the loader was given before are left out, which are the same. Spark runs the stage again.
"""

from __future__ import annotations

import hmac
import os
import pickle
import queue
import secrets
import socket
import struct
import threading
import time
import uuid
import warnings
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import partial
from typing import Any, Protocol

import pyarrow as pa

from tidemill.errors import TidemillError
from tidemill.loader.split_sets import SplitSet
from tidemill.loader.task_pool import TaskPool
from tidemill.plan.loading.plan import Plan

_LENGTH, _HEAD = struct.Struct("!I"), struct.Struct("!cI")
_TOKEN_BYTES = 32
_MOST_FAILURES = 4
"""Failures of the stage, one after the other without a set of splits in between, that are taken for its end."""
_BUFFER = 1 << 20
_PATIENCE = 30.0
"""Seconds without any task until a warning says so."""


class Session(Protocol):
    """A Spark session."""

    sparkContext: Any  # noqa: N815


class LostError(Exception):
    """A connection has ended."""


class SparkStage:
    """Reads sets of splits in the tasks of a Spark stage, which begins with it and ends with :meth:`close`.

    Parameters
    ----------
    spark : pyspark.sql.SparkSession
        Each of ``tasks`` takes one of its slots for as long.
    plan : Plan
    tasks : int
    """

    def __init__(self, spark: Session, plan: Plan, tasks: int) -> None:
        self._context = spark.sparkContext
        self._plan, self._tasks = plan, tasks
        self._token = secrets.token_bytes(_TOKEN_BYTES)
        self._free: queue.Queue[socket.socket] = queue.Queue()
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._closed = False
        self._failures = 0
        self._welcomed = False
        self._process = os.getpid()
        self._group = f"tidemill loader {uuid.uuid4().hex}"
        self._error: TidemillError | None = None
        local = str(self._context.master).startswith("local")
        host = "127.0.0.1" if local else str(self._context.getConf().get("spark.driver.host"))
        self._listener = socket.create_server((host, 0))
        self.address: tuple[str, int] = self._listener.getsockname()[:2]
        """Where tasks connect to."""
        self._threads = [
            threading.Thread(target=target, daemon=True, name=name)
            for name, target in (("loader-accept", self._accept), ("loader-stage", self._run))
        ]
        for thread in self._threads:
            thread.start()

    # -- reading --------------------------------------------------------------------------------------

    def read(self, splits: SplitSet, stopping: threading.Event) -> Iterator[pa.RecordBatch] | None:
        """The rows of a set of splits, from the next task that is free; None when ``stopping`` is set before that.

        Raises
        ------
        TidemillError
            TM9008 when the stage has failed; then, and while rows are taken, as :meth:`Task.next`.
        """
        connection = self._take(stopping)
        return None if connection is None else self._rows(connection, splits, stopping)

    def _rows(self, connection: socket.socket, splits: SplitSet, stopping: threading.Event) -> Iterator[pa.RecordBatch]:
        given = 0
        while True:
            skip = given
            try:
                for batch in _asked(connection, splits):
                    left_out = min(skip, batch.num_rows)
                    skip -= left_out
                    if left_out < batch.num_rows:
                        given += batch.num_rows - left_out
                        yield batch.slice(left_out)
            except LostError:
                self._forget(connection)
            except BaseException:
                self._forget(connection)  # also when nobody takes the rest of the rows
                raise
            else:
                self._failures = 0
                self._free.put(connection)
                return
            again = self._take(stopping)
            if again is None:
                return
            connection = again

    def _take(self, stopping: threading.Event) -> socket.socket | None:
        self._check_process()
        began = time.monotonic()
        while not stopping.is_set():
            if self._error is not None:
                raise self._error
            if self._closed:
                raise TidemillError(
                    "TM9009", "this loader is closed", got="an iteration after close()", hint="make another Loader"
                )
            if not self._welcomed and time.monotonic() - began > _PATIENCE:
                began = time.monotonic()
                warnings.warn(_no_slot().message(), stacklevel=2)
            with suppress(queue.Empty):
                return self._free.get(timeout=0.05)
        return None

    def _check_process(self) -> None:
        """TM9026 behind a fork: connections cannot be shared."""
        if os.getpid() != self._process:
            raise _stays()

    def __reduce__(self) -> Any:
        raise _stays()

    def _forget(self, connection: socket.socket) -> None:
        with self._lock:
            self._open.discard(connection)
        connection.close()

    # -- the stage ------------------------------------------------------------------------------------

    def _accept(self) -> None:
        while not self._closed:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return  # closed
            threading.Thread(target=self._welcome, args=(connection,), daemon=True, name="loader-welcome").start()

    def _welcome(self, connection: socket.socket) -> None:
        """Take a connection that shows the token."""
        connection.settimeout(10)
        try:
            known = hmac.compare_digest(_received(connection, _TOKEN_BYTES), self._token)
        except (LostError, OSError):
            known = False
        if not known:
            connection.close()
            return
        connection.settimeout(None)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with self._lock:
            if not self._closed:
                self._welcomed = True
                self._open.add(connection)
                self._free.put(connection)
                return
        connection.close()

    def _run(self) -> None:
        """Run the stage, again when it has failed."""
        serve = partial(_serve, self.address, self._token, self._plan)
        while not self._closed:
            try:
                self._context.setJobGroup(self._group, "a loader of Tidemill", True)
                self._context.parallelize(range(self._tasks), self._tasks).foreachPartition(serve)
            except Exception as error:
                self._failures += 1
                if self._failures >= _MOST_FAILURES and not self._closed:
                    self._fail(error)
                    return
                time.sleep(0.1 * self._failures)

    def _fail(self, error: Exception) -> None:
        said = " ".join(str(error).split("Driver stacktrace")[0].split())
        self._error = TidemillError(
            "TM9008",
            "the Spark stage of the loader has failed again and again",
            got=f"{type(error).__name__}: {said[:150]} ... {said[-250:]}",
            hint="see the log of Spark's executors; Loader(..., spark=None) reads in this process",
        )

    def close(self) -> None:
        """End the stage: its tasks end with their connections. It may be called twice."""
        with self._lock:
            self._closed = True
            open_, self._open = self._open, set()
        with suppress(Exception):  # the session may be stopped
            self._context.cancelJobGroup(self._group)
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for connection in open_:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
            connection.close()
        for thread in self._threads:
            thread.join(timeout=30)


def _no_slot() -> TidemillError:
    return TidemillError(
        "TM9027",
        "no task of the loader's Spark stage has begun",
        got=f"{_PATIENCE:.0f} s without one: other jobs, or another loader, have all slots",
        hint="close the other loader, or give Spark more slots; it goes on by itself then",
    )


def _stays() -> TidemillError:
    return TidemillError(
        "TM9026",
        "a loader with a Spark stage stays in its process",
        got="a worker process of a DataLoader, or a copy by pickle",
        hint="num_workers=0: the stage reads ahead by itself; or Loader(..., spark=None)",
    )


def _asked(connection: socket.socket, splits: SplitSet) -> Iterator[pa.RecordBatch]:
    """The batches that the other end makes of a set of splits. LostError when the connection ends."""
    data = pickle.dumps(dict(splits), protocol=5)
    _sent(connection, _LENGTH.pack(len(data)) + data)
    while True:
        kind, length = _HEAD.unpack(_received(connection, _HEAD.size))
        body = _received(connection, length)
        if kind == b"E":
            return
        if kind == b"X":
            raise pickle.loads(body)
        yield pa.ipc.open_stream(pa.py_buffer(body)).read_next_batch()


def _sent(connection: socket.socket, *parts: Any) -> None:
    try:
        for part in parts:
            connection.sendall(part)
    except OSError as error:
        raise LostError from error


def _received(connection: socket.socket, count: int) -> bytearray:
    found = bytearray(count)
    view = memoryview(found)
    while view:
        try:
            read = connection.recv_into(view, min(len(view), _BUFFER))
        except OSError as error:
            raise LostError from error
        if not read:
            raise LostError
        view = view[read:]
    return found


# -- in a task of Spark -----------------------------------------------------------------------------------


def _serve(address: tuple[str, int], token: bytes, plan: Plan, _: Iterable[int]) -> None:
    """Carry out what the loader asks for, over one connection after the other, until it does not listen any more."""
    pool = TaskPool(plan)
    while True:
        try:
            connection = socket.create_connection(address, timeout=30)
        except OSError:
            pool.close()
            return
        connection.settimeout(None)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with connection, suppress(LostError):
            _sent(connection, token)
            while True:
                (length,) = _LENGTH.unpack(_received(connection, _LENGTH.size))
                _carry_out(connection, pool, pickle.loads(_received(connection, length)))


def _carry_out(connection: socket.socket, pool: TaskPool, splits: SplitSet) -> None:
    try:
        for batch in pool.read(splits):
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, batch.schema) as writer:
                writer.write_batch(batch)
            written = sink.getvalue()
            _sent(connection, _HEAD.pack(b"B", written.size), written)
    except TidemillError as error:
        body = pickle.dumps(error, protocol=5)
        _sent(connection, _HEAD.pack(b"X", len(body)), body)
    else:
        _sent(connection, _HEAD.pack(b"E", 0))
