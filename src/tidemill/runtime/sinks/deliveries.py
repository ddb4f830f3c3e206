"""The sinks of a mill: one worker for each that is not paused, and the positions that manifests store."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping

from tidemill.runtime.catalog.sinks import Sink, SinkStatus
from tidemill.runtime.sinks.delivery import Deliverable
from tidemill.runtime.sinks.worker import Worker, lag_of

_LAST_SECONDS = 10.0
"""How long a mill that is being closed waits for sinks that are not failing."""

_ABORT_SECONDS = 5.0
"""And then for calls that were made to fail; a thread that still tries to connect ends with the process."""


class Deliveries:
    """Follows the catalogue: begins, pauses, resumes and ends deliveries. All methods may be called from any thread.

    Parameters
    ----------
    sealed : callable
        What may be delivered now; None before this mill has made anything durable: until then, another one may be
        writing the root.
    """

    def __init__(self, sealed: Callable[[], Deliverable | None]) -> None:
        self._sealed = sealed
        self._lock = threading.RLock()
        self._sinks: dict[str, Sink] = {}
        self._workers: dict[str, Worker] = {}
        self._ending: dict[str, Worker] = {}
        """Workers that were stopped last, by sink: a message may be on its way for as long as its timeout."""
        self._positions: dict[str, int] = {}
        self._noted: dict[str, int] = {}
        self._closed = False

    def begin(self, sinks: Mapping[str, Sink], positions: Mapping[str, int]) -> dict[str, Sink]:
        """Follow the sinks of a manifest with its positions; those of sinks that are known already are kept.

        Returns
        -------
        dict of str to Sink
            The sinks, with the secrets that are known.
        """
        with self._lock:
            known = {n: s.with_secrets_of(self._sinks[s.id]) if s.id in self._sinks else s for n, s in sinks.items()}
            self._positions = {**positions, **self._now()}
            self._noted = dict(positions)
        self.use(known)
        return known

    def use(self, sinks: Mapping[str, Sink]) -> None:
        """Deliver to these sinks from now on. Those that are paused, dropped or changed are stopped; waits for none."""
        wanted = {s.id: s for s in sinks.values()}
        with self._lock:
            if self._closed or wanted == self._sinks:
                return
            running = {i: s for i, s in wanted.items() if not s.paused}
            ended = {i: w for i, w in self._workers.items() if running.get(i) != w.sink}
            for worker in ended.values():
                worker.stop()
            done = {i for i, w in self._ending.items() if not w.is_alive()}  # before their positions are taken over
            self._positions = {i: p for i, p in self._now().items() if i in wanted}
            self._ending = {i: w for i, w in self._ending.items() if i not in done} | ended
            self._sinks = wanted
            self._workers = {i: w for i, w in self._workers.items() if i not in ended}
            for id_, sink in running.items():
                if id_ not in self._workers:
                    after = self._ending.get(id_)
                    self._workers[id_] = Worker(sink, self._positions.get(id_), self._sealed, after)
        self.wake()

    def wake(self) -> None:
        """Say that there may be another durable epoch."""
        for worker in list(self._workers.values()):
            worker.wake()

    def retry(self, sink: Sink) -> None:
        """Try again now, if it has failed."""
        worker = self._workers.get(sink.id)
        if worker is not None:
            worker.retry()

    def statuses(self) -> dict[str, SinkStatus]:
        """By the id of each sink how far it has come."""
        with self._lock:
            workers, sinks, positions = dict(self._workers), dict(self._sinks), self._now()
        sealed = self._sealed()
        found = {}
        for id_, sink in sinks.items():
            position = positions.get(id_)
            paused = SinkStatus("paused", position, lag_of(sink, position, sealed))
            found[id_] = workers[id_].status() if id_ in workers else paused
        return found

    def positions(self) -> dict[str, int]:
        """By the id of each sink the last epoch that was delivered, for a manifest."""
        with self._lock:
            self._noted = self._now()
            return dict(self._noted)

    def must_note(self) -> bool:
        """Whether a sink has delivered something since :meth:`positions` was called."""
        with self._lock:
            return self._now() != self._noted

    def wait(self, timeout: float | None) -> bool:
        """Wait until all sinks have delivered what is durable, or cannot now; False when the time is up."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while not all(w.is_settled() for w in list(self._workers.values())):
            if deadline is not None and time.monotonic() >= deadline:
                return False
            time.sleep(0.01)
        return True

    def close(self, finish: bool) -> None:
        """End all deliveries; with ``finish`` after those of what is durable, for ten seconds at most."""
        with self._lock:
            self._closed = True
            workers = list(self._workers.values())
            every = [*self._ending.values(), *workers]
        for worker in workers:
            worker.finish() if finish else worker.stop()
        deadline = time.monotonic() + (_LAST_SECONDS if finish else 0.0)
        for worker in workers:
            worker.join(max(0.0, deadline - time.monotonic()))
        for worker in every:
            worker.abort()
        deadline = time.monotonic() + _ABORT_SECONDS
        for worker in every:
            worker.join(max(0.0, deadline - time.monotonic()))

    def _now(self) -> dict[str, int]:
        """The last epochs delivered; a worker that is ending may still deliver one."""
        found = dict(self._positions)
        for id_, worker in (*self._ending.items(), *self._workers.items()):
            position = worker.position
            if id_ in self._sinks and position is not None:
                found[id_] = max(position, found.get(id_, 0))
        return found
