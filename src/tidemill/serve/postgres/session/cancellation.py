"""Ending a statement from another thread: a client asks for it, or its time is over."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tidemill.serve.postgres.protocol.errors import cancelled


class Cancellation:
    """What can be ended of a connection now."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running = False
        self._deadline: float | None = None
        self._seconds = 0.0
        self._interrupt: Callable[[], None] | None = None
        self.why = ""
        """Why the statement that runs, or ran last, was cancelled; empty when it was not."""

    @contextmanager
    def statement(self, seconds: float) -> Iterator[None]:
        """While a statement runs: for so many seconds at most, 0 for no limit."""
        with self._lock:
            self._running, self._interrupt, self.why = True, None, ""
            self._seconds, self._deadline = seconds, time.monotonic() + seconds if seconds else None
        try:
            yield
        finally:
            with self._lock:
                self._running, self._interrupt = False, None

    def use(self, interrupt: Callable[[], None] | None) -> None:
        """What ends the work that is done now. TM8112 when it has to end already."""
        with self._lock:
            self._interrupt = interrupt
        self.check()

    def check(self) -> None:
        """TM8112 when the statement was cancelled."""
        if self.why:
            raise cancelled(self.why)

    def cancel(self, why: str) -> None:
        """Cancel the statement that runs; nothing when none does."""
        with self._lock:
            if self._running and not self.why:
                self.why = why
        self.tick()

    def tick(self) -> None:
        """Cancel the statement when its time is over, and see to it that it ends. To be called several times a second.

        An engine that has not begun yet forgets that it was interrupted, so it is interrupted until it has ended.
        Raises what interrupting raises, once.
        """
        with self._lock:
            if not self._running:
                return
            if not self.why and self._deadline is not None and time.monotonic() > self._deadline:
                self.why = f"it took longer than {self._seconds:g} seconds"
            interrupt = self._interrupt if self.why else None
            if interrupt is not None:
                self._interrupt = None  # one that raises an error is not called again
                interrupt()
                self._interrupt = interrupt
