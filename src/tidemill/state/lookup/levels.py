"""Runs of a level read as one: their key ranges are disjoint, so one search of all finds each key in one of them."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import cast

import numpy as np

from tidemill.kernels.words import Ints, Words
from tidemill.state.keys.keys import Keys
from tidemill.state.lookup.hits import combine_hits
from tidemill.state.merge.merge import MergeOp, Rows
from tidemill.state.runs.level import keys_by_index, locate_by_index, ranges_by_index
from tidemill.state.runs.level_table import level_table
from tidemill.state.runs.mapped import Mapped, is_sparse
from tidemill.state.runs.places import first_places, places_of_slices, rows_at, runs_at
from tidemill.state.runs.searching import expand, locate_prefixes


def groups_of(runs: Sequence[Rows], probes: int) -> list[range]:
    """Runs in groups that are searched together: those of a level, unless there are many probes for its rows.

    A level is recognized by ranges of keys that ascend. Runs of a group of several are :class:`Mapped`.

    Parameters
    ----------
    runs : sequence of Rows
        Oldest first.
    probes : int
        How many keys are sought.
    """
    groups: list[range] = []
    first, rows = 0, len(runs[0]) if runs else 0
    for r, (before, run) in enumerate(itertools.pairwise(runs), start=1):
        if not (isinstance(run, Mapped) and isinstance(before, Mapped) and run.follows(before)):
            groups += _group(first, r, rows, probes)
            first, rows = r, 0
        rows += len(run)
    return groups + _group(first, len(runs), rows, probes)


def _group(first: int, end: int, rows: int, probes: int) -> list[range]:
    whole = range(first, end)
    return [whole] if len(whole) > 1 and is_sparse(probes, rows) else [range(r, r + 1) for r in whole]


def rows_with(run: Rows, prefixes: Keys) -> tuple[Ints, Ints]:
    """For each prefix (ascending, unique, none a prefix of another) its first row in a run, and the one after the last.

    Both int64[n]. Of a run in a file only the needed pages are read.
    """
    if isinstance(run, Mapped):
        return run.rows_with(prefixes)
    return locate_prefixes(run.keys.offsets, run.keys.data, prefixes.offsets, prefixes.data)


def counts_with(runs: Sequence[Rows], prefixes: Keys) -> Ints:
    """How many rows of some runs, together, begin with each of some prefixes (ascending, none a prefix of another)."""
    counts = np.zeros(len(prefixes), np.int64)
    for group in groups_of(runs, len(prefixes)):
        if len(group) > 1:
            _, owners, firsts, ends = Level(runs, group).ranges(prefixes, prefixes)
            np.add.at(counts, owners, ends - firsts)
        else:
            firsts, ends = rows_with(runs[group.start], prefixes)
            counts += ends - firsts
    return counts


_LONG, _FEW = 16, 4
"""Ranges of so many rows on average, or of fewer runs, are copied run by run."""


class Level:
    """Runs of a group of several.

    Parameters
    ----------
    runs : sequence of Rows
        All runs.
    group : range
        Those of the group, as :func:`groups_of` gives it.
    """

    def __init__(self, runs: Sequence[Rows], group: range) -> None:
        self._first = group.start
        self._runs = cast("Sequence[Mapped]", runs[group.start : group.stop])
        self._bodies = [run.body for run in self._runs]
        self._table = level_table(self._runs)

    def locate(self, probes: Keys, hashes: Callable[[], Words]) -> Ints:
        """The place among all runs of each probe (ascending and unique), -1 where absent."""
        numbers, rows = locate_by_index(self._bodies, self._table.bodies, probes, hashes)
        places_of_slices(rows, numbers, self._table.starts, self._table.stops, self._first)
        return rows

    def ranges(self, lows: Keys, prefixes: Keys) -> tuple[Ints, Ints, Ints, Ints]:
        """Where the rows with each prefix are whose keys are not less than its low.

        Parameters
        ----------
        lows, prefixes : Keys
            n keys each; prefixes are ascending and none is a prefix of another, a low begins with its prefix.

        Returns
        -------
        tuple of np.ndarray
            int64[m] each, by run, then prefix, no range empty: the number of the run among all, the prefix, the first
            row in the run and the one after the last.
        """
        numbers, owners, firsts, ends = ranges_by_index(self._bodies, self._table.bodies, lows, prefixes)
        starts, stops = self._table.starts[numbers], self._table.stops[numbers]
        firsts, ends = np.maximum(firsts, starts) - starts, np.minimum(ends, stops) - starts
        kept = firsts < ends
        return numbers[kept] + self._first, owners[kept], firsts[kept], ends[kept]

    def rows_with(self, prefixes: Keys) -> list[Rows]:
        """The rows with each prefix, as sorted runs: slices of the runs of the level, and copies."""
        numbers, _, firsts, ends = self.ranges(prefixes, prefixes)
        if not len(numbers):
            return []
        apart = (numbers[1:] != numbers[:-1]) | (firsts[1:] != ends[:-1])
        begins, last = np.flatnonzero(np.append(True, apart)), np.flatnonzero(np.append(apart, True))
        numbers, firsts, ends = numbers[begins] - self._first, firsts[begins], ends[last]
        found: list[Rows] = []
        bounds = np.flatnonzero(np.diff(numbers, prepend=-1, append=-1)).tolist()
        scattered = np.zeros(len(numbers), np.bool_)
        for first, end in itertools.pairwise(bounds):
            run, rows = self._runs[numbers[first]], int(np.sum(ends[first:end] - firsts[first:end]))
            if end - first == 1:
                found.append(run.slice(int(firsts[first]), int(ends[first])))
            elif rows >= _LONG * (end - first) or len(bounds) <= _FEW:
                found.append(run.take(expand(firsts[first:end], ends[first:end])))
            else:
                scattered[first:end] = True
        if scattered.any():
            found.append(self._rows_at(numbers[scattered], firsts[scattered], ends[scattered]))
        return found

    def _rows_at(self, numbers: Ints, firsts: Ints, ends: Ints) -> Rows:
        """Ranges of rows of several runs, copied."""
        starts = first_places(numbers) + firsts
        places = expand(starts, starts + ends - firsts)
        runs = runs_at(places)
        keys = keys_by_index(self._bodies, self._table.bodies, runs, rows_at(places) + self._table.starts[runs])
        ops = [MergeOp.LAST] * len(self._runs[0].value_types())
        whole = [range(len(self._runs))]
        return Rows(keys, combine_hits(self._runs, places[None], ops, drop_zero=False, groups=whole)[1])
