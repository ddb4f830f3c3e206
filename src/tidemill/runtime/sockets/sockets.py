"""Sockets of a mill: their connections, and their status."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping

import pyarrow as pa

from tidemill.errors import TidemillError
from tidemill.runtime.catalog.catalog import Catalog
from tidemill.runtime.sockets.socket_status import status_table, write_status
from tidemill.runtime.spools.spools import Spools
from tidemill.runtime.tables.socket_tables import parse_inlet
from tidemill.runtime.tables.table import Table
from tidemill.sources.sockets.endpoints import parse_endpoints
from tidemill.sources.sockets.inlet import Inlet
from tidemill.sources.sockets.reader import SocketReader

_STATUS_SECONDS = 1.0
_STATUS_SHARE = 50
"""Writing the status takes at most this fraction (one in ...) of the time."""


class Sockets:
    """The sockets of the tables of one mill. One thread reads them all; it starts with the first table.

    Parameters
    ----------
    spools : Spools
        Where what they receive goes.
    """

    def __init__(self, spools: Spools) -> None:
        self._spools = spools
        self._reader: SocketReader | None = None
        self._inlets: dict[str, Inlet] = {}
        self._tables: dict[str, Table] = {}
        self._status_at = 0.0

    def use(self, catalog: Catalog, created: str = "") -> None:
        """Read the sockets of the tables of a catalog and of no others.

        Parameters
        ----------
        created : str
            The table that has just been created: it begins empty, and its addresses must open.

        Raises
        ------
        TidemillError
            TM5021 when they cannot; others as :meth:`Spools.open`.
        """
        pushed = {t.name: t for t in catalog.tables.values() if t.pushed}
        for name in [n for n, t in self._tables.items() if n not in pushed or pushed[n].uid != t.uid]:
            self._forget(name)
        for name, table in pushed.items():
            if name not in self._tables:
                self._begin(table, name == created)
            self._spools.keep(table)
            self._tables[name] = table

    def _begin(self, table: Table, must_open: bool) -> None:
        spool = self._spools.open(table, must_open)
        inlet = Inlet(table.name, spool, parse_inlet(table.format, table.source().file_schema, table.options))
        if self._reader is None:
            self._reader = SocketReader()
        try:
            self._reader.add(inlet, parse_endpoints(table.path), must_open)
        except TidemillError:
            self._spools.forget(table.name)
            raise
        self._inlets[table.name] = inlet

    def _forget(self, name: str) -> None:
        assert self._reader is not None
        self._reader.remove(name)
        self._spools.forget(name)
        del self._inlets[name], self._tables[name]

    def follow(self, flush: bool = False) -> None:
        """Check that bytes still come in. TM5022.

        With ``flush`` bytes that were received and not written yet are written first.
        """
        if self._reader is None:
            return
        self._reader.check()
        if flush:
            self._reader.flush()
        self._note_status()

    def consumed(self, read: Mapping[str, int]) -> None:
        """Take over how far spools have been read, so that there is room for more."""
        for name, inlet in self._inlets.items():
            inlet.consumed = read.get(name, inlet.consumed)

    def awaits_end(self, name: str) -> bool:
        """Whether a table reads standard input that has not come to its end."""
        return (
            self._reader is not None
            and name in self._inlets
            and any(e.is_stdin for e in parse_endpoints(self._tables[name].path))
            and any(row.endpoint.startswith("stdin:") and row.state != "ended" for row in self._reader.status(name))
        )

    def status(self, name: str) -> pa.Table:
        """The connections of a table, as
        :data:`~tidemill.runtime.sockets.socket_status.STATUS_SCHEMA`."""
        return status_table([] if self._reader is None else self._reader.status(name))

    def _note_status(self) -> None:
        """Write the status for other processes, about once a second."""
        began = time.monotonic()
        if began < self._status_at:
            return
        for name, inlet in self._inlets.items():
            with contextlib.suppress(OSError):  # a full disk: it is tried again
                write_status(inlet.spool.directory, self.status(name))
        now = time.monotonic()
        self._status_at = now + max(_STATUS_SECONDS, _STATUS_SHARE * (now - began))

    def close(self) -> None:
        """Close all connections; what has been read is in the spools. May be called twice."""
        if self._reader is not None and not self._reader.closed:
            self._status_at = 0.0
            self._note_status()
            self._reader.close()
