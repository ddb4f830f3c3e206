"""Readers of state tables as of the newest sealed version."""

from __future__ import annotations

from tidemill.state.lookup.reader import TableReader
from tidemill.state.store.store import RunStore
from tidemill.state.versions.version import Version
from tidemill.task.program import StateTable


class SealedTables:
    """State tables as of the newest sealed version."""

    def __init__(self, store: RunStore, version: Version) -> None:
        self._store = store
        self.version = version

    def reader(self, table: StateTable) -> TableReader:
        """A reader of a table."""
        runs = self.version.runs(table.id)
        return TableReader(lambda: [self._store.open(r) for r in runs], table.ops, table.value_types)
