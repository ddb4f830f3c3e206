"""Rows of several runs as one number each: the number of the run, then the row in it."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tidemill.kernels import types
from tidemill.kernels.words import I64, I64_OUT, Ints, inlined, kernel

Hits = npt.NDArray[np.int64]
"""Place of each probe in each group of runs (int64[groups, probes], oldest first), -1 where it does not have it.

Runs are numbered from group to group; of two runs of one group that with the greater number has greater keys.
"""

_ROW_BITS = 40
_ROW = (1 << _ROW_BITS) - 1


@inlined
def place(run: int, row: int) -> Any:
    """Row ``row`` of run ``run``: places are in order of runs, then of rows."""
    return np.int64(run << _ROW_BITS) | row


@inlined
def run_at(place: int) -> Any:
    """The number of the run."""
    return place >> _ROW_BITS


@inlined
def row_at(place: int) -> Any:
    """The row in its run."""
    return place & _ROW


def runs_at(places: Ints) -> Ints:
    """The number of the run of each place."""
    return places >> _ROW_BITS


def rows_at(places: Ints) -> Ints:
    """The row of each place in its run."""
    return places & _ROW


def first_places(runs: Ints) -> Ints:
    """The place of row 0 of each run."""
    return runs << _ROW_BITS


@kernel(types.void, I64_OUT, types.int64)
def make_places(rows: Ints, run: int) -> None:
    """Replace rows of a run, -1 for none, by their places."""
    for i in range(rows.size):
        if rows[i] >= 0:
            rows[i] = place(run, rows[i])


@kernel(types.void, I64_OUT, I64, I64, I64, types.int64)
def places_of_slices(rows: Ints, slices: Ints, starts: Ints, stops: Ints, first: int) -> None:
    """Replace rows of sections, -1 for none, by their places in slices of these; -1 where a row is outside its slice.

    Slice ``i`` is that of rows ``starts[i]`` to ``stops[i] - 1``, and run ``first + i``.
    """
    for i in range(rows.size):
        row = rows[i]
        if row >= 0:
            s = slices[i]
            inside = starts[s] <= row < stops[s]
            rows[i] = place(first + s, row - starts[s]) if inside else -1
