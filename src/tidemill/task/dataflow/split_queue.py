"""The splits of a source step of a task: served in the order given, to whichever copy of the source is free."""

from __future__ import annotations

import threading
from collections import deque

from tidemill.sources.split import Split


class SplitQueue:
    """Splits up to the barrier, numbered from 0 on.

    The barrier is a mark behind the last split, not a split: it counts nowhere.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._splits: deque[Split] = deque()
        self._barrier = False
        self.next_number = 0
        """Of the split that is taken next."""
        self.taken = 0
        """Splits that have been taken since the last barrier."""
        self.left_out = 0
        """Splits since the last barrier that nobody needed."""

    def begin(self) -> None:
        """A barrier has passed."""
        with self._lock:
            assert not self._splits, "splits lie behind a barrier"
            self._barrier, self.next_number, self.taken, self.left_out = False, 0, 0, 0

    def add(self, split: Split) -> None:
        """Queue a split."""
        with self._lock:
            self._splits.append(split)

    def put_barrier(self) -> None:
        """Nothing more comes before the barrier."""
        with self._lock:
            self._barrier = True

    def take(self) -> tuple[int, Split] | None:
        """The next split and its number, or None when there is none now."""
        with self._lock:
            if not self._splits:
                return None
            number, self.next_number = self.next_number, self.next_number + 1
            self.taken += 1
            return number, self._splits.popleft()

    def skip_to_barrier(self) -> None:
        """Leave out what is queued."""
        with self._lock:
            self.left_out += len(self._splits)
            self._splits.clear()

    @property
    def at_barrier(self) -> bool:
        """Whether all splits before the barrier have been taken."""
        with self._lock:
            return self._barrier and not self._splits
