"""The façade: a mill keeps Spark SQL views fresh over raw files."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from types import TracebackType
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from tidemill.config import Settings
from tidemill.errors import TidemillError
from tidemill.plan.algebra.nodes import relations
from tidemill.plan.catalyst.frames import description
from tidemill.plan.sql import statements
from tidemill.plan.sql.numbered import numbered
from tidemill.plan.sql.statement_words import parse_reading
from tidemill.plan.sql.statements import (
    AlterTable,
    CreateTable,
    CreateView,
    Describe,
    Drop,
    Explain,
    Query,
    Show,
    Source,
    Statement,
)
from tidemill.runtime.catalog.declaration import Declaration
from tidemill.runtime.epoch.awaited import is_awaited
from tidemill.runtime.epoch.background import Background
from tidemill.runtime.epoch.coordinator import Coordinator
from tidemill.runtime.epoch.report import EpochReport
from tidemill.runtime.epoch.submitted import Submitted
from tidemill.runtime.epoch.subscription import Subscription
from tidemill.runtime.epoch.turns import mill_closed
from tidemill.runtime.ingest.batches import IngestedTable
from tidemill.runtime.ingest.write import Ingest
from tidemill.runtime.read.selection import Selection, select_rows
from tidemill.runtime.read.snapshot import Snapshot
from tidemill.runtime.read.view_frame import query_views, view_frame
from tidemill.runtime.root import Root
from tidemill.runtime.spark.session import create_session, java_ended, java_has_ended, needing_java, stop_session
from tidemill.runtime.tables.ingest_tables import not_ingested
from tidemill.runtime.tables.table_options import alterable

_COUNTED_HERE = 100_000
_CHANGES = (CreateTable, AlterTable, CreateView, Drop)
"""Statements that change the mill, and so take turns with its epochs."""


def _one(statement: str) -> Source:
    """The one statement of a text. TM7001 when there are others, or none."""
    found = statements.split_script(statement)
    if len(found) != 1:
        raise TidemillError(
            "TM7001",
            "sql() takes one statement",
            got=f"{len(found)} statements",
            hint="use script() for several",
        )
    return found[0]


class Mill:
    """Tables, views and the epochs that keep them fresh, below one root.

    Parameters
    ----------
    root : str or path
        Directory (or ``file:`` URL) for state and manifests; created when missing, recovered when not.
    spark : SparkSession, optional
        A session of your own; by default one is made with ``settings.master``.
    settings : Settings, optional
        See :class:`~tidemill.config.Settings`.

    Raises
    ------
    TidemillError
        TM1002, TM1003, TM1004, TM1010, TM1011, TM1022, TM1040 when the root cannot be opened for writing;
        TM6001, TM6002 when Java is missing or too old.

    Notes
    -----
    All methods may be called from any thread. Those that read (:meth:`read`, :meth:`table`, :meth:`query`,
    :meth:`status`, :meth:`subscribe`, and SHOW, DESCRIBE, EXPLAIN and SELECT) never wait for an epoch or a statement:
    they see the newest sealed epoch. Those that change something take turns. When epoch e is sealed, every view equals
    what ``spark.sql(query)`` returns over all rows admitted up to e.
    """

    def __init__(
        self,
        root: str | os.PathLike[str],
        *,
        spark: SparkSession | None = None,
        settings: Settings | None = None,
    ) -> None:
        self.settings = settings or Settings()
        self._owns_spark = spark is None and SparkSession.getActiveSession() is None
        with contextlib.ExitStack() as undo:
            taken = Root(root, self.settings)  # before Spark starts: a root that cannot be used is told at once
            undo.callback(taken.release)
            zone = taken.recovered.catalog.time_zone
            self.spark = spark or create_session(replace(self.settings, time_zone=zone))
            if self._owns_spark:
                undo.callback(stop_session, self.spark)
            self._within = taken.allowed
            self._coordinator = Coordinator(taken, self.settings, self.spark)
            undo.pop_all()
        self._sealed = threading.Condition()
        self._background = Background(self.advance, self._wake)
        self._submitted = Submitted(self._coordinator.give_back)
        self._closed = False
        self._listeners: tuple[Callable[[EpochReport], None], ...] = ()

    def __repr__(self) -> str:
        root, catalog = str(self._coordinator.objects), self._coordinator.published.catalog
        if self._closed:
            return f"Mill({root!r}, closed)"
        return f"Mill({root!r}, epoch {self.epoch}, {len(catalog.tables)} tables, {len(catalog.views)} views)"

    def __enter__(self) -> Mill:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.close()
        else:
            self._end()  # the error tells already that Java has ended, if it has

    # -- statements ---------------------------------------------------------------------------------

    def sql(self, statement: str, *, timeout: float | None = None) -> DataFrame | str | None:
        """Execute one statement.

        One that reads waits for nobody. One that changes something (CREATE, ALTER, DROP) takes effect between two
        epochs, in the order in which statements were given, and is durable when this returns.

        Parameters
        ----------
        timeout : float, optional
            The most seconds to wait for the epoch in progress, and for statements given before; for ever by default.
            :meth:`submit` does not wait.

        Returns
        -------
        DataFrame, str or None
            A Spark DataFrame for SELECT, SHOW and DESCRIBE; text for ``EXPLAIN INCREMENTAL``; None otherwise.

        Raises
        ------
        TidemillError
            TM2xxx for what is wrong with the statement, TM7014 when the time is up before it could begin; nothing has
            been changed then. TM7012 when the mill is closed before it could begin.
        """
        with needing_java(self.spark, "while a statement was executed"):
            return self._execute(_one(statement), timeout=timeout)

    def submit(self, statement: str) -> Future[DataFrame | str | None]:
        """Give one statement and go on; it takes its place in the order of statements now. Others as :meth:`sql`.

        Returns
        -------
        concurrent.futures.Future
            ``result()`` waits for what :meth:`sql` returns or raises. ``cancel()`` withdraws the statement while it has
            not begun.

        Raises
        ------
        TidemillError
            TM2001, TM2002, TM2003 or TM7001 for a text that is no statement.
        """
        coordinator, source = self._open(), _one(statement)
        changes = isinstance(numbered()(coordinator.catalyst.parse)(source), _CHANGES)
        ticket = coordinator.ticket() if changes else None

        def execute() -> DataFrame | str | None:
            with needing_java(self.spark, "while a statement was executed"):
                return self._execute(source)

        return self._submitted.add(ticket, partial(coordinator.turn, None), execute)

    def script(self, text: str) -> list[DataFrame | str | None]:
        """Execute a script; a CREATE that repeats what exists, word for word or with the same plan, is skipped.

        A CREATE TABLE that differs in its limits alone (maxErrors, maxErrorRatio, maxFilesPerTrigger,
        maxBytesPerTrigger) changes these.

        So the same script can be run again on the same root. Errors as :meth:`sql`; statements before the
        one that failed have been executed.
        """
        results = []
        for done, source in enumerate(statements.split_script(text)):
            try:
                with needing_java(self.spark, "while a statement was executed"):
                    results.append(self._execute(source, repeatable=True))
            except TidemillError as error:
                where = f"in the statement on line {source.line}: {source.text.splitlines()[0][:80]}"
                if done:
                    where += f"\n        statements before it that were executed: {done}"
                hint = f"{error.hint}\n        {where}" if error.hint else where
                raise type(error)(error.number, error.what, error.got, hint) from error
        return results

    def _open(self) -> Coordinator:
        """The coordinator. TM7012 once the mill is closed."""
        if self._closed:
            raise mill_closed(str(self._coordinator.objects))
        return self._coordinator

    @numbered()
    def _execute(
        self, source: Source, repeatable: bool = False, timeout: float | None = None
    ) -> DataFrame | str | None:
        coordinator = self._open()
        statement: Statement = coordinator.catalyst.parse(source)
        if isinstance(statement, _CHANGES):
            with coordinator.turn(timeout):
                if not (repeatable and self._exists(statement)):
                    self._change(statement)
            return None
        match statement:
            case Explain():
                return self.explain(statement.query)
            case Show():
                return self._show(statement.kind)
            case Describe():
                return self._describe(statement.name)
            case Query():
                return self.query(statement.text)

    def _change(self, statement: Statement) -> None:
        coordinator = self._open()
        match statement:
            case CreateTable():
                options = {k.lower(): v for k, v in statement.options.items()}
                self._within.check(statement.name, options, looks_into=not len(statement.schema))
                coordinator.create_table(statement)
            case AlterTable():
                given = {k.lower(): v for k, v in statement.options.items() if v is not None}
                self._within.check(statement.name, given)
                coordinator.alter_table(statement.name, statement.options)
            case CreateView():
                coordinator.create_view(statement)
            case Drop():
                coordinator.drop(statement.kind, statement.name, statement.if_exists)

    def _exists(self, statement: Statement) -> bool:
        """Whether a statement would create what is there already; limits of a table are changed to those it gives."""
        coordinator = self._open()
        if isinstance(statement, CreateTable) and statement.name in coordinator.catalog.tables:
            table = coordinator.catalog.tables[statement.name]
            if not table.same_but_for_limits(statement):
                return False
            given = {k.lower(): v for k, v in statement.options.items()}
            changed = {
                k: given.get(k) for k in alterable({**given, **table.options}) if given.get(k) != table.options.get(k)
            }
            if changed:
                self._within.check(table.name, {k: v for k, v in changed.items() if v is not None})
                coordinator.alter_table(table.name, changed)
            return True
        return isinstance(statement, CreateView) and not statement.or_replace and coordinator.has_view(statement)

    @numbered()
    def create_view(self, name: str, frame: DataFrame, *, replace: bool = False) -> None:
        """Keep the result of a DataFrame as a materialized view.

        Parameters
        ----------
        name : str
            Of the new view.
        frame : DataFrame
            Built on :meth:`table`, :meth:`relation` or a SELECT given to :meth:`sql`. Whatever these read now,
            the view is over all rows, as if its query had been written in SQL.
        replace : bool
            As ``CREATE OR REPLACE``: the view of this name goes on until this one can take its place.

        Raises
        ------
        TidemillError
            TM2006 when it reads something else, TM2107 for a Python function, TM2017 for another time zone,
            otherwise as ``CREATE MATERIALIZED VIEW``; nothing has been changed then.
        """
        coordinator = self._open()
        coordinator.create_view(CreateView(name.lower(), description(frame), or_replace=replace), frame)

    def register_function(
        self, name: str, function: Any, return_type: Any = None, *, deterministic: bool = True
    ) -> None:
        """Let views call a Python function by name.

        Parameters
        ----------
        name : str
            As queries write it.
        function : callable
            A function of one row's values, or the result of PySpark's ``udf``, ``pandas_udf`` or ``arrow_udf``.
        return_type : str or DataType
            Of a plain function, such as ``"int"``; leave it out for one that declares it.
        deterministic : bool
            The caller's word that equal arguments give equal results, now and later. A view has no use for others.

        Raises
        ------
        TidemillError
            TM2107 when it is not deterministic, or its type cannot be read.

        Notes
        -----
        A view keeps the function that was registered when it was created, also when the root is opened again or the
        name is registered with another one: replace the view to change it. Functions of importable modules are kept
        by their name only, so a new version of the module changes them for rows that come later.

        Security: the root stores the function as a pickle. Opening a root can run code: open only roots you trust.
        """
        if return_type is None and not hasattr(function, "returnType"):
            return_type = "string"
        self._open().catalyst.register_function(name, function, return_type, deterministic)

    @contextmanager
    def declaring(self) -> Iterator[Declaration]:
        """A declaration to fill from a script or pipeline; at the end all that it changes is carried out, or nothing.

        No epoch runs meanwhile.

        Raises
        ------
        TidemillError
            TM2xxx for what is wrong with it; nothing has been changed then, also when filling it raises.
        """
        with needing_java(self.spark, "while a script was compared"), self._open().declaring() as declaration:
            yield declaration

    @numbered()
    def explain(self, query: str | DataFrame) -> str:
        """The incremental plan of a query, as text. Errors as for creating a view of it."""
        return self._open().explain(query)

    def explain_view(self, name: str) -> str:
        """The incremental plan of a view, as text. TM2012 when there is none of this name."""
        coordinator, name = self._open(), name.lower()
        if name not in coordinator.published.catalog.views:
            raise coordinator.published.catalog.unknown(name, "view")
        return coordinator.explain_view(name)

    @numbered()
    def reads(self, query: str) -> frozenset[str]:
        """The tables and views that a query reads. Errors as for creating a view of it."""
        return frozenset(relations(self._open().plan(query)))

    def explain_views(self) -> list[tuple[str, str]]:
        """Name and incremental plan of every view."""
        return [(name, self._open().explain_view(name)) for name in self._open().published.catalog.views]

    @numbered()
    def query(
        self, text: str, epoch: int | None = None, *, durable: bool = False, snapshot: Snapshot | None = None
    ) -> DataFrame:
        """A statement that reads, over the views at one sealed epoch, by default the newest one (see :meth:`snapshot`).

        That is any SELECT, SHOW, DESCRIBE or EXPLAIN of Spark SQL; EXPLAIN INCREMENTAL gives one row with one text.

        Parameters
        ----------
        snapshot : Snapshot, optional
            What a SELECT reads, in the place of the newest epoch.

        Raises
        ------
        TidemillError
            TM2001 when it cannot be parsed, TM2024 when it is another statement, TM2004 when a name does not resolve,
            which includes views still being filled. What fails later is TM2016, or Spark's error of a frame made of it.
        """
        coordinator = self._open()
        match parse_reading(text):
            case Explain(query):
                return self.spark.createDataFrame([(self.explain(query),)], "plan string")
            case Show(kind):
                return self._show(kind)
            case Describe(name):
                return self._describe(name)
            case Query(query):
                with needing_java(self.spark, "while a query was planned"):
                    at = coordinator.snapshot(durable) if snapshot is None else snapshot
                    return query_views(self.spark, at, query, epoch, coordinator.view_frame)

    def _show(self, kind: str) -> DataFrame:
        return self.spark.createDataFrame(self._open().snapshot().show(kind))

    def status(self) -> list[tuple[str, str, int, str]]:
        """For each view its name, status, epoch of creation and detail.

        Status is ``fresh``, ``initialising`` (it waits for history), ``failing`` (as long as some row is there that
        makes an expression fail), ``failed`` (for good), or ``stopped``: an error has ended the background epochs, see
        :meth:`start`.
        """
        return self._background.statuses(self._open().snapshot().status())

    def _describe(self, name: str) -> DataFrame:
        return self.spark.createDataFrame(self._open().snapshot().describe(name))

    def ingest(self, table: str, *, query: str | None = None, timeout: float = 60.0) -> Ingest:
        """What writes a Spark stream into a table: ``stream.writeStream.foreachBatch(mill.ingest("t")).start()``.

        The table is one ``USING arrow`` (or parquet) with ``path 'ingest://'``. Columns are matched by name. Each batch
        of a query is in the table once, whole or not at all, whatever is killed, and is durable when the call returns.

        Parameters
        ----------
        table : str
            Its name.
        query : str, optional
            Whose batches these are, where no query calls: ``mill.ingest("t", query="load")(frame, number)``.
        timeout : float
            Seconds to wait while ``maxSpoolBytes`` of the table wait to be read.

        Returns
        -------
        callable
            Of a DataFrame and the number of a batch; it gives the rows that were added, see
            :meth:`~tidemill.runtime.ingest.write.Ingest.__call__`.

        Raises
        ------
        TidemillError
            TM2012 when there is no such table, TM5064 when it cannot be written into.
        """
        name = table.lower()
        held = partial(self._written_into, name)
        held()
        return Ingest(held, query, timeout)

    def _written_into(self, name: str) -> IngestedTable:
        coordinator = self._open()
        found = coordinator.arrivals.ingestion.table(name)
        if found is not None:
            return found
        catalog = coordinator.published.catalog
        if name not in catalog.tables:
            raise catalog.unknown(name, "table")
        raise not_ingested(catalog.tables[name].path)

    # -- epochs -------------------------------------------------------------------------------------

    def advance(self) -> EpochReport | None:
        """Run one epoch; None when there is nothing new, and then no job was run.

        Raises
        ------
        TidemillError
            What went wrong; nothing was sealed, and the previous epoch stays readable.
        """
        with needing_java(self.spark, "between epochs"):
            return self._announce(self._open().advance())

    def _announce(self, report: EpochReport | None) -> EpochReport | None:
        if report is not None:
            self._wake()
            for listener in self._listeners:
                listener(report)
        return report

    def on_epoch(self, listener: Callable[[EpochReport], None]) -> None:
        """Have a function called with the report of each epoch, on the thread that ran it, before the next one begins.

        It should return at once, and must not raise.
        """
        self._listeners = (*self._listeners, listener)

    def _wake(self) -> None:
        """Those who wait for an epoch are to look."""
        with self._sealed:
            self._sealed.notify_all()

    def advance_known(self) -> EpochReport | None:
        """Run one epoch over what the last listing found (see :meth:`backlog`), without looking for more."""
        with needing_java(self.spark, "between epochs"):
            return self._announce(self._open().advance_known())

    def warnings(self) -> tuple[str, ...]:
        """What went wrong, and is tried again, since the last report or call: a checkpoint that failed, for instance.

        Reports of epochs carry the same; this is for a mill that has nothing to do, or runs in the background. It tells
        once of an error that has ended that (TM7008).
        """
        return (*self._open().warnings(), *self._background.warnings())

    def drain(self) -> Iterator[EpochReport]:
        """Run epochs over all input that is there when the first begins; yields each report.

        What arrives meanwhile is left for later, so it comes to an end. Files that cannot be read are waited for
        until they have been tried as often as ``fileAttempts`` says.
        """
        self.backlog()
        while (report := self.advance_known()) is not None or self.wait_for_files():
            if report is not None:
                yield report

    def wait_for_files(self) -> bool:
        """Wait, for a second at most, for a file that could not be read to be tried again; False if there is none."""
        seconds = self._open().retry_in()
        if seconds is not None:
            time.sleep(min(seconds, 1.0))
        return seconds is not None

    def backlog(self) -> int:
        """Bytes of input that wait to be admitted."""
        return self._open().backlog()

    def awaits_input(self) -> bool:
        """Whether a view reads input that has an end and has not come to it: standard input, or generated rows."""
        coordinator = self._open()
        return is_awaited(coordinator.published.catalog, coordinator.arrivals)

    def start(self, interval: float = 0.1) -> None:
        """Run epochs in the background; when idle, look for new input every ``interval`` seconds.

        An error ends them: :meth:`warnings` and :meth:`status` tell of it, :meth:`stop` raises it, and so does whoever
        waits for an epoch. Views stay readable as of the last sealed epoch.

        Raises
        ------
        TidemillError
            The error that stopped them earlier, if nobody has been given it.
        """
        self._open()
        self._background.start(interval)

    def stop(self) -> None:
        """Stop the background epochs after the one in progress.

        Raises
        ------
        TidemillError
            The error that stopped them earlier, if one did.
        """
        self._background.stop()

    def checkpoint(self) -> int:
        """Make the newest sealed epoch durable now; returns its number."""
        self._open().checkpoint()
        return self._open().durable_epoch

    def close(self) -> None:
        """Stop, make the newest epoch durable, and release the root (and Spark, if it was made here).

        Raises
        ------
        TidemillError
            The error that stopped the background epochs; TM6003 when Java has ended, and so the newest epochs cannot be
            made durable: they are made again from the same input when the root is opened next.
        """
        if self._end():
            raise java_ended(f"epochs {self.durable_epoch + 1} to {self.epoch} are not durable")

    def _end(self) -> bool:
        """Close; tells whether epochs are lost because Java has ended."""
        if self._closed:
            return False
        ended = False
        try:
            self.stop()
        finally:
            self._closed = True
            self._wake()
            self._submitted.close(mill_closed(str(self._coordinator.objects)))
            ended = java_has_ended(self.spark.sparkContext)
            try:
                self._coordinator.close(checkpoint=not ended)
            finally:
                if self._owns_spark:
                    stop_session(self.spark)
        return ended and self.durable_epoch < self.epoch

    # -- reading ------------------------------------------------------------------------------------

    @property
    def epoch(self) -> int:
        """The newest sealed epoch; 0 before the first."""
        return self._coordinator.published.version.epoch

    @property
    def durable_epoch(self) -> int:
        """The newest epoch that no crash and no loss of a host can take back."""
        return self._coordinator.durable_epoch

    @property
    def went_back(self) -> tuple[int, ...]:
        """The epochs to which the mill went back, each time that sealed ones were lost, oldest first."""
        return tuple(self._coordinator.went_back)

    @property
    def failure(self) -> BaseException | None:
        """The error that has ended the background epochs, if one has; :meth:`stop` raises it."""
        return self._background.failure

    @property
    def root(self) -> str:
        """The directory or URL of the root."""
        return str(self._coordinator.objects)

    def snapshot(self, *, durable: bool = False) -> Snapshot:
        """The newest sealed epoch, for reading without Spark; with ``durable`` the newest that cannot be lost.

        What is sealed and not durable may be lost with a host. The mill then goes back to the last durable epoch and
        reads the same input again, in epochs that may be cut otherwise.
        """
        return self._open().snapshot(durable)

    def table(self, name: str, epoch: int | None = None, *, durable: bool = False) -> DataFrame:
        """A view as a Spark DataFrame of one sealed epoch (the newest by default), or a table to query.

        With ``durable`` the newest epoch is the newest that cannot be lost (see :meth:`snapshot`).

        What is built on it can be given to :meth:`create_view`, unless ``epoch`` was given. The rows of a
        table without PRIMARY KEY or allowOverwrites cannot be read by themselves: executing its DataFrame fails with
        TM2016, which names TM1034.

        Raises
        ------
        TidemillError
            TM2012 no such table or view, TM1030 still being filled (:meth:`relation` does not mind), TM1031 epoch
            not available.
        """
        coordinator = self._open()
        snapshot = coordinator.snapshot(durable)
        table = snapshot.catalog.tables.get(name.lower())
        if table is not None and not table.readable:
            return coordinator.relation(name.lower())
        return coordinator.view_frame(self.spark, snapshot, name.lower(), epoch)

    def relation(self, name: str) -> DataFrame:
        """A table or view, filled or not, as a DataFrame to build queries of; it cannot be executed.

        Raises
        ------
        TidemillError
            TM2012 no such table or view.
        """
        return self._open().relation(name.lower())

    def read(self, view: str, epoch: int | None = None, *, durable: bool = False) -> pa.Table:
        """A view as an Arrow table, read in this process. Parameters and errors as :meth:`table`."""
        return self._open().snapshot(durable).read(view.lower(), epoch)

    def count(self, view: str) -> int:
        """Number of rows of a view; a large view is counted in Spark tasks. Errors as :meth:`table`."""
        view = view.lower()
        snapshot = self._open().snapshot()
        snapshot.check_readable(view, None)
        if sum(r.rows for r in snapshot.runs(snapshot.plan(view))) <= _COUNTED_HERE:
            return sum(part.num_rows for part in snapshot.read_parts(view))
        return int(view_frame(self.spark, snapshot, view).count())

    def wait_for_epoch(self, after: int, timeout: float | None = None) -> int:
        """Wait for an epoch to be sealed, or for the mill to go back or to be closed.

        Parameters
        ----------
        after : int
            Returns at once when the newest sealed epoch is another one than this.
        timeout : float, optional
            The most seconds to wait; for ever by default.

        Returns
        -------
        int
            The newest sealed epoch.
        """
        with self._sealed:
            self._sealed.wait_for(lambda: self._closed or self.epoch != after, timeout)
        return self.epoch

    def selection(self, view: str, columns: str = "*", where: str | None = None) -> Selection:
        """Columns and a condition for the rows or changes of one view, in Spark SQL.

        Parameters
        ----------
        columns : str
            What stands between SELECT and FROM: names and expressions of the columns of the view.
        where : str, optional
            A condition on its columns.

        Raises
        ------
        TidemillError
            TM2012 for an unknown view, TM2001 and TM2004 for what cannot be parsed or resolved, TM2060 for what
            needs more than one row at a time.
        """
        coordinator, view = self._open(), view.lower()
        snapshot = coordinator.snapshot()
        with needing_java(self.spark, "while a selection was planned"):
            return numbered()(select_rows)(coordinator.plan, view, snapshot.schema(view), columns, where)

    def subscribe(
        self, view: str, from_epoch: int = 0, *, timeout: float | None = None, durable: bool = False
    ) -> Iterator[tuple[int, pa.Table]]:
        """The changes of a view, epoch by epoch, each exactly once and in order, until the mill is closed.

        Epochs are run by :meth:`start`, or by another thread; what was sealed before the mill is closed is given.

        Parameters
        ----------
        from_epoch : int
            0 begins with the rows of the oldest epoch that is remembered, as insertions; any other
            number begins with the changes after that epoch.
        timeout : float or None
            The most seconds to wait for another epoch when all have been given; 0 ends at once, None never.
        durable : bool
            Whether to give epochs only when they cannot be lost any more.

        Yields
        ------
        (epoch, pyarrow.Table)
            The view's columns and int64 ``__weight``. Epochs that changed nothing are left out. The sum of
            everything yielded is the view. An epoch at which a view was replaced by one of other columns is
            yielded twice: all old rows out, then all new rows in.

        Raises
        ------
        TidemillError
            TM1031 when changes after ``from_epoch`` are no longer remembered; TM1036 when epochs that were given have
            been lost with a host before they were durable; otherwise as :meth:`table`.
        """
        coordinator, view = self._open(), view.lower()
        coordinator.snapshot(durable).plan(view)  # an unknown view is told now, not when an epoch comes
        closed, failure = (lambda: self._closed), (lambda: self._background.failure)
        return Subscription(coordinator, self._sealed, closed, failure, view, timeout, durable).changes(from_epoch)
