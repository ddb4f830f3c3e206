"""A clock that tests put forward, in the place of a module's ``time``."""

from __future__ import annotations

import time


class Clock:
    """Stands still, unless it ``runs``; :meth:`forward` puts it forward by seconds."""

    def __init__(self, runs: bool = False) -> None:
        self._begun = None if runs else (time.monotonic(), time.time_ns())
        self._ahead = 0.0

    def forward(self, seconds: float) -> None:
        self._ahead += seconds

    def monotonic(self) -> float:
        return (self._begun[0] if self._begun else time.monotonic()) + self._ahead

    def time_ns(self) -> int:
        return (self._begun[1] if self._begun else time.time_ns()) + int(self._ahead * 1e9)

    def time(self) -> float:
        return self.time_ns() / 1e9
