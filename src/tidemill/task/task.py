"""A task: one plan, carried out over one set of splits after the other.

    task = Task(plan)
    task.add_split("facts", split); task.request_barrier()
    while (batch := task.next()) is not None or task.pending is not None: ...
    # here the barrier is reached: all rows of the splits have come out

Two kinds of barrier. At a *reset* barrier operators give what they hold and forget it: each set of splits is by itself.
At a *retain* barrier they give the changes that the splits make and keep their state, as the views of a mill do.
"""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Protocol

import pyarrow as pa

from tidemill.errors import TidemillError, nearest
from tidemill.kernels.columns import column
from tidemill.options.option import bad_option
from tidemill.schema import Schema
from tidemill.sources.split import Split
from tidemill.task.dataflow.deltas import Delta, single_rows
from tidemill.task.dataflow.operator import OperatorStats, Output
from tidemill.task.local_context import LocalContext
from tidemill.task.operators.reading.read_files import ReadFilesOperator
from tidemill.task.pipelines import Pipelines
from tidemill.task.program import Program, ReadFiles

WEIGHT = "__weight"
"""The column that says how many times a row came (or went, below 0), of tasks that keep state."""

RESET, RETAIN = "reset", "retain"


class Named(Protocol):
    """A node of a plan that takes splits."""

    @property
    def name(self) -> str:
        """By which a task knows it."""


class _State(Enum):
    """IDLE: nothing has come since the barrier. RUNNING: splits have. BARRIER: it was requested. ENDED: none come."""

    IDLE = 1
    RUNNING = 2
    BARRIER = 3
    ENDED = 4


class Plan(Protocol):
    """What a task carries out: ``tidemill.plan`` makes them."""

    @property
    def schema(self) -> Schema:
        """Of the rows that come out."""

    def program(self) -> Program:
        """The steps; the last one is the one whose rows come out."""


@dataclass
class TaskStats:
    """Counters of a task since its beginning; they can be read at any time.

    Attributes
    ----------
    barriers : int
        Barriers that were requested.
    barrier_milliseconds : list of float
        For each barrier that was reached, the time since its request.
    splits, splits_left_out : dict
        For each source, splits that were opened, and those that were left out because nobody needed their rows.
    steps : dict
        For each step its counters.
    """

    barriers: int = 0
    barrier_milliseconds: list[float] = field(default_factory=list)
    splits: dict[str, int] = field(default_factory=dict)
    splits_left_out: dict[str, int] = field(default_factory=dict)
    steps: dict[int, OperatorStats] = field(default_factory=dict)


class Task:
    """One plan, carried out over one set of splits after the other; made once, used for ever.

    The same splits give the same batches in the same order, whatever the number of threads. Calls come from one thread
    at a time.

    Parameters
    ----------
    plan : Plan
    barrier : str
        ``reset`` or ``retain``: whether operators forget what they know at a barrier, or keep it and give changes. With
        ``retain`` batches have a further column ``__weight``, int64: 1 for a row that came, -1 for one that went.
    threads : int
        That work on it; 0 for the one that calls :meth:`next`.
    memory_bytes : int
        Of rows that operators hold; what is more goes to temporary files. 0 for no limit.

    Attributes
    ----------
    schema : pyarrow.Schema
        Of the batches.
    pending : Future or None
        After :meth:`next` gave None: what to wait for before it is called again, or None at a barrier.

    Raises
    ------
    TidemillError
        TM9010 when an operator of the plan cannot keep its state and ``barrier`` asks for it.
    """

    def __init__(self, plan: Plan, *, barrier: str = RESET, threads: int = 0, memory_bytes: int = 0) -> None:
        if barrier not in (RESET, RETAIN):
            raise bad_option("barrier", repr(barrier), f"{RESET!r} or {RETAIN!r}")
        if isinstance(threads, bool) or not isinstance(threads, int) or threads < 0:
            raise bad_option("threads", repr(threads), "a whole number from 0 on")
        if isinstance(memory_bytes, bool) or not isinstance(memory_bytes, int) or memory_bytes < 0:
            raise bad_option("memory_bytes", repr(memory_bytes), "a whole number from 0 on")
        if not hasattr(plan, "program"):
            raise bad_option("plan", repr(plan), "what tidemill.plan makes, such as tm.plan.scan(paths)")
        self._program = plan.program()
        self._retains = barrier == RETAIN
        if self._retains:
            _check_retains(self._program)
        self.schema = plan.schema.to_arrow()
        if self._retains:
            if WEIGHT in self.schema.names:
                raise TidemillError(
                    "TM9025",
                    "a column has the name of the weight of changes",
                    got=WEIGHT,
                    hint="select() it under another name",
                )
            self.schema = self.schema.append(pa.field(WEIGHT, pa.int64(), nullable=False))
        self._context = LocalContext(self._retains, memory_bytes)
        self._workers = threads
        self._start()
        self._open = set(self._sources)
        """Sources that may get more splits."""
        self._ending = False
        self._state = _State.IDLE
        self._barriers: list[Future[None]] = []
        self._requested = 0.0
        self._error: TidemillError | None = None
        self._stats = TaskStats(splits=dict.fromkeys(self._sources, 0), splits_left_out=dict.fromkeys(self._sources, 0))
        self.pending: Future[None] | None = None

    def _start(self) -> None:
        """Make the pipelines, and threads that work on them until these are closed, or nobody has the task any more."""
        self._pipelines = Pipelines(self._program, max(self._workers, 1))
        self._sources = _sources(self._program, self._pipelines)
        self._threads = [
            threading.Thread(target=_work, args=(self._pipelines,), daemon=True, name="task")
            for _ in range(self._workers)
        ]
        for thread in self._threads:
            thread.start()
        self._closing = weakref.finalize(self, self._pipelines.close)

    # -- giving ---------------------------------------------------------------------------------------

    @property
    def sources(self) -> tuple[str, ...]:
        """The names of the sources that take splits."""
        return tuple(self._sources)

    def add_split(self, source: str | Named, split: Split) -> None:
        """Give a split to a source; splits are served in the order given.

        Parameters
        ----------
        source : str, or a node of the plan
            Which one.
        split : Split
            As :meth:`~tidemill.task.files.files.Files.splits` has them.

        Raises
        ------
        TidemillError
            TM7010 while a barrier is in progress, and after :meth:`no_more_splits` of that source; TM9013 for an
            unknown source; TM9012 when the task has failed.
        """
        self._check()
        name = self._name(source)
        if not isinstance(split, Split):
            raise bad_option("split", repr(split), f"a Split, such as one of scan.splits(), for {name}")
        if self._state is _State.BARRIER:
            raise self._no_input("add_split()", "while a barrier is in progress")
        if name not in self._open:
            raise self._no_input("add_split()", f"after no_more_splits({name!r})")
        self._begin()
        step, operator = self._sources[name]
        operator.add_split(split)
        self._pipelines.wake_source(step)

    def request_barrier(self) -> Future[None]:
        """Nothing more comes before the barrier.

        Asked for while one is in progress it joins that one.

        Returns
        -------
        Future
            Done when the barrier is reached, which :meth:`next` has to be called for; with the error if the task fails.

        Raises
        ------
        TidemillError
            TM9011 when the task has ended, TM9012 when it has failed.
        """
        self._check()
        if self._state is _State.ENDED:
            raise TidemillError(
                "TM9011",
                "this task has ended",
                got="request_barrier() after no_more_splits() of all sources",
                hint="make another Task of the plan",
            )
        future: Future[None] = Future()
        if self._state is not _State.BARRIER:
            self._stats.barriers += 1
            self._put_barrier()
        self._barriers.append(future)
        return future

    def no_more_splits(self, source: str | Named | None = None) -> None:
        """A source, by default each, gets no split any more.

        The task ends with the barrier in progress; without one, after what has been given. Then :meth:`next` gives
        None.
        """
        self._check()
        self._open -= set(self._sources) if source is None else {self._name(source)}
        if self._open:
            return
        self._ending = True
        if self._state is _State.RUNNING:
            self._put_barrier()
        elif self._state is _State.IDLE:
            self._state = _State.ENDED

    def _begin(self) -> None:
        self._check()
        if self._state is _State.IDLE:
            for _, operator in self._sources.values():
                operator.splits.begin()
            self._state = _State.RUNNING
            self._pipelines.begin(self._context)

    def _put_barrier(self) -> None:
        self._begin()
        self._state, self._requested = _State.BARRIER, time.perf_counter()
        for step, copies in self._pipelines.sources.items():
            for operator in copies:
                operator.request_barrier()
            self._pipelines.wake_source(step)

    # -- taking ---------------------------------------------------------------------------------------

    def next(self) -> pa.RecordBatch | None:
        """The next rows.

        Returns
        -------
        pyarrow.RecordBatch or None
            Some rows. None with :attr:`pending` set: wait for it and call again. None without: the barrier is reached,
            or the task has ended.

        Raises
        ------
        TidemillError
            TM7011 when no barrier was requested. What operators raise, the first time; then TM9012.
        """
        self._check()
        self.pending = None
        if self._state is _State.ENDED:
            return None
        if self._state is not _State.BARRIER:
            raise TidemillError(
                "TM7011",
                "a task gives results only after a barrier was requested",
                got="next() without request_barrier()",
                hint="add_split() for the sources, request_barrier(), then next()",
            )
        try:
            return self._next()
        except BaseException as error:
            self._fail(error)
            if isinstance(error, Exception) and not isinstance(error, TidemillError):
                assert self._error is not None
                raise self._error from error
            raise

    def _next(self) -> pa.RecordBatch | None:
        while True:
            output = self._pipelines.result()
            if output is not None:
                batch = self._batch(output)
                if batch.num_rows:
                    return batch
            elif self._pipelines.finished:
                self._reach_barrier()
                return None
            elif self._threads:
                self.pending = self._pipelines.change()
                if self.pending is not None:
                    return None
            elif not self._pipelines.turn():
                self.pending = self._pipelines.waiting()
                assert self.pending is not None, "no pipeline can go on and none is waiting"
                return None

    def batches(self) -> Iterator[pa.RecordBatch]:
        """All rows up to the barrier, which is requested if it was not, waiting for them."""
        if self._state is not _State.ENDED:
            self.request_barrier()
        while True:
            batch = self.next()
            if batch is not None:
                yield batch
            elif self.pending is None:
                return
            else:
                self.pending.result()

    def run(self, splits: Mapping[str, Iterable[Split]]) -> Iterator[pa.RecordBatch]:
        """One set of splits: add them, request the barrier and give all rows."""
        known = [(self._name(source), list(given)) for source, given in splits.items()]
        for source, given in known:
            for split in given:
                self.add_split(source, split)
        yield from self.batches()

    def _batch(self, output: Output) -> pa.RecordBatch:
        assert isinstance(output.item, Delta)
        delta = output.item
        if self._retains:
            columns = [*delta.batch.columns, column(delta.explicit_weights())]
        else:
            columns = single_rows(delta).columns
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)

    def _reach_barrier(self) -> None:
        self._stats.barrier_milliseconds.append((time.perf_counter() - self._requested) * 1e3)
        self._add_counters(self._stats)
        self._context.pass_barrier()
        if self._pipelines.broken:  # by rows that nobody needed
            self._end_pipelines()
            self._start()
        self._state = _State.ENDED if self._ending else _State.IDLE
        reached, self._barriers = self._barriers, []
        for future in reached:
            if future.set_running_or_notify_cancel():
                future.set_result(None)

    def _fail(self, error: BaseException) -> None:
        """Tell everyone who waits."""
        if self._error is not None:
            return
        said = f"{error.number}: {error.what} ({error.got})" if isinstance(error, TidemillError) else repr(error)
        self._error = TidemillError(
            "TM9012",
            "this task has failed",
            got=said,
            hint="make another Task of the plan; give it the splits after the last barrier again",
        )
        self._pipelines.abandon()
        self._end_barriers(error if isinstance(error, TidemillError) else self._error)

    def _end_barriers(self, error: TidemillError) -> None:
        waiting, self._barriers = self._barriers, []
        for future in waiting:
            if future.set_running_or_notify_cancel():
                future.set_exception(error)

    # -- the rest -------------------------------------------------------------------------------------

    def stats(self) -> TaskStats:
        """Counters up to now."""
        stats = self._stats
        steps = {step: replace(counters) for step, counters in stats.steps.items()}
        milliseconds = list(stats.barrier_milliseconds)
        found = TaskStats(stats.barriers, milliseconds, dict(stats.splits), dict(stats.splits_left_out), steps)
        if self._state in (_State.RUNNING, _State.BARRIER):
            self._add_counters(found)
        return found

    def _add_counters(self, stats: TaskStats) -> None:
        for step, counters in self._pipelines.stats():
            stats.steps.setdefault(step, OperatorStats()).add(counters)
        for name, (_, operator) in self._sources.items():
            stats.splits[name] += operator.splits.taken
            stats.splits_left_out[name] += operator.splits.left_out

    def close(self) -> None:
        """End the threads; free memory and files. It may be called twice.

        A barrier in progress is not reached any more: its futures have TM9024, and so have later calls.
        """
        if self._error is None:
            self._error = TidemillError(
                "TM9024", "this task is closed", got="a call after close()", hint="make another Task of the plan"
            )
            self._end_barriers(self._error)
        self._end_pipelines()
        self._context.close()

    def _end_pipelines(self) -> None:
        self._closing.detach()
        self._pipelines.close()
        for thread in self._threads:
            thread.join()

    def __enter__(self) -> Task:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _check(self) -> None:
        if self._error is not None:
            raise self._error

    def _name(self, source: str | Named) -> str:
        name = source if isinstance(source, str) else str(getattr(source, "name", source))
        if name not in self._sources:
            raise TidemillError(
                "TM9013",
                "no source of this name takes splits",
                got=name,
                hint=nearest(name, self._sources),
            )
        return name

    def _no_input(self, call: str, when: str) -> TidemillError:
        return TidemillError(
            "TM7010",
            "a task takes no input now",
            got=f"{call} {when}",
            hint="call next() until the barrier is reached, then give the next splits",
        )


def _work(pipelines: Pipelines) -> None:
    """What a thread does. It does not know the task, which may be forgotten without being closed."""
    while pipelines.wait_for_work():
        pipelines.turn()


def _sources(program: Program, pipelines: Pipelines) -> dict[str, tuple[int, ReadFilesOperator]]:
    """The sources that take splits: copies share their splits."""
    found: dict[str, tuple[int, ReadFilesOperator]] = {}
    for number, step in enumerate(program.steps):
        if not isinstance(step.operation, ReadFiles):
            continue
        first, *others = pipelines.sources[number]
        assert isinstance(first, ReadFilesOperator)
        for other in others:
            assert isinstance(other, ReadFilesOperator)
            other.splits = first.splits
        found[step.operation.name] = number, first
    return found


def _check_retains(program: Program) -> None:
    for step in program.steps:
        if not step.operation.retains:
            raise TidemillError(
                "TM9010",
                "this plan cannot keep its state at a barrier",
                got=step.operation.text([()] * len(step.inputs), ()),
                hint="Task(plan, barrier='reset'), or a plan without this step",
            )
