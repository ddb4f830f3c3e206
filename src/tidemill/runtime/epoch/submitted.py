"""Submitted statements, executed one after the other, each when its turn comes."""

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
class _Entry:
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
        self._waiting: deque[_Entry] = deque()
        self._running = False

    def add(
        self,
        ticket: Ticket | None,
        turn: Callable[[Ticket], AbstractContextManager[Any]],
        execute: Callable[[], Any],
    ) -> Future[Any]:
        """Queue a function to be executed in the turn of a ticket, or without a turn.

        Returns
        -------
        concurrent.futures.Future
            Of its result. When it is cancelled before its turn comes the ticket is given back.
        """
        entry = _Entry(ticket, turn, execute, Future())
        if ticket is not None:
            entry.future.add_done_callback(lambda done: self._give_back(ticket) if done.cancelled() else None)
        with self._lock:
            self._waiting.append(entry)
            if not self._running:
                self._running = True
                threading.Thread(target=self._work, name="mill-statements", daemon=True).start()
        return entry.future

    def _work(self) -> None:
        while True:
            with self._lock:
                if not self._waiting:
                    self._running = False
                    return
                entry = self._waiting.popleft()
            _execute(entry)

    def close(self, error: TidemillError) -> None:
        """Fail all that have not begun."""
        with self._lock:
            waiting, self._waiting = list(self._waiting), deque()
        for entry in waiting:
            if entry.future.set_running_or_notify_cancel():
                entry.future.set_exception(error)


def _execute(entry: _Entry) -> None:
    future = entry.future
    if future.cancelled():
        future.set_running_or_notify_cancel()
        return
    begun = False
    try:
        with nullcontext() if entry.ticket is None else entry.turn(entry.ticket):
            begun = future.set_running_or_notify_cancel()
            result = entry.execute() if begun else None
    except BaseException as error:  # the future raises it
        if begun or future.set_running_or_notify_cancel():
            future.set_exception(error)
        return
    if begun:
        future.set_result(result)
