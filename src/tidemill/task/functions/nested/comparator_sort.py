"""``array_sort`` with a comparator, of all arrays at once: comparisons are evaluated as whole columns.

Arrays of fewer than 32 elements are sorted as Java's ``Arrays.sort`` does, comparison by comparison: the first run,
then binary insertion, each step for all arrays. So a comparator that contradicts itself (one that never gives 0, say)
gives what Spark gives. Longer arrays are sorted by merging: two neighbouring runs are merged by ranks, each element of
a run looking for its place in the other one by bisection, which takes about (log2 n)^2 / 2 evaluations of the body.
That is stable as in Spark; what it gives for a comparator that contradicts itself is undefined.
"""

from __future__ import annotations

import numpy as np

from tidemill.errors import EvaluationError
from tidemill.kernels.columns import column
from tidemill.task.expressions import Call
from tidemill.task.functions.columns.compute import Array
from tidemill.task.functions.columns.lists import Ints, Lists, put_together, take_apart
from tidemill.task.functions.columns.numpy_values import Bools
from tidemill.task.functions.columns.registry import Value, function
from tidemill.task.functions.nested.bodies import Body

_SHORT = 32
"""Java's sort merges from this length on."""


@function("array_sort_by", sql=("array_sort(array, (x, y) -> ...)",), bodies=True, fails=True)
def _array_sort_by(call: Call, args: list[Value], rows: int) -> Value:
    lists = take_apart(args[0], rows)
    order = np.arange(len(lists.values))
    short = lists.lengths < _SHORT
    if not short.all():
        order = _merged(args[1], lists, order, ~short)
    _Insertion(args[1], lists, np.flatnonzero(short & (lists.lengths > 1))).sort(order)
    return put_together(call.type, lists.with_values(lists.values.take(column(order))))


def _compared(body: Body, values: Array, owners: Ints, first: Ints, second: Ints) -> Ints:
    """What the comparator says of pairs of elements."""
    found = body(owners, [values.take(column(first)), values.take(column(second))])
    if found.null_count:
        raise EvaluationError(
            "TM3004",
            "the comparator of array_sort gave NULL",
            got="NULL",
            hint="it must give a negative number, 0 or a positive number for any two elements",
        )
    numbers: Ints = found.to_numpy(zero_copy_only=False)
    return numbers


class _Insertion:
    """Java's sort of short arrays (``TimSort.countRunAndMakeAscending`` and ``binarySort``), step by step for all."""

    def __init__(self, body: Body, lists: Lists, rows: Ints) -> None:
        self._body, self._lists, self._rows = body, lists, rows
        self._lengths = lists.lengths[rows]
        self._width = int(self._lengths.max(initial=0))
        self._places = lists.offsets[:-1][rows][:, None] + np.arange(self._width)

    def sort(self, order: Ints) -> None:
        """Put the places of the elements of the rows into ``order``, sorted."""
        if not len(self._rows):
            return
        runs = self._first_runs()
        for start in range(2, self._width):
            self._insert(np.flatnonzero((runs <= start) & (start < self._lengths)), start)
        inside = np.arange(self._width) < self._lengths[:, None]
        begin = self._lists.offsets[:-1][self._rows][:, None] + np.arange(self._width)
        order[begin[inside]] = self._places[inside]

    def _compare(self, rows: Ints, first: Ints, second: Ints) -> Ints:
        places = self._places
        pair = places[rows, first], places[rows, second]
        return _compared(self._body, self._lists.values, self._rows[rows], *pair)

    def _first_runs(self) -> Ints:
        """The length of the run that each array begins with; descending ones are turned around."""
        every = np.arange(len(self._rows))
        falling = self._compare(every, np.ones_like(every), np.zeros_like(every)) < 0
        runs = np.full(len(every), 2)
        live = every
        for k in range(2, self._width):
            live = live[self._lengths[live] > k]
            if not len(live):
                break
            place = np.full(len(live), k)
            live = live[(self._compare(live, place, place - 1) < 0) == falling[live]]
            runs[live] = k + 1
        within = np.arange(self._width)
        turned = falling[:, None] & (within < runs[:, None])
        source = np.where(turned, runs[:, None] - 1 - within, within)
        self._places = np.take_along_axis(self._places, source, axis=1)
        return runs

    def _insert(self, rows: Ints, start: int) -> None:
        """Insert element ``start`` of some arrays among those before it."""
        low, high = np.zeros(len(rows), np.int64), np.full(len(rows), start)
        while True:
            open_ = np.flatnonzero(low < high)
            if not len(open_):
                break
            middle = (low[open_] + high[open_]) // 2
            before = self._compare(rows[open_], np.full(len(open_), start), middle) < 0
            high[open_] = np.where(before, middle, high[open_])
            low[open_] = np.where(before, low[open_], middle + 1)
        within = np.arange(self._width)
        moved = (within > low[:, None]) & (within <= start)
        source = np.where(within == low[:, None], start, within - moved)
        self._places[rows] = np.take_along_axis(self._places[rows], source, axis=1)


def _merged(body: Body, lists: Lists, order: Ints, rows: Bools) -> Ints:
    """The places of elements in order, for some of the rows."""
    owners = lists.owners
    chosen = np.flatnonzero(rows[owners])
    owners = owners[chosen]
    begins, ends = lists.offsets[owners], lists.offsets[owners + 1]
    longest, width = int(lists.lengths.max(initial=0)), 1
    current = order.copy()
    while width < longest:
        begin = begins + (chosen - begins) // (2 * width) * 2 * width
        end = np.minimum(begin + 2 * width, ends)
        middle = np.minimum(begin + width, end)
        in_left = chosen < middle
        low, high = np.where(in_left, middle, begin), np.where(in_left, end, middle)
        rank = _ranks(body, lists.values, owners, current, chosen, low, high, in_left)
        merged = current.copy()
        merged[begin + chosen - np.where(in_left, begin, middle) + rank] = current[chosen]
        current = merged
        width *= 2
    return current


def _ranks(
    body: Body,
    values: Array,
    owners: Ints,
    order: Ints,
    chosen: Ints,
    low: Ints,
    high: Ints,
    in_left: Bools,
) -> Ints:
    """How many elements of the other run come before each chosen one; equal ones of the left run do."""
    first = low.copy()
    while True:
        open_ = np.flatnonzero(low < high)
        if not len(open_):
            return low - first
        middle = (low[open_] + high[open_]) // 2
        left = in_left[open_]
        mine, other = order[chosen[open_]], order[middle]
        # The element of the left run is always the first argument, so that equal ones keep their order.
        pair = np.where(left, mine, other), np.where(left, other, mine)
        compared = _compared(body, values, owners[open_], *pair)
        before = np.where(left, compared > 0, compared <= 0)
        low[open_] = np.where(before, middle + 1, low[open_])
        high[open_] = np.where(before, high[open_], middle)
