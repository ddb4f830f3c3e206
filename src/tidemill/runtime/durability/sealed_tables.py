"""Readers of state tables as of the newest sealed version."""

from __future__ import annotations

from tidemill.state.lookup.reader import TableReader
from tidemill.state.store.store import RunStore
from tidemill.state.versions.version import Version
from tidemill.task.program import StateTable


class SealedTables:
    """State tables as of the newest sealed version.

    The runs of a table are opened at its first read, and again after :meth:`at` or :meth:`open_again`: what was found
    damaged or missing may have been mended since.
    """

    def __init__(self, store: RunStore, version: Version) -> None:
        self._store = store
        self.version = version
        self._readers: dict[str, TableReader] = {}

    def at(self, version: Version) -> None:
        """Read from another version from now on."""
        self.version = version
        self._readers.clear()

    def open_again(self) -> None:
        """Open runs again at the next read."""
        self._readers.clear()

    def reader(self, table: StateTable) -> TableReader:
        """A reader of a table."""
        found = self._readers.get(table.id)
        if found is None:
            runs = self.version.runs(table.id)
            found = TableReader(lambda: [self._store.open(r) for r in runs], table.ops, table.value_types)
            self._readers[table.id] = found
        return found
