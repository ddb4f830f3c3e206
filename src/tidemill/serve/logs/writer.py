"""Writes entries to a stream from a thread of its own: whoever reads it slowly does not make the server wait."""

from __future__ import annotations

import contextlib
import queue
import threading
import time
from collections.abc import Callable
from typing import TextIO

from tidemill.serve.logs.entry import Entry

_MOST_WAITING = 10_000
_END_SECONDS = 2.0


class Writer:
    """Takes entries from any thread and writes each as one line.

    At most 10,000 entries wait; further ones are left out, and counted.

    Parameters
    ----------
    stream : TextIO
        Is written to and flushed by one thread.
    line : callable
        An entry as a line.
    lost : callable
        Makes the entry that says how many were left out.
    """

    def __init__(self, stream: TextIO, line: Callable[[Entry], str], lost: Callable[[int], Entry]) -> None:
        self._stream, self._line, self._lost_entry = stream, line, lost
        self._queue: queue.Queue[Entry | None] = queue.Queue(_MOST_WAITING)
        self._lost = 0
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._run, name="serve-log", daemon=True)
        self._thread.start()

    def take(self, entry: Entry) -> None:
        """Write an entry soon. Does not wait."""
        try:
            self._queue.put_nowait(entry)
        except queue.Full:
            with self._lock:
                self._lost += 1

    def close(self) -> None:
        """Write what waits, for two seconds at most."""
        end = time.monotonic() + _END_SECONDS
        with contextlib.suppress(queue.Full):
            self._queue.put(None, timeout=_END_SECONDS)
        self._thread.join(max(0.0, end - time.monotonic()))

    def _run(self) -> None:
        while (entry := self._queue.get()) is not None:
            with self._lock:
                lost, self._lost = self._lost, 0
            try:
                if lost:
                    self._stream.write(self._line(self._lost_entry(lost)) + "\n")
                self._stream.write(self._line(entry) + "\n")
                if self._queue.empty():
                    self._stream.flush()
            except (OSError, ValueError):
                return  # its reader has gone; entries are still kept in memory
        with contextlib.suppress(OSError, ValueError):
            self._stream.flush()
