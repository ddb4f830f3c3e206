"""What a server does for its clients, whatever protocol they speak."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from tidemill.errors import TidemillError
from tidemill.mill import Mill
from tidemill.observing import STATEMENT, Value
from tidemill.plan.sql.own_statements import changes_sinks
from tidemill.plan.sql.simple_select import apply_select, parse_select
from tidemill.plan.sql.statement_words import READING, head, parse_reading
from tidemill.plan.sql.statements import Describe, Explain, Query, Show, split_script
from tidemill.runtime.epoch.report import EpochReport
from tidemill.runtime.read.snapshot import Snapshot
from tidemill.runtime.read.view_frame import fetch
from tidemill.serve.access.closed_statements import check_query, check_statement
from tidemill.serve.access.settings import ServerSettings
from tidemill.serve.access.tokens import Role, Tokens, not_allowed
from tidemill.serve.changes.change_log import ChangeLog
from tidemill.serve.changes.position import Generations
from tidemill.serve.changes.subscribing import Subscriptions
from tidemill.serve.cursors.cursors import Cursors
from tidemill.serve.encoding.json_keys import keys_of
from tidemill.serve.logs.caller import CALLER
from tidemill.serve.logs.events import QUERY_EXECUTED, SERVER_STOPPED, STATEMENT_EXECUTED, Event
from tidemill.serve.logs.mill_watch import MillWatch
from tidemill.serve.logs.server_log import ServerLog
from tidemill.serve.logs.statement_names import named
from tidemill.serve.service.first_rows import first_rows
from tidemill.serve.service.freed_memory import FreedMemory
from tidemill.serve.service.place import Place
from tidemill.serve.service.programs import Programs
from tidemill.serve.service.state_sizes import StateSizes
from tidemill.serve.stored.cache import Cache
from tidemill.serve.stored.state_store import StateStore
from tidemill.state.versions.objects import local_directory

_REPORTS = 600
_MOST_VIEWS = 100
PROBE = "__probe"
"""The column of an answer to :meth:`Service.look_up` that says which key each row is for."""
_SHOWING = ("SHOW", "DESCRIBE", "DESC", "EXPLAIN")


@dataclass(frozen=True)
class Rows:
    """Rows of an epoch, in tables of one schema, at least one; made when they are asked for."""

    epoch: int
    tables: Iterator[pa.Table]


@dataclass(frozen=True)
class Text:
    """The text of a plan, at an epoch."""

    epoch: int
    text: str


@dataclass(frozen=True)
class Done:
    """A statement was executed, and is durable; ``epoch`` is the newest sealed one."""

    epoch: int


Answer = Rows | Text | Done


class Service:
    """One mill for many clients. All methods may be called from any thread, and none waits for an epoch, but
    statements that change something.

    Parameters
    ----------
    mill : Mill
        Whose epochs run in the background: see :meth:`Mill.start`.
    settings : ServerSettings

    Attributes
    ----------
    server_log : ServerLog
        What happens; ``log`` is the log of changes.
    """

    def __init__(self, mill: Mill, settings: ServerSettings) -> None:
        settings.check()
        self.mill, self.settings = mill, settings
        self.tokens = Tokens.read(settings.tokens)
        self.started = time.time()
        directory = local_directory(mill.root)
        self.store = StateStore(None if directory is None else Path(directory) / "serve")
        self.programs = Programs(mill)
        self.state_sizes = StateSizes(mill, self.programs)
        self.generations = Generations(self.store, mill, self.state_sizes.noticed)
        self.log = ChangeLog(mill, self.generations, settings.cache_bytes)
        self.results = Cache(settings.cache_bytes)
        self.subscriptions = Subscriptions(mill, self.log, self.generations, self.check_length)
        self.cursors = Cursors(self.store, self.subscriptions, settings.max_cursors)
        self._reports: deque[tuple[float, EpochReport]] = deque(maxlen=_REPORTS)
        self._warnings: deque[tuple[float, str]] = deque(maxlen=_REPORTS)
        self._told = threading.RLock()
        self.server_log = ServerLog(settings.log_level, settings.log_entries)
        self._memory = FreedMemory()
        self._watch = MillWatch(mill, self.server_log, settings.slow_epoch_seconds, self.warnings)
        self._subscribers = 0
        self._statements = threading.BoundedSemaphore(settings.max_statements)
        mill.on_epoch(self._note)

    @property
    def subscribers(self) -> int:
        """How many followers there are now, over all protocols."""
        return self._subscribers

    def subscriber_place(self) -> Place:
        """A place for a follower, which it gives back at its end. TM8024 when there are as many as there may be."""
        with self._told:
            if self._subscribers >= self.settings.max_subscribers:
                raise TidemillError(
                    "TM8024",
                    "the server has as many of these as it may",
                    got=f"{self.settings.max_subscribers:,} subscribers",
                    hint="end some, or raise the server's limit",
                )
            self._subscribers += 1
        return Place(self._left)

    def _left(self) -> None:
        with self._told:
            self._subscribers -= 1

    def close(self) -> None:
        """Make the newest epoch durable, so that positions outlive the server, and close what it stores.

        The mill is its owner's to close.
        """
        try:
            self.mill.checkpoint()
            self.generations.note_durable()
            self.server_log.note(SERVER_STOPPED, epoch=self.mill.epoch)
        finally:
            self._memory.close()
            self._watch.close()
            self.store.close()
            self.server_log.close()

    @property
    def time_zone(self) -> str:
        """The session time zone of the views."""
        return self.mill.snapshot().catalog.time_zone

    def _note(self, report: EpochReport) -> None:
        self._reports.append((time.time(), replace(report, program=None, operators=(), read=())))
        self._warn(report.warnings)

    def _warn(self, warnings: Iterable[str]) -> None:
        for text in warnings:
            self._warnings.append((time.time(), text))
            self._watch.warn(text)

    def reports(self, after: int = 0) -> list[tuple[float, EpochReport]]:
        """The newest epochs after one, oldest first, with the time at which each was sealed (seconds since 1970).

        Without their programs, operators and splits, which would be most of the memory: :attr:`programs` has the sums.
        """
        return [(at, r) for at, r in list(self._reports) if r.epoch > after]

    def warnings(self) -> list[tuple[float, str]]:
        """The newest warnings, oldest first, with when they were given."""
        with self._told:
            self._warn(self.mill.warnings())
        return list(self._warnings)

    # -- statements ---------------------------------------------------------------------------------

    def execute(self, statement: str, role: Role, timeout: float | None = None, epoch: int | None = None) -> Answer:
        """Execute one statement: what :meth:`Mill.sql` takes, and what the server adds.

        Parameters
        ----------
        role : Role
            ``READ`` for what reads, ``WRITE`` for what changes something, ``ADMIN`` for what changes sinks: they send
            rows to other places.
        timeout : float, optional
            Seconds to wait for a turn, for a statement that changes something.
        epoch : int, optional
            For a statement that reads: the epoch to read, the newest by default.

        Raises
        ------
        TidemillError
            TM8004 for another role, TM8012 for a statement that is too long, TM8127 for one that reaches beyond tables
            and views; otherwise as :meth:`Mill.sql`.
        """
        self.check_length(statement)
        found = split_script(statement)
        if len(found) != 1:
            raise TidemillError(
                "TM7001", "sql() takes one statement", got=f"{len(found)} statements", hint="send them one by one"
            )
        reads = head(found[0]) in (*READING, *_SHOWING)
        with self.noted(statement, role, QUERY_EXECUTED if reads else STATEMENT_EXECUTED):
            if reads:
                self.require(Role.READ, role)
                return self.query(statement, epoch)
            self.require(Role.ADMIN if changes_sinks(found[0]) else Role.WRITE, role)
            check_statement(self.mill, statement)
            with self.long_statement():
                self.mill.sql(statement, timeout=timeout)
            return Done(self.mill.epoch)

    @contextmanager
    def noted(self, statement: str, role: Role, event: Event) -> Iterator[None]:
        """Notes a statement in the log as an event when it succeeds, and tells observers of it."""
        kind, name = named(statement)
        caller = CALLER.get()
        if caller is not None:
            caller.statement = f"{kind} {name}".strip()
        began = time.perf_counter()
        attributes: dict[str, Value] = {"kind": kind, "name": name, "role": role.name.lower()}
        with self.mill.observers.span(STATEMENT, attributes):
            yield
        if self.server_log.notes(event):
            milliseconds = (time.perf_counter() - began) * 1e3
            fields = {"name": name} if "name" in event.fields else {}
            self.server_log.note(event, kind=kind, milliseconds=milliseconds, role=role.name.lower(), **fields)

    # -- adaptors -----------------------------------------------------------------------------------

    def create_adaptor(self, name: str, source: str, role: Role, replace: bool) -> tuple[str, ...]:
        """As :meth:`Mill.create_adaptor`. TM8004 for another role than admin, TM8346 where adaptors are off."""
        with self.noted(f"CREATE ADAPTOR `{name}`", role, STATEMENT_EXECUTED):
            self._check_adaptors(role)
            with self.long_statement():
                return self.mill.create_adaptor(name, source, replace=replace)

    def drop_adaptor(self, name: str, role: Role) -> None:
        """As :meth:`Mill.drop_adaptor`, with the errors of :meth:`create_adaptor`."""
        with self.noted(f"DROP ADAPTOR `{name}`", role, STATEMENT_EXECUTED):
            self._check_adaptors(role)
            with self.long_statement():
                self.mill.drop_adaptor(name)

    def _check_adaptors(self, role: Role) -> None:
        if not self.settings.adaptors:
            raise TidemillError(
                "TM8346",
                "Python adaptors are switched off",
                got="a server without --adaptors",
                hint="start it with --adaptors: adaptors run on its machine, in processes with limits",
            )
        self.require(Role.ADMIN, role)

    def check_length(self, text: str) -> None:
        """TM8012 for statements, and SELECT lists with their conditions, that are too long."""
        if len(text) > self.settings.max_statement_length:
            raise TidemillError(
                "TM8012",
                "a limit of the server is reached",
                got=f"a statement of {len(text):,} characters, at most {self.settings.max_statement_length:,}",
                hint="split it into several views",
            )

    @contextmanager
    def long_statement(self) -> Iterator[None]:
        """One of the statements that may take long, over all protocols. They never take all threads, so requests that
        read go on.

        TM8024 when there are too many.
        """
        if not self._statements.acquire(blocking=False):
            raise TidemillError(
                "TM8024",
                "the server has as many of these as it may",
                got=f"{self.settings.max_statements:,} statements at the same time",
                hint="try again when some have ended",
            )
        try:
            yield
        finally:
            self._statements.release()

    @staticmethod
    def require(needed: Role, has: Role) -> None:
        """TM8004 when a role does not allow what another one is needed for."""
        if has < needed:
            raise not_allowed(needed, has)

    def query(self, text: str, epoch: int | None = None) -> Rows | Text:
        """The answer to a statement that reads, over the newest sealed epoch or another one.

        A SELECT of columns of one view with a simple condition is answered from state; Spark answers others.

        Raises
        ------
        TidemillError
            As :meth:`Mill.query` and :func:`~tidemill.runtime.read.view_frame.fetch`.
        """
        snapshot = self.mill.snapshot()
        at = snapshot.version.epoch if epoch is None else epoch
        match parse_reading(text):
            case Show(kind):
                return Rows(at, iter((self._show(snapshot, kind),)))
            case Describe(name):
                return Rows(at, iter((snapshot.describe(name),)))
            case Explain(query):
                return Text(at, self.mill.explain(query))
            case Query(query):
                select = parse_select(query)
                if select is not None and snapshot.readable(select.view):
                    parts = apply_select(select, snapshot.read_parts(select.view, epoch))
                    if parts is not None:
                        return Rows(at, parts)
                with self.long_statement():
                    check_query(self.mill, query)
                    return Rows(at, iter((self._answer_of_spark(query, at or None),)))

    def _answer_of_spark(self, query: str, epoch: int | None) -> pa.Table:
        """The rows of a query. TM8012 when there are more than ``max_rows``; Spark computes no more than one beyond."""
        most = self.settings.max_rows
        found = fetch(self.mill.query(query, epoch).limit(most + 1))
        if found.num_rows > most:
            raise TidemillError(
                "TM8012",
                "a limit of the server is reached",
                got=f"more than {most:,} rows of a query that Spark answers",
                hint="add LIMIT, or keep what it computes as a materialized view, of which any number can be read",
            )
        return found

    def _show(self, snapshot: Snapshot, kind: str) -> pa.Table:
        if kind != "views":
            return snapshot.show(kind)
        found = snapshot.show(kind)
        return pa.Table.from_pylist(
            [dict(zip(found.column_names, row, strict=True)) for row in self.mill.status()], found.schema
        )

    def check_view(self, name: str) -> None:
        """TM2012 when there is no view of this name."""
        catalog = self.mill.snapshot().catalog
        if name.lower() not in catalog.views:
            raise catalog.unknown(name.lower(), "view")

    def check_table(self, name: str) -> None:
        """TM2012 when there is no table of this name."""
        catalog = self.mill.snapshot().catalog
        if name.lower() not in catalog.tables:
            raise catalog.unknown(name.lower(), "table")

    def check_reads(self, query: str, names: Sequence[str]) -> None:
        """TM8021 when a query reads another table or view than these. Errors as :meth:`Mill.reads`."""
        others = sorted(self.mill.reads(query) - {n.lower() for n in names})
        if others:
            raise TidemillError(
                "TM8021",
                "the query reads what is not in its list of readers",
                got=", ".join(others),
                hint="name them in `readers`, or leave the list out",
            )

    # -- results ------------------------------------------------------------------------------------

    def read(
        self, name: str, epoch: int | None = None, columns: str = "*", where: str | None = None
    ) -> tuple[int, Iterator[pa.Table]]:
        """The rows of a view at an epoch, in tables that are made when they are asked for; at least one.

        Errors as :meth:`Snapshot.read`, :meth:`Mill.selection` and :meth:`check_length`.
        """
        snapshot = self.mill.snapshot()
        return self._read(snapshot, name.lower(), epoch, columns, where)

    def _read(
        self, snapshot: Snapshot, name: str, epoch: int | None, columns: str, where: str | None
    ) -> tuple[int, Iterator[pa.Table]]:
        at = snapshot.version.epoch if epoch is None else epoch
        parts = snapshot.read_parts(name, epoch)
        if columns.strip() != "*" or where is not None:
            self.check_length(columns + (where or ""))
            selection = self.mill.selection(name, columns, where)
            parts = map(selection.apply, parts)
        return at, parts

    def read_first(
        self, name: str, epoch: int | None, where: str | None, order: str | None, descending: bool, most: int
    ) -> tuple[int, int, pa.Table]:
        """The first rows of a view in the order of a column.

        Returns
        -------
        (int, int, pyarrow.Table)
            The epoch; how many rows meet the condition; the first ones. Order and errors as :func:`first_rows`, other
            errors as :meth:`read`.
        """
        at, parts = self.read(name, epoch, "*", where)
        return at, *first_rows(parts, order, descending, most, self.time_zone)

    def read_all(self, names: Sequence[str], epoch: int | None = None) -> tuple[int, dict[str, Iterator[pa.Table]]]:
        """The rows of several views at one epoch. Errors as :meth:`read`."""
        if not names or len(names) > _MOST_VIEWS or len({n.lower() for n in names}) < len(names):
            raise TidemillError(
                "TM8015",
                "these views cannot be read together",
                got=f"{len(names)} views: {', '.join(names)}"[:200],
                hint=f"name 1 to {_MOST_VIEWS} views, each once",
            )
        snapshot = self.mill.snapshot()
        found = {n.lower(): self._read(snapshot, n.lower(), epoch, "*", None)[1] for n in names}
        return snapshot.version.epoch if epoch is None else epoch, found

    def look_up(
        self, name: str, on: Sequence[str], keys: Sequence[Sequence[Any]], epoch: int | None
    ) -> tuple[int, pa.Table]:
        """The rows of a view with some keys, which :func:`~tidemill.serve.encoding.json_keys.keys_of` describes.

        Returns
        -------
        (int, pyarrow.Table)
            The epoch; rows as :meth:`tidemill.runtime.read.view_index.ViewIndex.look_up` orders them, the first column
            of which, ``__probe`` (int64), is the number of the key that each is for.

        Raises
        ------
        TidemillError
            As :meth:`Snapshot.index`; TM9017 for keys of other types.
        """
        snapshot = self.mill.snapshot()
        index = snapshot.index(name, on, epoch)
        batch = keys_of(keys, index.key_types)
        if not index.finds(batch.num_rows):  # all rows are read: they are kept for the next lookup
            key = (self.generations.current, index.fingerprint(), tuple((r.file, r.section) for r in index.view.runs))
            whole = self.results.get(key, lambda: index.table_index, lambda found: int(found.rows.nbytes))
            probes, rows = whole.look_up(batch)
        else:
            probes, rows = index.look_up(batch)
        at = snapshot.version.epoch if epoch is None else epoch
        return at, pa.Table.from_batches([rows]).add_column(0, PROBE, pa.array(probes))

    def encoded(
        self, name: str, epoch: int | None, format_: str, encode: Callable[[pa.Table], bytes]
    ) -> tuple[int, bytes] | None:
        """All rows of a view as bytes, which are made once for as long as the view does not change.

        Parameters
        ----------
        format_ : str
            Tells what ``encode`` makes from what others make.

        Returns
        -------
        (int, bytes) or None
            The epoch that was read and the bytes; None for what is no view, or too large to be kept.
        """
        snapshot, name = self.mill.snapshot(), name.lower()
        at = snapshot.version.epoch if epoch is None else epoch
        view = snapshot.view_at(name, epoch)
        if view is None:
            return None
        snapshot.check_readable(name, epoch)
        runs = snapshot.runs(snapshot.plan(name, epoch), epoch)
        if sum(r.rows for r in runs) > self.settings.max_rows // 10:
            return None
        key = (self.generations.current, format_, view.uid, tuple((r.file, r.section) for r in runs))
        return at, self.results.get(key, lambda: encode(snapshot.read(name, epoch)), len)
