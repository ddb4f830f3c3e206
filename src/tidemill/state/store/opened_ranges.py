"""Runs that a process has opened of ranges of tables, so that only what is new is opened again."""

from __future__ import annotations

from collections import OrderedDict
from typing import NamedTuple, TypeAlias

from tidemill.state.merge.merge import Rows
from tidemill.state.runs.sst import RunFile
from tidemill.state.versions.version import Run

_KEPT = 4096
Range: TypeAlias = tuple[str, str, int, int]
"""The prefix of a store, a table, and vnodes ``low <= v < high`` of it."""
Moment: TypeAlias = tuple[int, int]
"""How many files have been let go, and found corrupt, so far."""


class Opened(NamedTuple):
    """Runs of a table, restricted to a range.

    Attributes
    ----------
    runs : tuple of Run
        All runs of the table.
    rows : dict
        By the identity of a run (``id``) the path of its file and its rows, which may be none; None where its vnodes
        are others.
    found : list of Rows
        Those that have any.
    """

    runs: tuple[Run, ...]
    rows: dict[int, tuple[str, Rows] | None]
    found: list[Rows]


class OpenedRanges:
    """What was opened last of each range. It is not thread-safe.

    All is forgotten when a file is let go, which rows would keep mapped, or found to be corrupt.
    """

    def __init__(self) -> None:
        self._opened: OrderedDict[Range, Opened] = OrderedDict()
        self._let_go = 0
        self._damaged = RunFile.found_damaged

    def get(self, range_: Range) -> tuple[Opened | None, Moment]:
        """What was opened last of a range, and the moment for :meth:`keep`."""
        if RunFile.found_damaged != self._damaged:
            self.forget()
            self._damaged = RunFile.found_damaged
        found = self._opened.get(range_)
        if found is not None:
            self._opened.move_to_end(range_)
        return found, (self._let_go, self._damaged)

    def keep(self, range_: Range, opened: Opened, since: Moment) -> None:
        """Note what was opened, unless something may have been let go since a moment."""
        if since == (self._let_go, RunFile.found_damaged):
            self._opened[range_] = opened
            if len(self._opened) > _KEPT:
                self._opened.popitem(last=False)

    def forget(self) -> None:
        """A file is let go."""
        self._let_go += 1
        self._opened.clear()
