"""Percentiles: PERCENTILE, PERCENTILE_DISC and PERCENTILE_APPROX, which is exact."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidemill.errors import EvaluationError
from tidemill.kernels.columns import column
from tidemill.state.merge.merge import MergeOp
from tidemill.task.aggregates.accumulators import (
    Accumulator,
    Array,
    GroupValues,
    Ints,
    Kind,
    Part,
    Parts,
    Types,
    declare_kinds,
)
from tidemill.task.aggregates.functions import AggregateFunction, declare_functions, from_all_values
from tidemill.task.aggregates.group_values import before, lists_of

Floats: TypeAlias = npt.NDArray[np.float64]


def _columns(accumulator: Accumulator, types: Types) -> Types:
    assert accumulator.argument is not None
    type_ = types[accumulator.argument] if accumulator.kind == "percentile_approx" else pa.float64()
    return (pa.list_(type_) if dict(accumulator.options)["many"] else type_,)


def _percentiles(accumulator: Accumulator, given: GroupValues) -> Array:
    options: dict[str, Any] = dict(accumulator.options)
    if pa.types.is_struct(given.values.type):
        given = GroupValues(*with_frequencies(given.ids, given.values, given.weights), given.groups)
    values, weights, starts = given.values, given.weights, given.starts
    empty = starts[1:] == starts[:-1]
    numbers = _as_doubles(values)
    counts = before(weights)
    one = _interpolated if accumulator.kind == "percentile" else _discrete
    columns = [one(numbers, counts, starts, p, options["descending"]) for p in options["percentages"]]
    type_ = values.type if accumulator.kind == "percentile_approx" else pa.float64()
    if not options["many"]:
        return _from_doubles(columns[0], empty, type_)
    width = 0 if not columns else len(columns)
    table = np.stack(columns, 1)[~empty] if width else np.zeros((0, 0))
    sizes = np.where(empty, 0, width)
    found = np.ascontiguousarray(table).reshape(-1)
    elements = _from_doubles(found, np.zeros(len(found), np.bool_), type_)
    return lists_of(elements, before(sizes), empty | (width == 0))


def with_frequencies(ids: Ints, values: Array, weights: Ints) -> tuple[Ints, Array, Ints]:
    """The values of (value, frequency), each as often as it occurs times its frequency."""
    numbers, frequencies = cast("pa.StructArray", values).flatten()
    often: Ints = frequencies.to_numpy(zero_copy_only=False)
    if (often < 0).any():
        raise EvaluationError(
            "TM3004",
            "a frequency of percentile() is negative",
            got=str(often[often < 0][0]),
            hint="leave such rows out with FILTER (WHERE frequency >= 0)",
        )
    present = often > 0
    return ids[present], numbers.filter(pa.array(present)), (weights * often)[present]


def _as_doubles(values: Array) -> Floats:
    if pa.types.is_temporal(values.type):
        values = values.cast(pa.int32() if pa.types.is_date(values.type) else pa.int64())
    elif pa.types.is_decimal(values.type):
        values = values.cast(pa.float64())
    numbers: Floats = values.to_numpy(zero_copy_only=False).astype(np.float64)
    return numbers


def _from_doubles(numbers: Floats, missing: npt.NDArray[np.bool_], type_: pa.DataType) -> Array:
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


def _ranked(numbers: Floats, counts: Ints, starts: Ints, ranks: Ints, descending: bool) -> Floats:
    """The value at a rank (from 0) of each group; anything for a group without values."""
    first, last = counts[starts[:-1]], counts[starts[1:]]
    at = last - 1 - ranks if descending else first + ranks
    rows = np.searchsorted(counts, at, side="right") - 1
    if not len(numbers):
        return np.zeros(len(ranks))
    found: Floats = numbers[np.clip(rows, 0, len(numbers) - 1)]
    return found


def _interpolated(numbers: Floats, counts: Ints, starts: Ints, percentage: float, descending: bool) -> Floats:
    """Spark's ``percentile``: the value at rank (n - 1) * p, between two ranks on the line that joins them."""
    position, lower, higher = _between(counts[starts[1:]] - counts[starts[:-1]], percentage)
    low = _ranked(numbers, counts, starts, lower, descending)
    high = _ranked(numbers, counts, starts, higher, descending)
    with np.errstate(invalid="ignore", over="ignore"):
        between = low + (high - low) * (position - lower)
    return np.where((lower == higher) | (low == high), low, between)


def _discrete(numbers: Floats, counts: Ints, starts: Ints, percentage: float, descending: bool) -> Floats:
    """Spark's ``percentile_disc``: the first value with at least n * p values up to it."""
    needed = _first_with(counts[starts[1:]] - counts[starts[:-1]], percentage)
    return _ranked(numbers, counts, starts, needed, descending)


def _between(sizes: Ints, percentage: float) -> tuple[Floats, Ints, Ints]:
    """Where a percentile of so many values lies, and the ranks on both sides."""
    position: Floats = ((sizes - 1) * percentage).astype(np.float64)
    return position, np.floor(position).astype(np.int64), np.ceil(position).astype(np.int64)


def _first_with(sizes: Ints, percentage: float) -> Ints:
    """The rank of the first of so many values with at least that part of them up to it."""
    found: Ints = np.maximum(np.ceil(sizes * percentage).astype(np.int64) - 1, 0)
    return found


def ranks(kind: str, sizes: Ints, percentages: Sequence[float]) -> Ints:
    """All ranks, from 0, of values that percentiles of groups of some sizes are made of."""
    found = [np.zeros(0, np.int64)]
    for percentage in percentages:
        if kind == "percentile":
            found += _between(sizes, percentage)[1:]
        else:
            found.append(_first_with(sizes, percentage))
    return np.concatenate(found)


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


_KINDS = ("percentile", "percentile_disc", "percentile_approx")

declare_kinds(
    *(Kind(n, _columns, lambda _: (MergeOp.LAST,), of_group=_percentiles, of_parts=_at_ranks) for n in _KINDS)
)
declare_functions(*(AggregateFunction(name, from_all_values) for name in _KINDS))
