"""Aggregate functions of all values of a group, computed anew from its multiset.

Everywhere: ``ids`` is int64[m] and ascending, the group of each distinct value; ``values`` are without NULLs and in
ascending order within a group (NaN last); ``weights`` is int64[m], how often each value occurs, positive. Results
have one entry per group; a group without values has NULL, for lists the empty list.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidemill.state.columns import column
from tidemill.task.accumulators import Accumulator

_Ints = npt.NDArray[np.int64]
_Floats = npt.NDArray[np.float64]


def of_group(accumulator: Accumulator, ids: _Ints, values: pa.Array, weights: _Ints, groups: int) -> pa.Array:
    """The column of an accumulator of one of the kinds in :data:`tidemill.task.accumulators.OF_GROUP`."""
    present = weights > 0  # a deletion that came before its row is no value
    if not present.all():
        ids, values, weights = ids[present], values.filter(pa.array(present)), weights[present]
    if accumulator.distinct:
        weights = np.ones_like(weights)
    starts = np.searchsorted(ids, np.arange(groups + 1))
    match accumulator.kind:
        case "collect_list":
            return _lists(values.take(column(np.repeat(np.arange(len(ids)), weights))), _before(weights)[starts])
        case "collect_set":
            return _lists(values, starts)
        case "mode":
            return _mode(ids, values, weights, starts, bool(dict(accumulator.options)["descending"]))
        case "percentile" | "percentile_disc":
            return _percentiles(accumulator, values, weights, starts)
    return _bits(accumulator.kind, values, weights, starts)


def _before(weights: _Ints) -> _Ints:
    """How many values come before each distinct value, and at the end how many there are."""
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(weights)])


def _lists(values: pa.Array, offsets: _Ints) -> pa.Array:
    return pa.ListArray.from_arrays(column(offsets).cast(pa.int32()), values, type=pa.list_(values.type))


def _picked(values: pa.Array, rows: _Ints, empty: npt.NDArray[np.bool_]) -> pa.Array:
    return values.take(column(rows, empty))


def _mode(ids: _Ints, values: pa.Array, weights: _Ints, starts: _Ints, descending: bool) -> pa.Array:
    """The most frequent value; of several the smallest, with ``descending`` the greatest."""
    empty = starts[1:] == starts[:-1]
    rows = np.zeros(len(empty), np.int64)
    if len(ids):
        most = np.maximum.reduceat(weights, starts[:-1][~empty])
        winners = np.flatnonzero(weights == np.repeat(most, np.diff(starts)[~empty]))
        at = np.searchsorted(winners, starts[1:]) - 1 if descending else np.searchsorted(winners, starts[:-1])
        rows[~empty] = winners[at[~empty]]
    return _picked(values, rows, empty)


def _bits(kind: str, values: pa.Array, weights: _Ints, starts: _Ints) -> pa.Array:
    empty = starts[1:] == starts[:-1]
    words = values.to_numpy(zero_copy_only=False)
    result = np.zeros(len(empty), words.dtype)
    operation = {"bit_and": np.bitwise_and, "bit_or": np.bitwise_or, "bit_xor": np.bitwise_xor}[kind]
    if kind == "bit_xor":
        words = np.where(weights & 1, words, np.zeros_like(words))
    if len(words):
        result[~empty] = operation.reduceat(words, starts[:-1][~empty])
    return column(result.astype(np.int64), empty).cast(values.type)


def _percentiles(accumulator: Accumulator, values: pa.Array, weights: _Ints, starts: _Ints) -> pa.Array:
    options: dict[str, Any] = dict(accumulator.options)
    empty = starts[1:] == starts[:-1]
    numbers: _Floats = values.to_numpy(zero_copy_only=False).astype(np.float64)
    counts = _before(weights)
    one = _interpolated if accumulator.kind == "percentile" else _discrete
    columns = [one(numbers, counts, starts, p, options["descending"]) for p in options["percentages"]]
    if not options["many"]:
        return column(columns[0], empty)
    width = 0 if not columns else len(columns)
    table = np.stack(columns, 1)[~empty] if width else np.zeros((0, 0))
    sizes = np.where(empty, 0, width)
    offsets = column(_before(sizes), np.append(empty | (width == 0), False)).cast(pa.int32())
    return pa.ListArray.from_arrays(offsets, column(np.ascontiguousarray(table).reshape(-1)))


def _ranked(numbers: _Floats, counts: _Ints, starts: _Ints, ranks: _Ints, descending: bool) -> _Floats:
    """The value at a rank (from 0) of each group; anything for a group without values."""
    first, last = counts[starts[:-1]], counts[starts[1:]]
    at = last - 1 - ranks if descending else first + ranks
    rows = np.searchsorted(counts, at, side="right") - 1
    if not len(numbers):
        return np.zeros(len(ranks))
    found: _Floats = numbers[np.clip(rows, 0, len(numbers) - 1)]
    return found


def _interpolated(numbers: _Floats, counts: _Ints, starts: _Ints, percentage: float, descending: bool) -> _Floats:
    """Spark's ``percentile``: the value at rank (n - 1) * p, between two ranks on the line that joins them."""
    position = (counts[starts[1:]] - counts[starts[:-1]] - 1) * percentage
    lower, higher = np.floor(position).astype(np.int64), np.ceil(position).astype(np.int64)
    low = _ranked(numbers, counts, starts, lower, descending)
    high = _ranked(numbers, counts, starts, higher, descending)
    with np.errstate(invalid="ignore", over="ignore"):
        between = low + (high - low) * (position - lower)
    return np.where((lower == higher) | (low == high), low, between)


def _discrete(numbers: _Floats, counts: _Ints, starts: _Ints, percentage: float, descending: bool) -> _Floats:
    """Spark's ``percentile_disc``: the first value with at least n * p values up to it."""
    needed = np.ceil((counts[starts[1:]] - counts[starts[:-1]]) * percentage).astype(np.int64)
    return _ranked(numbers, counts, starts, np.maximum(needed - 1, 0), descending)


def scalar(accumulator: Accumulator, values: list[Any]) -> Any:
    """What :func:`of_group` gives for one group, in plain Python: the oracle of its tests.

    ``values`` are the group's values in ascending order, each as often as it occurs.
    """
    options: dict[str, Any] = dict(accumulator.options)
    if accumulator.distinct or accumulator.kind == "collect_set":
        values = [v for i, v in enumerate(values) if not i or v != values[i - 1]]
    if accumulator.kind.startswith("collect"):
        return values
    if not values:
        return None
    if accumulator.kind == "mode":
        ordered = values[::-1] if options["descending"] else values
        return max(ordered, key=ordered.count)
    if accumulator.kind.startswith("bit"):
        result = values[0]
        for v in values[1:]:
            result = {"bit_and": result & v, "bit_or": result | v, "bit_xor": result ^ v}[accumulator.kind]
        return result
    ordered = values[::-1] if options["descending"] else values
    found = []
    for p in options["percentages"]:
        if accumulator.kind == "percentile_disc":
            found.append(float(ordered[max(math.ceil(len(ordered) * p) - 1, 0)]))
            continue
        position = (len(ordered) - 1) * p
        low, high = float(ordered[math.floor(position)]), float(ordered[math.ceil(position)])
        between = low + (high - low) * (position - math.floor(position))
        found.append(low if low == high or position == math.floor(position) else between)
    return (found or None) if options["many"] else found[0]
