"""Window functions over a partition that is too large to be in memory: slices of its rows, in their order.

A slice is read with as many rows before and after it as functions look back and ahead. Of earlier rows their number,
the number of their peers, and the totals of frames that begin with the partition are carried from slice to slice.
Totals of doubles are not carried: their last bits depend on the order of addition, and a retracted row must equal the
one that was emitted, whatever the slices were then.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidemill.task.aggregates.accumulators import AggregateLayout, Array
from tidemill.task.program import WindowChanges
from tidemill.task.program.window_calls import WindowCall
from tidemill.task.windows.functions import totals

_Ints = npt.NDArray[np.int64]

_REACH = 1000
"""Most rows that a function may look back or ahead."""
_COUNTED = frozenset({"row_number", "rank", "dense_rank"})


def in_slices(operation: WindowChanges) -> bool:
    """Whether all functions of a step can be computed slice by slice."""
    calls = zip(operation.calls, operation.layouts, strict=True)
    return operation.limit is None and all(_in_slices(call, layout) for call, layout in calls)


def reach(operation: WindowChanges) -> tuple[int, int]:
    """How many rows the functions of a step look back and ahead, beside what is carried."""
    back = ahead = 0
    for call in operation.calls:
        ends: tuple[object, ...] = (call.number,) if call.function == "shift" else ()
        ends = ends or (
            (call.frame.lower, call.frame.upper) if call.frame.rows and call.function not in _COUNTED else ()
        )
        numbers = [end for end in ends if isinstance(end, int)]
        back, ahead = max([back, *(-n for n in numbers)]), max([ahead, *numbers])
    return back, ahead


def _in_slices(call: WindowCall, layout: AggregateLayout | None) -> bool:
    if call.function in _COUNTED:
        return True
    if call.function == "shift":
        return not call.ignore_nulls and abs(call.number) <= _REACH
    lower, upper = call.frame.lower, call.frame.upper
    if not isinstance(upper, int) or abs(upper) > _REACH:
        return False
    if not call.frame.rows:
        return lower is None and upper == 0 and _carried(layout)
    if lower is None:
        return _carried(layout)
    if not isinstance(lower, int) or abs(lower) > _REACH:
        return False
    return layout is None or _carried(layout)


def _carried(layout: AggregateLayout | None) -> bool:
    """Whether the totals of an aggregate function can be carried on."""
    if layout is None:
        return False
    kept = layout.accumulators
    return all(a.declared.carried for a in kept) and sum(a.recomputed for a in kept) <= 1


@dataclass
class Carry:
    """The rows of one side that come before those in memory.

    ``rows`` and ``peers`` count; ``totals`` has, by the position of a function whose frame begins with the partition,
    a row of its arguments and one of each of its accumulators that stand for all of them.
    """

    rows: int = 0
    peers: int = 0
    totals: dict[int, tuple[list[Array], list[list[Array]]]] = field(default_factory=dict)

    def joined(
        self, call: int, values: list[Array], accumulated: list[list[Array]]
    ) -> tuple[list[Array], list[list[Array]]]:
        """Arguments and accumulators of the rows in memory, behind the row of all before them, if there is any."""
        if call not in self.totals:
            return values, accumulated
        first, parts = self.totals[call]
        together = [pa.concat_arrays(both) for both in zip(first, values, strict=True)]
        return together, [
            [pa.concat_arrays(both) for both in zip(a, b, strict=True)] for a, b in zip(parts, accumulated, strict=True)
        ]

    def add(
        self,
        call: int,
        layout: AggregateLayout,
        values: list[Array],
        accumulated: list[list[Array]],
        count: int,
    ) -> None:
        """Add the first ``count`` rows in memory to the totals of a function."""
        values, accumulated = self.joined(call, values, accumulated)
        self.totals[call] = totals(layout, values, accumulated, count + int(call in self.totals))


def boundaries(peers: _Ints) -> _Ints:
    """Positions between groups of peers, ascending, from 0 to the end."""
    return np.concatenate([np.zeros(1, np.int64), np.flatnonzero(np.diff(peers)) + 1, np.full(1, len(peers))])


def last_ready(ends: _Ints, sides: list[tuple[_Ints, int]], ahead: int) -> int:
    """The last of some boundaries, but for the end, behind which there are enough rows to look ahead.

    Parameters
    ----------
    sides : list of (weights, left)
        Of each side how often each row in memory is there, and how many rows come behind those in memory.
    """
    enough = np.ones(len(ends), np.bool_)
    enough[-1] = False  # more rows may belong to the last peers
    for weights, left in sides:
        behind = np.append(np.cumsum(weights[::-1])[::-1], 0)[ends]
        enough &= behind >= np.minimum(ahead, behind + left)
    found = ends[enough]
    return int(found[-1]) if len(found) else 0


def first_kept(ends: _Ints, stop: int, sides: list[tuple[_Ints, int]], back: int) -> int:
    """The last boundary up to ``stop`` from which there are enough rows, up to it, to look back.

    ``sides`` has of each the weights, and how many rows lie before those in memory.
    """
    ends = ends[ends <= stop]
    enough = np.ones(len(ends), np.bool_)
    for weights, before in sides:
        until = np.append(0, np.cumsum(weights))
        enough &= until[stop] - until[ends] >= min(back, int(until[stop]) + before)
    return int(ends[enough][-1])
