"""The thread of one sink: it waits for epochs, delivers them, and tries again after growing pauses."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable

from tidemill.errors import TidemillError
from tidemill.runtime.catalog.sinks import Sink, SinkStatus
from tidemill.runtime.sinks.delivery import Deliverable, Delivery, StoppedError
from tidemill.sinks.options import MAX_BACKOFF, MIN_INTERVAL
from tidemill.state.versions.objects import advice

_FIRST_PAUSE = 0.25
_FOR_GOOD = ("TM8208", "TM8213", "TM8215", "TM8216", "TM8217", "TM8218")
"""Errors that last until the sink is altered or its target is changed."""

_OF_VIEWS = ("TM1030", "TM1032", "TM1033", "TM1039", "TM1041")
"""Errors of views that cannot be read now; the next epoch may end them."""


class Worker:
    """Delivers one sink on a thread of its own, beside epochs.

    Parameters
    ----------
    sink : Sink
        Not paused.
    position : int or None
        The last epoch that was delivered.
    sealed : callable
        What may be delivered now; None before anything may be.
    after : Worker, optional
        One of the same sink that was stopped; this one begins when it has ended, where it has ended.
    """

    def __init__(
        self,
        sink: Sink,
        position: int | None,
        sealed: Callable[[], Deliverable | None],
        after: Worker | None = None,
    ) -> None:
        self.sink = sink
        self._sealed = sealed
        self._after = after
        self._delivery = Delivery(sink, position, lambda: self._stopping)
        self._condition = threading.Condition()
        self._stopping = self._finishing = self._news = self._retry = False
        self._state, self._error, self._failures, self._last = "running", "", 0, 0.0
        self._thread = threading.Thread(target=self._run, name=f"sink-{sink.name}", daemon=True)
        self._thread.start()

    @property
    def position(self) -> int | None:
        """The last epoch that was delivered."""
        return self._delivery.position

    def status(self) -> SinkStatus:
        """How far it has come."""
        sealed, position = self._sealed(), self.position
        with self._condition:
            state, error = self._state, self._error
        return SinkStatus(state, position, lag_of(self.sink, position, sealed), error)

    def wake(self) -> None:
        """Say that there may be another durable epoch."""
        with self._condition:
            self._news = True
            self._condition.notify_all()

    def retry(self) -> None:
        """Try again now what has failed."""
        with self._condition:
            self._retry = self._news = True
            self._condition.notify_all()

    def is_settled(self) -> bool:
        """Whether it has delivered all that is durable, or cannot now."""
        sealed = self._sealed()
        with self._condition:
            state = self._state
        if not self._thread.is_alive() or state != "running" or sealed is None:
            return True
        return self.position is not None and self.position >= sealed.durable

    def finish(self) -> None:
        """Deliver what is durable, without pauses and further attempts, and end."""
        with self._condition:
            self._finishing = self._news = True
            self._condition.notify_all()

    def stop(self) -> None:
        """End after the call in progress."""
        with self._condition:
            self._stopping = True
            self._condition.notify_all()

    def join(self, seconds: float | None) -> bool:
        """Wait for the thread to end; whether it did."""
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def is_alive(self) -> bool:
        """Whether its thread runs: its position may still change."""
        return self._thread.is_alive()

    def abort(self) -> None:
        """Stop, and make the call in progress fail soon; also that of the worker that this one waits for."""
        after = self._after
        if after is not None:
            after.abort()
        self.stop()
        self._delivery.abort()

    def _run(self) -> None:
        if self._after is not None:
            self._after.join(None)
            self._delivery.position = self._after.position
            self._after = None
        try:
            while self._wait():
                last = self._finishing  # read before the attempt: what is durable by now is delivered in any case
                self._attempt()
                if last:
                    return
        finally:
            self._delivery.close()

    def _wait(self) -> bool:
        """Wait until something is to be done; whether to go on."""
        with self._condition:
            while not self._stopping and not self._finishing and (seconds := self._pause()) > 0:
                self._condition.wait(None if seconds == threading.TIMEOUT_MAX else seconds)
            if self._stopping or (self._finishing and self._state in ("retrying", "failed")):
                return False
            self._news = self._retry = False
            self._last = time.monotonic()
            return True

    def _pause(self) -> float:
        """Seconds until the next attempt."""
        if self._retry:
            return 0.0
        if self._state == "failed":
            return threading.TIMEOUT_MAX
        if self._state == "retrying":
            return self._last + self._backoff - time.monotonic()
        if not self._news:
            return threading.TIMEOUT_MAX
        return self._last + MIN_INTERVAL.of(self.sink.options) / 1e6 - time.monotonic() if self._last else 0.0

    def _attempt(self) -> None:
        sealed = self._sealed()
        if sealed is None:
            return
        try:
            self._delivery.deliver(sealed)
        except StoppedError:
            return
        except TidemillError as error:
            self._failed(error)
        except OSError as error:
            self._failed(_unwritable(self.sink.shown_location, error))
        except Exception as error:  # SHOW SINKS shows it, and it is tried again
            self._failed(_unexpected(error))
        else:
            with self._condition:
                self._state, self._error, self._failures = "running", "", 0

    def _failed(self, error: TidemillError) -> None:
        if error.number not in _OF_VIEWS:
            self._delivery.close()
        with self._condition:
            self._error = error.message()
            if error.number in _FOR_GOOD:
                self._state = "failed"
            elif error.number in _OF_VIEWS:
                self._state = "waiting"
            else:
                self._state = "retrying"
                longest = MAX_BACKOFF.of(self.sink.options) / 1e6
                pause = min(_FIRST_PAUSE * 2.0 ** min(self._failures, 30), longest)
                self._backoff = pause * random.uniform(0.5, 1.0)  # sinks of one target do not try at the same moment
                self._failures += 1
                self._last = time.monotonic()

    _backoff = 0.0


def lag_of(sink: Sink, position: int | None, sealed: Deliverable | None) -> int | None:
    """Durable epochs that a sink has not delivered, the one it begins with included; None while that is not known."""
    done = sink.created_at_epoch - 1 if position is None else position
    return None if sealed is None else max(0, sealed.durable - done)


def _unwritable(location: str, error: OSError) -> TidemillError:
    return TidemillError(
        "TM8210",
        "the target of a sink cannot be written to",
        got=f"{location}: {error.strerror or error}",
        hint=advice(error, "what was delivered is whole, and the sink tries again"),
    )


def _unexpected(error: Exception) -> TidemillError:
    return TidemillError(
        "TM8249",
        "a sink met a bug in Tidemill",
        got=f"{type(error).__name__}: {' '.join(str(error).split())[:500]}",
        hint="please report it; the sink tries again",
    )
