"""Runs a mill: admits input, runs epochs, seals them, recovers.

The coordinator holds metadata only. One lock orders everything that changes it: an epoch, a statement
that creates or drops something, a checkpoint. Nothing is changed until an epoch has succeeded; then
positions, rows and catalogue change together.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from pyspark import Broadcast
from pyspark.sql import SparkSession

from tidemill.config import Settings
from tidemill.errors import TidemillError
from tidemill.plan.algebra import Node
from tidemill.plan.assemble import Assembler, state_tables
from tidemill.plan.catalyst import Catalyst
from tidemill.plan.event_time import Lag
from tidemill.plan.explain import explain
from tidemill.plan.rules import rewrite
from tidemill.plan.statements import CreateTable, CreateView
from tidemill.runtime.catalog import Catalog
from tidemill.runtime.checkpoints import Checkpoints, Sealed
from tidemill.runtime.compactor import Compactor
from tidemill.runtime.epoch_job import EpochJobs, broadcast_program
from tidemill.runtime.intake import Intake
from tidemill.runtime.report import EpochReport, epoch_report
from tidemill.runtime.snapshot import RUNS, Snapshot
from tidemill.runtime.superstep import EpochPlan, TaskReport, Work
from tidemill.sources.split import Split, SplitResult
from tidemill.state.expiry import Expiry
from tidemill.state.manifest import ManifestLog, root_directory
from tidemill.state.store import RunStore
from tidemill.state.version import Run, Version
from tidemill.task.program import (
    GroupChanges,
    Program,
    ScanStep,
    StateTable,
    Step,
    ViewSnapshot,
    read_tables,
    written_tables,
)


@dataclass(frozen=True)
class _Current:
    """The program of the present views and what is derived from it."""

    program: Program
    broadcast: Broadcast[Program]
    reads: tuple[str, ...]
    tables: dict[str, StateTable]
    retention: dict[str, tuple[Lag, ...]]


class Coordinator:
    """The one writer of a root.

    Raises
    ------
    TidemillError
        TM1003 when another process writes this root, TM1002, TM1004, TM1010, TM1011 when the root cannot
        be read, TM6001 and TM6002 for Java.
    """

    def __init__(self, root: str | os.PathLike[str], settings: Settings, spark: SparkSession) -> None:
        self.root = root_directory(root)
        self.settings = settings
        self.spark = spark
        self._log = ManifestLog(self.root, create=True)
        self._log.lock()
        try:
            self._recover()
        except BaseException:
            self._log.unlock()
            raise

    def _recover(self) -> None:
        last = self._log.latest()
        self.store = RunStore(self.root / RUNS)
        self.version = last.version if last else Version.empty()
        self.catalog = Catalog.from_json(last.catalog["catalog"]) if last else Catalog()
        self._fresh: set[str] = set(last.catalog["fresh"]) if last else set()
        self._intake = Intake(self.catalog, self.store, self.version, last.catalog["history"] if last else [])
        self.partitions = self.settings.partitions or self.spark.sparkContext.defaultParallelism
        self.catalyst = Catalyst(self.spark)
        for table in self.catalog.tables.values():
            self.catalyst.register(table.name, table.schema)
        for view in self.catalog.views.values():
            self.catalyst.register(view.name, view.root.schema)
        self._current: _Current | None = None
        self._lock = threading.RLock()
        self._compactor = Compactor(
            self.spark.sparkContext, self.store.directory, self.partitions, self.settings.compact_after
        )
        self._checkpoints = Checkpoints(
            self._log,
            self.store,
            last,
            self.settings.checkpoint_seconds,
            self.settings.garbage_grace_seconds,
            lambda: self._compactor.idle,
        )
        self._jobs = EpochJobs(self.spark.sparkContext)
        self._claimed = False

    # -- statements ---------------------------------------------------------------------------------

    def create_table(self, statement: CreateTable) -> None:
        """Add a table. Errors as :meth:`Catalog.add_table`."""
        with self._lock, self._all_or_nothing():
            if statement.if_not_exists and statement.name in self.catalog.tables:
                return
            catalog = self.catalog.add_table(statement)
            table = catalog.tables[statement.name]
            self._intake.add_table(table)
            self._change(catalog)
            self.catalyst.register(table.name, table.schema)

    def create_view(self, statement: CreateView) -> None:
        """Add a view; it is filled from history in the epochs that follow, while the others go on.

        Raises
        ------
        TidemillError
            TM2xxx when the query cannot be a view; nothing is changed then.
        """
        with self._lock, self._all_or_nothing():
            if statement.if_not_exists and statement.name in self.catalog.views:
                return
            for name in statement.properties:
                raise TidemillError("TM2014", "unknown property of a view", got=name, hint="none exist yet")
            root = self.plan(statement.query)
            for name in self.catalog.views_read_by(root):
                if self.catalog.views[name].failure is not None:
                    raise TidemillError(
                        "TM2015",
                        "a view cannot read a view that has failed",
                        got=f"{name}: {self.catalog.views[name].failure}",
                        hint=f"DROP VIEW {name} and create it again without the expression that fails",
                    )
            catalog = self.catalog.add_view(statement.name, statement.query, root, self.version.epoch)
            view = catalog.views[statement.name]
            self._assembler(catalog).program()  # raises for what cannot be maintained
            for table in sorted(catalog.tables_read_by(root)):
                self._intake.add_history(table, view.born)
            self._fresh.add(view.name)
            self._change(self._noting_whole(catalog))
            self.catalyst.register(view.name, root.schema)

    def plan(self, query: str) -> Node:
        """The algebra of a query, rewritten. Errors as :meth:`Catalyst.plan`."""
        return rewrite(self.catalyst.plan(query))

    def explain(self, query: str) -> str:
        """The incremental plan of a query as text. Errors as :meth:`plan`, and what cannot be maintained."""
        with self._lock:
            views = [v.definition() for v in self.catalog.active_views()]
            sources = {t.name: t.source() for t in self.catalog.tables.values()}
            return explain(views, sources, self.plan(query))

    def drop(self, kind: str, name: str, if_exists: bool) -> None:
        """Remove a table or view and its state. Errors as :meth:`Catalog.without`."""
        with self._lock, self._all_or_nothing():
            present = self.catalog.tables if kind == "table" else self.catalog.views
            if if_exists and name not in present:
                return
            before = self._all_tables(self.catalog)
            catalog = self.catalog.without(kind, name)
            gone = set(before) - set(self._all_tables(catalog))
            self._fresh.discard(name)
            if kind == "table":
                gone |= self._intake.drop_table(self.catalog.tables[name])
            self.version = self.version.drop(gone)
            self._intake.keep_history({v.born for v in catalog.active_views()})
            self._change(catalog)
            self.catalyst.forget(name)

    @contextmanager
    def _all_or_nothing(self) -> Iterator[None]:
        """Take back what a statement changed when it fails, also when it could not be made durable."""
        catalog, version, fresh, current = self.catalog, self.version, set(self._fresh), self._current
        intake = self._intake.copy()
        try:
            yield
        except BaseException:
            self.catalog, self.version, self._fresh, self._current = catalog, version, fresh, current
            self._intake = intake
            raise

    def _change(self, catalog: Catalog) -> None:
        self.catalog = catalog
        self._current = None
        self.checkpoint()

    def _assembler(self, catalog: Catalog) -> Assembler:
        sources = {t.name: t.source() for t in catalog.tables.values()}
        return Assembler([v.definition() for v in catalog.active_views()], sources)

    def _all_tables(self, catalog: Catalog) -> dict[str, StateTable]:
        """State tables of all views, failed ones included."""
        sources = {t.name: t.source() for t in catalog.tables.values()}
        views = [v.definition() for v in catalog.views.values()]
        return state_tables(Assembler(views, sources).program())

    # -- reading ------------------------------------------------------------------------------------

    def snapshot(self) -> Snapshot:
        """The newest sealed version."""
        with self._lock:
            return Snapshot(self.store, self.version, self.catalog, self._filling())

    def _filling(self) -> dict[str, int]:
        """Views that do not stand for all rows yet, with the bytes of history that remain.

        A view over an older view has the rows of that one from its first epoch on.
        """
        return self._filling_of(self.catalog)

    def _filling_of(self, catalog: Catalog) -> dict[str, int]:
        remaining = self._intake.history_remaining()
        filling: dict[str, int] = {}
        assembler = self._assembler(catalog)
        for view in catalog.active_views():
            upstream = catalog.views_read_by(view.root)
            behind = remaining.get(view.born, 0) + sum(filling.get(n, 0) for n in upstream)
            waits = view.name in self._fresh and (
                any(catalog.views[n].born < view.born for n in upstream) or assembler.begins_with_rows(view.name)
            )
            if behind or waits or any(n in filling for n in upstream):
                filling[view.name] = behind
        return filling

    def _noting_whole(self, catalog: Catalog) -> Catalog:
        """The catalog with the newest epoch noted for views that stand for all rows since then."""
        filling = self._filling_of(catalog)
        whole = {v.name for v in catalog.active_views() if v.whole_since is None and v.name not in filling}
        return catalog.with_whole(whole, self.version.epoch) if whole else catalog

    @property
    def durable_epoch(self) -> int:
        """The newest epoch that a crash cannot take back."""
        return self._checkpoints.durable_epoch

    # -- epochs -------------------------------------------------------------------------------------

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
        with self._lock:
            started = time.perf_counter()
            self._intake.list_files(self.settings.listing_seconds)
            return self._epoch(started)

    def advance_known(self) -> EpochReport | None:
        """As :meth:`advance`, over files that are known already."""
        return self._epoch(time.perf_counter())

    def _epoch(self, started: float) -> EpochReport | None:
        with self._lock:
            self._checkpoints.check()
            self._claim()
            current = self._program()
            used = {s.operation.source.name for s in current.program.steps if isinstance(s.operation, ScanStep)}
            splits = self._intake.admit(self.settings.epoch_bytes, self.settings.split_bytes, used, self.partitions)
            snapshots = self._snapshot_steps(current.program)
            if not splits and not snapshots and not self._must_begin(current.program):
                self._fresh.clear()
                return None
            admitted = time.perf_counter()
            reports, redone = self._run(current, splits, snapshots)
            ran = time.perf_counter()
            failed = self._failed_views(current.program, reports)
            results = [r for report in reports for r in report.splits if r.split.path]
            written = self._seal(current, reports, results, failed)
            sealed = time.perf_counter()
            milliseconds = {
                "admit": (admitted - started) * 1e3,
                "run": (ran - admitted) * 1e3,
                "seal": (sealed - ran) * 1e3,
                "total": (sealed - started) * 1e3,
            }
            report = epoch_report(
                self.version.epoch, current.program, reports, results, written, milliseconds, failed, redone
            )
            return replace(report, warnings=self._compactor.warnings())

    def backlog(self) -> int:
        """Bytes known and not admitted yet, history of new views included."""
        with self._lock:
            self._intake.list_files(0)
            return self._intake.remaining()

    def checkpoint(self) -> None:
        """Make the newest sealed epoch durable now. Errors as :meth:`Checkpoints.flush`."""
        with self._lock:
            self._checkpoints.flush(self._sealed())
            self._claimed = True

    def close(self, checkpoint: bool = True) -> None:
        """Stop; the newest sealed epoch is made durable first unless told otherwise."""
        with self._lock:
            self._compactor.wait()
            try:
                if checkpoint and self._claimed:
                    self.checkpoint()
            finally:
                self._checkpoints.close()
                self._log.unlock()

    def _claim(self) -> None:
        """Before its first epoch a writer publishes a manifest, which fences any other."""
        if not self._claimed:
            self.checkpoint()

    def _sealed(self) -> Sealed:
        catalog: dict[str, Any] = {
            "catalog": self.catalog.to_json(),
            "fresh": sorted(self._fresh),
            "history": self._intake.history_to_json(),
            "filling": self._filling(),
        }
        return Sealed(self.version, catalog)

    def _program(self) -> _Current:
        if self._current is None:
            assembler = self._assembler(self.catalog)
            program = assembler.program()
            broadcast = broadcast_program(self.spark.sparkContext, program)
            reads = tuple({t.id: None for s in program.steps for t in read_tables(s.operation)})
            self._current = _Current(program, broadcast, reads, state_tables(program), assembler.retention())
        return self._current

    def _snapshot_steps(self, program: Program) -> list[int]:
        """Source steps that give a new reader the contents of an older view, in its first epoch only."""
        born = {self.catalog.views[v].born for v in self._fresh}
        return [i for i, s in enumerate(program.steps) if isinstance(s.operation, ViewSnapshot) and s.born in born]

    def _must_begin(self, program: Program) -> bool:
        """Whether a new view has a row to give before any input came: an aggregate without GROUP BY."""
        return any(
            isinstance(s.operation, GroupChanges)
            and s.operation.emit
            and not s.operation.partial.groups.key
            and bool(s.views & self._fresh)
            for s in program.steps
        )

    def _run(self, current: _Current, splits: list[Split], snapshots: list[int]) -> tuple[list[TaskReport], int]:
        """Run the job, again while guesses about quotes turn out wrong."""
        epoch = self.version.epoch + 1
        plan = EpochPlan(
            epoch,
            self.partitions,
            str(self.store.directory),
            current.broadcast,
            {t: self.version.runs(t) for t in current.reads},
        )
        redone = 0
        while True:
            work = self._share_out(current.program, splits, snapshots)
            try:
                reports = self._jobs.run(plan, current.program.supersteps, work)
            except TidemillError as error:
                certain = [s for s in splits if s.in_quotes is not None]
                if error.number != "TM4020" or len(certain) == len(splits):
                    raise
                splits, redone = (
                    certain,
                    redone + 1,
                )  # the error may come from a wrong guess: read less, but surely
                continue
            truth = self._intake.wrong_guesses([r for report in reports for r in report.splits if r.split.path])
            if truth is None:
                return reports, redone
            splits = [replace(s, in_quotes=truth[s]) for s in splits]
            redone += 1

    def _share_out(self, program: Program, splits: Sequence[Split], snapshots: list[int]) -> list[Work]:
        """Give splits to partitions, the largest first to the one with least."""
        scans = {s.operation.source.name: i for i, s in enumerate(program.steps) if isinstance(s.operation, ScanStep)}
        count = self.partitions if snapshots else max(1, min(self.partitions, len(splits)))
        shares: list[list[tuple[int, Split]]] = [[] for _ in range(count)]
        loads = [0] * count
        for split in sorted(splits, key=lambda s: s.start - s.end):
            target = loads.index(min(loads))
            loads[target] += split.end - split.start
            shares[target].append((scans[split.table], split))
        for step in snapshots:
            for share in shares:
                share.append((step, Split("", "", 0, 0, 0, 0)))
        return [Work(tuple(share)) for share in shares]

    def _failed_views(self, program: Program, reports: Sequence[TaskReport]) -> dict[str, str]:
        failed: dict[str, str] = {}
        for report in reports:
            for step, error in report.failures.items():
                for view in program.steps[step].views:
                    failed.setdefault(view, error.message())
        return failed

    def _seal(
        self,
        current: _Current,
        reports: Sequence[TaskReport],
        results: Sequence[SplitResult],
        failed: dict[str, str],
    ) -> list[Run]:
        """Make the epoch's runs, positions and compactions the new version."""
        epoch = self.version.epoch + 1
        allowed = {table for step in current.program.steps for table in _tables_of(step, failed)}
        runs = [run for report in reports for run in report.runs if run.table in allowed]
        merged = self._compactor.take(self.version)
        outputs = [replace(r, added=epoch) for r in merged.added]
        driver_runs = self._intake.apply(results, epoch)
        version = self.version.seal(epoch, [*runs, *outputs, *driver_runs], merged.removed)
        self.version = version.forget(epoch - self.settings.history_epochs)
        self._fresh.clear()
        for name, error in failed.items():
            self.catalog = self.catalog.with_failure(name, error, epoch)
            self._current = None
        if failed:
            self._intake.keep_history({v.born for v in self.catalog.active_views()})
        self.catalog = self._noting_whole(self.catalog)
        self._checkpoints.submit(self._sealed())
        self._compactor.start(self.version, {**current.tables, **self._intake.state_tables()}, self._expired(current))
        return runs

    def _expired(self, current: _Current) -> dict[str, tuple[Expiry, ...]]:
        """What no row admitted from now on can touch, by state table; nothing while history is read again."""
        if self._intake.history_remaining():
            return {}
        found = {}
        for table, lags in current.retention.items():
            conditions = []
            for lag in lags:
                times = [(self._intake.watermark(name), behind) for name, behind in lag.bounds]
                known = [time - behind for time, behind in times if time is not None]
                if len(known) == len(times):
                    conditions.append(Expiry(lag.place.column, lag.place.field, min(known)))
            if conditions and len(conditions) == len(lags):
                found[table] = tuple(conditions)
        return found


def _tables_of(step: Step, failed: dict[str, str]) -> list[str]:
    """State tables of a step that has a view which goes on; errors of a table belong to no view."""
    if isinstance(step.operation, ScanStep) or step.views - failed.keys():
        return [t.id for t in written_tables(step.operation)]
    return []
