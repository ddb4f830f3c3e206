"""Small epochs in a task that stays, without a Spark job each.

A job takes 10 to 20 ms until its task begins and its answer is back, which is most of a small epoch. Here the task is
one of a :class:`~tidemill.runtime.spark.resident_stage.ResidentStage`: Spark has placed it, and starts it again when it
is lost; an epoch is a message to it and an answer. Messages, each behind a letter and a length:

    to the task     E and a pickled request; P and a program, after which the request is repeated
    to the mill     R and the reports of all supersteps; N for a program that the task does not know; X and the text of
                    an error that has no number

What the task does is what a job of one partition does (:func:`~tidemill.runtime.job.superstep.all_supersteps`). An
epoch of several partitions, one for which no task is free, and one whose task fails or is lost runs as a job: nothing
was sealed by what went before.
"""

from __future__ import annotations

import pickle
import socket
import struct
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol
from weakref import WeakKeyDictionary

from pyspark import SparkContext
from pyspark.serializers import CPickleSerializer

from tidemill.errors import TidemillError
from tidemill.runtime.job.epoch_job import without_errors
from tidemill.runtime.job.superstep import EpochPlan, Record, TaskReport, Work, all_supersteps
from tidemill.runtime.spark.messages import LostError, received, sent
from tidemill.runtime.spark.resident_stage import ResidentStage
from tidemill.task.program import Program

TASKS = 1
"""Slots of Spark that the stage takes."""

_HEAD = struct.Struct("!cI")
_PROGRAMS_KEPT = 16
_PATIENCE = 30.0
"""Seconds without a task until a warning says so."""


class Jobs(Protocol):
    """Runs epochs as Spark jobs."""

    def run(self, plan: EpochPlan, supersteps: int, work: Sequence[Work]) -> list[TaskReport]:
        """Run all supersteps and return the reports of the successful attempts."""


class ResidentEpochs:
    """Runs small epochs in a task that stays, and the others as jobs.

    All mills of a Spark context share the stage; while one of them uses its task, the others run jobs.

    Parameters
    ----------
    jobs : Jobs
        For what cannot run in the task.
    warn : callable
        Takes the text of a warning: TM1042 when the task failed, TM1043 when there is none any more.
    """

    def __init__(self, context: SparkContext, jobs: Jobs, warn: Callable[[str], None]) -> None:
        self._jobs, self._warn = jobs, warn
        self._context = context
        self._began, self._told = time.monotonic(), False
        self._stage = _join(context)

    def run(self, plan: EpochPlan, supersteps: int, work: Sequence[Work]) -> list[TaskReport]:
        """Run all supersteps. Result and errors as :meth:`EpochJobs.run`."""
        connection = self._stage.take() if plan.partitions == 1 else None
        if connection is None:
            self._tell_of_none()
            return self._jobs.run(plan, supersteps, work)
        try:
            reports = _asked(connection, plan, supersteps, work[0])
        except (LostError, _FailedError) as error:
            self._stage.forget(connection)
            self._warn(_failed(error).message())
            return self._jobs.run(plan, supersteps, work)
        except BaseException:
            self._stage.forget(connection)  # its answer is still to come
            raise
        self._stage.give_back(connection)
        return without_errors(reports)

    def _tell_of_none(self) -> None:
        """Warn once when the stage does not begin, or is not run any more."""
        stage = self._stage
        late = not stage.welcomed and time.monotonic() - self._began > _PATIENCE
        if not self._told and (late or stage.failure is not None):
            self._told = True
            self._warn(_no_task(stage.failure or f"{_PATIENCE:.0f} s without one").message())

    def wait(self, timeout: float) -> bool:
        """Whether the task is there, or comes within so many seconds."""
        connection = self._stage.take(timeout)
        if connection is not None:
            self._stage.give_back(connection)
        return connection is not None

    def close(self) -> None:
        """End the stage, unless another mill of this Spark context uses it."""
        _leave(self._context, self._stage)


def _failed(error: Exception) -> TidemillError:
    lost = isinstance(error, LostError)
    return TidemillError(
        "TM1042",
        "the resident task failed, and its epoch ran as a Spark job",
        got="the task was lost: its process was killed, or had too little memory" if lost else str(error),
        hint="nothing is lost; Spark starts the task again",
    )


def _no_task(said: str) -> TidemillError:
    return TidemillError(
        "TM1043",
        "there is no resident task, and epochs run as Spark jobs",
        got=said,
        hint="give Spark a slot more: the task takes one for itself; or leave `mode` at `jobs`",
    )


# -- one stage for each Spark context ---------------------------------------------------------------------

_stages: WeakKeyDictionary[SparkContext, tuple[ResidentStage, int]] = WeakKeyDictionary()
_stages_lock = threading.Lock()


def _join(context: SparkContext) -> ResidentStage:
    with _stages_lock:
        stage, users = _stages.get(context, (None, 0))
        if stage is None or stage.failure is not None:
            stage, users = ResidentStage(context, _Host(), TASKS, "resident epochs"), 0
        _stages[context] = stage, users + 1
        return stage


def _leave(context: SparkContext, stage: ResidentStage) -> None:
    with _stages_lock:
        shared, users = _stages.get(context, (None, 0))
        if shared is stage and users > 1:
            _stages[context] = stage, users - 1
            return
        if shared is stage:
            del _stages[context]
    stage.close()


# -- asking -----------------------------------------------------------------------------------------------


class _FailedError(Exception):
    """An error in the task that has no number."""


@dataclass(frozen=True)
class _Named:
    """Stands for a broadcast program: the task has it, or asks for it."""

    fingerprint: str

    @property
    def value(self) -> Program:
        raise NotImplementedError  # the task replaces it


@dataclass(frozen=True)
class _Known:
    """Stands for a broadcast program in the task."""

    value: Program


def _asked(connection: socket.socket, plan: EpochPlan, supersteps: int, work: Work) -> list[TaskReport]:
    """The reports of an epoch. LostError when the connection ends, _FailedError for an error without a number."""
    program = plan.program.value
    request = pickle.dumps((replace(plan, program=_Named(program.fingerprint)), supersteps, work), protocol=5)
    _send(connection, b"E", request)
    while True:
        kind, body = _receive(connection)
        if kind == b"R":
            return [replace(pickle.loads(data), resident=True) for _, data in pickle.loads(body)]
        if kind == b"X":
            raise _FailedError(body.decode())
        _send(connection, b"P", CPickleSerializer().dumps(program))
        _send(connection, b"E", request)


def _send(connection: socket.socket, kind: bytes, body: bytes) -> None:
    sent(connection, _HEAD.pack(kind, len(body)), body)


def _receive(connection: socket.socket) -> tuple[bytes, bytearray]:
    kind, length = _HEAD.unpack(received(connection, _HEAD.size))
    return kind, received(connection, length)


# -- in the task ------------------------------------------------------------------------------------------


class _Host:
    """Runs epochs in a task of Spark."""

    def __init__(self) -> None:
        self._programs: dict[str, Program] = {}

    def serve(self, connection: socket.socket) -> None:
        while True:
            kind, body = _receive(connection)
            try:
                if kind == b"P":
                    self._keep(CPickleSerializer().loads(body))
                    continue
                records = self._run(*pickle.loads(body))
            except Exception as error:
                said = traceback.format_exception_only(error)[-1].strip()
                _send(connection, b"X", said.encode(errors="replace"))
                continue
            if records is None:
                _send(connection, b"N", b"")
            else:
                _send(connection, b"R", pickle.dumps(records, protocol=5))

    def _run(self, plan: EpochPlan, supersteps: int, work: Work) -> list[Record] | None:
        """The records of an epoch; None when the program is not known."""
        assert isinstance(plan.program, _Named)
        program = self._programs.get(plan.program.fingerprint)
        if program is None:
            return None
        return list(all_supersteps(replace(plan, program=_Known(program)), supersteps, work))

    def _keep(self, program: Program) -> None:
        while len(self._programs) >= _PROGRAMS_KEPT:
            self._programs.pop(next(iter(self._programs)))
        self._programs[program.fingerprint] = program

    def close(self) -> None:
        self._programs.clear()
