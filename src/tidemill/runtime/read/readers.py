"""What readers are given: the newest sealed snapshot and the newest durable one, without waiting."""

from __future__ import annotations

import threading
import weakref

from tidemill.runtime.durability.checkpoints import Sealed
from tidemill.runtime.read.snapshot import Snapshot, from_manifest
from tidemill.state.store.store import RunStore
from tidemill.state.versions.version import Version


class Readers:
    """Published snapshots, and all others still in use: their files must not be collected as garbage.

    A snapshot is noted before it is published or given away, so that a collection at the same time never misses it.

    Attributes
    ----------
    newest : Snapshot
        The one published last.
    """

    newest: Snapshot

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._snapshots: list[weakref.ref[Snapshot]] = []
        self._durable: tuple[Sealed, Snapshot] | None = None

    def publish(self, snapshot: Snapshot) -> None:
        """Give readers this snapshot from now on."""
        with self._lock:
            self._note(snapshot)
        self.newest = snapshot

    def durable(self, store: RunStore, last: Sealed) -> Snapshot:
        """The snapshot of the newest manifest."""
        with self._lock:
            if self._durable is None or self._durable[0] is not last:
                self._durable = last, from_manifest(store, last.version, last.catalog)
                self._note(self._durable[1])
            return self._durable[1]

    def release_durable(self, last: Sealed) -> None:
        """Forget the snapshot of a manifest that is not the newest any more: it would keep files that are not read."""
        with self._lock:
            if self._durable is not None and self._durable[0] is not last:
                self._durable = None

    def _note(self, snapshot: Snapshot) -> None:
        self._snapshots = [*(ref for ref in self._snapshots if ref() is not None), weakref.ref(snapshot)]

    def files(self, newest: Version) -> list[frozenset[str]]:
        """Files of the versions that are read, the newest apart."""
        with self._lock:
            alive = [found for ref in self._snapshots if (found := ref()) is not None]
        return list({id(s.version): s.version.files() for s in alive if s.version is not newest}.values())
