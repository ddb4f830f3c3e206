"""Tasks inside one long Spark stage: each Spark task reads sets of splits for the loader until it is closed.

A connection of :class:`~tidemill.runtime.spark.resident_stage.ResidentStage` carries one set of splits after the
other, and the batches that become of them:

    loader to task     S and a pickled set of splits
    task to loader     B and an Arrow IPC stream of one batch; E for the end of the set; X and a pickled error

When a task is lost the set is read again by another one, and the rows that the loader was given before are left out,
which are the same.
"""

from __future__ import annotations

import os
import pickle
import socket
import threading
import time
import warnings
from collections.abc import Iterator
from typing import Any, Protocol

import pyarrow as pa

from tidemill.errors import TidemillError
from tidemill.loader.split_sets import SplitSet
from tidemill.loader.task_pool import TaskPool
from tidemill.plan.loading.plan import Plan
from tidemill.runtime.spark.messages import LostError, receive, send
from tidemill.runtime.spark.resident_stage import ResidentStage

_PATIENCE = 30.0
"""Seconds without any task until a warning says so."""


class Session(Protocol):
    """A Spark session."""

    sparkContext: Any  # noqa: N815


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
        self._process = os.getpid()
        self._stage = ResidentStage(spark.sparkContext, _Host(plan), tasks, "loader")

    @property
    def address(self) -> tuple[str, int]:
        """Where tasks connect to."""
        return self._stage.address

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
                self._stage.forget([connection])
            except BaseException:
                self._stage.forget([connection])  # also when nobody takes the rest of the rows
                raise
            else:
                self._stage.give_back([connection])
                return
            again = self._take(stopping)
            if again is None:
                return
            connection = again

    def _take(self, stopping: threading.Event) -> socket.socket | None:
        self._check_process()
        stage, began = self._stage, time.monotonic()
        while not stopping.is_set():
            if stage.failure is not None:
                raise _failed(stage.failure)
            if stage.closed:
                raise TidemillError(
                    "TM9009", "this loader is closed", got="an iteration after close()", hint="make another Loader"
                )
            if not stage.welcomed and time.monotonic() - began > _PATIENCE:
                began = time.monotonic()
                warnings.warn(_no_slot().message(), stacklevel=2)
            for connection in stage.take(timeout=0.05):
                return connection
        return None

    def _check_process(self) -> None:
        """TM9026 behind a fork: connections cannot be shared."""
        if os.getpid() != self._process:
            raise _stays()

    def __reduce__(self) -> Any:
        raise _stays()

    def close(self) -> None:
        """End the stage: its tasks end with their connections. It may be called twice."""
        self._stage.close()


def _failed(said: str) -> TidemillError:
    return TidemillError(
        "TM9008",
        "the Spark stage of the loader has failed again and again",
        got=said,
        hint="see the log of Spark's executors; Loader(..., spark=None) reads in this process",
    )


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
    send(connection, b"S", pickle.dumps(dict(splits), protocol=5))
    while True:
        kind, body = receive(connection)
        if kind == b"E":
            return
        if kind == b"X":
            raise pickle.loads(body)
        yield pa.ipc.open_stream(pa.py_buffer(body)).read_next_batch()


# -- in a task of Spark -----------------------------------------------------------------------------------


class _Host:
    """Reads sets of splits in a task of Spark."""

    def __init__(self, plan: Plan) -> None:
        self._pool = TaskPool(plan)

    def serve(self, connection: socket.socket) -> None:
        while True:
            _, body = receive(connection)
            _carry_out(connection, self._pool, pickle.loads(body))

    def close(self) -> None:
        self._pool.close()


def _carry_out(connection: socket.socket, pool: TaskPool, splits: SplitSet) -> None:
    try:
        for batch in pool.read(splits):
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, batch.schema) as writer:
                writer.write_batch(batch)
            send(connection, b"B", sink.getvalue())
    except TidemillError as error:
        send(connection, b"X", pickle.dumps(error, protocol=5))
    else:
        send(connection, b"E")
