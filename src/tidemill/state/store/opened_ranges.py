"""Runs that a process has opened of ranges of tables, so that only what is new is opened again."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection
from typing import NamedTuple, TypeAlias

from tidemill.state.merge.merge import Rows
from tidemill.state.runs.sst import RunFile
from tidemill.state.versions.version import Run

_MOST_RUNS = 1 << 15
"""Runs of all ranges that are kept, at about 700 bytes each."""
Range: TypeAlias = tuple[str, str, int, int]
"""The prefix of a store, a table, and vnodes ``low <= v < high`` of it."""
Moment: TypeAlias = tuple[int, int]
"""How often files have been let go, and found to be corrupt, so far."""


class Opened(NamedTuple):
    """Runs of a table, restricted to a range.

    Attributes
    ----------
    runs : tuple of Run
        All runs of the table.
    rows : dict
        By the identity of a run (``id``) the path of its file and its rows, which may be none; None where its vnodes
        are others. Runs of files that have been let go are missing.
    found : list of Rows
        Those that have any.
    """

    runs: tuple[Run, ...]
    rows: dict[int, tuple[str, Rows] | None]
    found: list[Rows]

    def is_of(self, runs: tuple[Run, ...]) -> bool:
        """Whether these are the runs, all of them opened."""
        return self.runs is runs and len(self.rows) == len(runs)

    def without(self, paths: Collection[str]) -> Opened:
        """Without the runs of some files."""
        rows = {run: part for run, part in self.rows.items() if part is None or part[0] not in paths}
        return self if len(rows) == len(self.rows) else self._replace(rows=rows, found=[])


class OpenedRanges:
    """What was opened last of each range. It is not thread-safe.

    Rows would keep files mapped that are let go, so these are forgotten; all is when a file is found to be corrupt.
    """

    def __init__(self) -> None:
        self._opened: OrderedDict[Range, Opened] = OrderedDict()
        self._runs = 0
        self._let_go = 0
        self._damaged = RunFile.found_damaged

    def get(self, range_: Range) -> tuple[Opened | None, Moment]:
        """What was opened last of a range, and the moment for :meth:`keep`."""
        if RunFile.found_damaged != self._damaged:
            self._opened.clear()
            self._runs, self._damaged = 0, RunFile.found_damaged
        found = self._opened.get(range_)
        if found is not None:
            self._opened.move_to_end(range_)
        return found, (self._let_go, self._damaged)

    def keep(self, range_: Range, opened: Opened, since: Moment) -> None:
        """Note what was opened, unless a file may have been let go or found to be corrupt since a moment."""
        if since != (self._let_go, RunFile.found_damaged):
            return
        before = self._opened.get(range_)
        self._opened[range_] = opened
        self._runs += len(opened.runs) - (0 if before is None else len(before.runs))
        while self._runs > _MOST_RUNS:
            self._runs -= len(self._opened.popitem(last=False)[1].runs)

    def forget(self, paths: Collection[str]) -> None:
        """Some files are let go."""
        self._let_go += 1
        self._opened.update({range_: opened.without(paths) for range_, opened in self._opened.items()})
