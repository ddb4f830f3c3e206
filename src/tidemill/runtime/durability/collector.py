"""Garbage collection of state files: when files are listed, and which are deleted."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace

from tidemill.errors import TidemillError
from tidemill.state.store.garbage import FirstSeen, Listing, garbage, unneeded
from tidemill.state.store.sparse_objects import to_move
from tidemill.state.store.store import RunStore
from tidemill.state.versions.lease import is_unread
from tidemill.state.versions.manifest import Manifest, ManifestLog
from tidemill.state.versions.version import Run, Version

_COLLECT_EVERY = 50
_COLLECT_BYTES = 32 << 20
"""Bytes made durable since files were last listed, at least; or a quarter of what is needed, if that is more."""
_IDLE_SECONDS = 5.0


@dataclass(frozen=True)
class InUse:
    """Files of the newest sealed version, of older ones being read, and parts of names of files being written."""

    files: frozenset[str]
    pinned: tuple[frozenset[str], ...] = ()
    in_flight: frozenset[str] = frozenset()


class Collector:
    """Deletes manifests and files that are not needed any more.

    Files are listed after the first checkpoint, then when so many bytes have become durable, after so many checkpoints,
    and when no checkpoint has been written for some seconds. What was too young then is looked at again when it is old
    enough.

    Parameters
    ----------
    last : Manifest or None
        The newest one.
    grace : float
        Seconds that a file stays when it is not needed any more, for readers of an older version.
    in_use : callable
        Gives the files that are being read or written.
    """

    def __init__(
        self, log: ManifestLog, store: RunStore, last: Manifest | None, grace: float, in_use: Callable[[], InUse]
    ) -> None:
        self._log = log
        self._store = store
        self._grace = grace
        self._in_use = in_use
        self._began = time.time()
        number, version = (last.number, last.version) if last else (0, Version.empty())
        self._kept: dict[int, frozenset[str]] = {number: version.files()}
        self._seen = FirstSeen()
        self._checkpoints = 1
        self._new_bytes = 0
        self._needed_bytes = 0
        self._last: frozenset[str] = version.files()
        self._sizes: Mapping[str, int] = {}
        self._due = math.inf
        self._lock = threading.Lock()

    def published(self, number: int, version: Version) -> None:
        """Note that a manifest was written."""
        with self._lock:
            self._note(number, version)

    def _note(self, number: int, version: Version) -> None:
        files = version.files()
        self._new_bytes += sum(run.bytes for run in version.every() if run.file not in self._last)
        self._needed_bytes = sum(run.bytes for run in version.every())
        self._kept[number] = self._last = files
        self._checkpoints -= 1
        much = self._new_bytes >= max(_COLLECT_BYTES, self._needed_bytes // 4)
        self._due = 0.0 if much or self._checkpoints <= 0 else time.monotonic() + _IDLE_SECONDS

    def to_move(self, version: Version, settled: Collection[str]) -> list[Run]:
        """As :func:`tidemill.state.store.sparse_objects.to_move`, for objects that were there when they were listed."""
        with self._lock:
            return to_move(version, self._sizes, settled)

    def wait(self) -> float:
        """Seconds until :meth:`collect` is to be called; infinite when there is nothing to look for."""
        return self._due - time.monotonic()

    def collect(self, waiting: Iterable[frozenset[str]], durable_epoch: int, closing: bool = False) -> int:
        """Delete files and manifests that are not needed.

        See :func:`tidemill.state.store.garbage.garbage`; needed are the files of kept manifests, of the newest sealed
        version and of those being read. With ``closing`` files that this process wrote are deleted at once, unless
        another process may be reading the root.

        Parameters
        ----------
        waiting : iterable of frozenset of str
            Files of versions that are about to become durable.

        Returns
        -------
        int
            How many files were deleted.
        """
        with self._lock:
            return self._collect(waiting, durable_epoch, closing)

    def _collect(self, waiting: Iterable[frozenset[str]], durable_epoch: int, closing: bool) -> int:
        self._due = time.monotonic() + _IDLE_SECONDS  # where this fails it is tried again
        listing = Listing.of(self._store, self._log)
        kept = set(self._log.prune())
        self._kept = {n: f for n, f in self._kept.items() if n in kept}
        try:
            for number in kept - self._kept.keys():  # of an earlier process
                self._kept[number] = self._log.read(number).version.files()
        except TidemillError:
            return 0  # files of a damaged manifest may be needed to repair it
        in_use = self._in_use()
        needed = (*waiting, in_use.files, *self._kept.values())
        useless = unneeded(listing, needed, in_use.pinned, in_use.in_flight)
        dated = self._seen.since(listing, useless, time.time())
        if closing and is_unread(self._store.objects.directory):
            dated = self._mine_long_ago(listing, dated)
        now = time.time()
        found = garbage(dated, needed, in_use.pinned, in_use.in_flight, durable_epoch, now, self._grace)
        found.remove(self._store)
        self._sizes = {name: size for name, size in listing.sizes.items() if name not in found.durable}
        left = [at for name, at in (*dated.durable, *dated.buffered, *dated.copies) if name in useless]
        left = [at for at in left if at > now - self._grace]
        self._due = time.monotonic() + max(min(left) + self._grace - now, _IDLE_SECONDS) if left else math.inf
        self._checkpoints, self._new_bytes = _COLLECT_EVERY, 0
        return len(found)

    def _mine_long_ago(self, listing: Listing, dated: Listing) -> Listing:
        """The listing, with files written since this process opened the root as infinitely old."""
        mine = {name for name, at in (*listing.durable, *listing.buffered, *listing.copies) if at >= self._began}

        def aged(listed: tuple[tuple[str, float], ...]) -> tuple[tuple[str, float], ...]:
            return tuple((name, -math.inf if name in mine else at) for name, at in listed)

        return replace(dated, durable=aged(dated.durable), buffered=aged(dated.buffered), copies=aged(dated.copies))
