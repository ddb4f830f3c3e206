"""What kernels take of the runs of a level: made once, as long as the same runs are read.

A level of a large table has hundreds of runs, of which an epoch changes few or none, and looks up a few keys in each.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tidemill.kernels.words import Ints, Words
from tidemill.state.runs.flat_columns import Flat
from tidemill.state.runs.mapped import Mapped

_KEPT = 32
"""Levels of which a process keeps the table; one of 100 runs of five columns takes 45 KB."""
_tables: OrderedDict[tuple[int, ...], LevelTable] = OrderedDict()
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


def level_table(runs: Sequence[Mapped]) -> LevelTable:
    """The table of some runs, at least one."""
    # Serial numbers are never given twice. The runs themselves would keep files mapped that have been let go.
    serials = tuple(run.serial for run in runs)
    with _lock:
        found = _tables.get(serials)
        if found is not None:
            _tables.move_to_end(serials)
            return found
    starts = np.array([run.start for run in runs])
    found = LevelTable(
        np.stack([run.body.addresses for run in runs]),
        np.stack([run.flat_columns() for run in runs]),
        starts,
        starts + np.array([len(run) for run in runs]),
    )
    with _lock:
        _tables[serials] = found
        if len(_tables) > _KEPT:
            _tables.popitem(last=False)
    return found
