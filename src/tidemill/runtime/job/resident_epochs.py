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

import math
import pickle
import secrets
import socket
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from selectors import EVENT_READ, DefaultSelector
from typing import Protocol
from weakref import WeakKeyDictionary

from pyspark import SparkContext
from pyspark.serializers import CPickleSerializer

from tidemill.connectors.registry import scheme_of
from tidemill.errors import TidemillError
from tidemill.runtime.job import exchange_file
from tidemill.runtime.job.divisions import Divisions
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
from tidemill.runtime.job.sent_tables import SentTables, TableChanges
from tidemill.runtime.job.superstep import EpochPlan, TaskReport, Work
from tidemill.runtime.spark.messages import LostError, receive, send
from tidemill.runtime.spark.resident_slots import Look, ResidentSlots
from tidemill.runtime.spark.resident_stage import ResidentStage
from tidemill.runtime.spark.session import local_slots
from tidemill.sources.split import Split, SplitResult
from tidemill.task.program import Program

_PATIENCE = 30.0
"""Seconds without a task until a warning says so."""

_BEGINNING = 5.0
"""Seconds since a stage has begun for which an epoch waits for its tasks, on a local master."""

_LOOK_SECONDS = 2.0
"""Between two looks at the executors of a cluster, and between two attempts to begin a stage."""

_MOST_BYTES = 64 << 20
"""Input of an epoch of several partitions that each have a task, and less where they share some. For more of it a job
takes hardly longer, and exchanges it through files."""

_MOST_REPEATED_BYTES = 4 << 20
"""Input of an epoch that several tasks may read, each for some of the views."""


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
        self._jobs, self._warn = jobs, warn
        self._local = local_slots(str(context.master)) is not None
        self._found_missing: float | None = None
        """When an epoch first found tasks missing that have not come since."""
        self._told = False
        self._divisions = Divisions()
        self._shared = _join(context, self, look)

    def run(self, plan: EpochPlan, supersteps: int, work: Sequence[Work]) -> list[TaskReport]:
        """Run all supersteps. Result and errors as :meth:`EpochJobs.run`."""
        stage = self._shared.newest()
        self._tell_of_missing(stage)
        if stage is None or not _fits(plan, work, stage):
            return self._jobs.run(plan, supersteps, work)
        programs = self._programs(plan, work, stage)
        tasks = stage.take(len(programs)) if len(programs) > 1 else []
        if not tasks:
            programs = (plan.program.value,)
            tasks = stage.take(min(plan.partitions, stage.tasks), self._patience(stage))
        if not tasks:
            return self._jobs.run(plan, supersteps, work)
        try:
            reports = _run(tasks, self._shared.sent, plan, programs, supersteps, work)
        except (LostError, _FailedError) as error:
            stage.forget(tasks)  # those that live connect again
            if len(programs) > 1:
                self._divisions.failed(plan.program.value)
            if not stage.closed:  # for another one that takes over
                self._warn(_failed(error).message())
            return self._jobs.run(plan, supersteps, work)
        except BaseException:
            stage.forget(tasks)  # their answers are still to come
            raise
        stage.give_back(tasks)
        found = without_errors(reports)
        if plan.partitions == 1:
            self._divisions.note(plan.program.value, found)
        return found

    def _programs(self, plan: EpochPlan, work: Sequence[Work], stage: ResidentStage) -> tuple[Program, ...]:
        """What tasks carry out: the program of an epoch, or its parts.

        It is divided where all tasks have the same buffer, no other mill waits for one, and what several tasks would
        read is little and on this host.
        """
        program = plan.program.value
        if plan.partitions > 1 or not self._local or self._shared.users > 1 or not stage.complete:
            return (program,)
        read = [found for share in work for found in share.splits]
        if any(share.snapshots for share in work) or sum(split.length for _, split in read) > _MOST_REPEATED_BYTES:
            return (program,)
        parts = self._divisions.of(program, stage.tasks)
        return parts if all(_is_here_or_read_once(parts, *some) for some in read) else (program,)

    def _patience(self, stage: ResidentStage) -> float:
        """Seconds to wait for tasks. On this machine a job would wait for the same daemon to fork its workers."""
        if not self._local or stage.complete or stage.failure is not None or stage.missing_since is None:
            return 0.0
        return max(0.0, stage.missing_since + _BEGINNING - time.monotonic())

    def _tell_of_missing(self, stage: ResidentStage | None) -> None:
        """Warn when epochs have found tasks missing for longer than it takes executors to begin; again after that."""
        since, now = self._shared.missing_since(), time.monotonic()
        if since is None:
            self._found_missing, self._told = None, False
            return
        if self._found_missing is None or since > self._found_missing:
            self._found_missing = now
        none = not self._shared.has_slots
        if not self._told and (now - self._found_missing > _PATIENCE or (none and self._local)):
            self._told = True
            said = "Spark has no slot for one beside those for jobs" if none else "not all of them have begun"
            self._warn(_no_task(self._shared.failure or said).message())

    def close(self) -> None:
        """End the stage, unless another mill of this Spark context uses it."""
        _leave(self._shared, self)
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
        "resident tasks are missing, and epochs run as Spark jobs",
        got=said,
        hint="give Spark more slots, two or more in each executor: these tasks keep theirs; or leave `mode` at `auto`",
    )


# -- one stage for each Spark context ---------------------------------------------------------------------


class SharedStage:
    """The stage of a Spark context, for all mills that use it.

    It begins anew when it has failed, and when the slots that it may take or what Spark gives to tasks has changed. No
    mill waits for that: the others run jobs meanwhile.

    Attributes
    ----------
    stage : ResidentStage or None
        None while there is no slot for one, and while one ends.
    failure : str or None
        Why tasks are missing, where the last stage has failed.
    sent : SentTables
        What tasks know.
    """

    def __init__(self, context: SparkContext) -> None:
        self._context = context
        self._lock = threading.Lock()
        self._clustered = local_slots(str(context.master)) is None
        self._looks: dict[ResidentEpochs, Look] = {}
        self._slots = ResidentSlots(0)
        self._looked = -_LOOK_SECONDS
        self._renewing = False
        self._missing_since = time.monotonic()
        self.stage: ResidentStage | None = None
        self.failure: str | None = None
        self.sent = SentTables()

    def add(self, user: ResidentEpochs, look: Look) -> None:
        """Have a user, perhaps one that needs more tasks: :meth:`newest` begins the stage for it."""
        with self._lock:
            self._looks[user] = look
            self._looked = -math.inf

    def leave(self, user: ResidentEpochs) -> bool:
        """Returns whether nobody uses the stage any more. A user may leave twice."""
        with self._lock:
            self._looks.pop(user, None)
            return not self._looks

    def close(self) -> None:
        """End the stage, when nobody uses it."""
        with self._lock:
            ended, self.stage = self.stage, None
        if ended is not None:
            ended.close()

    def newest(self) -> ResidentStage | None:
        """The stage for the next epoch."""
        with self._lock:
            if self._renewing or not self._looks or not self._must_renew():
                return self.stage
            self._renewing, slots = True, self._slots
            self._missing_since = self.missing_since() or time.monotonic()
            ended, self.stage = self.stage, None
        begun = None
        try:
            if ended is not None:
                ended.close()  # before others begin: Spark would send those to the slots that it leaves
            begun = _begun(self._context, slots)
        except OSError as error:
            self.failure = f"the driver cannot listen for tasks: {error.strerror or error}"
        finally:
            with self._lock:
                self._renewing = False
                if self._looks:
                    self.stage, begun = begun, None
            if begun is not None:
                begun.close()  # all have left meanwhile
        return self.stage

    def _must_renew(self) -> bool:
        stage, before, now = self.stage, self._slots, time.monotonic()
        ended = stage is None or stage.closed or stage.failure is not None
        if stage is not None and (stage.failure or stage.missing_since is None):
            self.failure = stage.failure
        looks = (ended or self._clustered or self._looked == -math.inf) and now - self._looked > _LOOK_SECONDS
        if looks:
            self._looked = now
            found = [look() for look in self._looks.values()]
            self._slots = ResidentSlots(max(s.tasks for s in found), max(s.per_executor for s in found))
        if stage is None and not self._slots.tasks:
            return False
        return (
            before != self._slots or (ended and looks) or (stage is not None and not ended and not stage.is_current())
        )

    @property
    def users(self) -> int:
        """How many mills use the stage."""
        return len(self._looks)

    @property
    def has_slots(self) -> bool:
        """Whether there is room for a stage."""
        return self._slots.tasks > 0

    def missing_since(self) -> float | None:
        """Since when not all tasks of the stage are there, in seconds of the monotonic clock; None if they are."""
        stage = self.stage
        if stage is not None and stage.complete and stage.failure is None:
            return stage.missing_since
        return self._missing_since  # of the stage before it


_stages: WeakKeyDictionary[SparkContext, SharedStage] = WeakKeyDictionary()
_stages_lock = threading.Lock()


def _join(context: SparkContext, user: ResidentEpochs, look: Look) -> SharedStage:
    with _stages_lock:
        shared = _stages.get(context)
        if shared is None:
            shared = _stages[context] = SharedStage(context)
        shared.add(user, look)
    try:
        shared.newest()
    except BaseException:
        _leave(shared, user)
        raise
    return shared


def _leave(shared: SharedStage, user: ResidentEpochs) -> None:
    with _stages_lock:
        ended = shared.leave(user)
        if ended:
            for context in [c for c, s in _stages.items() if s is shared]:
                del _stages[context]
    if ended:
        shared.close()


def _begun(context: SparkContext, slots: ResidentSlots) -> ResidentStage | None:
    if not slots.tasks:
        return None
    host = EpochHost(secrets.token_hex() if slots.per_executor else "")
    return ResidentStage(context, host, slots.tasks, "resident epochs", slots.per_executor)


def _fits(plan: EpochPlan, work: Sequence[Work], stage: ResidentStage) -> bool:
    """Whether an epoch is one for these tasks: its job would take long because it is a job."""
    if plan.partitions == 1:
        return True
    if not exchange_file.SUPPORTED or any(share.snapshots for share in work):
        return False
    most = _MOST_BYTES * min(stage.tasks, plan.partitions) // plan.partitions
    return sum(split.length for share in work for _, split in share.splits) <= most


# -- asking -----------------------------------------------------------------------------------------------


class _FailedError(Exception):
    """An error in a task that has no number."""


def _run(
    tasks: Sequence[socket.socket],
    sent: SentTables,
    plan: EpochPlan,
    programs: Sequence[Program],
    supersteps: int,
    work: Sequence[Work],
) -> list[TaskReport]:
    """The reports of an epoch. LostError when a connection ends, _FailedError for an error without a number.

    Parameters
    ----------
    programs : sequence of Program
        The program of the epoch, or the parts of it that as many tasks carry out.
    """
    if plan.partitions == 1:
        asked = [EpochRequest(_named(plan, p), supersteps, _work_of(p, work[0])) for p in programs]
        answers = _asked(tasks, sent, EPOCH, asked, programs)
    else:
        answers = _exchanged(tasks, sent, _named(plan, programs[0]), supersteps, work, programs[0])
    reports = [_report(data) for kind, body in answers if kind == REPORTS for data in pickle.loads(body)]
    if len(programs) > 1 and not any(report.error for report in reports):
        _read_once(reports)
    return reports


def _named(plan: EpochPlan, program: Program) -> EpochPlan:
    """What a task needs to know that carries out a program, or a part of one."""
    tables = plan.tables
    if program.part is not None:
        tables = {t: runs for t, runs in tables.items() if t in program.part.reads}
    return replace(plan, program=Named(program.fingerprint), tables=tables)


def _work_of(program: Program, work: Work) -> Work:
    """What a part of a program has to read; no epoch with snapshots is divided."""
    if program.part is None:
        return work
    return Work(tuple((step, split) for step, split in work.splits if step in program.part.steps))


def _is_here_or_read_once(programs: Sequence[Program], step: int, split: Split) -> bool:
    """Whether no other host is asked for a split by several tasks."""
    return not scheme_of(split.path) or sum(p.part is None or step in p.part.steps for p in programs) == 1


def _read_once(reports: Iterable[TaskReport]) -> None:
    """Leave the result of each split to one report.

    _FailedError where several tasks have read a split, and found different rows.
    """
    found: dict[Split, SplitResult] = {}
    for report in reports:
        report.splits, read = [], report.splits
        for result in read:
            first = found.setdefault(result.split, result)
            if first is result:
                report.splits.append(result)
            elif first != result:
                raise _FailedError(f"{result.split.path} has changed while it was read")


def _exchanged(
    tasks: Sequence[socket.socket],
    sent: SentTables,
    plan: EpochPlan,
    supersteps: int,
    work: Sequence[Work],
    program: Program,
) -> list[tuple[bytes, bytearray]]:
    """The answers to the last superstep of an epoch of several partitions."""
    programs = [program] * plan.partitions
    requests = [SuperstepRequest(plan, 0, supersteps == 1, i, share, ()) for i, share in enumerate(work)]
    for depth in range(1, supersteps):
        answers = _asked(tasks, sent, SUPERSTEP, requests, programs)
        slices: list[list[Slices]] = [[] for _ in range(plan.partitions)]
        for kind, body in answers:
            assert kind == OUTPUT
            for target, found in pickle.loads(body).items():
                slices[target % plan.partitions].append(found)
        last = depth == supersteps - 1
        requests = [SuperstepRequest(plan, depth, last, i, None, tuple(some)) for i, some in enumerate(slices)]
    found = _asked(tasks, sent, SUPERSTEP, requests, programs)
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
    sent: SentTables,
    kind: bytes,
    requests: Sequence[EpochRequest | SuperstepRequest],
    programs: Sequence[Program],
) -> list[tuple[bytes, bytearray]]:
    """The answers of tasks, which work at the same time, to a request each, or to several in turn.

    ``programs`` are those that the requests name. Errors as :func:`_run`.
    """
    answers = []
    for at in range(0, len(requests), len(tasks)):
        some = requests[at : at + len(tasks)]
        asked = [
            (task, _packed(request, sent.changes(task, request.plan.tables))) for task, request in zip(tasks, some)
        ]
        for task, body in asked:
            send(task, kind, body)
        answers += _answered(kind, asked, programs[at:])
    return answers


def _packed(request: EpochRequest | SuperstepRequest, changes: TableChanges) -> bytes:
    return pickle.dumps(replace(request, plan=replace(request.plan, tables={}), changes=changes), protocol=5)


def _answered(
    kind: bytes, asked: Sequence[tuple[socket.socket, bytes]], programs: Sequence[Program]
) -> list[tuple[bytes, bytearray]]:
    """The answers of tasks, in their order. A task that does not know its program is sent it when it says so."""
    found: dict[int, tuple[bytes, bytearray]] = {}
    with DefaultSelector() as waiting:
        for number, (task, _) in enumerate(asked):
            waiting.register(task, EVENT_READ, number)
        while len(found) < len(asked):
            for key, _ in waiting.select():
                task, request = asked[key.data]
                answer, body = receive(task)
                if answer in (REPORTS, OUTPUT):
                    found[key.data] = answer, body
                    waiting.unregister(task)
                elif answer == FAILED:
                    raise _FailedError(body.decode())
                else:
                    send(task, PROGRAM, CPickleSerializer().dumps(programs[key.data]))
                    send(task, kind, request)
    return [found[number] for number in range(len(asked))]
