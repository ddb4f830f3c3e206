"""Who reads which version: files of these must not be collected as garbage."""

from __future__ import annotations

import threading
import weakref

from tidemill.runtime.read.snapshot import Snapshot
from tidemill.state.versions.version import Version


class Readers:
    """Snapshots that somebody still holds.

    A snapshot is added before anybody can have it: the published one, which is held until the next is published. So
    collection never misses one that is taken beside it.

    Attributes
    ----------
    lock : threading.RLock
        Held for a moment, and never for an epoch.
    """

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self._snapshots: list[weakref.ref[Snapshot]] = []

    def add(self, snapshot: Snapshot) -> None:
        """A snapshot is about to be given away."""
        with self.lock:
            self._snapshots = [*(ref for ref in self._snapshots if ref() is not None), weakref.ref(snapshot)]

    def files(self, newest: Version) -> list[frozenset[str]]:
        """Files of the versions that are read, the newest apart."""
        with self.lock:
            alive = [found for ref in self._snapshots if (found := ref()) is not None]
        return list({id(s.version): s.version.files() for s in alive if s.version is not newest}.values())
