"""Runs a mill: admits input, runs epochs, seals them, recovers.

The coordinator holds metadata only. What changes it takes turns (:mod:`~tidemill.runtime.epoch.turns`): an epoch, a
statement that creates or drops something, a checkpoint. Nothing is changed until an epoch has succeeded; then
positions, rows and catalogue change together.

At the end of each turn one immutable :class:`~tidemill.runtime.read.snapshot.Snapshot` is published, by reference.
Readers take it without waiting for anything.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import TypeVar

from pyspark.sql import SparkSession

from tidemill.config import RESIDENT, Settings
from tidemill.errors import TidemillError
from tidemill.formats.rescue.new_columns import NewColumnsError
from tidemill.observing import ADMIT, EPOCH, LIST, RUN, SEAL
from tidemill.runtime.catalog import replacements
from tidemill.runtime.catalog.changes import evolution, pauses
from tidemill.runtime.catalog.initialising import without_history
from tidemill.runtime.durability.expired_state import expired_state
from tidemill.runtime.epoch.admission import Admission
from tidemill.runtime.epoch.catalog_statements import LOSSES, CatalogStatements
from tidemill.runtime.epoch.epoch_spans import sealed_attributes, tell_supersteps
from tidemill.runtime.epoch.failures import Failures
from tidemill.runtime.epoch.recovery import Remedy, recovering
from tidemill.runtime.epoch.report import EpochReport, epoch_report
from tidemill.runtime.job.epoch_job import EpochJobs, WorkersLostError
from tidemill.runtime.job.epoch_programs import EpochPrograms, Prepared
from tidemill.runtime.job.epoch_run import EpochRun, run_until_right
from tidemill.runtime.job.epoch_work import must_begin, share_out, snapshot_steps, tables_of
from tidemill.runtime.job.resident_epochs import Jobs, ResidentEpochs
from tidemill.runtime.job.superstep import EpochPlan, TaskReport
from tidemill.runtime.root import Root
from tidemill.runtime.spark.resident_slots import resident_slots
from tidemill.sources.split import Split
from tidemill.sources.unreadable import UnreadableFilesError
from tidemill.state.versions.expiry import Expiry
from tidemill.state.versions.version import Run

_T = TypeVar("_T")
_ELSEWHERE = ("TM1019",)
"""Errors of a run that was written on another host and cannot be read from here."""

_HURRY = 0.8
_LEAST_EPOCH_BYTES = 64 << 10
_LOST_JOBS, _LOST_SECONDS = 3, 1.0
"""How often the job of an epoch is tried again whose workers were lost, and the seconds until then."""

_LOOK_SECONDS = 5.0
_MERGES_BEHIND = 8
"""Epochs wait for merges when a table has this many times the runs at which a merge begins."""


class Coordinator(CatalogStatements):
    """The one writer of a root.

    Parameters
    ----------
    root : Root
        Locked for writing; :meth:`close` releases it.
    """

    def __init__(self, root: Root, settings: Settings, spark: SparkSession) -> None:
        super().__init__(root, settings, spark)
        self._jobs: Jobs = EpochJobs(spark.sparkContext)
        if settings.mode == RESIDENT or self._resident_tasks:
            look = partial(resident_slots, spark.sparkContext, settings)
            self._jobs = ResidentEpochs(spark.sparkContext, look, self._jobs, self._warn)
        self._admission = Admission(settings.epoch_bytes, _LEAST_EPOCH_BYTES)
        self._unanswered: list[TidemillError] = []
        self._looked = 0.0

    def _retry_paused(self) -> None:
        """Begin to build views again whose pause is over."""
        while (name := pauses.due(self.catalog, _now())) is not None:
            self._adopt(pauses.resumed(self.catalog, name, self.version.epoch))

    def advance(self) -> EpochReport | None:
        """Run and seal one epoch.

        Returns
        -------
        EpochReport or None
            None when there is nothing to do; no job is run then.

        Raises
        ------
        TidemillError
            Any numbered error of reading, parsing or storing. Nothing is sealed then, the previous epoch
            stays readable, and the next call reads the same input again.
        """
        with self.turn():
            started = time.perf_counter()
            self._recovering(lambda: self._intake.list_files(self.settings.listing_seconds, self.durable_epoch))
            self.arrivals.take_over(self._intake)
            return self._recovering(partial(self._attempt, started))

    def advance_known(self) -> EpochReport | None:
        """As :meth:`advance`, over what :meth:`backlog` has found."""
        with self.turn():
            started = time.perf_counter()
            self._recovering(lambda: self._intake.go_on())  # a lambda: a remedy may replace the intake
            return self._recovering(partial(self._attempt, started))

    def _recovering(self, attempt: Callable[[], _T]) -> _T:
        """The result of an attempt, which is repeated after errors that have a remedy."""

        def attempt_in_use() -> _T:
            self._programs()  # tells the intake which tables are in use
            return attempt()

        return recovering(attempt_in_use, self._remedies())

    def _remedies(self) -> tuple[Remedy, ...]:
        """The errors of an epoch that have a remedy; all others end it, and nothing is sealed."""
        return (
            Remedy(UnreadableFilesError, self._set_aside),
            Remedy(NewColumnsError, self._grow),
            Remedy(_ELSEWHERE, self._scatter, most=1),
            Remedy(LOSSES, self._roll_back, most=3),
            Remedy(WorkersLostError, self._pause, most=_LOST_JOBS),
        )

    def _scatter(self, error: TidemillError) -> None:
        """From now on read sealed state from durable objects; raises the error if that is so already."""
        if self._scattered:
            raise error
        self._scattered = True

    def _set_aside(self, error: UnreadableFilesError) -> None:
        """Go on without files that cannot be read; views whose history is lost fail, durably."""
        lost = self._intake.set_aside(error.failures)
        if lost:
            with self._all_or_nothing():
                catalog = without_history(self.catalog, lost, self.version.epoch)
                self._free(catalog)
                self._intake.drop_history(lost.keys())
                self._intake.keep_history(catalog.histories())
                self._change(catalog)

    def _grow(self, error: NewColumnsError) -> None:
        """Give a table the columns of a file, durably, or raise the error if it takes none."""
        catalog, warning = evolution.with_new_columns(self.catalog, error)
        with self._all_or_nothing():
            self._intake.change_table(catalog.tables[error.table])
            self._change(catalog)
        self.catalyst.register(error.table, catalog.tables[error.table].schema)
        self._warn(warning.message())

    def _pause(self, error: TidemillError) -> None:
        """Give Spark a moment to start workers again; the epoch is tried again."""
        self._warn(error.message())
        time.sleep(_LOST_SECONDS)

    def _gather(self) -> None:
        """Make all that is sealed durable and read it from there, not from buffers of other hosts."""
        self._checkpoints.flush(self._sealed())
        self._compactor.forget()
        self._evict(all_epochs=True)

    def _attempt(self, started: float) -> EpochReport | None:
        with self.turn():
            self._retry_paused()
            listed = time.perf_counter()
            self._make_room()
            programs = self._programs()
            current = programs.usual
            splits = self._intake.admit(
                self._admission.bytes,
                self.settings.split_bytes,
                self.partitions,
                () if self._not_begun else programs.small,
                self.settings.small_epoch_bytes,
            )
            created = {self.catalog.all_views[v].group for v in self._not_begun}
            snapshots = snapshot_steps(current.program, created)
            begins = must_begin(current.program, self._not_begun) or bool(self.catalog.pending)
            appeared = self._intake.appeared()
            if not splits and not snapshots and not begins and not self._intake.must_note:
                self._not_begun.clear()
                self._note_deliveries()
                self._look_at_buffer()
                return None
            times = [started, time.perf_counter()]
            if not self._not_begun:
                current = programs.of({s.table for s in splits})
            with self.observers.span(EPOCH, since=started) as span:
                self.observers.past(LIST, started, listed)
                self.observers.past(ADMIT, listed, times[1])
                report = self._epoch(programs, current, splits, snapshots, times)
                span.set(sealed_attributes(report))
            self._admission.sealed(sum(s.length for s in splits), report.spilled_bytes)
            small = {t: self._intake.known_bytes(t) for t in programs.small if not self.catalog.tables[t].broadcast}
            warnings = (*self.warnings(), *appeared, *report.warnings)
            return replace(report, warnings=(*warnings, *self._outgrown.newly(small)), waiting=self._intake.waiting())

    def _epoch(
        self,
        programs: EpochPrograms,
        current: Prepared,
        splits: Sequence[Split],
        snapshots: Sequence[int],
        times: list[float],
    ) -> EpochReport:
        """Run the next epoch and seal it; ``times`` are those at which it began and had its splits (s)."""
        with self.observers.span(RUN, {"splits": len(splits), "views": len(self.catalog.views)}) as span:
            run = self._run(programs, current, splits, snapshots)
            tell_supersteps(self.observers, run)
            span.set({"redone": run.redone})
        times.append(time.perf_counter())
        failures = Failures.of(run.prepared.program, run.reports, self.catalog.all_views)
        self._intake.check_budgets(run.results)
        with self.observers.span(SEAL):
            written = self._seal(run, failures)
        times.append(time.perf_counter())
        return replace(self._report(run, failures, written, times), warnings=evolution.row_warnings(run.results))

    def _look_at_buffer(self) -> None:
        """TM1018 where a file of the buffer is gone that readers of the newest epoch need; looked for now and then."""
        now = time.monotonic()
        if now >= self._looked + _LOOK_SECONDS:
            self._looked = now
            self.store.check_buffered(run for runs in self.version.tables.values() for run in runs)

    def _note_deliveries(self) -> None:
        """Make positions of sinks durable that have been reached since the last epoch."""
        if self.deliveries.must_note():
            self._checkpoints.submit(self._sealed())

    def _make_room(self) -> None:
        """Before an epoch: raise errors of checkpoints, fence other writers, wait for full buffers and late merges."""
        self._checkpoints.check()
        if not self._claimed:
            self.checkpoint()  # its manifest fences any other writer
        self._intake.clean(self.durable_epoch)
        waiting = self._buffered.bytes(self.durable_epoch)
        if self._scattered and not all(run.is_durable for run in self.version.every()):
            self._gather()
        elif waiting > self.settings.buffer_bytes:
            self._checkpoints.flush(self._sealed())
        most = _MERGES_BEHIND * self.settings.compact_after * self.partitions
        if max(map(len, self.version.tables.values()), default=0) > most:
            self._compactor.wait()

    def _report(self, run: EpochRun, failures: Failures, written: Sequence[Run], times: Sequence[float]) -> EpochReport:
        """The report of the epoch just sealed; ``times`` are those at which it began and its phases ended (s)."""
        phases = zip(("admit", "run", "seal"), pairwise(times), strict=True)
        milliseconds = {name: (end - start) * 1e3 for name, (start, end) in phases}
        milliseconds["total"] = (times[-1] - times[0]) * 1e3
        failed = {**self.catalog.newly_failing(self.version.epoch), **failures.stopped}
        return epoch_report(self.version.epoch, run, written, milliseconds, failed)

    def warnings(self) -> tuple[str, ...]:
        """New warnings since the last report, or the last call; each is given once.

        While an epoch runs or a statement is executed, its warnings are given by the next call after it.
        """
        with self._turns.turn_if_free() as free:
            if free:
                self._warn(*self._intake.warnings(), *self.arrivals.captures.warnings())
                self._warn(*self._checkpoints.warnings(), *self._compactor.warnings())
        return self._new_warnings()

    def retry_in(self) -> float | None:
        """As :meth:`Intake.retry_in`."""
        return self._intake.retry_in()

    def backlog(self) -> int:
        """Bytes listed and not admitted yet, history of new views included, after a full listing.

        What could not be asked for is left out; :meth:`unlisted` says why.
        """
        with self.turn():
            self._recovering(lambda: self._intake.list_all())
            self._unanswered = self.arrivals.take_over(self._intake, flush=True)
            return self._intake.remaining()

    @property
    def spool_was_full(self) -> bool:
        """Whether the last :meth:`backlog` left something out for which there was no room: once more, after epochs."""
        return self.arrivals.captures.full

    def unlisted(self) -> tuple[TidemillError, ...]:
        """Why places that have been listed before were left out of the last :meth:`backlog`, or what followed it."""
        return (*self._intake.unlisted, *self._unanswered)

    def close(self, checkpoint: bool = True) -> None:
        """Stop, once; the newest sealed epoch is made durable first unless ``checkpoint`` is false."""
        with self._turns.last_turn():
            if self._root.released:
                return
            self._compactor.close()
            self.arrivals.close()
            written = False
            try:
                if checkpoint and self._claimed:
                    self.checkpoint()
                    self._publish()
                    self.deliveries.close(finish=True)
                    if self.deliveries.must_note():
                        self.checkpoint()
                    self._evict(all_epochs=True)
                    self.version = self._checkpoints.durable.version  # merges that only the buffer has go with it
                    self._compactor.end()
                    written = True
                self._intake.finish_cleaning(self.durable_epoch if checkpoint else None)
            finally:
                self.deliveries.close(finish=False)
                self._intake.close(self.durable_epoch)
                self._publish()
                self._checkpoints.close(collect=written)
                self._jobs.close()
                self._root.release()

    def _run(
        self, programs: EpochPrograms, current: Prepared, splits: Sequence[Split], snapshots: Sequence[int]
    ) -> EpochRun:
        """Run the job of the next epoch."""

        def run(prepared: Prepared, splits: Sequence[Split]) -> Sequence[TaskReport]:
            small = not snapshots and sum(s.length for s in splits) <= self.settings.small_epoch_bytes
            plan = EpochPlan(
                self.version.epoch + 1,
                1 if small else self.partitions,
                self.store,
                prepared.broadcast,
                {t: self.version.runs(t) for t in prepared.reads},
                self._task_memory,
            )
            work = share_out(prepared.program, splits, snapshots, plan.partitions)
            return self._jobs.run(plan, prepared.program.supersteps, work)

        return run_until_right(run, current, splits, programs, self._intake.wrong_guesses)

    def _seal(self, run: EpochRun, failures: Failures) -> list[Run]:
        """Make the epoch's runs, positions and compactions the new version."""
        epoch = self.version.epoch + 1
        current = run.prepared
        allowed = {table for step in current.program.steps for table in tables_of(step, failures.stopped)}
        runs = [written for report in run.reports for written in report.runs if written.table in allowed]
        merged = self._compactor.take(self.version)
        outputs = [replace(r, added=epoch) for r in merged.added]
        read_from = self.catalog.read_from
        newest_only = current.tables.keys() - read_from if read_from is not None else frozenset()
        driver_runs = self._intake.apply(run.results, epoch)
        self.arrivals.sealed(self._intake, epoch, self.durable_epoch)
        version = self.version.seal(epoch, [*runs, *outputs, *driver_runs], merged.removed)
        self._buffered.sealed(epoch, [*runs, *outputs, *driver_runs])
        self.version = version.forget(epoch - self.settings.history_epochs, newest_only)
        self._evict()
        self._not_begun.clear()
        self._settle(failures)
        self._scattered |= any(not self.store.reachable(file) for file in {r.file for r in runs})
        if self._scattered:
            self._gather()
        else:
            self._checkpoints.submit(self._sealed())
            if self._buffered.bytes(self.durable_epoch) > _HURRY * self.settings.buffer_bytes:
                self._checkpoints.hurry()
        stored = {**current.tables, **self._intake.state_tables()}
        self._compactor.start(self.version, stored, self._expired(current))
        return runs

    def _evict(self, all_epochs: bool = False) -> None:
        """Read state from durable objects instead of buffers."""
        swaps = self._checkpoints.take_swaps(None if all_epochs else self.version.epoch - self.settings.buffer_epochs)
        self.version = self.version.swapped(swaps)
        self._intake.at(self.version)
        self._compactor.swapped(swaps)

    def _settle(self, failures: Failures) -> None:
        """Note the epoch just sealed in the catalog: failures, complete views, replacements."""
        epoch = self.version.epoch
        catalog = self.catalog.with_failing(failures.failing, epoch, self.version.horizon)
        catalog = replacements.with_failures(catalog, failures.ended, epoch)
        if failures.exceeded:
            catalog = pauses.exceeded(catalog, failures.exceeded, epoch - 1, self._intake.admitted(), _now())
        catalog = self._noting_complete(catalog)
        swapped = replacements.without_failing(catalog, epoch)
        if replacements.ready(swapped):
            swapped = replacements.swap(swapped, epoch)
            for name in catalog.pending:
                self.catalyst.unmark(name, catalog.views[name].uid)
                self.catalyst.register(name, swapped.views[name].root.schema)
        swapped = replacements.expire(swapped, self.version.horizon)
        if failures.stopped or swapped is not catalog:
            self._free(swapped)
            self._intake.keep_history(swapped.histories())
            self._current = None
        self.catalog = swapped

    def _expired(self, current: Prepared) -> dict[str, tuple[Expiry, ...]]:
        """By state table the rows that no later input can change; none while history is read again."""
        return {} if self._intake.history_remaining() else expired_state(current.retention, self._intake.watermark)


def _now() -> int:
    return time.time_ns() // 1_000_000
