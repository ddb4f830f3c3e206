"""Follows one table of PostgreSQL: its rows once, then its changes, in a spool of the root.

What is received becomes lines of CSV, which tasks parse. Transactions are appended to the spool with the position at
which they end, and that is acknowledged when they are synced. So each transaction is there once, whatever is killed:
the server sends again what is not acknowledged, and the spool says up to where it has them.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from typing import Any

from psycopg import sql

from tidemill.connectors.postgres.errors import no_answer, unfit
from tidemill.connectors.postgres.options import PUBLICATION, SLOT, SPOOL_BYTES
from tidemill.connectors.postgres.pgoutput import BOOLEAN, PLAIN
from tidemill.connectors.postgres.replication import Replication, parse_position
from tidemill.connectors.postgres.server import Column, Place, place_of, wanted_columns
from tidemill.connectors.postgres.slots import (
    check_publication,
    check_slot,
    create_publication,
    drop_publication,
    drop_slot,
    slot_exists,
)
from tidemill.errors import TidemillError
from tidemill.runtime.capture.follower import Follower
from tidemill.runtime.capture.positioned_spool import PositionedSpool
from tidemill.runtime.tables.table import Table
from tidemill.sources.sockets.spool import Spool

_LONGEST_PAUSE, _ENDING_SECONDS = 30.0, 15.0


class _StoppedError(Exception):
    """The thread is to end."""


class PostgresCapture:
    """One thread that follows a table.

    Parameters
    ----------
    table : Table
    spool : Spool
    default_slot : str
        The slot's name, unless an option names it.

    Attributes
    ----------
    table : Table
        As it is now.
    consumed : int
        How many of the bytes of the spool have been read.
    """

    def __init__(self, table: Table, spool: Spool, default_slot: str) -> None:
        self.table = table
        self.consumed = spool.begin
        self._spool, self._positions = spool, PositionedSpool(spool)
        self._default = default_slot
        self._ended = threading.Event()
        self._state = threading.Condition()
        self._through = 0
        self._asked = 0
        self._error: TidemillError | None = None
        self._warnings: list[str] = []
        self._thread = threading.Thread(target=self._run, name=f"capture of {table.name}", daemon=True)
        self._thread.start()

    # -- for other threads --------------------------------------------------------------------------

    def wait(self, seconds: float) -> None:
        """Wait until all that is committed at the server now is in the spool, or too much waits to be read.

        Raises
        ------
        TidemillError
            Why the table cannot be followed now; TM5110 when the time was too short.
        """
        place = self._place()
        with place.connected() as connection:
            row = connection.execute("SELECT pg_current_wal_flush_lsn()::text").fetchone()
        assert row is not None
        target, until = parse_position(row[0]), time.monotonic() + seconds
        with self._state:
            self._asked += 1
            try:
                while self._through < target and not self._waits() and self._thread.is_alive():
                    if self._error is not None:
                        raise self._error
                    if time.monotonic() >= until:
                        raise no_answer(place.shown, f"changes were not received within {seconds:g} s")
                    self._state.wait(0.1)
            finally:
                self._asked -= 1

    @property
    def begun(self) -> bool:
        """Whether its rows are in the spool."""
        return self._spool.end > 0

    def warnings(self) -> list[str]:
        """New warnings since the last call."""
        with self._state:
            warnings, self._warnings = self._warnings, []
        return warnings

    def close(self) -> None:
        """Stop. The server sends again what is not in the spool. May be called twice."""
        self._ended.set()
        self._thread.join(_ENDING_SECONDS)

    def drop(self) -> None:
        """Drop the slot, and a publication that was created for it; after :meth:`close`. TM5110, TM5111."""
        place, slot = self._place(), self._slot()
        with place.connected() as connection:
            drop_slot(connection, slot)
            if not PUBLICATION.of(self.table.options):
                drop_publication(connection, slot)

    # -- the thread ---------------------------------------------------------------------------------

    def _run(self) -> None:
        pause = 0.5
        while not self._ended.is_set():
            try:
                self._follow()
            except _StoppedError:
                return
            except TidemillError as error:
                pause = 0.5 if self._error is None else min(2 * pause, _LONGEST_PAUSE)
                self._failed(error)
            self._ended.wait(pause)

    def _failed(self, error: TidemillError) -> None:
        with self._state:
            if self._error is None or self._error.message() != error.message():
                self._warnings.append(error.message())
            self._error = error
            self._state.notify_all()

    def _moved(self, position: int) -> None:
        with self._state:
            self._error = None
            self._through = max(self._through, position)
            self._state.notify_all()

    def _waits(self) -> bool:
        return self._spool.end - self.consumed >= SPOOL_BYTES.of(self.table.options)

    def _place(self) -> Place:
        return place_of(self.table.options)

    def _slot(self) -> str:
        known = self._positions.reached
        return (SLOT.of(self.table.options) or self._default) if known is None else known[0]

    def _follow(self) -> None:
        """Follow the table until the thread is to end, or something goes wrong."""
        place, slot = self._place(), self._slot()
        publication = PUBLICATION.of(self.table.options) or slot
        with place.connected() as control, place.connected(replication=True) as connection:
            columns = wanted_columns(place, place.columns(control), self.table.declared.names)
            stream, known = Replication(connection), self._positions.reached
            if known is None:
                position = self._begin(place, control, stream, slot, columns)
            else:
                position = known[1]
                check_slot(control, place, slot, position)
            stream.start(slot, publication, position)
            self._moved(position)
            follower = Follower(place, stream, slot, columns, self._positions, position, self._waits, self._moved)
            try:
                while not self._ended.is_set():
                    follower.proceed(self._asked > 0)
            finally:
                self._positions.abandon()
        raise _StoppedError

    def _begin(self, place: Place, control: Any, stream: Replication, slot: str, columns: Sequence[Column]) -> int:
        """Create the slot, and append the rows that there are then; the position of both."""
        options = self.table.options
        if SLOT.of(options) and slot_exists(control, slot):
            hint = f"another name; or SELECT pg_drop_replication_slot('{slot}') if nobody needs it"
            raise unfit(place.shown, f"there is a slot {slot} already", hint)
        if PUBLICATION.of(options):
            check_publication(control, place, PUBLICATION.of(options))
        else:
            create_publication(control, place, slot)
        drop_slot(control, slot)
        position, snapshot = stream.create_slot(slot)
        try:
            self._copy(place, snapshot, columns)
            self._positions.commit(slot, position)
        except BaseException:
            self._positions.abandon()
            drop_slot(control, slot)
            raise
        return position

    def _copy(self, place: Place, snapshot: str, columns: Sequence[Column]) -> None:
        """Add the rows of a snapshot."""
        values = sql.SQL(", ").join(_value(column) for column in columns)
        rows = sql.SQL("COPY (SELECT {}, 'I' FROM ONLY {}) TO STDOUT (FORMAT csv, FORCE_QUOTE *)").format(
            values, place.identifier
        )
        with place.connected() as reader, reader.transaction(), reader.cursor() as cursor:
            cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
            cursor.execute(sql.SQL("SET TRANSACTION SNAPSHOT {}").format(sql.Literal(snapshot)))
            with cursor.copy(rows) as copied:
                for part in copied:
                    self._positions.add(bytes(part))
                    if self._ended.is_set():
                        raise _StoppedError


def _value(column: Column) -> sql.Composable:
    """What a statement selects so that a value is written as changes have it."""
    name = sql.Identifier(column.name)
    if column.kind == PLAIN:
        return name
    return sql.SQL("{}::text" if column.kind == BOOLEAN else "{}::text || ':00'").format(name)
