"""Aggregate functions of all values of a group that has too many of them to be in memory together.

The values come part by part. What is made of a part is again values with multiplicities, few of them, of which
:func:`tidemill.task.group_values.of_group` gives what it gives of all values: of a mode the most frequent value, of
percentiles the values at the ranks that are asked for, each with all that lie between it and the one before. Only a
list needs all values, and must fit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidemill.kernels.columns import column
from tidemill.task.accumulators import LISTS, PERCENTILES, Accumulator
from tidemill.task.functions.columns.sizes import LIST_COPIES, check_size
from tidemill.task.group_values import first_of_order, of_group, ranks, with_frequencies

_Ints = npt.NDArray[np.int64]
Part: TypeAlias = tuple[pa.Array, _Ints]
"""Values without NULLs, and how often each occurs, positive."""
Parts: TypeAlias = Callable[[], Iterator[Part]]
"""Gives the parts, again each time it is called: ascending values, each once."""


def of_large_group(accumulator: Accumulator, type_: pa.DataType, parts: Parts) -> pa.Array:
    """The column of an accumulator for one group, as :func:`tidemill.task.group_values.of_group`.

    Parameters
    ----------
    type_ : pa.DataType
        That of the values.

    Raises
    ------
    TooLargeError
        TM3020 when it is a list that a task may not hold.
    """
    if accumulator.kind in LISTS:
        made = _gathered(accumulator, parts())
    elif accumulator.kind in PERCENTILES:
        made = _at_ranks(accumulator, parts)
        accumulator = replace(accumulator, distinct=False)
    else:
        made = [_reduced(accumulator, part) for part in parts()]
    values, weights = _joined(made) if made else (pa.nulls(0, type_), np.zeros(0, np.int64))
    return of_group(accumulator, np.zeros(len(weights), np.int64), values, weights, 1)


def _joined(made: list[Part]) -> Part:
    return pa.concat_arrays([values for values, _ in made]), np.concatenate([weights for _, weights in made])


def _reduced(accumulator: Accumulator, part: Part) -> Part:
    """One value that stands for a part."""
    values, weights = part
    if accumulator.kind != "mode":  # bits and products: the result over the results of the parts is that of the group
        zeros = np.zeros(len(weights), np.int64)
        return of_group(accumulator, zeros, values, weights, 1), np.ones(1, np.int64)
    if accumulator.distinct:
        weights = np.ones_like(weights)
    last = bool(dict(accumulator.options)["descending"])
    row = len(weights) - 1 - int(np.argmax(weights[::-1])) if last else int(np.argmax(weights))
    return values.slice(row, 1), weights[row : row + 1]


def _gathered(accumulator: Accumulator, parts: Iterator[Part]) -> list[Part]:
    """All values, of an ordered list with a limit those that can be in it."""
    options: dict[str, Any] = dict(accumulator.options)
    limit = options.get("limit", 0)
    made: list[Part] = []
    size = 0.0
    for part in parts:
        values, weights = part
        if limit:
            values, weights = _joined([*made, part])
            rows = first_of_order(accumulator, values)[:limit]
            values, weights = values.take(column(rows)), np.minimum(weights[rows], limit)
            made, size = [], 0.0
        times = float(len(weights) if accumulator.distinct else weights.sum())
        size += values.nbytes * times / max(1, len(weights))
        check_size(size, LIST_COPIES)
        made.append((values, weights))
    return made


def _at_ranks(accumulator: Accumulator, parts: Parts) -> list[Part]:
    """The values at the ranks of percentiles, each as often as there are values up to it behind the one before."""

    def plain() -> Iterator[Part]:
        for values, weights in parts():
            if pa.types.is_struct(values.type):
                _, values, weights = with_frequencies(np.zeros(len(weights), np.int64), values, weights)
            yield values, np.ones_like(weights) if accumulator.distinct else weights

    count = sum(int(weights.sum()) for _, weights in plain())
    if not count:
        return []
    options: dict[str, Any] = dict(accumulator.options)
    wanted = np.unique(ranks(accumulator.kind, np.array([count]), options["percentages"]))
    if options["descending"]:
        wanted = count - 1 - wanted[::-1]
    wanted = np.unique(np.append(wanted, count - 1))
    found, before = [], 0
    for values, weights in plain():
        ends = before + np.cumsum(weights)
        here = wanted[(wanted >= before) & (wanted < before + weights.sum())]
        found.append(values.take(column(np.searchsorted(ends, here, side="right"))))
        before += int(weights.sum())
    return [(pa.concat_arrays(found), np.diff(wanted, prepend=-1))]
