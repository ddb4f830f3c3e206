"""All tables of a mill that follow tables of databases."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import TYPE_CHECKING

from tidemill.connectors.postgres.errors import not_installed
from tidemill.errors import TidemillError
from tidemill.runtime.catalog.catalog import Catalog
from tidemill.runtime.spools.spools import Spools
from tidemill.runtime.tables.table import Table

if TYPE_CHECKING:
    from tidemill.runtime.capture.postgres_capture import PostgresCapture

_LONGEST_WAIT = 600.0
"""Seconds that reading all there is waits for a table: its rows may have to be copied first."""


class Captures:
    """Follows tables with one thread each.

    Parameters
    ----------
    root : str
        The directory or URL of the root: names of slots are made of it.
    spools : Spools
        Where what they send goes.
    """

    def __init__(self, root: str, spools: Spools) -> None:
        self._root = root
        self._spools = spools
        self._captures: dict[str, PostgresCapture] = {}
        self._warnings: list[str] = []
        self.full = False

    def use(self, catalog: Catalog, created: str = "") -> None:
        """Follow the tables of a catalog and no others; slots of dropped tables are dropped.

        Parameters
        ----------
        created : str
            The table that has just been created: it begins empty.

        Raises
        ------
        TidemillError
            TM5115 without the client; others as :meth:`Spools.open`.
        """
        wanted = {t.name: t for t in catalog.tables.values() if t.of_postgres}
        for name, capture in list(self._captures.items()):
            if name not in wanted or wanted[name].uid != capture.table.uid:
                del self._captures[name]
                self._end(name, capture)
        for name, table in wanted.items():
            if name not in self._captures:
                self._captures[name] = self._begin(table, name == created)
            self._captures[name].table = table
            self._spools.keep(table)

    def _begin(self, table: Table, created: bool) -> PostgresCapture:
        try:
            from tidemill.runtime.capture.postgres_capture import PostgresCapture
        except ImportError as error:
            raise not_installed(error) from error
        digest = hashlib.blake2b(f"{self._root} {table.name}".encode(), digest_size=8).hexdigest()
        return PostgresCapture(table, self._spools.open(table, created), f"tidemill_{digest}")

    def _end(self, name: str, capture: PostgresCapture) -> None:
        capture.close()
        self._spools.forget(name)
        try:
            capture.drop()
        except TidemillError as error:
            self._warnings.append(error.message())

    def wait(self) -> list[TidemillError]:
        """Wait until all that is committed now is in spools.

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
