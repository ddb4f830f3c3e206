"""Epochs on a thread of their own, and the error that ends them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable

from tidemill.errors import TidemillError
from tidemill.runtime.epoch.report import EpochReport

ViewStatus = tuple[str, str, int, str]
"""Name, status, epoch of creation and detail of a view."""


class Background:
    """Runs epochs until it is stopped, or an error stops it.

    Parameters
    ----------
    advance : callable
        Runs one epoch; gives None when there was nothing to do.
    ended : callable
        Called when an error has ended it.

    Attributes
    ----------
    failure : BaseException or None
        The error that ended it, until :meth:`stop` raises it.
    """

    def __init__(self, advance: Callable[[], EpochReport | None], ended: Callable[[], None]) -> None:
        self._advance, self._ended = advance, ended
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._stopping = threading.Event()
        self.failure: BaseException | None = None
        self._warned = False

    def start(self, interval: float) -> None:
        """Begin, unless it runs; when idle, look for input every ``interval`` seconds. Errors as :meth:`stop`."""
        with self._lock:
            if self._thread is not None and self.failure is None:
                return
            self._stop()
            self._stopping.clear()
            self._thread = threading.Thread(target=self._loop, args=(interval,), name="mill", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """Wait for the epoch in progress, and run no more. Raises the error that ended it before, once."""
        with self._lock:
            self._stop()

    def _stop(self) -> None:
        if self._thread is not None:
            self._stopping.set()
            self._thread.join()
            self._thread = None
        failure, self.failure, self._warned = self.failure, None, False
        if failure is not None:
            raise failure

    def _loop(self, interval: float) -> None:
        while not self._stopping.is_set():
            try:
                if self._advance() is None:
                    self._stopping.wait(interval)
            except BaseException as error:  # given by warnings(), stop() and subscriptions
                self.failure = error
                self._ended()
                return

    def warnings(self) -> tuple[str, ...]:
        """TM7008 when an error has ended it, once."""
        failure = self.failure
        if failure is None or self._warned:
            return ()
        self._warned = True
        return (_ended_by(failure).message(),)

    def statuses(self, sealed: Iterable[ViewStatus]) -> list[ViewStatus]:
        """The statuses of views; once an error has ended the epochs, ``stopped`` for all that have not failed."""
        failure = self.failure
        if failure is None:
            return list(sealed)
        why = _ended_by(failure).got
        return [(n, s, b, d) if s == "failed" else (n, "stopped", b, why) for n, s, b, d in sealed]


def _ended_by(failure: BaseException) -> TidemillError:
    if isinstance(failure, TidemillError):
        got, hint = f"{failure.number}: {failure.what} ({failure.got})", failure.hint
    else:
        got, hint = f"{type(failure).__name__}: {failure}", "see stop()"
    return TidemillError(
        "TM7008",
        "an error has stopped the background epochs: views are as of the last sealed one",
        got=got,
        hint=f"stop() raises it; then fix its cause and start() again, nothing is lost: {hint}",
    )
