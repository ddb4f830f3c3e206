"""Merges runs in the background, as Spark jobs of their own beside the epochs."""

from __future__ import annotations

import threading
import uuid
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from pyspark import SparkContext

from tidemill.errors import TidemillError
from tidemill.observing import COMPACTION, Observers, Value
from tidemill.state.store.compaction import Compaction, Policy, choose, conflict
from tidemill.state.store.rewriting import Rewrite, rewrite, rewrites
from tidemill.state.store.store import RunStore
from tidemill.state.versions.expiry import Expiry
from tidemill.state.versions.version import Run, Swap, Version
from tidemill.task.program import StateTable

POOL = "compaction"
_AGED_EPOCHS = 32

_Outcome = list[Run] | TidemillError


@dataclass(frozen=True)
class Merged:
    """Finished compactions: runs that replace others."""

    added: tuple[Run, ...]
    removed: tuple[Run, ...]


@dataclass(eq=False)
class _Job:
    """A compaction under way. ``labels`` are in the names of the files that it writes."""

    compaction: Compaction
    slices: list[Rewrite]
    labels: set[str] = field(default_factory=set)
    replaced: dict[tuple[str, int], tuple[Run, ...]] = field(default_factory=dict)
    begun: int = 0
    left: int = 0
    outputs: list[Run] = field(default_factory=list)
    failed: bool = False


@dataclass(eq=False)
class _Bundle:
    """The slices of one task, of one job or several."""

    label: str = field(default_factory=lambda: f"m-{uuid.uuid4().hex[:12]}")
    slices: list[tuple[_Job, Rewrite]] = field(default_factory=list)
    bytes: int = 0


class Compactor:
    """Merges what a policy chooses, a wave of small tasks at a time; an epoch never waits for it.

    The slices of all compactions are given to Spark in waves of at most ``tasks`` tasks, each of about the bytes of one
    slice: young runs first, since every reader opens all of those. So a slot of Spark is free soon at any time.

    Parameters
    ----------
    tasks : int
        Most tasks at a time.
    observers : Observers, optional
        Called as each wave begins and ends.
    """

    def __init__(
        self,
        context: SparkContext,
        store: RunStore,
        tasks: int,
        policy: Policy,
        observers: Observers | None = None,
    ) -> None:
        self._context = context
        self._store = store
        self._tasks = max(1, tasks)
        self._policy = policy
        self._observers = observers or Observers()
        self._lock = threading.Lock()
        self._jobs: list[_Job] = []
        self._finished: list[_Job] = []
        self._taken: list[_Job] = []
        self._thread: threading.Thread | None = None
        self._errors: list[TidemillError] = []
        self._closing = False

    def start(
        self,
        version: Version,
        tables: Mapping[str, StateTable],
        expired: Mapping[str, tuple[Expiry, ...]],
    ) -> None:
        """Begin to merge tables with too many runs that are not being merged yet.

        The version is the newest sealed one, which has what :meth:`take` gave.

        Parameters
        ----------
        expired : mapping
            By table, the rows to be left out of what is merged.
        """
        with self._lock:
            self._taken.clear()
            busy: dict[str, list[Compaction]] = {}
            for job in (*self._jobs, *self._finished):
                busy.setdefault(job.compaction.table, []).append(job.compaction)
            aged = version.epoch - _AGED_EPOCHS
            for name, table in tables.items():
                gone = expired.get(name, ())
                for chosen in choose(name, version.runs(name), self._policy, gone, aged, busy.get(name, ())):
                    slices = rewrites(chosen, table.ops, table.key, table.drops_zero, gone)
                    job = _Job(chosen, slices, left=len(slices))
                    if chosen.moved:
                        job.outputs += (replace(r, level=chosen.level) for r in chosen.runs)
                    (self._jobs if slices else self._finished).append(job)
            if self._jobs and self._thread is None and not self._closing:
                self._thread = threading.Thread(target=self._work, name="compaction")
                self._thread.start()

    def take(self, version: Version) -> Merged:
        """Compactions that finished since the last call and fit the version, to be sealed before :meth:`start`."""
        with self._lock:
            finished, self._finished = self._finished, []
            self._taken += finished
        added: list[Run] = []
        removed: list[Run] = []
        tables: dict[str, Sequence[Run]] = {}
        for job in finished:
            table = job.compaction.table
            runs = tables.get(table, version.runs(table))
            gone = [r for run in job.compaction.runs for r in job.replaced.get(_name(run), (run,))]
            names = {_name(r): r for r in gone}
            after = [*(r for r in runs if _name(r) not in names), *job.outputs]
            if not names.keys() <= set(map(_name, runs)):
                continue
            if (wrong := conflict(after)) is not None:  # a bug: it must not be sealed
                self._errors.append(_failure(AssertionError(f"{table}: {wrong}")))
                continue
            tables[table] = after
            added += job.outputs
            removed += names.values()
        return Merged(tuple(added), tuple(removed))

    def swapped(self, swaps: Iterable[Swap]) -> None:
        """Note that other runs have replaced some; running merges go on with the old ones."""
        found: dict[str, list[Swap]] = {}
        for swap in swaps:
            found.setdefault(swap.old[0].table, []).append(swap)
        with self._lock:
            for job in (*self._jobs, *self._finished):
                names = set(map(_name, job.compaction.runs)) if job.compaction.table in found else set()
                for swap in found.get(job.compaction.table, ()):
                    old = set(map(_name, swap.old))
                    if old <= names:
                        job.replaced.update(dict.fromkeys(old, tuple(r for r in swap.new if r.rows)))
                    elif len(old) == 1:  # what has replaced a run of a buffer may move
                        job.replaced = {n: _moved(runs, swap) for n, runs in job.replaced.items()}

    def in_flight(self) -> frozenset[str]:
        """Parts of the names of files that are written and not sealed yet."""
        with self._lock:
            return frozenset().union(*(job.labels for job in (*self._jobs, *self._finished, *self._taken)))

    def reading(self) -> frozenset[str]:
        """Files that are being read."""
        with self._lock:
            return frozenset(run.file for job in self._jobs for run in job.compaction.runs)

    def warnings(self) -> tuple[str, ...]:
        """New errors since the last call, as text."""
        with self._lock:
            errors, self._errors = self._errors, []
        return tuple(dict.fromkeys(error.message() for error in errors))

    @property
    def idle(self) -> bool:
        """Whether no merge is under way and all have been sealed."""
        with self._lock:
            return not self._jobs and not self._finished

    def wait(self) -> None:
        """Wait for the merges under way."""
        thread = self._thread
        if thread is not None:
            thread.join()

    def close(self) -> None:
        """Stop after the tasks that have begun."""
        self._closing = True
        self.wait()

    def end(self) -> None:
        """Stop for good after the tasks that have begun; results that were not taken are dropped."""
        self.close()
        with self._lock:
            self._jobs, self._finished, self._taken = [], [], []

    def forget(self) -> None:
        """Stop after the tasks that have begun, and drop their results; merges may be started again."""
        self.close()
        with self._lock:
            self._taken += (*self._jobs, *self._finished)
            self._jobs, self._finished, self._closing = [], [], False

    def _work(self) -> None:
        while True:
            with self._lock:
                wave = [] if self._closing else self._wave()
                if not wave:
                    self._thread = None
                    return
            with self._observers.span(COMPACTION, _attributes(wave)):
                outcomes = self._run(wave)
            with self._lock:
                for bundle, found in zip(wave, outcomes, strict=True):
                    for (job, _), outcome in zip(bundle.slices, found, strict=True):
                        self._note(job, outcome)

    def _wave(self) -> list[_Bundle]:
        """The next slices, for as many tasks as there may be."""
        wave = [_Bundle() for _ in range(self._tasks)]
        for job in sorted(self._jobs, key=lambda j: j.compaction.level > 0):
            while job.begun < len(job.slices):
                part = job.slices[job.begun]
                bundle = min(wave, key=lambda b: b.bytes)
                if bundle.slices and bundle.bytes + part.part.bytes > self._policy.slice_bytes:
                    return [b for b in wave if b.slices]
                bundle.slices.append((job, part))
                bundle.bytes += max(1, part.part.bytes)
                job.labels.add(bundle.label)
                job.begun += 1
        return [b for b in wave if b.slices]

    def _run(self, wave: Sequence[_Bundle]) -> list[list[_Outcome]]:
        tasks = [(b.label, [part for _, part in b.slices]) for b in wave]
        work = partial(_rewrite, self._store, tasks, self._policy.run_bytes)
        try:
            self._context.setLocalProperty("spark.scheduler.pool", POOL)
            found = self._context.parallelize(range(len(tasks)), len(tasks)).mapPartitionsWithIndex(work).collect()
            if len(found) < len(tasks):  # Java has ended while it handed them out
                raise EOFError(f"the results of {len(found)} tasks of {len(tasks)}")
        except Exception as error:  # a warning of the next epoch
            return [[_failure(error)] * len(b.slices) for b in wave]
        return [outcomes for _, outcomes in sorted(found, key=lambda pair: pair[0])]

    def _note(self, job: _Job, outcome: _Outcome) -> None:
        if isinstance(outcome, TidemillError):
            self._errors.append(_failure(outcome))
            job.failed = True
        else:
            job.outputs += outcome
            job.left -= 1
        if job in self._jobs and (job.failed or not job.left):
            self._jobs.remove(job)
            if not job.failed:
                self._finished.append(job)


def _attributes(wave: Sequence[_Bundle]) -> dict[str, Value]:
    tables = sorted({job.compaction.table for bundle in wave for job, _ in bundle.slices})
    return {"tasks": len(wave), "bytes": sum(b.bytes for b in wave), "tables": tuple(tables)}


def _name(run: Run) -> tuple[str, int]:
    return run.file, run.section


def _moved(runs: tuple[Run, ...], swap: Swap) -> tuple[Run, ...]:
    """Some runs, after the one run of a swap has been replaced."""
    return tuple(new for run in runs for new in (swap.new if _name(run) == _name(swap.old[0]) else (run,)))


def _failure(error: Exception) -> TidemillError:
    if isinstance(error, TidemillError) and error.number == "TM1021":
        return error
    return TidemillError(
        "TM1021",
        "a merge of state files failed",
        got=(str(error) or type(error).__name__).splitlines()[0],
        hint="it will be tried again",
    )


def _rewrite(
    store: RunStore, tasks: Sequence[tuple[str, list[Rewrite]]], run_bytes: int, index: int, numbers: Iterable[int]
) -> Iterator[tuple[int, list[_Outcome]]]:
    """Merge the slices of one task; gives the outcome of each."""
    deque(numbers, 0)  # Spark ends a worker process that has not read its input to the end
    label, slices = tasks[index]
    outcomes: list[_Outcome]
    try:
        outcomes = list(rewrite(store, slices, label, run_bytes))
    except TidemillError as error:
        outcomes = [error]
        if len(slices) > 1:  # one by one: others may succeed
            outcomes = [outcome for part in slices for outcome in _alone(store, part, label, run_bytes)]
    finally:
        store.let_go()
    yield index, outcomes


def _alone(store: RunStore, part: Rewrite, label: str, run_bytes: int) -> list[_Outcome]:
    try:
        return list(rewrite(store, [part], label, run_bytes))
    except TidemillError as error:
        return [error]
