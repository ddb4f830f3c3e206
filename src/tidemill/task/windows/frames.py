"""Rows in the order of a window: where partitions and peers begin and end, and the frame of each row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidemill.state.folds.sliding import order_words, range_ends, range_starts
from tidemill.state.keys.keys import KeyColumn
from tidemill.task.program.window_calls import Frame

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class OrderedRows:
    """Rows sorted by partition, then by the ORDER BY columns.

    Attributes
    ----------
    first, last : np.ndarray
        int64[n]: the partition of row i is the rows ``first[i]`` to ``last[i] - 1``.
    peer_first, peer_last : np.ndarray
        int64[n]: likewise the rows that ORDER BY does not tell from row i; the whole partition without ORDER BY.
    peers : np.ndarray
        int64[n]: number of the group of peers, one higher for each group.
    """

    first: Ints
    last: Ints
    peer_first: Ints
    peer_last: Ints
    peers: Ints

    def __len__(self) -> int:
        return len(self.first)


def ordered_rows(partitions: Ints, peers: Ints) -> OrderedRows:
    """Rows by the number of their partition and of their group of peers, both ascending (int64[n])."""
    first, last, _ = _runs(partitions)
    return OrderedRows(first, last, *_runs(peers))


def _runs(ids: Ints) -> tuple[Ints, Ints, Ints]:
    """Beginning and end of the run of equal numbers that each row is in, and which run it is."""
    changes = np.ones(len(ids), np.bool_)
    changes[1:] = ids[1:] != ids[:-1]
    starts = np.flatnonzero(changes)
    runs = np.cumsum(changes) - 1
    ends = np.append(starts[1:], len(ids))
    return starts[runs], ends[runs], runs


@dataclass(frozen=True, eq=False)
class RangeOrder:
    """What a RANGE frame with an offset needs: the ORDER BY value of each row, and how it is ordered."""

    values: pa.Array[Any]
    key: KeyColumn

    def words(self, values: pa.Array[Any]) -> tuple[Ints, npt.NDArray[np.uint64], npt.NDArray[np.uint64]]:
        """Values as (class, high word, low word) that ascend in the order of the window."""
        high, low = order_words(values)
        null = values.is_null().to_numpy(zero_copy_only=False)
        classes = np.where(null, -1 if self.key.nulls_first else 1, 0).astype(np.int64)
        if self.key.descending:
            high, low = ~high, ~low
        zero = np.uint64(0)
        return classes, np.where(null, zero, high), np.where(null, zero, low)


def frame_bounds(
    frame: Frame, rows: OrderedRows, order: RangeOrder | None, lower: pa.Array[Any] | None, upper: pa.Array[Any] | None
) -> tuple[Ints, Ints]:
    """Start and end of the frame of each row (int64[n] each).

    Parameters
    ----------
    order : RangeOrder or None
        Needed when an end of the frame is an expression.
    lower, upper : pa.Array or None
        The values of the ends that are expressions.

    Returns
    -------
    starts, ends : np.ndarray
        Within the partition of the row; neither goes back from one row to the next, no start is beyond its end.
    """
    if frame.rows:
        starts, ends = _rows_frame(frame, rows)
        return np.minimum(starts, ends), ends
    starts = rows.first if frame.lower is None else rows.peer_first
    ends = rows.last if frame.upper is None else rows.peer_last
    if upper is not None:
        assert order is not None
        ends = range_ends(rows.first, rows.last, *order.words(order.values), *order.words(upper))
    if lower is not None:
        assert order is not None
        starts = range_starts(rows.first, ends, *order.words(order.values), *order.words(lower))
    return np.minimum(starts, ends), ends


def _rows_frame(frame: Frame, rows: OrderedRows) -> tuple[Ints, Ints]:
    places = np.arange(len(rows))
    starts, ends = rows.first, rows.last
    if isinstance(frame.lower, int):
        starts = np.clip(places + frame.lower, rows.first, rows.last)
    if isinstance(frame.upper, int):
        ends = np.clip(places + frame.upper + 1, rows.first, rows.last)
    return starts, ends
