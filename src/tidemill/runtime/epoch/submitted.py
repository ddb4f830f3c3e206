"""Statements whose senders do not wait: executed one after the other, each when its turn comes."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

from tidemill.errors import TidemillError
from tidemill.runtime.epoch.turns import Ticket


@dataclass(frozen=True)
class _Given:
    ticket: Ticket | None
    turn: Callable[[Ticket], AbstractContextManager[Any]]
    execute: Callable[[], Any]
    future: Future[Any]


class Submitted:
    """A queue of statements and the thread that executes them, which lives as long as there are any.

    Parameters
    ----------
    give_back : callable
        Gives back the ticket of a statement that was withdrawn.
    """

    def __init__(self, give_back: Callable[[Ticket], None]) -> None:
        self._give_back = give_back
        self._lock = threading.Lock()
        self._waiting: deque[_Given] = deque()
        self._running = False

    def add(
        self,
        ticket: Ticket | None,
        turn: Callable[[Ticket], AbstractContextManager[Any]],
        execute: Callable[[], Any],
    ) -> Future[Any]:
        """Have something executed in the turn of a ticket, or without a turn.

        Returns
        -------
        concurrent.futures.Future
            Of its result. When it is cancelled before its turn comes the ticket is given back.
        """
        given = _Given(ticket, turn, execute, Future())
        if ticket is not None:
            given.future.add_done_callback(lambda done: self._give_back(ticket) if done.cancelled() else None)
        with self._lock:
            self._waiting.append(given)
            if not self._running:
                self._running = True
                threading.Thread(target=self._work, name="mill-statements", daemon=True).start()
        return given.future

    def _work(self) -> None:
        while True:
            with self._lock:
                if not self._waiting:
                    self._running = False
                    return
                given = self._waiting.popleft()
            _execute(given)

    def close(self, error: TidemillError) -> None:
        """Fail all that have not begun."""
        with self._lock:
            waiting, self._waiting = list(self._waiting), deque()
        for given in waiting:
            if given.future.set_running_or_notify_cancel():
                given.future.set_exception(error)


def _execute(given: _Given) -> None:
    future = given.future
    if future.cancelled():
        future.set_running_or_notify_cancel()
        return
    begun = False
    try:
        with nullcontext() if given.ticket is None else given.turn(given.ticket):
            begun = future.set_running_or_notify_cancel()
            result = given.execute() if begun else None
    except BaseException as error:  # whoever asks for the result gets it
        if begun or future.set_running_or_notify_cancel():
            future.set_exception(error)
        return
    if begun:
        future.set_result(result)
