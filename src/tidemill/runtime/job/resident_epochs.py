"""Epochs in tasks that stay, without a Spark job each.

A job takes 10 to 20 ms until its tasks begin and their answers are back, and as much for each exchange, which is most
of a small epoch. Here the tasks are those of a :class:`~tidemill.runtime.spark.resident_stage.ResidentStage`: Spark has
placed them, and starts them again when they are lost; a superstep is a message to each and an answer. They do what the
tasks of a job do (:mod:`~tidemill.runtime.job.superstep`), and exchange records through files in memory
(:mod:`~tidemill.runtime.job.exchange_file`), of which this process only sees the places; between hosts the bytes go by
Arrow Flight. A task works on several partitions, one after the other, where there are more of them than tasks.

An epoch for which not enough tasks are free, one with more to exchange than fits into memory, and one whose task fails
or is lost runs as a job: nothing was sealed by what went before.
"""

from __future__ import annotations

import pickle
import secrets
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
from tidemill.runtime.spark.resident_slots import Look, ResidentSlots
from tidemill.runtime.spark.resident_stage import ResidentStage
from tidemill.runtime.spark.session import local_slots
from tidemill.task.program import Program

_PATIENCE = 30.0
"""Seconds without a task until a warning says so."""

_LOOK_SECONDS = 2.0
"""Between two looks at the executors of a cluster, and between two attempts to begin a stage."""

_MOST_BYTES = 64 << 20
"""Input of an epoch of several partitions that each have a task, and less where they share some. For more of it a job
takes hardly longer, and exchanges it through files."""


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
    look : callable
        Gives the slots of Spark that the stage may take: on a cluster others as executors come and go.
    jobs : Jobs
        For what cannot run in the tasks.
    warn : callable
        Takes the text of a warning: TM1042 when a task failed, TM1043 when there is none.
    """

    def __init__(self, context: SparkContext, look: Look, jobs: Jobs, warn: Callable[[str], None]) -> None:
        self._context, self._look = context, look
        self._jobs, self._warn = jobs, warn
        self._began = self._looked = time.monotonic()
        self._told = False
        self._local = local_slots(str(context.master)) is not None
        self._slots = look()
        self._stage = _join(context, self._slots)

    def run(self, plan: EpochPlan, supersteps: int, work: Sequence[Work]) -> list[TaskReport]:
        """Run all supersteps. Result and errors as :meth:`EpochJobs.run`."""
        stage = self._stage = self._newest()
        tasks = stage.take(min(plan.partitions, stage.tasks)) if stage is not None and _fits(plan, work, stage) else []
        if not tasks:
            self._tell_of_none()
            return self._jobs.run(plan, supersteps, work)
        assert stage is not None
        try:
            reports = _run(tasks, plan, supersteps, work)
        except (LostError, _FailedError) as error:
            stage.forget(tasks)  # those that live connect again
            self._warn(_failed(error).message())
            return self._jobs.run(plan, supersteps, work)
        except BaseException:
            stage.forget(tasks)  # their answers are still to come
            raise
        stage.give_back(tasks)
        return without_errors(reports)

    def _newest(self) -> ResidentStage | None:
        """The stage; another one when it has failed, or the cluster or what Spark gives to tasks has changed."""
        stage, slots = self._stage, self._slots
        failed = stage is None or stage.failure is not None
        if (failed or not self._local) and time.monotonic() - self._looked > _LOOK_SECONDS:
            self._looked, self._slots = time.monotonic(), self._look()
            self._tell_of_none()
            if stage is None:
                return _join(self._context, self._slots)
            if failed or slots != self._slots:
                return _renewed(self._context, stage, self._slots)
        if stage is None or failed or stage.is_current():
            return stage
        return _renewed(self._context, stage, ResidentSlots(stage.tasks, stage.per_executor))

    def _tell_of_none(self) -> None:
        """Warn once: when there is no stage, or no task of it, for longer than it takes executors to begin."""
        stage = self._stage
        late = time.monotonic() - self._began > _PATIENCE
        if stage is None:
            due, said = late or self._local, "Spark has no slot for one beside those for jobs"
        else:
            due = stage.failure is not None or (late and not stage.welcomed)
            said = stage.failure or f"{_PATIENCE:.0f} s without one"
        if due and not self._told:
            self._told = True
            self._warn(_no_task(said).message())

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
        hint="give Spark more slots, two or more in each executor: these tasks keep theirs; or leave `mode` at `auto`",
    )


# -- one stage for each Spark context ---------------------------------------------------------------------

_stages: WeakKeyDictionary[SparkContext, tuple[ResidentStage, int]] = WeakKeyDictionary()
_stages_lock = threading.Lock()


def _join(context: SparkContext, slots: ResidentSlots) -> ResidentStage | None:
    """The stage of a context, or a new one; None without slots for one."""
    with _stages_lock:
        stage, users = _stages.get(context, (None, 0))
        if stage is None or stage.failure is not None:
            stage = _begun(context, slots)
        if stage is not None:
            _stages[context] = stage, users + 1
        return stage


def _begun(context: SparkContext, slots: ResidentSlots) -> ResidentStage | None:
    if not slots.tasks:
        return None
    host = EpochHost(secrets.token_hex() if slots.per_executor else "")
    return ResidentStage(context, host, slots.tasks, "resident epochs", slots.per_executor)


def _renewed(context: SparkContext, stage: ResidentStage, slots: ResidentSlots) -> ResidentStage | None:
    """Another stage in place of one, for all mills that use it; that which another mill has begun for them."""
    with _stages_lock:
        shared, users = _stages.get(context, (stage, 1))
        if shared is not stage and shared.failure is None:
            return shared
        begun = _begun(context, slots)
        if begun is not None:
            _stages[context] = begun, users
        else:
            _stages.pop(context, None)
    stage.close()
    return begun


def _fits(plan: EpochPlan, work: Sequence[Work], stage: ResidentStage) -> bool:
    """Whether an epoch is one for these tasks: its job would take long because it is a job."""
    if plan.partitions == 1:
        return True
    if not exchange_file.SUPPORTED or any(share.snapshots for share in work):
        return False
    most = _MOST_BYTES * min(stage.tasks, plan.partitions) // plan.partitions
    return sum(split.length for share in work for _, split in share.splits) <= most


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
    """The answers of tasks, which work at the same time, to a request each, or to several in turn.

    Errors as :func:`_run`.
    """
    answers = []
    for at in range(0, len(requests), len(tasks)):
        some = requests[at : at + len(tasks)]
        asked = [(task, pickle.dumps(request, protocol=5)) for task, request in zip(tasks, some)]
        for task, body in asked:
            send(task, kind, body)
        answers += [_answer(task, kind, body, program) for task, body in asked]
    return answers


def _answer(task: socket.socket, kind: bytes, request: bytes, program: Program) -> tuple[bytes, bytearray]:
    while True:
        answer, body = receive(task)
        if answer in (REPORTS, OUTPUT):
            return answer, body
        if answer == FAILED:
            raise _FailedError(body.decode())
        send(task, PROGRAM, CPickleSerializer().dumps(program))
        send(task, kind, request)
