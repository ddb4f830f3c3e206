"""Follows one table of PostgreSQL: its rows once, then its changes, in a spool of the root.

What is received becomes lines of CSV, which tasks parse. Transactions are appended to the spool with the position at
which they end, and that is acknowledged when they are synced. So each transaction is there once, whatever is killed:
the server sends again what is not acknowledged, and the spool says up to where it has them.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Sequence
from typing import Any

import psycopg
from psycopg import sql

from tidemill.connectors.postgres.errors import changed_shape, left_over, no_answer
from tidemill.connectors.postgres.options import PUBLICATION, SLOT, SPOOL_BYTES
from tidemill.connectors.postgres.pgoutput import BOOLEAN, PLAIN
from tidemill.connectors.postgres.replication import Replication, parse_position
from tidemill.connectors.postgres.server import Column, Place, Shape, place_of, wanted_columns
from tidemill.connectors.postgres.slots import (
    check_names,
    check_publication,
    check_slot,
    create_publication,
    drop_publication,
    drop_slot,
)
from tidemill.errors import TidemillError
from tidemill.runtime.capture.capture import Capture, StoppedError
from tidemill.runtime.capture.follower import Follower
from tidemill.runtime.capture.positioned_spool import PositionedSpool
from tidemill.runtime.tables.table import Table
from tidemill.sources.sockets.spool import Spool

_CHECK_SECONDS = 5.0


class PostgresCapture(Capture):
    """One thread that follows a table.

    Parameters
    ----------
    table : Table
    spool : Spool
    default_slot : str
        The slot's name, unless an option names it.
    """

    def __init__(self, table: Table, spool: Spool, default_slot: str) -> None:
        super().__init__(table, spool)
        self._positions = PositionedSpool(spool)
        self._default = default_slot
        self._through = 0
        self._connections: list[Any] = []

    # -- for other threads --------------------------------------------------------------------------

    def wait(self, seconds: float) -> bool:
        """Wait until all that is committed at the server now is in the spool.

        Returns
        -------
        bool
            False when too much waits to be read, so that not all was received.

        Raises
        ------
        TidemillError
            Why the table cannot be followed now; TM5110 when the time was too short.
        """
        place = self._place()
        with place.connected() as connection:
            row = connection.execute("SELECT pg_current_wal_flush_lsn()::text").fetchone()
            self._check_shape(place, connection)
        assert row is not None
        target, until = parse_position(row[0]), time.monotonic() + seconds
        with self._state:
            self._asked += 1
            try:
                while self._error is not None or (self._through < target and not self._waits()):
                    if self._error is not None:
                        raise self._error
                    if time.monotonic() >= until:
                        raise no_answer(place.shown, f"changes were not received within {seconds:g} s")
                    self._state.wait(0.1)
                return self._through >= target
            finally:
                self._asked -= 1

    def _interrupt(self) -> None:
        for connection in list(self._connections):
            with contextlib.suppress(psycopg.Error):  # it may wait for a lock, or for transactions of others
                connection.cancel_safe(timeout=2.0)

    def drop(self) -> None:
        """Drop the slot, and a publication that was created for it; after :meth:`close`. TM5117 when that failed."""
        place, claimed = self._place(), self._positions.claimed
        if claimed is None:
            return
        slot = claimed["slot"]
        try:
            with place.connected() as connection:
                drop_slot(connection, slot)
                if not PUBLICATION.of(self.table.options):
                    drop_publication(connection, slot)
        except TidemillError as error:
            raise left_over(place.shown, slot, error.got) from error

    # -- the thread ---------------------------------------------------------------------------------

    def _moved(self, position: int) -> None:
        with self._state:
            self._error, self._pause = None, 0.0
            if position > self._through:
                self._warned = ""
            self._through = max(self._through, position)
            self._state.notify_all()

    @property
    def _most_unread(self) -> int:
        return SPOOL_BYTES.of(self.table.options)

    def _unexpected(self, what: str) -> TidemillError:
        return no_answer(self._place().shown, what)

    def _place(self) -> Place:
        return place_of(self.table.options)

    def _slot(self) -> str:
        known = self._positions.reached
        return (SLOT.of(self.table.options) or self._default) if known is None else known[0]

    def _follow(self) -> None:
        """Follow the table until the thread is to end, or something goes wrong."""
        place, slot = self._place(), self._slot()
        publication = PUBLICATION.of(self.table.options) or slot
        with self._connected(place) as control, self._connected(place, replication=True) as connection:
            stream, known = Replication(connection), self._positions.reached
            if known is None:
                shape = place.shape(control)
                position = self._begin(place, control, stream, slot, shape)
            else:
                shape, position = self._check_shape(place, control), known[1]
                check_slot(control, place, slot, position)
            check_publication(control, place, publication)
            columns = wanted_columns(place, shape.columns, self.table.declared.names)
            stream.start(slot, publication, position)
            follower = Follower(place, stream, slot, shape.oid, columns, self._positions, position, self._moved)
            checked = time.monotonic()
            try:
                while not self._ended.is_set() and not self._waits():
                    follower.proceed(self._asked > 0)
                    if time.monotonic() - checked > _CHECK_SECONDS:
                        self._check_shape(place, control)
                        check_publication(control, place, publication)
                        checked = time.monotonic()
            finally:
                self._positions.abandon()
        if self._ended.is_set():
            raise StoppedError

    @contextlib.contextmanager
    def _connected(self, place: Place, replication: bool = False) -> Iterator[Any]:
        """As :meth:`Place.connected`, so that :meth:`close` can cancel what it waits for."""
        with place.connected(replication) as connection:
            self._connections.append(connection)
            try:
                yield connection
            finally:
                self._connections.remove(connection)

    def _check_shape(self, place: Place, connection: Any) -> Shape:
        """TM5112 unless the table at the server is the one that was begun, with the columns as they were."""
        shape, claimed = place.shape(connection), self._positions.claimed
        if claimed is None:
            return shape
        if shape.oid != claimed["oid"]:
            raise changed_shape(place.shown, "it is another table now")
        there = {c.name: [c.name, c.number, c.type_id] for c in shape.columns}
        for name, *rest in claimed["columns"]:
            used = name.lower() in {n.lower() for n in self.table.declared.names}
            if used and there.get(name) != [name, *rest]:
                what = "is another one now" if name in there else "has gone"
                raise changed_shape(place.shown, f"its column {name} {what}")
        return shape

    def _begin(self, place: Place, control: Any, stream: Replication, slot: str, shape: Shape) -> int:
        """Create the slot, and append the rows that there are then; the position of both."""
        options = self.table.options
        if self._positions.claimed is None and SLOT.of(options):
            check_names(control, place, slot, PUBLICATION.of(options))
        self._positions.claim(slot, shape)
        if not PUBLICATION.of(options):
            create_publication(control, place, slot)
        drop_slot(control, slot)
        position, snapshot = stream.create_slot(slot)
        try:
            self._copy(place, snapshot, wanted_columns(place, shape.columns, self.table.declared.names))
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
        with self._connected(place) as reader, reader.transaction(), reader.cursor() as cursor:
            cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
            cursor.execute(sql.SQL("SET TRANSACTION SNAPSHOT {}").format(sql.Literal(snapshot)))
            with cursor.copy(rows) as copied:
                for part in copied:
                    self._positions.add(bytes(part))
                    if self._ended.is_set():
                        raise StoppedError


def _value(column: Column) -> sql.Composable:
    """What a statement selects so that a value is written as changes have it."""
    name = sql.Identifier(column.name)
    if column.kind == PLAIN:
        return name
    return sql.SQL("{}::text" if column.kind == BOOLEAN else "{}::text || ':00'").format(name)
