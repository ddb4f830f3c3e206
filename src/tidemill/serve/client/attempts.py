"""Trying again when a server does not answer."""

from __future__ import annotations

import time

from tidemill.errors import TidemillError

_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 5.0


class Attempts:
    """Pauses between attempts to connect, and their end."""

    def __init__(self, seconds: float | None) -> None:
        self._seconds = seconds
        self._since: float | None = None
        self._pause = _FIRST_PAUSE

    def succeeded(self) -> None:
        """The server answers."""
        self._since, self._pause = None, _FIRST_PAUSE

    def next_pause(self, error: TidemillError) -> float:
        """Seconds until the next attempt; raises the error when there is none."""
        now = time.monotonic()
        self._since = now if self._since is None else self._since
        if self._seconds is not None and now - self._since >= self._seconds:
            raise error
        pause, self._pause = self._pause, min(2 * self._pause, _LONGEST_PAUSE)
        return pause

    def failed(self, error: TidemillError) -> None:
        """Wait for the next attempt."""
        time.sleep(self.next_pause(error))
