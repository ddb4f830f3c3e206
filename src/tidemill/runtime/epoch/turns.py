"""Turns: epochs, statements and checkpoints change a mill one at a time, in the order in which they asked."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager

from tidemill.errors import TidemillError


class Ticket:
    """A place in the queue."""


class Turns:
    """A fair lock: it is given in the order in which it was asked for.

    A thread that holds the lock may take it again. Readers never take it.

    Parameters
    ----------
    of : str
        The root, for errors.
    """

    def __init__(self, of: str) -> None:
        self._of = of
        self._changed = threading.Condition()
        self._waiting: deque[Ticket] = deque()
        self._holder: int | None = None
        self._depth = 0
        self._ended = False

    def ticket(self) -> Ticket:
        """The last place in the queue, for a later turn, also of another thread.

        It must be used or :meth:`given back <give_back>`: those behind it wait. TM7012 after :meth:`end`.
        """
        with self._changed:
            if self._ended:
                raise self._closed()
            ticket = Ticket()
            self._waiting.append(ticket)
            return ticket

    def give_back(self, ticket: Ticket) -> None:
        """Leave the queue without a turn."""
        with self._changed:
            if ticket in self._waiting:
                self._waiting.remove(ticket)
                self._changed.notify_all()

    @contextmanager
    def turn(self, timeout: float | None = None, ticket: Ticket | None = None) -> Iterator[bool]:
        """Wait for a turn, and hold it.

        Parameters
        ----------
        timeout : float, optional
            The most seconds to wait; for ever by default.
        ticket : Ticket, optional
            A place taken earlier; by default the last one.

        Yields
        ------
        bool
            Whether this is the outermost turn of the thread.

        Raises
        ------
        TidemillError
            TM7014 when the time is up; TM7012 when the turns have ended. Nothing was begun then.
        """
        me = threading.get_ident()
        if self._holder == me:
            if ticket is not None:
                self.give_back(ticket)
            self._depth += 1
            try:
                yield False
            finally:
                self._depth -= 1
            return
        self._wait(self.ticket() if ticket is None else ticket, timeout)
        try:
            yield True
        finally:
            with self._changed:
                self._holder = None
                self._changed.notify_all()

    def _wait(self, ticket: Ticket, timeout: float | None) -> None:
        deadline = None if timeout is None else time.monotonic() + timeout
        with self._changed:
            try:
                while self._holder is not None or not self._waiting or self._waiting[0] is not ticket:
                    if ticket not in self._waiting:
                        raise self._closed()
                    left = None if deadline is None else deadline - time.monotonic()
                    if left is not None and left <= 0:
                        raise TidemillError(
                            "TM7014",
                            "the time is up before the statement could begin",
                            got=f"{timeout:g} seconds beside an epoch or other statements",
                            hint="nothing was changed, and it is no longer waiting; give more time, or submit() it",
                        )
                    self._changed.wait(left)
                self._holder = threading.get_ident()
            finally:
                if ticket in self._waiting:
                    self._waiting.remove(ticket)
                    self._changed.notify_all()

    @contextmanager
    def turn_if_free(self) -> Iterator[bool]:
        """Hold a turn if no thread has one or waits for one; yields whether it is held."""
        with self._changed:
            mine = self._holder is None and not self._waiting and not self._ended
            if mine:
                self._holder = threading.get_ident()
        if not mine:
            yield self._holder == threading.get_ident()
            return
        try:
            yield True
        finally:
            with self._changed:
                self._holder = None
                self._changed.notify_all()

    @contextmanager
    def last_turn(self) -> Iterator[bool]:
        """End the turns with a last one: waiting threads get TM7012. Yields False if it was held before."""
        with self._changed:
            first = not self._ended
            self._ended = True
            self._waiting.clear()
            self._changed.notify_all()
            while self._holder not in (None, threading.get_ident()):
                self._changed.wait()
            held, self._holder = self._holder, threading.get_ident()
        try:
            yield first
        finally:
            with self._changed:
                self._holder = held
                self._changed.notify_all()

    def _closed(self) -> TidemillError:
        return mill_closed(self._of)


def mill_closed(root: str) -> TidemillError:
    """TM7012."""
    return TidemillError("TM7012", "this mill is closed", got=root, hint="open another tidemill.Mill on the root")
