"""All tables of a mill whose rows a thread receives from a server: of databases, and of MQTT brokers."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from tidemill.connectors.mqtt import errors as mqtt_errors
from tidemill.connectors.postgres import errors as postgres_errors
from tidemill.errors import TidemillError
from tidemill.runtime.capture.capture import Capture
from tidemill.runtime.catalog.catalog import Catalog
from tidemill.runtime.spools.spools import Spools
from tidemill.runtime.tables.table import Table

_LONGEST_WAIT = 600.0
"""Seconds that reading all there is waits for a table: its rows may have to be copied first."""

_LONGEST_BEGIN = 30.0
"""Seconds that CREATE TABLE waits for the broker."""


class Captures:
    """Follows tables with one thread each.

    Parameters
    ----------
    root : str
        The directory or URL of the root: names of slots and clients are made of it.
    spools : Spools
        Where what they send goes.
    """

    def __init__(self, root: str, spools: Spools) -> None:
        self._root = root
        self._spools = spools
        self._captures: dict[str, Capture] = {}
        self._warnings: list[str] = []
        self.full = False

    def use(self, catalog: Catalog, created: str = "") -> None:
        """Follow the tables of a catalog and no others; slots and sessions of dropped tables are dropped.

        Parameters
        ----------
        created : str
            The table that has just been created: it begins empty, and its broker must answer.

        Raises
        ------
        TidemillError
            TM5115 and TM5125 without the client, TM5120 to TM5122 for a broker; others as :meth:`Spools.open`.
        """
        wanted = {t.name: t for t in catalog.tables.values() if t.captured}
        for name, capture in list(self._captures.items()):
            if name not in wanted or wanted[name].uid != capture.table.uid:
                del self._captures[name]
                self._end(capture)
                self._spools.forget(name)
        for name, table in wanted.items():
            if name not in self._captures:
                self._captures[name] = self._begin(table, name == created)
            self._captures[name].table = table
            self._spools.keep(table)

    def _begin(self, table: Table, created: bool) -> Capture:
        capture = self._made(table, created)
        capture.start()
        if created:
            try:
                capture.begun(_LONGEST_BEGIN)
            except BaseException:
                self._end(capture)
                self._spools.discard(table.name)
                raise
        return capture

    def _made(self, table: Table, created: bool) -> Capture:
        if table.of_postgres:
            try:
                from tidemill.runtime.capture.postgres_capture import PostgresCapture
            except ImportError as error:
                raise postgres_errors.not_installed(error) from error
            name = f"tidemill_{self._digest(table.name)}"
            return PostgresCapture(table, self._spools.open(table, created), name)
        try:
            from tidemill.runtime.capture.mqtt_capture import MqttCapture
        except ImportError as error:
            raise mqtt_errors.not_installed(error) from error
        name = f"tidemill{self._digest(table.uid)[:15]}"  # MQTT 3.1.1 takes 23 letters and digits everywhere
        return MqttCapture(table, self._spools.open(table, created), name)

    def _digest(self, name: str) -> str:
        return hashlib.blake2b(f"{self._root} {name}".encode(), digest_size=8).hexdigest()

    def _end(self, capture: Capture) -> None:
        capture.close()
        try:
            capture.drop()
        except TidemillError as error:
            self._warnings.append(error.message())

    def wait(self) -> list[TidemillError]:
        """Wait until all that there is now is in spools.

        Returns
        -------
        list of TidemillError
            Why tables cannot be followed now. Attribute ``full`` says whether one waits until its spool is read.
        """
        errors, self.full = [], False
        for capture in self._captures.values():
            try:
                self.full |= not capture.wait(_LONGEST_WAIT)
            except TidemillError as error:
                errors.append(error)
        return errors

    def consumed(self, read: Mapping[str, int]) -> None:
        """Take over how far spools have been read, so that there is room for more."""
        for name, capture in self._captures.items():
            capture.consumed = read.get(name, capture.consumed)

    def warnings(self) -> list[str]:
        """New warnings since the last call."""
        warnings, self._warnings = self._warnings, []
        return [*warnings, *(w for capture in self._captures.values() for w in capture.warnings())]

    def close(self) -> None:
        """Stop following all tables."""
        for capture in self._captures.values():
            capture.close()
