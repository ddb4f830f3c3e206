"""One Spark job for one epoch of all views."""

from __future__ import annotations

import pickle
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial

from py4j.protocol import Py4JError
from pyspark import RDD, Broadcast, SparkContext
from pyspark.core.broadcast import _from_id
from pyspark.errors import PySparkException

from tidemill.errors import TidemillError
from tidemill.runtime.job.shuffle import to_partitions
from tidemill.runtime.job.superstep import (
    EpochPlan,
    Record,
    TaskReport,
    Work,
    all_supersteps,
    first_superstep,
    later_superstep,
)
from tidemill.runtime.spark.session import java_has_ended
from tidemill.sources.unreadable import UnreadableFilesError, joined
from tidemill.task.program import Program

_AGAIN = "nothing was sealed: the previous epoch is intact, and the same input is read again next time"
_AFTER_JAVA = "open the root again: the mill goes on from its last checkpoint, and reads again what came after it"


_SIGNS_OF_LOSS = ("Python worker exited unexpectedly", "ExecutorLostFailure", "Connection reset")


class WorkersLostError(TidemillError):
    """Spark gave a job up because the processes of its tasks ended again and again."""


class EpochJobs:
    """Runs epochs in one Spark context.

    The RDD that a job starts from has only numbers and is reused: making one takes as long as the tasks of a small
    epoch. Splits are sent with the function.
    """

    def __init__(self, context: SparkContext) -> None:
        self._context = context
        self._numbers: dict[int, RDD[int]] = {}

    def run(self, plan: EpochPlan, supersteps: int, work: Sequence[Work]) -> list[TaskReport]:
        """Run all supersteps and return the reports of the successful attempts.

        With one partition all supersteps run in one task, one after the other, without a shuffle.

        A new chain of RDDs is made for every call: collecting an RDD behind a shuffle twice would give the
        shuffle files of the first time.

        Raises
        ------
        TidemillError
            The first numbered error of any task, by superstep and partition; TM1020 when Spark gave up. When it was
            only that files cannot be read, an :class:`UnreadableFilesError` with all of them.
        """
        shares = tuple(pickle.dumps(share, protocol=5) for share in work)
        try:
            if plan.partitions == 1:
                rdd = self._start(1).mapPartitionsWithIndex(partial(_all, plan, shares, supersteps))
            else:
                rdd = self._start(len(shares)).mapPartitionsWithIndex(partial(_first, plan, shares))
                for depth in range(1, supersteps):
                    sent = to_partitions(rdd, plan.partitions)
                    rdd = sent.mapPartitionsWithIndex(partial(_later, plan, depth))
            records = rdd.collect()
        except (Py4JError, PySparkException, OSError) as error:
            if java_has_ended(self._context):
                raise _failed("Java has ended: it was killed, or had too little memory", _AFTER_JAVA) from None
            text = str(error)
            lost = any(sign in text for sign in _SIGNS_OF_LOSS)
            cause = next((line for line in text.splitlines() if "Error" in line or "Exception" in line), text[:200])
            raise _failed(cause.strip(), _AGAIN, WorkersLostError if lost else TidemillError) from error
        reports = [pickle.loads(data) for _, data in records]
        first = len(shares) if plan.partitions > 1 else 1
        self._check_complete(len(reports), first + (supersteps - 1) * plan.partitions)
        return without_errors(reports)

    def close(self) -> None:
        """Drop the RDDs that epochs start from."""
        self._numbers.clear()

    def _check_complete(self, reports: int, tasks: int) -> None:
        """TM1020 when tasks have no report: collect() gives what had come when Java ends while it hands out results."""
        if reports < tasks and java_has_ended(self._context):
            raise _failed("Java has ended: it was killed, or had too little memory", _AFTER_JAVA)
        if reports < tasks:
            raise _failed(f"the results of {reports} tasks of {tasks}", _AGAIN)

    def _start(self, partitions: int) -> RDD[int]:
        if partitions not in self._numbers:
            self._numbers[partitions] = self._context.parallelize(list(range(partitions)), partitions)
        return self._numbers[partitions]


def without_errors(reports: Iterable[TaskReport]) -> list[TaskReport]:
    """The reports by superstep and partition. Errors as :meth:`EpochJobs.run`."""
    found = sorted(reports, key=lambda r: (r.depth, r.partition))
    unreadable = []
    for report in found:
        if isinstance(report.error, UnreadableFilesError):
            unreadable.append(report.error)
        elif report.error is not None:
            raise report.error
    if unreadable:
        raise joined(unreadable)
    return found


def _failed(cause: str, hint: str, kind: type[TidemillError] = TidemillError) -> TidemillError:
    return kind("TM1020", "the Spark job of an epoch failed", got=cause, hint=hint)


def broadcast_program(context: SparkContext, program: Program) -> Broadcast[Program]:
    """Send a program to the workers once, for as many epochs as it lasts."""
    return _Sent(context, program)


class _Sent(Broadcast[Program]):  # type: ignore[misc]
    """A broadcast whose pickling does not call Java, which would print a trace where Java has ended."""

    def __init__(self, context: SparkContext, program: Program) -> None:
        self._registry = context._pickled_broadcast_vars
        super().__init__(context, program, self._registry)
        self._program = program
        self._name = self._jbroadcast.id()

    @property
    def value(self) -> Program:
        return self._program

    def __reduce__(self) -> tuple[Callable[[int], Broadcast[Program]], tuple[int]]:
        self._registry.add(self)
        return _from_id, (self._name,)


def _first(plan: EpochPlan, shares: Sequence[bytes], index: int, numbers: Iterable[int]) -> Iterator[Record]:
    deque(numbers, 0)  # Spark ends a worker process that has not read its input to the end
    return first_superstep(plan, index, pickle.loads(shares[index]))


def _all(
    plan: EpochPlan, shares: Sequence[bytes], supersteps: int, index: int, numbers: Iterable[int]
) -> Iterator[Record]:
    deque(numbers, 0)
    return all_supersteps(plan, supersteps, pickle.loads(shares[0]))


def _later(plan: EpochPlan, depth: int, index: int, records: Iterable[Record]) -> Iterator[Record]:
    return later_superstep(plan, depth, index, records)
