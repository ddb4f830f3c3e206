"""Aggregates of all values of a frame: percentiles, modes, lists, sets and bits, computed anew for each frame.

Frames that are equal are computed once, so a function of the whole partition costs as much as one group. Else the
cost is the sum of the sizes of the frames, as it is in Spark.
"""

from __future__ import annotations

import itertools

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tidemill.kernels.columns import column
from tidemill.state.folds.sliding import order_words
from tidemill.state.runs.searching import expand
from tidemill.task.aggregates.accumulators import Accumulator, Array
from tidemill.task.aggregates.group_values import of_group
from tidemill.task.functions.columns.sizes import check_size

Ints = npt.NDArray[np.int64]

_PAIRS = 1 << 20
"""Pairs of frame and row that are looked at together."""


def of_frames(accumulator: Accumulator, values: Array, starts: Ints, ends: Ints, pairs: int = _PAIRS) -> Array:
    """An accumulator that is made of all values of a group, for each frame.

    Parameters
    ----------
    values : pa.Array
        One per row, in the order of the window. NULLs are left out.
    starts, ends : np.ndarray
        int64[n]: frames as in :mod:`tidemill.state.folds.sliding`.
    pairs : int
        Work on frames of about so many rows at once.

    Returns
    -------
    pa.Array
        n results. Lists are in the order of the window, sets in ascending order.

    Raises
    ------
    TooLargeError
        TM3020 when the lists of all frames are together more than a task may hold.
    """
    valid = values.is_valid().to_numpy(zero_copy_only=False)
    before = np.concatenate([np.zeros(1, np.int64), np.cumsum(valid, dtype=np.int64)])
    values, starts, ends = values.drop_null(), before[starts], before[ends]
    changes = np.ones(len(starts), np.bool_)
    changes[1:] = (starts[1:] != starts[:-1]) | (ends[1:] != ends[:-1])
    which = np.cumsum(changes) - 1
    starts, ends = starts[changes], ends[changes]
    batches = np.cumsum(ends - starts) // pairs
    cuts = [0, *(np.flatnonzero(np.diff(batches)) + 1).tolist(), len(starts)]
    ranks, samples = _ranks(values) if not accumulator.declared.in_order else (None, None)
    parts = []
    size = 0
    for first, last in itertools.pairwise(cuts):
        lows, highs = starts[first:last], ends[first:last]
        rows = expand(lows, highs)
        frames = np.repeat(np.arange(last - first), highs - lows)
        if ranks is None or samples is None:
            weights = np.ones(len(rows), np.int64)
            found = of_group(accumulator, frames, values.take(column(rows)), weights, last - first)
        else:
            width = max(len(samples), 1)
            each, weights = np.unique(frames * width + ranks[rows], return_counts=True)
            distinct = values.take(column(samples[each % width]))
            found = of_group(accumulator, each // width, distinct, weights.astype(np.int64), last - first)
        parts.append(found)
        size += found.nbytes
        check_size(size)
    every = pa.concat_arrays(parts) if len(parts) > 1 else parts[0]
    if pa.types.is_list(every.type) and len(every):
        sizes = pc.list_value_length(every).fill_null(0).to_numpy(zero_copy_only=False)
        check_size(float(sizes[which].sum()) * every.nbytes / max(1, int(sizes.sum())))
    return every.take(column(which))


def _ranks(values: Array) -> tuple[Ints, Ints]:
    """The place of each value among the different ones, and for each place a row that has the value."""
    high, low = order_words(values)
    order = np.lexsort((low, high))
    changes = np.ones(len(order), np.bool_)
    changes[1:] = (high[order[1:]] != high[order[:-1]]) | (low[order[1:]] != low[order[:-1]])
    ranks = np.empty(len(order), np.int64)
    ranks[order] = np.cumsum(changes) - 1
    return ranks, order[changes].astype(np.int64)
