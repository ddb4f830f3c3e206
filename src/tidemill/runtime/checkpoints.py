"""Makes sealed versions durable, in the background and in order."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tidemill.errors import TidemillError
from tidemill.state.manifest import Manifest, ManifestLog
from tidemill.state.store import RunStore
from tidemill.state.version import Version

_COLLECT_EVERY = 50


@dataclass(frozen=True)
class Sealed:
    """A version and the catalog that goes with it, ready to be written down."""

    version: Version
    catalog: dict[str, Any]


class Checkpoints:
    """Writes manifests on a thread of its own.

    A newer sealed version replaces one that has not been started: epochs in between become durable with
    it. Numbers are given in the order of sealing, so manifests are always in epoch order. The first
    failure stops all later ones; it is raised to whoever calls next.
    """

    def __init__(self, log: ManifestLog, store: RunStore, last: Manifest | None, seconds: float, grace: float) -> None:
        self._log = log
        self._store = store
        self._number = last.number if last else 0
        self._seconds = seconds
        self._grace = grace
        self._durable: frozenset[str] = last.version.files() if last else frozenset()
        self._kept: dict[int, frozenset[str]] = {self._number: self._durable}
        self._pending: Sealed | None = None
        self._busy = False
        self._closing = False
        self._last_start = 0.0
        self._error: TidemillError | None = None
        self._condition = threading.Condition()
        self._count = 0
        self.durable_epoch = last.version.epoch if last else 0
        self.on_published: Callable[[int], None] | None = None
        self._thread = threading.Thread(target=self._loop, name="checkpoint", daemon=True)
        self._thread.start()

    def submit(self, sealed: Sealed) -> None:
        """Ask for a version to be made durable soon."""
        with self._condition:
            self._raise()
            self._pending = sealed
            self._condition.notify_all()

    def flush(self, sealed: Sealed) -> None:
        """Make a version durable now, and wait for it.

        Raises
        ------
        TidemillError
            TM1003 when another process took over, TM1010 and TM1014 when files cannot be read or written.
        """
        with self._condition:
            self._raise()
            self._pending = sealed
            self._last_start = 0.0
            self._condition.notify_all()
            self._condition.wait_for(lambda: self._error or (self._pending is None and not self._busy))
            self._raise()

    def close(self) -> None:
        """Stop the thread; what was submitted and not begun is not written."""
        with self._condition:
            self._closing = True
            self._condition.notify_all()
        self._thread.join()

    def _raise(self) -> None:
        if self._error is not None:
            raise self._error

    def _loop(self) -> None:
        while True:
            with self._condition:
                self._condition.wait_for(lambda: self._closing or self._pending is not None)
                while not self._closing:
                    wait = self._last_start + self._seconds - time.monotonic()
                    if wait <= 0:
                        break
                    self._condition.wait(wait)
                if self._closing:
                    return
                sealed, self._pending = self._pending, None
                assert sealed is not None
                self._busy = True
                self._last_start = time.monotonic()
            error = self._write(sealed)
            with self._condition:
                self._busy = False
                self._error = error
                self._condition.notify_all()
                if error is not None:
                    return

    def _write(self, sealed: Sealed) -> TidemillError | None:
        try:
            files = sealed.version.files()
            self._store.sync(sorted(files - self._durable))
            self._log.publish(self._number + 1, sealed.version, sealed.catalog)
            self._number += 1
            self._durable = files
            self.durable_epoch = sealed.version.epoch
            self._kept[self._number] = files
            self._count += 1
            if self._count % _COLLECT_EVERY == 1:
                self.collect_garbage()
        except TidemillError as error:
            return error
        except OSError as error:
            return TidemillError(
                "TM1014",
                "a checkpoint could not be written",
                got=str(error),
                hint="free space or fix permissions and run again: the last checkpoint is intact",
            )
        return None

    def collect_garbage(self) -> int:
        """Delete manifests and run files that nobody can need any more; returns how many files went.

        A file goes when no manifest kept names it, its epoch is durable, and it is older than the grace
        period; so readers that opened an older manifest finish, and attempts in flight are left alone.
        """
        kept = set(self._log.prune())
        self._kept = {n: f for n, f in self._kept.items() if n in kept}
        needed: set[str] = set().union(*self._kept.values()) if self._kept else set()
        if kept - self._kept.keys():
            return 0  # manifests of an earlier process are still within reach
        before = time.time() - self._grace
        gone = [
            name
            for name, modified in self._store.listing()
            if name not in needed and modified < before and int(name[1:11]) <= self.durable_epoch
        ]
        self._store.remove(gone)
        return len(gone)
