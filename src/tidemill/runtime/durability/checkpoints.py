"""Makes sealed versions durable, in the background and in order."""

from __future__ import annotations

import contextlib
import math
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tidemill.errors import TidemillError
from tidemill.observing import CHECKPOINT, Observers
from tidemill.runtime.durability.collector import Collector, InUse
from tidemill.runtime.durability.uploads import Upload
from tidemill.state.store.store import RunStore
from tidemill.state.versions.manifest import Manifest, ManifestLog
from tidemill.state.versions.unmerged import unmerged
from tidemill.state.versions.version import Swap, Version

_RETRY_SECONDS = 1.0
_LONGEST_RETRY_SECONDS = 30.0
_PATIENCE = 5
_TRY_AGAIN = ("TM1012", "TM1014", "TM1017")


@dataclass(frozen=True)
class Sealed:
    """A version and its catalog, as a manifest has them.

    ``left_out`` are the most bytes of young merges that are not made durable with it
    (:mod:`tidemill.state.versions.unmerged`).
    """

    version: Version
    catalog: dict[str, Any]
    left_out: int = 0


_REST, _LONGEST_REST_SECONDS = 8, 10.0
"""The next checkpoint begins at least so many times the processor time of this one after it, since epochs need the
interpreter, too; but not later than so many seconds for that reason."""
_NOTE_SECONDS = 0.1
"""The shortest time between two notes, in the buffer, of what is sealed."""


class Checkpoints:
    """Uploads what was sealed and writes manifests, on a thread of its own.

    A newer sealed version replaces one that has not been started: epochs in between become durable with
    it. Numbers are given in the order of sealing, so manifests are always in epoch order.

    Failures of storage are retried after growing pauses, with a newer version if there is one by then. The first
    failures in a row are warnings; from the fifth on epochs stop with the error. After any other failure (another
    writer, a missing file) nothing is written any more: the mill goes back to the last manifest or is opened again.

    Parameters
    ----------
    seconds, epochs : float, int
        A checkpoint begins when so much time, or so many epochs, have passed since the last one began; 0 epochs for
        time alone. With seconds above 0 the time is at least eight times the processor time that the last one took in
        this process, up to ten seconds.
    upload : callable
        Uploads the runs that a version has only in buffers, for the checkpoint of a number, and writes some durable
        ones again.
    in_use : callable
        Gives the files that are being read or written.
    published : callable
        Called when a manifest has been written.
    observers : Observers, optional
        Called as each attempt begins and ends.
    """

    def __init__(
        self,
        log: ManifestLog,
        store: RunStore,
        last: Manifest | None,
        seconds: float,
        epochs: int,
        grace: float,
        upload: Upload,
        in_use: Callable[[], InUse],
        published: Callable[[], None] = lambda: None,
        observers: Observers | None = None,
    ) -> None:
        self._log = log
        self._observers = observers or Observers()
        self._store = store
        self._number = last.number if last else 0
        self._seconds = seconds
        self._epochs = epochs
        self._upload = upload
        self._in_use = in_use
        self._collector = Collector(log, store, last, grace, in_use)
        self._published = published
        self._swaps: list[Swap] = []
        self._uploading: frozenset[str] = frozenset()
        # Objects of which runs could not be moved.
        self._stuck: frozenset[str] = frozenset()
        self._pending: Sealed | None = None
        self._unnoted: Sealed | None = None
        self._noted_at = -math.inf
        self._busy = False
        self._closing = False
        self._last_start = -math.inf
        self._rest = 0.0
        self._last_epoch = last.version.epoch if last else 0
        self._error: TidemillError | None = None
        self._failures = 0
        self._awaited = False
        """Whether :meth:`flush` waits for the next checkpoint, which then is not retried."""
        self._warnings: list[str] = []
        self._stopped = False
        self._condition = threading.Condition()
        self.durable = Sealed(last.version, last.catalog) if last else Sealed(Version.empty(), {})
        self._thread = threading.Thread(target=self._loop, name="checkpoint", daemon=True)
        self._thread.start()

    def submit(self, sealed: Sealed) -> None:
        """Ask for a version to be made durable soon; :meth:`check` raises its errors.

        The version is noted in the buffer a moment later, for ``tidemill state``.
        """
        with self._condition:
            self._pending = self._unnoted = sealed
            self._condition.notify_all()

    def check(self) -> None:
        """Raise an error of the background thread that retries have not resolved, each once.

        Raises
        ------
        TidemillError
            As :meth:`flush`.
        """
        with self._condition:
            if self._stopped or self._failures >= _PATIENCE:
                self._raise()

    def warnings(self) -> tuple[str, ...]:
        """New failures since the last call that are retried."""
        with self._condition:
            warnings, self._warnings = self._warnings, []
        return tuple(warnings)

    def flush(self, sealed: Sealed) -> None:
        """Make a version durable now, and wait for it. It is not retried when it fails.

        Raises
        ------
        TidemillError
            TM1003 when another process took over, TM1010 and TM1014 when files cannot be read or written.
        """
        with self._condition:
            if self._stopped:
                self._raise()
            self._error, self._awaited = None, True
            self._pending = sealed
            self._last_start = -math.inf
            self._condition.notify_all()
            failed = self._condition.wait_for(lambda: self._error or (self._pending is None and not self._busy))
            self._awaited = False
            if isinstance(failed, TidemillError):
                self._pending = None
                self._warnings.clear()
            self._raise()

    def hurry(self) -> None:
        """Begin the next checkpoint now, if one waits for its time."""
        with self._condition:
            if self._error is None:
                self._last_start = -math.inf
                self._condition.notify_all()

    @property
    def durable_epoch(self) -> int:
        """The newest epoch that a crash cannot take back."""
        return self.durable.version.epoch

    def take_swaps(self, until: int | None = None) -> list[Swap]:
        """Runs uploaded since the last call, with the runs that they replace; of buffers up to an epoch, if given.

        All durable runs that were moved are among them: no manifest names the objects that they were in for long.
        """
        with self._condition:
            late = [s for s in self._swaps if until is not None and _is_late(s, until)]
            taken = [s for s in self._swaps if until is None or not _is_late(s, until)]
            self._swaps = late
        return taken

    def close(self, error: TidemillError | None = None, collect: bool = False) -> None:
        """Stop the thread; checkpoints that have not begun are not written. Later calls raise the error.

        With ``collect`` no swaps are pending, and garbage is collected.
        """
        with self._condition:
            self._closing = True
            if error is not None:
                self._error, self._stopped = error, True
            self._condition.notify_all()
        self._thread.join()
        if collect and not self._stopped:
            with contextlib.suppress(OSError, TidemillError):  # they are deleted when the root is opened next
                self.collect_garbage(closing=True)

    def _raise(self) -> None:
        error = self._error
        if not self._stopped:
            self._error = None
        if error is not None:
            raise error

    def _loop(self) -> None:
        while True:
            with self._condition:
                while not self._closing and (wait := self._wait()) > 0:
                    self._condition.wait(wait if wait < math.inf else None)
                unnoted, self._unnoted = self._unnoted, None
            if unnoted is not None:
                self._store.note_sealed(self._log.writer, unnoted.version)
                self._noted_at = time.monotonic()
            with self._condition:
                if self._closing:
                    return
                if self._pause() <= 0:
                    sealed, self._pending = self._pending, None
                    assert sealed is not None
                    self._busy = True
                    self._last_start, self._last_epoch = time.monotonic(), sealed.version.epoch
                else:
                    sealed = None
            if sealed is None:
                self._collect_sometimes()
                continue
            began = time.thread_time()
            error = self._write(sealed)
            with self._condition:
                self._busy = False
                self._rest = min(_REST * (time.thread_time() - began), _LONGEST_REST_SECONDS) if self._seconds else 0.0
                self._error = error
                self._failures = 0 if error is None else self._failures + 1
                if error is not None and error.message() not in self._warnings:
                    self._warnings.append(error.message())
                self._stopped = error is not None and error.number not in _TRY_AGAIN
                if error is not None:
                    self._pending = None if self._awaited else (self._pending or sealed)
                self._condition.notify_all()
                if self._stopped:
                    return
            self._collect_sometimes()

    def _wait(self) -> float:
        """Seconds until there is something to do; infinite when nothing waits."""
        note = math.inf if self._unnoted is None else self._noted_at + _NOTE_SECONDS - time.monotonic()
        return min(note, self._pause(), self._collector.wait())

    def _pause(self) -> float:
        """Seconds until the next checkpoint is to begin; infinite when nothing waits."""
        if self._pending is None:
            return math.inf
        if self._failures:
            pause = min(_RETRY_SECONDS * float(2 ** (self._failures - 1)), _LONGEST_RETRY_SECONDS)
            return self._last_start + pause - time.monotonic()
        if self._epochs and self._pending.version.epoch - self._last_epoch >= self._epochs:
            return 0.0
        return self._last_start + max(self._seconds, self._rest) - time.monotonic()

    def _write(self, sealed: Sealed) -> TidemillError | None:
        try:
            with self._observers.span(CHECKPOINT, {"epoch": sealed.version.epoch}) as span:
                span.set({"bytes": self._publish(sealed)})
        except TidemillError as error:
            return error
        except Exception as error:  # flush() and check() raise it
            return TidemillError(
                "TM1015",
                "a checkpoint failed",
                got=f"{type(error).__name__}: {error}",
                hint="repair the disk and run again: the last checkpoint is intact, and the mill continues from it",
            )
        return None

    def _publish(self, sealed: Sealed) -> int:
        """Write a manifest; returns the bytes of state that were uploaded for it."""
        with self._condition:
            known = list(self._swaps)
            self._uploading = sealed.version.files()
        version = unmerged(sealed.version.swapped(known), sealed.left_out)
        waiting = {run.file for swap in known for run in swap.new}  # what takes the place of runs that the mill has
        moved = self._collector.to_move(version, self._stuck | waiting)
        swaps = self._upload(version, self._number + 1, moved)
        if swaps:
            self._stuck |= {run.file for run in moved} - {run.file for swap in swaps for run in swap.old}
        version = version.swapped(swaps)
        published = self._log.publish(self._number + 1, version, sealed.catalog)
        with self._condition:
            self._number = published.number
            self._swaps += swaps
            self._uploading = frozenset()
            self.durable = Sealed(version, sealed.catalog)
        self._collector.published(published.number, version)
        self._published()
        return sum(run.bytes for swap in swaps for run in swap.new)

    def _collect_sometimes(self) -> None:
        if self._collector.wait() <= 0:
            with contextlib.suppress(OSError, TidemillError):  # it is tried again
                self.collect_garbage()

    def collect_garbage(self, closing: bool = False) -> int:
        """Delete unreferenced files and return how many were deleted. As :meth:`Collector.collect`."""
        with self._condition:
            pending = self._pending.version.files() if self._pending else frozenset()
            uploading, swaps = self._uploading, list(self._swaps)
        # Objects that the mill has not been told of, in the place of runs that it has: a later manifest may name them
        live = self._in_use().files | pending | uploading
        swapped = frozenset(r.file for s in swaps if any(old.file in live for old in s.old) for r in s.new)
        return self._collector.collect((pending, uploading, swapped), self.durable_epoch, closing)


def _is_late(swap: Swap, until: int) -> bool:
    """Whether runs of buffers, of an epoch after ``until``, are replaced; durable ones are moved at any time."""
    first = swap.old[0]
    return first.epoch_high > until and not first.is_durable
