"""Deletes batches of Spark streams that a mill has read, in the background.

For each table there is one removal at a time, on a thread of its own:

1. an object notes that the batches up to a number are deleted, and which ones had been committed. Before that they can
   still be read again, by this mill or the next one;
2. between two epochs the mill forgets these batches and their positions. If it dies before that, the next one finds the
   object and does not load them either;
3. their files are deleted, then the objects that name them, then the notes about earlier batches. What remains when the
   mill dies is deleted when the table is opened next.

The second and the third step may come in any order.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence

from tidemill.runtime.ingest.log import Batch, IngestLog, tried


class Removal:
    """The deletion of the oldest batches of a table. It begins at once.

    Parameters
    ----------
    log : IngestLog
    batches : sequence of Batch
        At least one: the first ones of the log, all of them read and durable.
    """

    def __init__(self, log: IngestLog, batches: Sequence[Batch]) -> None:
        self.batches = tuple(batches)
        self.error: Exception | None = None
        self._log = log
        self._is_noted = False
        self._known = threading.Event()
        self._thread = threading.Thread(target=self._run, name="forget", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            before = self._log.note_gone(self.batches[-1].number)
            self._is_noted = True
        except Exception as error:  # logged when the batches are not forgotten
            self.error = error
            return
        finally:
            self._known.set()
        tried(lambda: self._log.delete(self.batches, before))

    @property
    def known(self) -> bool:
        """Whether the first step is over."""
        return self._known.is_set()

    @property
    def ended(self) -> bool:
        """Whether nothing is being deleted any more."""
        return not self._thread.is_alive()

    def is_noted(self) -> bool:
        """Wait for the end of the first step; whether the batches are gone. ``error`` says why they are not."""
        self._known.wait()
        return self._is_noted

    def wait(self, seconds: float) -> None:
        """Wait for the end of it, for some seconds at most."""
        self._thread.join(seconds)
