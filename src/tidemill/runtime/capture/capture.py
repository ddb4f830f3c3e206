"""One thread that takes over what a server sends for a table, and how others speak with it."""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod

from tidemill.errors import TidemillError
from tidemill.runtime.tables.table import Table
from tidemill.sources.sockets.spool import Spool

_LONGEST_PAUSE, _ENDING_SECONDS = 30.0, 15.0


class StoppedError(Exception):
    """The thread is to end."""


class Capture(ABC):
    """One thread that follows a table, and tries again when that fails. It begins with :meth:`start`.

    Parameters
    ----------
    table : Table
    spool : Spool

    Attributes
    ----------
    table : Table
        As it is now.
    consumed : int
        How many of the bytes of the spool have been read.
    """

    def __init__(self, table: Table, spool: Spool) -> None:
        self.table = table
        self.consumed = spool.begin
        self._spool = spool
        self._ended = threading.Event()
        self._woken = threading.Event()
        self._state = threading.Condition()
        self._asked = 0
        self._warned, self._pause = "", 0.0
        self._error: TidemillError | None = None
        self._warnings: list[str] = []
        self._thread = threading.Thread(target=self._run, name=f"capture of {table.name}", daemon=True)

    @abstractmethod
    def wait(self, seconds: float) -> bool:
        """Wait until all that there is now is in the spool.

        Returns
        -------
        bool
            False when too much waits to be read, so that not all was received.

        Raises
        ------
        TidemillError
            Why the table cannot be followed now, or that the time was too short.
        """

    @abstractmethod
    def drop(self) -> None:
        """Drop what is kept at the server for the table; after :meth:`close`."""

    @abstractmethod
    def _follow(self) -> None:
        """Follow the table until something goes wrong, or there is no room; StoppedError when the thread is to end."""

    @abstractmethod
    def _unexpected(self, what: str) -> TidemillError:
        """The error that stands for one without a number."""

    @property
    @abstractmethod
    def _most_unread(self) -> int:
        """How many bytes of the spool may wait to be read."""

    # -- for other threads --------------------------------------------------------------------------

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def warnings(self) -> list[str]:
        """New warnings since the last call."""
        with self._state:
            warnings, self._warnings = self._warnings, []
        return warnings

    def close(self) -> None:
        """Stop. The server sends again what is not in the spool. May be called twice."""
        self._ended.set()
        self._woken.set()
        until = time.monotonic() + _ENDING_SECONDS
        while self._thread.is_alive() and time.monotonic() < until:
            self._thread.join(1.0)
            if self._thread.is_alive():
                self._interrupt()

    def begun(self, seconds: float) -> None:  # noqa: B027  # a table that was looked at before needs nothing
        """Wait, when the table has just been created, until it can be followed; why it cannot is raised."""

    def _interrupt(self) -> None:  # noqa: B027  # a thread that only waits for moments needs nothing
        """Cancel what the thread waits for."""

    # -- the thread ---------------------------------------------------------------------------------

    def _run(self) -> None:
        while not self._ended.is_set():
            if self._waits():
                self._ended.wait(0.1)
                continue
            try:
                self._follow()
            except StoppedError:
                return
            except TidemillError as error:
                self._failed(error)
            except Exception as error:  # else the table would stand still, and nobody would know
                self._failed(self._unexpected(f"{type(error).__name__}: {error}"))
            if self._pause:
                self._woken.wait(self._pause)
                self._woken.clear()

    def _failed(self, error: TidemillError) -> None:
        with self._state:
            if self._warned != error.message():
                self._warnings.append(error.message())
            self._error, self._warned = error, error.message()
            self._pause = min(max(2 * self._pause, 0.5), _LONGEST_PAUSE)
            self._state.notify_all()

    def _waits(self) -> bool:
        return self._spool.end - self.consumed >= self._most_unread


def unwritable(spool: Spool, error: OSError) -> TidemillError:
    """TM5116: the disk of the root."""
    return TidemillError(
        "TM5116",
        "what a server sends cannot be written into the root",
        got=f"{spool.directory}: {error.strerror}",
        hint="make space, or repair the disk of the root; the server keeps it, and sends it again",
    )
