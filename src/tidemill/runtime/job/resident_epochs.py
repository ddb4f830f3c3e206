"""Epochs in tasks that stay, without a Spark job each.

A job takes 10 to 20 ms until its tasks begin and their answers are back, and as much for each exchange, which is most
of a small epoch. Here the tasks are those of a :class:`~tidemill.runtime.spark.resident_stage.ResidentStage`: Spark has
placed them, and starts them again when they are lost; a superstep is a message to each and an answer. They do what the
tasks of a job do (:mod:`~tidemill.runtime.job.superstep`), and exchange records through files in memory
(:mod:`~tidemill.runtime.job.exchange_file`), of which this process only sees the places.

An epoch for which not enough tasks are free, one with more to exchange than fits into memory, and one whose task fails
or is lost runs as a job: nothing was sealed by what went before.
"""

from __future__ import annotations

import pickle
import socket
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Protocol
from weakref import WeakKeyDictionary

from pyspark import SparkContext
from pyspark.serializers import CPickleSerializer

from tidemill.errors import TidemillError
from tidemill.runtime.job import exchange_file
from tidemill.runtime.job.epoch_job import without_errors
from tidemill.runtime.job.exchange_file import Slices
from tidemill.runtime.job.resident_host import (
    EPOCH,
    FAILED,
    OUTPUT,
    OVER,
    PROGRAM,
    REPORTS,
    SUPERSTEP,
    EpochHost,
    EpochRequest,
    Named,
    SuperstepRequest,
)
from tidemill.runtime.job.superstep import EpochPlan, TaskReport, Work
from tidemill.runtime.spark.messages import LostError, receive, send
from tidemill.runtime.spark.resident_stage import ResidentStage
from tidemill.task.program import Program

_PATIENCE = 30.0
"""Seconds without a task until a warning says so."""

_MOST_BYTES = 64 << 20
"""Input of an epoch of several partitions. For more of it a job takes hardly longer, and exchanges it through files."""


class Jobs(Protocol):
    """Runs epochs."""

    def run(self, plan: EpochPlan, supersteps: int, work: Sequence[Work]) -> list[TaskReport]:
        """Run all supersteps and return the reports of the successful attempts."""

    def close(self) -> None:
        """No epoch comes any more."""


class ResidentEpochs:
    """Runs epochs in tasks that stay, and as jobs where that is not possible.

    All mills of a Spark context share the stage; while one of them uses its tasks, the others run jobs.

    Parameters
    ----------
    tasks : int
        Slots of Spark that the stage takes. Epochs of more partitions are jobs.
    jobs : Jobs
        For what cannot run in the tasks.
    warn : callable
        Takes the text of a warning: TM1042 when a task failed, TM1043 when there is none.
    """

    def __init__(self, context: SparkContext, tasks: int, jobs: Jobs, warn: Callable[[str], None]) -> None:
        self._context, self._tasks = context, tasks
        self._jobs, self._warn = jobs, warn
        self._began, self._told = time.monotonic(), False
        self._stage: ResidentStage | None = None
        if tasks:
            self._stage = _join(context, tasks)
        else:
            warn(_no_task("Spark has one slot, or is a cluster").message())

    def run(self, plan: EpochPlan, supersteps: int, work: Sequence[Work]) -> list[TaskReport]:
        """Run all supersteps. Result and errors as :meth:`EpochJobs.run`."""
        if self._stage is not None:
            self._stage = _newest(self._context, self._stage)
        tasks = self._stage.take(plan.partitions) if self._stage is not None and self._fits(plan, work) else []
        if not tasks:
            self._tell_of_none()
            return self._jobs.run(plan, supersteps, work)
        assert self._stage is not None
        try:
            reports = _run(tasks, plan, supersteps, work)
        except (LostError, _FailedError) as error:
            self._stage.forget(tasks)  # those that live connect again
            self._warn(_failed(error).message())
            return self._jobs.run(plan, supersteps, work)
        except BaseException:
            self._stage.forget(tasks)  # their answers are still to come
            raise
        self._stage.give_back(tasks)
        return without_errors(reports)

    def _fits(self, plan: EpochPlan, work: Sequence[Work]) -> bool:
        """Whether an epoch is one for these tasks: its job would take long because it is a job."""
        if plan.partitions == 1:
            return True
        if plan.partitions > self._tasks or not exchange_file.SUPPORTED or any(share.snapshots for share in work):
            return False
        return sum(split.length for share in work for _, split in share.splits) <= _MOST_BYTES

    def _tell_of_none(self) -> None:
        """Warn once when the stage does not begin, or is not run any more."""
        stage = self._stage
        if stage is None:
            return
        late = not stage.welcomed and time.monotonic() - self._began > _PATIENCE
        if not self._told and (late or stage.failure is not None):
            self._told = True
            self._warn(_no_task(stage.failure or f"{_PATIENCE:.0f} s without one").message())

    def close(self) -> None:
        """End the stage, unless another mill of this Spark context uses it."""
        if self._stage is not None:
            _leave(self._context, self._stage)
        self._jobs.close()


def _failed(error: Exception) -> TidemillError:
    lost = isinstance(error, LostError)
    return TidemillError(
        "TM1042",
        "a resident task failed, and its epoch ran as a Spark job",
        got="the task was lost: its process was killed, or had too little memory" if lost else str(error),
        hint="nothing is lost; Spark starts the task again",
    )


def _no_task(said: str) -> TidemillError:
    return TidemillError(
        "TM1043",
        "there is no resident task, and epochs run as Spark jobs",
        got=said,
        hint="use a local master with more slots: these tasks keep theirs; or leave `mode` at `jobs`",
    )


# -- one stage for each Spark context ---------------------------------------------------------------------

_stages: WeakKeyDictionary[SparkContext, tuple[ResidentStage, int]] = WeakKeyDictionary()
_stages_lock = threading.Lock()


def _join(context: SparkContext, tasks: int) -> ResidentStage:
    with _stages_lock:
        stage, users = _stages.get(context, (None, 0))
        if stage is None or stage.failure is not None:
            stage, users = ResidentStage(context, EpochHost(), tasks, "resident epochs"), 0
        _stages[context] = stage, users + 1
        return stage


def _newest(context: SparkContext, stage: ResidentStage) -> ResidentStage:
    """The stage, or one that begins now when its tasks lack what Spark gives to those that begin now."""
    if stage.is_current():
        return stage
    with _stages_lock:
        shared, users = _stages.get(context, (stage, 1))
        if shared.is_current():
            return shared
        begun = ResidentStage(context, EpochHost(), stage.tasks, "resident epochs")
        _stages[context] = begun, users
    stage.close()
    return begun


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
    """An error in a task that has no number."""


def _run(tasks: Sequence[socket.socket], plan: EpochPlan, supersteps: int, work: Sequence[Work]) -> list[TaskReport]:
    """The reports of an epoch. LostError when a connection ends, _FailedError for an error without a number."""
    program = plan.program.value
    named = replace(plan, program=Named(program.fingerprint))
    if plan.partitions == 1:
        answers = _asked(tasks, EPOCH, [EpochRequest(named, supersteps, work[0])], program)
    else:
        answers = _exchanged(tasks, named, supersteps, work, program)
    return [_report(data) for kind, body in answers if kind == REPORTS for data in pickle.loads(body)]


def _exchanged(
    tasks: Sequence[socket.socket], plan: EpochPlan, supersteps: int, work: Sequence[Work], program: Program
) -> list[tuple[bytes, bytearray]]:
    """The answers to the last superstep of an epoch of several partitions."""
    requests = [SuperstepRequest(plan, 0, supersteps == 1, i, share, ()) for i, share in enumerate(work)]
    for depth in range(1, supersteps):
        answers = _asked(tasks, SUPERSTEP, requests, program)
        slices: list[list[Slices]] = [[] for _ in range(plan.partitions)]
        for kind, body in answers:
            assert kind == OUTPUT
            for target, found in pickle.loads(body).items():
                slices[target % plan.partitions].append(found)
        last = depth == supersteps - 1
        requests = [SuperstepRequest(plan, depth, last, i, None, tuple(some)) for i, some in enumerate(slices)]
    found = _asked(tasks, SUPERSTEP, requests, program)
    for task in tasks:
        with suppress(LostError):  # it has answered
            send(task, OVER)
    return found


def _report(data: bytes) -> TaskReport:
    report = pickle.loads(data)
    assert isinstance(report, TaskReport)
    return replace(report, resident=True)


def _asked(
    tasks: Sequence[socket.socket],
    kind: bytes,
    requests: Sequence[EpochRequest | SuperstepRequest],
    program: Program,
) -> list[tuple[bytes, bytearray]]:
    """The answers of tasks, which work at the same time, to a request each. Errors as :func:`_run`."""
    bodies = [pickle.dumps(request, protocol=5) for request in requests]
    asked = list(zip(tasks, bodies))
    for task, body in asked:
        send(task, kind, body)
    return [_answer(task, kind, body, program) for task, body in asked]


def _answer(task: socket.socket, kind: bytes, request: bytes, program: Program) -> tuple[bytes, bytearray]:
    while True:
        answer, body = receive(task)
        if answer in (REPORTS, OUTPUT):
            return answer, body
        if answer == FAILED:
            raise _FailedError(body.decode())
        send(task, PROGRAM, CPickleSerializer().dumps(program))
        send(task, kind, request)
