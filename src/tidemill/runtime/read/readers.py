"""Who reads which version: files of these must not be collected as garbage."""

from __future__ import annotations

import weakref

from tidemill.runtime.read.snapshot import Snapshot
from tidemill.state.versions.version import Version


class Readers:
    """Snapshots that somebody still holds."""

    def __init__(self) -> None:
        self._snapshots: list[weakref.ref[Snapshot]] = []

    def add(self, snapshot: Snapshot) -> None:
        """A snapshot has been given away."""
        self._snapshots = [*(ref for ref in self._snapshots if ref() is not None), weakref.ref(snapshot)]

    def files(self, newest: Version) -> list[frozenset[str]]:
        """Files of the versions that are read, the newest apart."""
        alive = [found for ref in list(self._snapshots) if (found := ref()) is not None]
        return list({id(s.version): s.version.files() for s in alive if s.version is not newest}.values())
