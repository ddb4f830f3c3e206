"""Accumulators that are made of all values of a group, computed anew from its multiset whenever it changes.

Everywhere: ``ids`` is int64[m] and ascending, the group of each distinct value; ``values`` are without NULLs and in
ascending order within a group (NaN last); ``weights`` is int64[m], how often each value occurs, positive. Results
have one entry per group; a group without values has NULL, for lists the empty list.

Of a group that has too many values to be in memory together these come part by part. What is made of a part is again
values with multiplicities, few of them, of which the kind gives what it gives of all values.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidemill.kernels.columns import column, nulls
from tidemill.task.aggregates.accumulators import Accumulator, Array, GroupValues, Ints, Part, Parts


def of_group(accumulator: Accumulator, ids: Ints, values: Array, weights: Ints, groups: int) -> Array:
    """The column of an accumulator of a kind that is made of all values of a group.

    Raises
    ------
    TooLargeError
        TM3020 when lists are larger, together, than what a task may hold.
    """
    make = accumulator.declared.of_group
    assert make is not None, accumulator.kind
    present = weights > 0  # a deletion that came before its row is no value
    if not present.all():
        ids, values, weights = ids[present], values.filter(pa.array(present)), weights[present]
    if accumulator.distinct:
        weights = np.ones_like(weights)
    return make(accumulator, GroupValues(ids, values, weights, groups))


def of_large_group(accumulator: Accumulator, type_: pa.DataType, parts: Parts) -> Array:
    """The column of an accumulator for one group, as :func:`of_group`.

    Parameters
    ----------
    type_ : pa.DataType
        That of the values.

    Raises
    ------
    TooLargeError
        TM3020 when it is a list that a task may not hold.
    """
    reduce = accumulator.declared.of_parts
    if reduce is None:
        made = [_reduced(accumulator, part) for part in parts()]
    else:
        made = reduce(accumulator, parts)
        accumulator = replace(accumulator, distinct=False) if not accumulator.declared.is_list else accumulator
    values, weights = joined(made) if made else (nulls(0, type_), np.zeros(0, np.int64))
    return of_group(accumulator, np.zeros(len(weights), np.int64), values, weights, 1)


def joined(made: list[Part]) -> Part:
    """Several parts as one."""
    return pa.concat_arrays([values for values, _ in made]), np.concatenate([weights for _, weights in made])


def _reduced(accumulator: Accumulator, part: Part) -> Part:
    """One value that stands for a part: the result over the results of the parts is that of the group."""
    values, weights = part
    zeros = np.zeros(len(weights), np.int64)
    return of_group(accumulator, zeros, values, weights, 1), np.ones(1, np.int64)


def before(weights: Ints) -> Ints:
    """How many values come before each distinct value, and at the end how many there are."""
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(weights)])


def lists_of(values: Array, offsets: Ints, missing: npt.NDArray[np.bool_] | None = None) -> Array:
    """Lists of values, by where each begins and the last one ends; NULL where ``missing`` is true."""
    starts: Any = column(offsets, None if missing is None else np.append(missing, False)).cast(pa.int32())
    lists: Array = pa.ListArray.from_arrays(starts, values)
    return lists
