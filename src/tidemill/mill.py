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
from tidemill.observing import Observers
from tidemill.plan.algebra.nodes import relations
from tidemill.plan.catalyst.frames import description
from tidemill.plan.sql.numbered import numbered
from tidemill.plan.sql.statements import CreateView
from tidemill.runtime.catalog.adaptors import new_adaptor
from tidemill.runtime.catalog.changes.declaration import Declaration
from tidemill.runtime.epoch.awaited import is_awaited
from tidemill.runtime.epoch.background import Background
from tidemill.runtime.epoch.coordinator import Coordinator
from tidemill.runtime.epoch.report import EpochReport
from tidemill.runtime.epoch.statements import Statements
from tidemill.runtime.epoch.subscription import Subscription
from tidemill.runtime.epoch.turns import mill_closed
from tidemill.runtime.ingest.batches import IngestedTable
from tidemill.runtime.ingest.posting import Posting
from tidemill.runtime.ingest.write import Ingest
from tidemill.runtime.read.selection import Selection, select_rows
from tidemill.runtime.read.snapshot import Snapshot
from tidemill.runtime.read.view_frame import view_frame
from tidemill.runtime.root import Root
from tidemill.runtime.spark.session import (
    create_session,
    java_ended,
    java_has_ended,
    java_process_has_ended,
    needing_java,
    stop_session,
)
from tidemill.runtime.tables.ingest_tables import check_streamed, not_ingested

_ROWS_COUNTED_HERE, _BYTES_COUNTED_HERE = 4_000_000, 256 << 20
"""Some tenths of a second, in parts; the first query of Spark takes seconds."""


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
            locked = Root(root, self.settings)  # before Spark starts: a root that cannot be used fails at once
            undo.callback(locked.release)
            zone = locked.recovered.catalog.time_zone
            self.spark = spark or create_session(replace(self.settings, time_zone=zone), workers=True)
            if self._owns_spark:
                undo.callback(stop_session, self.spark)
            self._coordinator = Coordinator(locked, self.settings, self.spark)
            undo.pop_all()
        self._sealed = threading.Condition()
        self._background = Background(self.advance, self._wake)
        self._statements = Statements(self.spark, self._open, self._coordinator.give_back)
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
            self._end()  # if Java has ended, the error says so already

    # -- statements ---------------------------------------------------------------------------------

    def sql(self, statement: str, *, timeout: float | None = None) -> DataFrame | str | None:
        """Execute one statement.

        A statement that reads does not wait. One that changes the mill (CREATE, ALTER, DROP) takes effect between two
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
        return self._statements.sql(statement, timeout)

    def submit(self, statement: str) -> Future[DataFrame | str | None]:
        """Queue one statement, in the order of statements, and return at once. Otherwise as :meth:`sql`.

        Returns
        -------
        concurrent.futures.Future
            ``result()`` waits for what :meth:`sql` returns or raises. ``cancel()`` withdraws the statement while it has
            not begun.

        Raises
        ------
        TidemillError
            TM2001, TM2002, TM2003 or TM7001 for a text that is not one statement.
        """
        return self._statements.submit(statement)

    def script(self, text: str) -> list[DataFrame | str | None]:
        """Execute the statements of a script one by one, so that the same script can be run again on the same root.

        A CREATE that repeats what exists, word for word or with the same plan, is skipped. A CREATE TABLE or CREATE
        VIEW that differs only in options or properties that ALTER may change (such as ``maxErrors``) changes these.

        Returns
        -------
        list
            What :meth:`sql` returns for each statement; None for one that was skipped.

        Raises
        ------
        TidemillError
            As :meth:`sql`. The statements before the one that failed stay executed; :meth:`declaring` carries out all
            changes of a script, or none, as ``tidemill run`` does.
        """
        return self._statements.script(text)

    def _open(self) -> Coordinator:
        """The coordinator. TM7012 once the mill is closed."""
        if self._closed:
            raise mill_closed(str(self._coordinator.objects))
        return self._coordinator

    @numbered()
    def create_view(self, name: str, frame: DataFrame, *, replace: bool = False) -> None:
        """Keep the result of a DataFrame as a materialized view.

        Parameters
        ----------
        name : str
            Of the new view.
        frame : DataFrame
            Built on :meth:`table`, :meth:`relation` or a SELECT given to :meth:`sql`. The view is over all rows, as if
            its query had been written in SQL.
        replace : bool
            As ``CREATE OR REPLACE``: the view of this name is kept until this one is complete.

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
            Whether equal arguments always give equal results. Views take no other functions.

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

    def create_adaptor(self, name: str, source: str, *, replace: bool = False) -> tuple[str, ...]:
        """Let tables decode their messages with a Python source: ``CREATE TABLE ... USING adaptor``.

        Parameters
        ----------
        name : str
            As tables name it; case-insensitive.
        source : str
            Python with a function ``decode(size, bytes)`` that gives rows; see docs/adaptors.md.
        replace : bool
            Whether an adaptor of this name may be replaced. Tables that use it go on with its earlier source.

        Returns
        -------
        tuple of str
            What its process is kept from on this machine: ``memory``, ``network``, ``processes``, ``files``, ``user``.

        Raises
        ------
        TidemillError
            TM8340 for a source that cannot be loaded, TM8341 for a bad name, TM8343 when the name is taken.
        """
        adaptor, held = new_adaptor(name, source)
        self._open().create_adaptor(adaptor, replace)
        return held

    def drop_adaptor(self, name: str) -> None:
        """Remove an adaptor. TM8342 when there is none of this name, TM8344 while tables use it."""
        self._open().drop_adaptor(name)

    @contextmanager
    def declaring(self) -> Iterator[Declaration]:
        """A declaration to add a script or pipeline to; at the end all its changes are carried out, or none.

        No epoch runs meanwhile.

        Raises
        ------
        TidemillError
            TM2xxx for what is wrong with it; nothing has been changed then, also when the block raises.
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

    def query(self, text: str, epoch: int | None = None, *, durable: bool = False) -> DataFrame:
        """A statement that reads, over the views at one sealed epoch, by default the newest one (see :meth:`snapshot`).

        It is any SELECT, SHOW, DESCRIBE or EXPLAIN of Spark SQL; EXPLAIN INCREMENTAL gives one row with one text.

        Raises
        ------
        TidemillError
            TM2001 when it cannot be parsed, TM2024 when it is another statement, TM2004 when a name does not resolve,
            which includes initialising views. What fails later is TM2016, or Spark's error of a frame made of it.
        """
        return self._statements.query(text, epoch, durable)

    def status(self) -> list[tuple[str, str, int, str]]:
        """For each view its name, status, epoch of creation and detail.

        Status is ``fresh``, ``initialising`` (it does not have its whole history yet), ``paused`` (it is not maintained
        until it is resumed), ``failing`` (while a row makes an expression fail), ``failed`` (until it is created
        again or resumed), or ``stopped``: an error has ended the background epochs, see :meth:`start`.
        """
        return self._background.statuses(self._open().snapshot().status())

    def ingest(self, table: str, *, query: str | None = None, timeout: float = 60.0) -> Ingest:
        """A function that writes a Spark stream into a table: ``stream.writeStream.foreachBatch(mill.ingest("t"))``.

        The table is one ``USING arrow`` (or parquet) with ``path 'ingest://'``. Columns are matched by name. Each batch
        of a query is added once, completely or not at all, and is durable when the call returns.

        Parameters
        ----------
        table : str
            Its name.
        query : str, optional
            The name of the query, for calls outside of ``foreachBatch``: ``mill.ingest("t", query="load")(frame, 1)``.
        timeout : float
            Seconds to wait while ``maxSpoolBytes`` of the table wait to be read.

        Returns
        -------
        callable
            Takes a DataFrame and the number of a batch; gives the number of rows that were added, see
            :meth:`~tidemill.runtime.ingest.write.Ingest.__call__`.

        Raises
        ------
        TidemillError
            TM2012 when there is no such table, TM5064 when it cannot be written into.
        """
        held = partial(self._written_into, table.lower())
        check_streamed(held().table.format)
        return Ingest(held, query, timeout)

    def add_rows(self, table: str, data: bytes, key: str | None = None, content_type: str = "") -> bool:
        """Add rows to a table with ``path 'ingest://'``, as bytes of its format; durable when the call returns.

        Parameters, result and errors as :meth:`~tidemill.runtime.ingest.posting.Posting.__call__`, TM2012 when there is
        no such table, TM5064 when its rows come from elsewhere.
        """
        return Posting(partial(self._written_into, table.lower()))(data, key, content_type)

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
        """Wake subscriptions that wait for an epoch."""
        with self._sealed:
            self._sealed.notify_all()

    def advance_known(self) -> EpochReport | None:
        """Run one epoch over what the last listing found (see :meth:`backlog`), without looking for more."""
        with needing_java(self.spark, "between epochs"):
            return self._announce(self._open().advance_known())

    def warnings(self) -> tuple[str, ...]:
        """New warnings since the last report or call, such as a failed checkpoint that is tried again.

        Reports of epochs have the same warnings; this is for a mill that has no input, or runs in the background. An
        error that has ended the background epochs is given once (TM7008).
        """
        return (*self._open().warnings(), *self._background.warnings())

    def drain(self) -> Iterator[EpochReport]:
        """Run epochs over all input that is there when the first begins; yields each report.

        Input that arrives meanwhile is not waited for, so it ends. Files that cannot be read are waited for until they
        have been tried ``fileAttempts`` times.

        Raises
        ------
        TidemillError
            Whatever an epoch raises; and at the end as :meth:`check_listed`.
        """
        more = True
        while more:
            self.backlog()
            more = False
            while (report := self.advance_known()) is not None or self.wait_for_files():
                if report is not None:
                    more = self.spool_was_full
                    yield report
        self.check_listed()

    @property
    def spool_was_full(self) -> bool:
        """Whether :meth:`backlog` left out what there was no room for; it is to be called again after some epochs."""
        return self._open().spool_was_full

    def check_listed(self) -> None:
        """Check that all places were asked for input since :meth:`backlog` was called; others were read.

        Raises
        ------
        TidemillError
            Why the first one was not: a store, server or table that is not there or does not answer.
        """
        for error in self._open().unlisted():
            raise error

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
        """Whether a view reads finite input that has not ended: standard input, or generated rows."""
        coordinator = self._open()
        return is_awaited(coordinator.published.catalog, coordinator.arrivals)

    def start(self, interval: float = 0.1) -> None:
        """Run epochs in the background; when idle, look for new input every ``interval`` seconds.

        An error ends them: :meth:`warnings` and :meth:`status` show it, and :meth:`stop` and subscriptions that wait
        raise it. Views stay readable as of the last sealed epoch.

        Raises
        ------
        TidemillError
            The error that stopped them earlier, if :meth:`stop` has not raised it.
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

    def wait_for_sinks(self, timeout: float | None = None) -> bool:
        """Wait until sinks have delivered all durable epochs; those that are paused or failing are not waited for.

        Parameters
        ----------
        timeout : float, optional
            The most seconds to wait; for ever by default.

        Returns
        -------
        bool
            False when the time was up.
        """
        return self._open().deliveries.wait(timeout)

    def close(self) -> None:
        """Stop, make the newest epoch durable, and release the root (and Spark, if it was made here).

        Raises
        ------
        TidemillError
            The error that stopped the background epochs; TM6003 when Java has ended, and TM1018 when a host with sealed
            state has, so that the newest epochs cannot be made durable: they are run again over the same input when
            the root is opened next.
        """
        if self._end():
            raise java_ended(f"epochs {self.durable_epoch + 1} to {self.epoch} are not durable")

    def _end(self) -> bool:
        """Close; returns whether epochs are lost because Java has ended."""
        if self._closed:
            return False
        ended = False
        try:
            self.stop()
        finally:
            self._closed = True
            self._wake()
            self._statements.close(mill_closed(str(self._coordinator.objects)))
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
        """The newest epoch that survives a crash and the loss of a host."""
        return self._coordinator.durable_epoch

    @property
    def rollbacks(self) -> tuple[int, ...]:
        """The durable epochs to which the mill returned, each time that sealed ones were lost, oldest first."""
        return tuple(self._coordinator.rollbacks)

    @property
    def failure(self) -> BaseException | None:
        """The error that has ended the background epochs, which :meth:`stop` raises; TM6003 where Java has ended."""
        if self._background.failure is None and java_process_has_ended(self.spark.sparkContext):
            return java_ended("between two epochs")
        return self._background.failure

    @property
    def observers(self) -> Observers:
        """The observers of epochs, checkpoints and compactions, called as these begin and end."""
        return self._coordinator.observers

    @property
    def root(self) -> str:
        """The directory or URL of the root."""
        return str(self._coordinator.objects)

    def snapshot(self, *, durable: bool = False) -> Snapshot:
        """The newest sealed epoch, for reading without Spark; with ``durable`` the newest durable one.

        Sealed epochs that are not durable may be lost with a host. The mill then goes back to the last durable epoch
        and reads the same input again, in epochs that may differ.
        """
        return self._open().snapshot(durable)

    def table(self, name: str, epoch: int | None = None, *, durable: bool = False) -> DataFrame:
        """A view as a Spark DataFrame of one sealed epoch (the newest by default), or a table to query.

        With ``durable`` it is of the newest durable epoch (see :meth:`snapshot`).

        DataFrames built on it can be given to :meth:`create_view`, unless ``epoch`` was given. The rows of a table
        without PRIMARY KEY or allowOverwrites are not kept: executing its DataFrame fails with TM2016, which names
        TM1034.

        Raises
        ------
        TidemillError
            TM2012 no such table or view, TM1030 still initialising (:meth:`relation` works then), TM1031 epoch not
            available.
        """
        coordinator = self._open()
        snapshot = coordinator.snapshot(durable)
        table = snapshot.catalog.tables.get(name.lower())
        if table is not None and not table.readable:
            return coordinator.relation(name.lower())
        return coordinator.view_frame(self.spark, snapshot, name.lower(), epoch)

    def relation(self, name: str) -> DataFrame:
        """A table or view, also an initialising one, as a DataFrame to build queries of; it cannot be executed.

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
        runs = snapshot.runs(snapshot.plan(view))
        if sum(r.rows for r in runs) <= _ROWS_COUNTED_HERE and sum(r.bytes for r in runs) <= _BYTES_COUNTED_HERE:
            return snapshot.count(view)
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

        Epochs are run by :meth:`start`, or by another thread; all epochs sealed before the mill is closed are given.

        Parameters
        ----------
        from_epoch : int
            0 begins with the rows of the oldest epoch that is retained, as insertions; any other
            number begins with the changes after that epoch.
        timeout : float or None
            The most seconds to wait for another epoch when all have been given; 0 does not wait, None waits for ever.
        durable : bool
            Whether to give only durable epochs.

        Yields
        ------
        (epoch, pyarrow.Table)
            The view's columns and int64 ``__weight``. Epochs that changed nothing are left out. The sum of
            all tables yielded is the view. An epoch at which a view was replaced by one of other columns is
            yielded twice: all old rows with weight -1, then all new rows.

        Raises
        ------
        TidemillError
            TM1031 when changes after ``from_epoch`` are no longer retained; TM1036 when epochs that were given have
            been lost with a host before they were durable; otherwise as :meth:`table`.
        """
        coordinator, view = self._open(), view.lower()
        coordinator.snapshot(durable).plan(view)  # an unknown view is an error now, not at the next epoch
        closed, failure = (lambda: self._closed), (lambda: self._background.failure)
        return Subscription(coordinator, self._sealed, closed, failure, view, timeout, durable).changes(from_epoch)
