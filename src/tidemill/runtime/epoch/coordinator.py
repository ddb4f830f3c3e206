"""Runs a mill: admits input, runs epochs, seals them, recovers.

The coordinator holds metadata only. What changes it takes turns (:mod:`~tidemill.runtime.epoch.turns`): an epoch, a
statement that creates or drops something, a checkpoint. Nothing is changed until an epoch has succeeded; then
positions, rows and catalogue change together.

At the end of each turn one immutable :class:`~tidemill.runtime.read.snapshot.Snapshot` is published, by reference.
Readers take it without waiting for anything.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

from pyspark.sql import DataFrame, SparkSession

from tidemill.config import Settings
from tidemill.errors import TidemillError
from tidemill.formats.rescue.new_columns import NewColumnsError
from tidemill.plan.algebra.nodes import Node
from tidemill.plan.catalyst.analyser import Catalyst
from tidemill.plan.catalyst.frames import marked_frame, struct, unreadable_frame
from tidemill.plan.lowering.assemble import Assembler
from tidemill.plan.rules import rewrite
from tidemill.plan.sql.statements import CreateTable, CreateView
from tidemill.runtime.catalog import evolution, replacements, small_tables
from tidemill.runtime.catalog.assemblers import Assemblers
from tidemill.runtime.catalog.catalog import Catalog, View, check_properties
from tidemill.runtime.catalog.declaration import Declaration
from tidemill.runtime.catalog.explained import explained, explained_beside
from tidemill.runtime.catalog.initialising import initialising, without_history
from tidemill.runtime.catalog.stored_tables import stored_tables
from tidemill.runtime.catalog.view_plans import with_names, with_read_plans
from tidemill.runtime.catalog.view_root import is_view, view_root
from tidemill.runtime.durability.checkpoints import Checkpoints, Sealed
from tidemill.runtime.durability.collector import InUse
from tidemill.runtime.durability.compactor import Compactor
from tidemill.runtime.durability.expired_state import expired_state
from tidemill.runtime.durability.uploads import Uploads, buffered_bytes
from tidemill.runtime.epoch.admission import Admission
from tidemill.runtime.epoch.arrivals import Arrivals
from tidemill.runtime.epoch.failures import Failures
from tidemill.runtime.epoch.recovery import Remedy, recovering
from tidemill.runtime.epoch.report import EpochReport, epoch_report
from tidemill.runtime.epoch.turns import Ticket, Turns
from tidemill.runtime.job.epoch_job import EpochJobs, broadcast_program
from tidemill.runtime.job.epoch_programs import EpochPrograms, Prepared
from tidemill.runtime.job.epoch_run import EpochRun, run_until_right
from tidemill.runtime.job.epoch_work import must_begin, share_out, snapshot_steps, tables_of
from tidemill.runtime.job.superstep import EpochPlan, TaskReport
from tidemill.runtime.read.readers import Readers
from tidemill.runtime.read.snapshot import Snapshot, from_manifest
from tidemill.runtime.read.view_frame import pinning, view_frame
from tidemill.runtime.root import Recovered, Root
from tidemill.sources.split import Split, SplitResult
from tidemill.sources.unreadable import UnreadableFilesError
from tidemill.state.memory import share_of_task
from tidemill.state.store.compaction import Policy
from tidemill.state.versions.expiry import Expiry
from tidemill.state.versions.version import Run

_T = TypeVar("_T")
_LOSSES = ("TM1015", "TM1018")
"""Numbers of errors that say that what was sealed, and not durable yet, is lost."""

_ELSEWHERE = ("TM1019",)
"""A run that was written on another host cannot be read from here."""

_HURRY = 0.8
_LEAST_EPOCH_BYTES = 64 << 10
_MERGES_BEHIND = 8
"""How many times as many runs as set off a merge a table may have before epochs wait for it."""


class Coordinator:
    """The one writer of a root.

    Parameters
    ----------
    root : Root
        Taken for writing; :meth:`close` releases it.
    """

    def __init__(self, root: Root, settings: Settings, spark: SparkSession) -> None:
        self._taken = root
        self.objects = root.objects
        self.settings = settings
        self.spark = spark
        self._readers = Readers()
        self._turns = Turns(str(root.objects))
        self._told = threading.Lock()
        self._jobs = EpochJobs(spark.sparkContext)
        self._admission = Admission(settings.epoch_bytes, _LEAST_EPOCH_BYTES)
        self._claimed = False
        self._scattered = False
        self._warnings: list[str] = list(root.warnings)
        """What is to be said, and was not yet; read and written with ``_told``."""
        self.went_back: list[int] = []
        """The epochs to which it went back, each time that sealed ones were lost."""
        self.arrivals = Arrivals(root.objects)
        self._begin_from(root.recovered)
        self.arrivals.begin(self.catalog, self._intake)
        self._durable: tuple[Sealed, Snapshot] | None = None
        self.published = self._newest()

    def _begin_from(self, found: Recovered) -> None:
        last = found.last
        self.store, self.version, self.catalog, self._intake = found.store, found.version, found.catalog, found.intake
        self._not_begun: set[str] = set(last.catalog["fresh"]) if last else set()
        self.partitions = self.settings.partitions or self.spark.sparkContext.defaultParallelism
        self.catalyst = Catalyst(self.spark, self.catalog.time_zone)
        for name in (*self.catalog.tables, *self.catalog.views):
            self.catalyst.register(name, self.catalog.described(name)[0])
        self._current: EpochPrograms | None = None
        self._assemblers = Assemblers()
        self._stored = partial(stored_tables, assemblers=self._assemblers)
        self.catalog = with_read_plans(self.catalog, self._assembler(self.catalog))  # of a root of an older format
        self._outgrown = small_tables.Outgrown(self.settings.broadcast_bytes)
        self._written: tuple[Catalog, dict[str, Any]] | None = None
        self._share = share_of_task(self.settings.memory_bytes, self.spark.sparkContext.defaultParallelism)
        self._compactor = Compactor(
            self.spark.sparkContext,
            self.store,
            self.spark.sparkContext.defaultParallelism - 1,
            Policy(self.settings.compact_after, self.settings.compact_bytes).within(self._share),
        )
        self._checkpoints = Checkpoints(
            self._taken.log,
            self.store,
            last,
            self.settings.checkpoint_seconds,
            self.settings.checkpoint_epochs,
            self.settings.garbage_grace_seconds,
            self.arrivals.synced(Uploads(self.spark.sparkContext, self.store, self.settings.checkpoint_bytes).run),
            self._in_use,
        )

    def _in_use(self) -> InUse:
        """What garbage collection must leave alone."""
        in_flight, reading = self._compactor.in_flight(), self._compactor.reading()
        newest = self.version
        return InUse(newest.files(), (reading, *self._readers.files(newest)), in_flight)

    # -- statements ---------------------------------------------------------------------------------

    def create_table(self, statement: CreateTable) -> None:
        """Add a table. Errors as :meth:`Catalog.add_table`."""
        with self.turn():
            if not (statement.if_not_exists and statement.name in self.catalog.tables):
                self._adopt(self.catalog.add_table(statement, self.version.epoch))

    def alter_table(self, name: str, options: Mapping[str, str | None]) -> None:
        """Change options of a table. Errors as :meth:`Catalog.with_options`."""
        with self.turn():
            self._adopt(self.catalog.with_options(name, options))

    def create_view(self, statement: CreateView, frame: DataFrame | None = None) -> None:
        """Add a view; it is filled from history in the epochs that follow, while the others go on.

        Parameters
        ----------
        frame : DataFrame, optional
            Stands for the query; the text of the statement only describes it then.

        Raises
        ------
        TidemillError
            TM2xxx when the query cannot be a view; nothing is changed then.
        """
        with self.turn():
            if statement.if_not_exists and statement.name in self.catalog.views:
                return
            check_properties(statement.properties)
            root, created_at_epoch = view_root(self.plan, statement, frame), self.version.epoch
            self.catalog.check_reads_no_failed(root)
            if statement.or_replace and statement.name in self.catalog.views:
                new = View(
                    statement.name, "", statement.query, root, created_at_epoch, properties=dict(statement.properties)
                )
                self._adopt(replacements.replaced(self.catalog, new, created_at_epoch))
                return
            catalog = self.catalog.add_view(
                statement.name, statement.query, root, created_at_epoch, statement.properties
            )
            self._adopt(replacements.follow(catalog, statement.name, created_at_epoch))

    def has_view(self, statement: CreateView) -> bool:
        """Whether a view of this name, query (or plan) and properties is there already."""
        view = self.catalog.views.get(statement.name)
        return view is not None and is_view(view, self.plan, statement)

    @contextmanager
    def declaring(self) -> Iterator[Declaration]:
        """A declaration to fill. At the end what it changes is carried out, all of it or nothing, as one change."""
        with self.turn():
            known = self.catalyst.functions
            declaration = Declaration(self.spark, self.catalog, self.version.epoch, self._taken.allowed, known)
            yield declaration
            self._adopt(declaration.catalog)
            for name, function in declaration.catalyst.functions.items():
                self.catalyst.register_function(name, function, None, True)

    def _adopt(self, catalog: Catalog) -> None:
        """Take over a catalog with other tables and views; what it has not any more goes with its state."""
        before = self.catalog
        if catalog is before:
            return
        catalog = with_names(catalog)
        old, new = ({t.uid: t for t in c.tables.values()} for c in (before, catalog))
        with self._all_or_nothing():
            if new.keys() - old.keys():
                self._stored(catalog)  # raises for what cannot be maintained, before anything of a table is opened
            for uid in old.keys() - new.keys():
                self.version = self.version.drop(self._intake.drop_table(old[uid]))
            held = before
            for uid, table in new.items():
                if uid not in old:
                    self._intake.add_table(table)
                    held = replace(held, tables={**held.tables, table.name: table}, next_uid=catalog.next_uid)
                    self.arrivals.hold(held, created=table.name)
                elif table != old[uid]:
                    self._intake.change_table(table)
            same_views = catalog.views is before.views and catalog.pending is before.pending
            if not same_views:
                catalog = small_tables.with_sizes(catalog, self.version.epoch, self._sizes())
            self.version = self.version.drop(self._stored(before).keys() - self._stored(catalog).keys())
            if same_views:
                self._change(catalog)
            else:
                self._begin(catalog)
            self.arrivals.hold(self.catalog)
            names = before.names(), catalog.names()
            for uid in names[0].keys() - names[1].keys():
                self.catalyst.forget(names[0][uid])
            for uid in names[1].keys() - names[0].keys():
                self.catalyst.register(names[1][uid], catalog.described(names[1][uid])[0])

    def _begin(self, catalog: Catalog) -> None:
        """Take over a catalog with new views, or without some; nothing is changed when they cannot be maintained."""
        assembler = self._assembler(catalog)
        assembler.program()  # raises for what cannot be maintained
        catalog = with_read_plans(catalog, assembler)
        uids = {v.uid for v in self.catalog.everything.values()}
        new = [v for v in catalog.everything.values() if v.uid not in uids]
        for view in new:
            self._warn(*self.arrivals.history_wanted(self._intake, catalog.tables_read_by(view.root)))
            for table in sorted(catalog.tables_read_by(view.root) - catalog.kept_tables()):
                self._intake.pin(table)
                self._intake.add_history(table, view.created_at_epoch)
        self._not_begun = (self._not_begun & catalog.everything.keys()) | {v.name for v in new}
        self._intake.keep_history(catalog.histories())
        self._change(self._noting_complete(catalog))

    def _sizes(self) -> partial[int | None]:
        return partial(self._intake.size, most=self.settings.broadcast_bytes)  # None: it may be no small side of a join

    def _free(self, catalog: Catalog) -> None:
        """Drop the state of what another catalog has not any more."""
        before, after = ({v.uid for v in c.everything.values()} for c in (self.catalog, catalog))
        if before - after or catalog.former != self.catalog.former:
            self.version = self.version.drop(self._stored(self.catalog).keys() - self._stored(catalog).keys())

    def plan(self, query: str | DataFrame, at: tuple[int, int] = (1, 1)) -> Node:
        """The algebra of a query that stands at a line and column. Errors as :meth:`Catalyst.plan`."""
        return rewrite(self.catalyst.plan(query, at))

    def explain(self, query: str | DataFrame) -> str:
        """The incremental plan of a query as text. Errors as :meth:`plan`, and what cannot be maintained."""
        found = self.published
        return explained(found.catalog, self.plan(query), found.version.epoch, self._sizes())

    def explain_view(self, name: str) -> str:
        """The incremental plan of a view as text."""
        catalog = self.published.catalog
        return explained_beside(catalog, catalog.views[name].definition())

    def drop(self, kind: str, name: str, if_exists: bool) -> None:
        """Remove a table or view and its state. Errors as :meth:`Catalog.without`."""
        with self.turn():
            present = self.catalog.tables if kind == "table" else self.catalog.views
            if not (if_exists and name not in present):
                self._adopt(self.catalog.without(kind, name))

    @contextmanager
    def _all_or_nothing(self) -> Iterator[None]:
        """Take back what a statement changed when it fails, also when it could not be made durable."""
        catalog, version, not_begun, current = self.catalog, self.version, set(self._not_begun), self._current
        intake = self._intake.copy()
        try:
            yield
        except BaseException as error:
            self.catalog, self.version, self._not_begun, self._current = catalog, version, not_begun, current
            self._intake = intake
            self.arrivals.hold(catalog)
            if isinstance(error, TidemillError) and error.number in _LOSSES:
                self._roll_back(error)
            raise

    def _change(self, catalog: Catalog) -> None:
        self.catalog, self._current = catalog, None
        self.checkpoint()

    def _assembler(self, catalog: Catalog, moving: frozenset[str] | None = None) -> Assembler:
        return self._assemblers.of(catalog.active_views(), catalog.tables, moving)

    # -- reading ------------------------------------------------------------------------------------

    def relation(self, name: str) -> DataFrame:
        """A table or view as a DataFrame to build queries of, which does not read. TM2012 when there is none."""
        types, uid = self.published.catalog.described(name)
        return pinning(unreadable_frame(self.spark, name, struct(self.spark, types), self.catalyst.mark(name, uid)))

    def view_frame(self, session: SparkSession, snapshot: Snapshot, name: str, epoch: int | None = None) -> DataFrame:
        """A view as a DataFrame that can be read and that queries of views can be built of. Errors as reading it."""
        frame = view_frame(session, snapshot, name, epoch)
        if epoch is not None or not {name} & (snapshot.catalog.views.keys() | snapshot.catalog.tables.keys()):
            return frame
        schema, uid = snapshot.catalog.described(name)
        return pinning(marked_frame(frame, name, schema, self.catalyst.mark(name, uid)), snapshot)

    def snapshot(self, durable: bool = False) -> Snapshot:
        """The newest sealed version, or the newest that a crash cannot take back. Waits for nobody."""
        return self._durable_snapshot() if durable else self.published

    def _durable_snapshot(self) -> Snapshot:
        with self._readers.lock:
            last = self._checkpoints.durable
            if not last.catalog:
                return self.published
            if self._durable is None or self._durable[0] is not last:
                self._durable = last, from_manifest(self.store, last.version, last.catalog)
                self._readers.add(self._durable[1])
            return self._durable[1]

    @contextmanager
    def turn(self, timeout: float | None = None, ticket: Ticket | None = None) -> Iterator[None]:
        """Wait for a turn at changing the mill, and publish what has changed at its end. Parameters as `Turns.turn`."""
        with self._turns.turn(timeout, ticket) as outermost:
            try:
                yield
            finally:
                if outermost:
                    self._publish()

    def ticket(self) -> Ticket:
        """A place in the queue for :meth:`turn`."""
        return self._turns.ticket()

    def give_back(self, ticket: Ticket) -> None:
        """As :meth:`Turns.give_back`."""
        self._turns.give_back(ticket)

    def _newest(self) -> Snapshot:
        plans = self.published.plans if self._is_published(self.catalog) else {}
        found = Snapshot(
            self.store,
            self.version,
            self.catalog,
            self._initialising_of(self.catalog),
            self._intake.counts_to_json(),
            self.arrivals.status,
            plans=plans,
        )
        self._readers.add(found)
        return found

    def _is_published(self, catalog: Catalog) -> bool:
        published: Snapshot | None = getattr(self, "published", None)
        return published is not None and published.catalog is catalog

    def _publish(self) -> None:
        """Let readers see what is sealed now."""
        if self._durable is not None and self._durable[0] is not self._checkpoints.durable:
            self._durable = None  # it would keep files that nobody reads
        old = self.published
        same = old.version is self.version and old.catalog is self.catalog and old.store is self.store
        if not same or old.initialising or self._not_begun:
            self.published = self._newest()

    def _initialising_of(self, catalog: Catalog) -> dict[str, int]:
        """Views that do not stand for all rows yet, with the bytes of history that remain."""
        remaining = self._intake.history_remaining()
        nothing = not remaining and not self._not_begun
        return {} if nothing else initialising(catalog, self._assembler(catalog), remaining, self._not_begun)

    def _noting_complete(self, catalog: Catalog) -> Catalog:
        """The catalog with the newest epoch noted for views that stand for all rows since then."""
        initialising = self._initialising_of(catalog)
        whole = {v.name for v in catalog.active_views() if v.complete_since is None and v.name not in initialising}
        return catalog.with_complete(whole, self.version.epoch) if whole else catalog

    @property
    def durable_epoch(self) -> int:
        """The newest epoch that a crash cannot take back."""
        return self._checkpoints.durable_epoch

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
            self.arrivals.follow(self._intake)
            return self._recovering(partial(self._attempt, started))

    def advance_known(self) -> EpochReport | None:
        """As :meth:`advance`, over what :meth:`backlog` has found."""
        with self.turn():
            started = time.perf_counter()
            self._recovering(lambda: self._intake.go_on())  # which is another one when it is made again
            return self._recovering(partial(self._attempt, started))

    def _recovering(self, attempt: Callable[[], _T]) -> _T:
        """What an attempt gives. What can be mended is, and it is made again."""

        def attempt_in_use() -> _T:
            self._programs()  # which tables are in use
            return attempt()

        return recovering(attempt_in_use, self._remedies())

    def _remedies(self) -> tuple[Remedy, ...]:
        """What is done about errors of an epoch; all others end it, and nothing is sealed."""
        return (
            Remedy(UnreadableFilesError, self._set_aside),
            Remedy(NewColumnsError, self._grow),
            Remedy(_ELSEWHERE, self._scatter, most=1),
            Remedy(_LOSSES, self._roll_back, most=3),
        )

    def _scatter(self, error: TidemillError) -> None:
        """From now on what is sealed is read from durable objects; an error when it is already."""
        if self._scattered:
            raise error
        self._scattered = True

    def _set_aside(self, error: UnreadableFilesError) -> None:
        """Go on without some files; views whose history is lost fail, durably."""
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
        catalog, said = evolution.with_new_columns(self.catalog, error)
        with self._all_or_nothing():
            self._intake.change_table(catalog.tables[error.table])
            self._change(catalog)
        self.catalyst.register(error.table, catalog.tables[error.table].schema)
        self._warn(said.message())

    def _roll_back(self, error: TidemillError) -> None:
        """As after a crash: take up the last durable epoch. What was admitted after it waits to be admitted again."""
        newest = self.version.epoch
        self._compactor.forget()
        self._checkpoints.close(error)
        self._begin_from(self._taken.recover())
        self.went_back.append(self.version.epoch)
        self._publish()
        self._warn(f"{error.message()}\n  went back from epoch {newest} to epoch {self.version.epoch}")
        self._programs()
        self._intake.list_all()
        self.arrivals.follow(self._intake)

    def _waiting_bytes(self) -> int:
        return buffered_bytes(self.version, self.durable_epoch)

    def _gather(self) -> None:
        """Make all that is sealed durable and read it from there, so that hosts need no buffers but their own."""
        self._checkpoints.flush(self._sealed())
        self._compactor.forget()
        self._evict(all_epochs=True)

    def _attempt(self, started: float) -> EpochReport | None:
        with self.turn():
            self._checkpoints.check()
            self._claim()
            self._intake.clean(self.durable_epoch)
            if self._scattered and self._waiting_bytes():
                self._gather()
            elif self._waiting_bytes() > self.settings.buffer_bytes:
                self._checkpoints.flush(self._sealed())
            most = _MERGES_BEHIND * self.settings.compact_after * self.partitions
            if max(map(len, self.version.tables.values()), default=0) > most:
                self._compactor.wait()
            programs = self._programs()
            current = programs.usual
            limits = self._admission.bytes, self.settings.split_bytes, self.partitions
            splits = self._intake.admit(
                *limits, () if self._not_begun else programs.small, self.settings.small_epoch_bytes
            )
            snapshots = snapshot_steps(
                current.program, {self.catalog.everything[v].created_at_epoch for v in self._not_begun}
            )
            begins = must_begin(current.program, self._not_begun) or bool(self.catalog.pending)
            appeared = self._intake.appeared()
            if not splits and not snapshots and not begins and not self._intake.must_note:
                self._not_begun.clear()
                return None
            admitted = time.perf_counter()
            if not self._not_begun:
                current = programs.of({s.table for s in splits})
            run = self._run(programs, current, splits, snapshots)
            current, reports, results = run.prepared, run.reports, run.results
            ran = time.perf_counter()
            failures = Failures.of(current.program, reports, self.catalog.everything)
            self._intake.check_budgets(results)
            written = self._seal(current, reports, results, failures)
            failed = {**self.catalog.newly_in_error(self.version.epoch), **failures.ended}
            sealed = time.perf_counter()
            milliseconds = {"admit": (admitted - started) * 1e3, "run": (ran - admitted) * 1e3}
            milliseconds |= {"seal": (sealed - ran) * 1e3, "total": (sealed - started) * 1e3}
            report = epoch_report(
                self.version.epoch, current.program, reports, results, written, milliseconds, failed, run.redone
            )
            self._admission.sealed(sum(s.length for s in splits), report.spilled_bytes)
            small = {t: self._intake.known_bytes(t) for t in programs.small if not self.catalog.tables[t].broadcast}
            told = (*self.warnings(), *appeared, *evolution.what_was_read(results), *self._outgrown.newly(small))
            return replace(report, warnings=told, waiting=self._intake.waiting())

    def warnings(self) -> tuple[str, ...]:
        """New warnings since the last report, or the last call; each is given once.

        While an epoch runs or a statement is executed, those that these give come with the next call after them.
        """
        with self._turns.turn_if_free() as free:
            if free:
                self._gather_warnings()
        with self._told:
            noted, self._warnings = self._warnings, []
        return tuple(noted)

    def _gather_warnings(self) -> None:
        self._warn(*self._intake.warnings(), *self._checkpoints.warnings(), *self._compactor.warnings())

    def _warn(self, *warnings: str) -> None:
        with self._told:
            self._warnings += warnings

    def retry_in(self) -> float | None:
        """As :meth:`Intake.retry_in`."""
        return self._intake.retry_in()

    def backlog(self) -> int:
        """Bytes listed and not admitted yet, history of new views included. Everything there is now is looked for."""
        with self.turn():
            self._recovering(lambda: self._intake.list_all())
            self.arrivals.follow(self._intake, flush=True)
            return self._intake.remaining()

    def checkpoint(self) -> None:
        """Make the newest sealed epoch durable now. Errors as :meth:`Checkpoints.flush`."""
        with self.turn():
            self._checkpoints.flush(self._sealed())
            self._claimed = True

    def close(self, checkpoint: bool = True) -> None:
        """Stop, once; the newest sealed epoch is made durable first unless told otherwise."""
        with self._turns.last_turn():
            if self._taken.released:
                return
            self._compactor.close()
            self.arrivals.close()
            written = False
            try:
                if checkpoint and self._claimed:
                    self.checkpoint()
                    self._evict(all_epochs=True)
                    self._compactor.end()
                    written = True
                self._intake.finish_cleaning(self.durable_epoch if checkpoint else None)
            finally:
                self._intake.close(self.durable_epoch)
                self._publish()
                self._checkpoints.close(collect=written)
                self._taken.release()

    def _claim(self) -> None:
        """Before its first epoch a writer publishes a manifest, which fences any other."""
        if not self._claimed:
            self.checkpoint()

    def _sealed(self) -> Sealed:
        if self._written is None or self._written[0] is not self.catalog:
            self._written = self.catalog, self.catalog.to_json()
        catalog = {
            "catalog": self._written[1],
            "fresh": sorted(self._not_begun),
            "filling": self._initialising_of(self.catalog),
            **self._intake.to_json(),
        }
        return Sealed(self.version, catalog)

    def _programs(self) -> EpochPrograms:
        if self._current is None:
            catalog, context = self.catalog, self.spark.sparkContext
            self._current = EpochPrograms(partial(self._assembler, catalog), partial(broadcast_program, context))
        self._intake.use(self._current.scanned)
        return self._current

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
                self._share,
            )
            work = share_out(prepared.program, splits, snapshots, plan.partitions)
            return self._jobs.run(plan, prepared.program.supersteps, work)

        return run_until_right(run, current, splits, programs, self._intake.wrong_guesses)

    def _seal(
        self, current: Prepared, reports: Sequence[TaskReport], results: Sequence[SplitResult], failures: Failures
    ) -> list[Run]:
        """Make the epoch's runs, positions and compactions the new version."""
        epoch = self.version.epoch + 1
        allowed = {table for step in current.program.steps for table in tables_of(step, failures.ended)}
        runs = [run for report in reports for run in report.runs if run.table in allowed]
        merged = self._compactor.take(self.version)
        outputs = [replace(r, added=epoch) for r in merged.added]
        driver_runs = self._intake.apply(results, epoch)
        self.arrivals.sealed(self._intake, epoch, self.durable_epoch)
        version = self.version.seal(epoch, [*runs, *outputs, *driver_runs], merged.removed)
        self.version = version.forget(epoch - self.settings.history_epochs)
        self._evict()
        self._not_begun.clear()
        self._settle(failures)
        self._scattered |= any(not self.store.reachable(file) for file in {run.file for run in runs})
        if self._scattered:
            self._gather()
        else:
            self._checkpoints.submit(self._sealed())
            if self._waiting_bytes() > _HURRY * self.settings.buffer_bytes:
                self._checkpoints.hurry()
        stored = {**current.tables, **self._intake.state_tables()}
        self._compactor.start(self.version, stored, self._expired(current))
        return runs

    def _evict(self, all_epochs: bool = False) -> None:
        """Read from durable objects what they have."""
        swaps = self._checkpoints.take_swaps(None if all_epochs else self.version.epoch - self.settings.buffer_epochs)
        self.version = self.version.swapped(swaps)
        self._intake.at(self.version)
        self._compactor.swapped(swaps)

    def _settle(self, failures: Failures) -> None:
        """What the epoch just sealed means for the catalog: failures, views that are whole, replacements."""
        epoch = self.version.epoch
        catalog = self.catalog.with_failing(failures.failing, epoch, self.version.horizon)
        catalog = self._noting_complete(replacements.with_failures(catalog, failures.ended, epoch))
        swapped = replacements.without_failing(catalog, epoch)
        if replacements.ready(swapped):
            swapped = replacements.swap(swapped, epoch)
            for name in catalog.pending:
                self.catalyst.unmark(name, catalog.views[name].uid)
                self.catalyst.register(name, swapped.views[name].root.schema)
        swapped = replacements.expire(swapped, self.version.horizon)
        if failures.ended or swapped is not catalog:
            self._free(swapped)
            self._intake.keep_history(swapped.histories())
            self._current = None
        self.catalog = swapped

    def _expired(self, current: Prepared) -> dict[str, tuple[Expiry, ...]]:
        """What no row admitted from now on can touch, by state table; nothing while history is read again."""
        return {} if self._intake.history_remaining() else expired_state(current.retention, self._intake.watermark)
