"""What kernels take of the runs of a level, kept of the levels that were read last.

A level of a large table has hundreds of runs, of which an epoch changes few or none, and looks up a few keys in each.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tidemill.kernels.words import Ints, Words
from tidemill.state.runs.flat_columns import Flat, columns_of_slices
from tidemill.state.runs.mapped import Mapped

_MOST_BYTES = 16 << 20
"""Of the tables that a process keeps; that of a level of 100 runs with five columns takes 45 KB."""
_lock = threading.Lock()


@dataclass(frozen=True)
class LevelTable:
    """Addresses of what some runs have; these must outlive its use.

    Attributes
    ----------
    bodies : np.ndarray
        uint64[runs, 25]: the bodies of the runs.
    columns : np.ndarray
        uint64[runs, columns, 6]: their values.
    starts, stops : np.ndarray
        int64[runs]: the first row of each in its section, and the one after the last.
    """

    bodies: Words
    columns: Flat
    starts: Ints
    stops: Ints

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays."""
        return self.bodies.nbytes + self.columns.nbytes + self.starts.nbytes + self.stops.nbytes


class _Tables:
    """Tables by the serial numbers of their runs, the last used at the end."""

    def __init__(self) -> None:
        self._tables: OrderedDict[tuple[int, ...], LevelTable] = OrderedDict()
        self._bytes = 0

    def get(self, serials: tuple[int, ...]) -> LevelTable | None:
        found = self._tables.get(serials)
        if found is not None:
            self._tables.move_to_end(serials)
        return found

    def keep(self, serials: tuple[int, ...], table: LevelTable) -> None:
        if serials not in self._tables:  # another thread may have made it, too
            self._tables[serials] = table
            self._bytes += table.nbytes
        while self._bytes > _MOST_BYTES:
            self._bytes -= self._tables.popitem(last=False)[1].nbytes


_tables = _Tables()


def level_table(runs: Sequence[Mapped]) -> LevelTable:
    """The table of some runs, at least one."""
    # Serial numbers are never given twice. The runs themselves would keep files mapped that have been let go.
    serials = tuple(run.serial for run in runs)
    with _lock:
        found = _tables.get(serials)
    if found is None:
        starts = np.array([run.start for run in runs])
        found = LevelTable(
            np.stack([run.body.addresses for run in runs]),
            columns_of_slices([run.body.columns for run in runs], starts),
            starts,
            starts + np.array([len(run) for run in runs]),
        )
        with _lock:
            _tables.keep(serials, found)
    return found
