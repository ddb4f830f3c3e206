"""Aggregate functions of all values of a group, computed anew from its multiset.

Everywhere: ``ids`` is int64[m] and ascending, the group of each distinct value; ``values`` are without NULLs and in
ascending order within a group (NaN last); ``weights`` is int64[m], how often each value occurs, positive. Results
have one entry per group; a group without values has NULL, for lists the empty list.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidemill.errors import EvaluationError
from tidemill.kernels.columns import column
from tidemill.state.keys.keys import KeyColumn, encode, sort
from tidemill.task.accumulators import LISTS, Accumulator
from tidemill.task.functions.columns.sizes import LIST_COPIES, check_size

_Ints = npt.NDArray[np.int64]
_Floats = npt.NDArray[np.float64]


def of_group(accumulator: Accumulator, ids: _Ints, values: pa.Array, weights: _Ints, groups: int) -> pa.Array:
    """The column of an accumulator of one of the kinds in :data:`tidemill.task.accumulators.OF_GROUP`.

    Raises
    ------
    TooLargeError
        TM3020 when lists are larger, together, than what a task may hold.
    """
    present = weights > 0  # a deletion that came before its row is no value
    if not present.all():
        ids, values, weights = ids[present], values.filter(pa.array(present)), weights[present]
    if accumulator.distinct:
        weights = np.ones_like(weights)
    if accumulator.kind == "ordered_list" and (limit := dict(accumulator.options)["limit"]):
        weights = np.minimum(weights, limit)
    if accumulator.kind in LISTS and len(values):
        check_size(values.nbytes * float(weights.sum()) / len(values), LIST_COPIES)
    starts = np.searchsorted(ids, np.arange(groups + 1))
    match accumulator.kind:
        case "collect_list":
            return _lists(values.take(column(np.repeat(np.arange(len(ids)), weights))), _before(weights)[starts])
        case "collect_set":
            return _lists(values, starts)
        case "mode":
            return _mode(ids, values, weights, starts, bool(dict(accumulator.options)["descending"]))
        case "ordered_list":
            return _ordered_lists(accumulator, ids, values, weights, groups)
        case "percentile" | "percentile_disc" | "percentile_approx":
            return _percentiles(accumulator, ids, values, weights, groups)
        case "product":
            return _products(values, weights, starts)
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


def _ordered_lists(accumulator: Accumulator, ids: _Ints, values: pa.Array, weights: _Ints, groups: int) -> pa.Array:
    """The last field of the values, in the order of the fields before it; of equal ones the smallest first."""
    options: dict[str, Any] = dict(accumulator.options)
    wanted = values.flatten()[-1]
    order = first_of_order(accumulator, values, ids)
    rows, weights = np.repeat(order, weights[order]), weights[order]
    counts = np.bincount(ids[order], weights, groups).astype(np.int64)
    if options["limit"]:
        places = np.arange(len(rows)) - np.repeat(_before(counts)[:-1], counts)
        rows, counts = rows[places < options["limit"]], np.minimum(counts, options["limit"])
    return _lists(wanted.take(column(rows)), _before(counts))


def first_of_order(accumulator: Accumulator, values: pa.Array, ids: _Ints | None = None) -> _Ints:
    """The rows of the values of an ordered list, in its order; those of each group together, given their groups."""
    options: dict[str, Any] = dict(accumulator.options)
    *keys, wanted = values.flatten()
    layout = [
        KeyColumn(k.type, bool(descending), not last)
        for k, descending, last in zip(keys, options["descending"], options["nulls_last"], strict=True)
    ]
    layout.append(KeyColumn(wanted.type))
    if ids is None:
        return sort(encode([*keys, wanted], layout, 0))
    return sort(encode([column(ids), *keys, wanted], [KeyColumn(pa.int64()), *layout], 0))


def _products(values: pa.Array, weights: _Ints, starts: _Ints) -> pa.Array:
    empty = starts[1:] == starts[:-1]
    result = np.ones(len(empty))
    if len(values):
        with np.errstate(invalid="ignore", over="ignore", under="ignore"):
            powers = np.power(values.to_numpy(zero_copy_only=False), weights.astype(np.float64))
            result[~empty] = np.multiply.reduceat(powers, starts[:-1][~empty])
    return column(result, empty)


def _percentiles(accumulator: Accumulator, ids: _Ints, values: pa.Array, weights: _Ints, groups: int) -> pa.Array:
    options: dict[str, Any] = dict(accumulator.options)
    if pa.types.is_struct(values.type):
        ids, values, weights = with_frequencies(ids, values, weights)
    starts = np.searchsorted(ids, np.arange(groups + 1))
    empty = starts[1:] == starts[:-1]
    numbers = _as_doubles(values)
    counts = _before(weights)
    one = _interpolated if accumulator.kind == "percentile" else _discrete
    columns = [one(numbers, counts, starts, p, options["descending"]) for p in options["percentages"]]
    type_ = values.type if accumulator.kind == "percentile_approx" else pa.float64()
    if not options["many"]:
        return _from_doubles(columns[0], empty, type_)
    width = 0 if not columns else len(columns)
    table = np.stack(columns, 1)[~empty] if width else np.zeros((0, 0))
    sizes = np.where(empty, 0, width)
    offsets = column(_before(sizes), np.append(empty | (width == 0), False)).cast(pa.int32())
    found = np.ascontiguousarray(table).reshape(-1)
    return pa.ListArray.from_arrays(offsets, _from_doubles(found, np.zeros(len(found), np.bool_), type_))


def with_frequencies(ids: _Ints, values: pa.Array, weights: _Ints) -> tuple[_Ints, pa.Array, _Ints]:
    """The values of (value, frequency), each as often as it occurs times its frequency."""
    numbers, frequencies = values.flatten()
    often: _Ints = frequencies.to_numpy(zero_copy_only=False)
    if (often < 0).any():
        raise EvaluationError(
            "TM3004",
            "a frequency of percentile() is negative",
            got=str(often[often < 0][0]),
            hint="leave such rows out with FILTER (WHERE frequency >= 0)",
        )
    present = often > 0
    return ids[present], numbers.filter(pa.array(present)), (weights * often)[present]


def _as_doubles(values: pa.Array) -> _Floats:
    if pa.types.is_temporal(values.type):
        values = values.cast(pa.int32() if pa.types.is_date(values.type) else pa.int64())
    elif pa.types.is_decimal(values.type):
        values = values.cast(pa.float64())
    numbers: _Floats = values.to_numpy(zero_copy_only=False).astype(np.float64)
    return numbers


def _from_doubles(numbers: _Floats, missing: npt.NDArray[np.bool_], type_: pa.DataType) -> pa.Array:
    """Doubles that are values of a type, in that type; beyond 64 bits they are the last integer, as in Java."""
    numbers = np.where(missing, 0.0, numbers)
    if pa.types.is_floating(type_):
        return column(numbers, missing).cast(type_, safe=False)
    if pa.types.is_decimal(type_):
        return column(numbers, missing).cast(type_)
    whole = np.clip(numbers, -(2.0**63), np.nextafter(2.0**63, 0)).astype(np.int64)
    whole = np.where(numbers >= 2.0**63, np.iinfo(np.int64).max, whole)
    integers = column(whole, missing)
    return integers.cast(pa.int32()).cast(type_) if pa.types.is_date(type_) else integers.cast(type_)


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
    position, lower, higher = _between(counts[starts[1:]] - counts[starts[:-1]], percentage)
    low = _ranked(numbers, counts, starts, lower, descending)
    high = _ranked(numbers, counts, starts, higher, descending)
    with np.errstate(invalid="ignore", over="ignore"):
        between = low + (high - low) * (position - lower)
    return np.where((lower == higher) | (low == high), low, between)


def _discrete(numbers: _Floats, counts: _Ints, starts: _Ints, percentage: float, descending: bool) -> _Floats:
    """Spark's ``percentile_disc``: the first value with at least n * p values up to it."""
    needed = _first_with(counts[starts[1:]] - counts[starts[:-1]], percentage)
    return _ranked(numbers, counts, starts, needed, descending)


def _between(sizes: _Ints, percentage: float) -> tuple[_Floats, _Ints, _Ints]:
    """Where a percentile of so many values lies, and the ranks on both sides."""
    position: _Floats = ((sizes - 1) * percentage).astype(np.float64)
    return position, np.floor(position).astype(np.int64), np.ceil(position).astype(np.int64)


def _first_with(sizes: _Ints, percentage: float) -> _Ints:
    """The rank of the first of so many values with at least that part of them up to it."""
    found: _Ints = np.maximum(np.ceil(sizes * percentage).astype(np.int64) - 1, 0)
    return found


def ranks(kind: str, sizes: _Ints, percentages: Sequence[float]) -> _Ints:
    """All ranks, from 0, of values that percentiles of groups of some sizes are made of."""
    found = [np.zeros(0, np.int64)]
    for percentage in percentages:
        if kind == "percentile":
            found += _between(sizes, percentage)[1:]
        else:
            found.append(_first_with(sizes, percentage))
    return np.concatenate(found)


def scalar(accumulator: Accumulator, values: list[Any]) -> Any:
    """What :func:`of_group` gives for one group, in plain Python: the oracle of its tests.

    ``values`` are the group's values in ascending order, each as often as it occurs.
    """
    options: dict[str, Any] = dict(accumulator.options)
    if accumulator.distinct or accumulator.kind == "collect_set":
        values = [v for i, v in enumerate(values) if not i or v != values[i - 1]]
    if accumulator.kind.startswith("collect"):
        return values
    if accumulator.kind == "ordered_list":
        for at in reversed(range(len(options["descending"]))):
            down, last = options["descending"][at], options["nulls_last"][at]
            absent = [v for v in values if list(v.values())[at] is None]
            present = [v for v in values if list(v.values())[at] is not None]
            present = sorted(present, key=lambda v: list(v.values())[at], reverse=down)  # stable in both directions
            values = present + absent if last else absent + present
        return [list(v.values())[-1] for v in values][: options["limit"] or None] or None
    if not values:
        return None
    if accumulator.kind == "product":
        return math.prod(values)
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
        if accumulator.kind != "percentile":
            found.append(float(ordered[max(math.ceil(len(ordered) * p) - 1, 0)]))
            continue
        position = (len(ordered) - 1) * p
        low, high = float(ordered[math.floor(position)]), float(ordered[math.ceil(position)])
        between = low + (high - low) * (position - math.floor(position))
        found.append(low if low == high or position == math.floor(position) else between)
    return (found or None) if options["many"] else found[0]
