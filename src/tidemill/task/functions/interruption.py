"""Ends calls of users' functions that take too long: they are the only code of a task that may never return."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_AGAIN = 0.2
"""Seconds after which a function that caught the interruption is interrupted again."""

_interruptible = False


class InterruptedCallError(BaseException):
    """A call of a user's function took too long. It is no ``Exception``, which the function might catch."""


@contextmanager
def interruptible() -> Iterator[None]:
    """Users' code runs here; :func:`within` may end it."""
    global _interruptible
    _interruptible = True
    try:
        yield
    finally:
        _interruptible = False


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """Raise :class:`InterruptedCallError` in a call of a user's function that is not over after so many seconds.

    Only the main thread can be interrupted; elsewhere, and in other code, nothing is.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    handler = signal.signal(signal.SIGALRM, _interrupt)
    before = signal.setitimer(signal.ITIMER_REAL, max(seconds, 1e-3), _AGAIN)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, *before)
        signal.signal(signal.SIGALRM, handler)


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    if _interruptible:
        raise InterruptedCallError
