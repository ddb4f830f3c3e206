"""The mode of a group, its bits and its product."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from tidemill.kernels.columns import column
from tidemill.state.merge.merge import MergeOp
from tidemill.task.aggregates.accumulators import (
    Accumulator,
    Array,
    GroupValues,
    Kind,
    Part,
    Parts,
    Types,
    declare_kinds,
)
from tidemill.task.aggregates.functions import AggregateFunction, Catalyst, declare_functions, from_all_values


def _columns(accumulator: Accumulator, types: Types) -> Types:
    assert accumulator.argument is not None
    return (types[accumulator.argument],)


def _mode(accumulator: Accumulator, given: GroupValues) -> Array:
    """The most frequent value; of several the smallest, with ``descending`` the greatest."""
    descending = bool(dict(accumulator.options)["descending"])
    values, weights, starts = given.values, given.weights, given.starts
    empty = starts[1:] == starts[:-1]
    rows = np.zeros(len(empty), np.int64)
    if len(values):
        most = np.maximum.reduceat(weights, starts[:-1][~empty])
        winners = np.flatnonzero(weights == np.repeat(most, np.diff(starts)[~empty]))
        at = np.searchsorted(winners, starts[1:]) - 1 if descending else np.searchsorted(winners, starts[:-1])
        rows[~empty] = winners[at[~empty]]
    return values.take(column(rows, empty))


def _bits(accumulator: Accumulator, given: GroupValues) -> Array:
    values, weights, starts = given.values, given.weights, given.starts
    empty = starts[1:] == starts[:-1]
    words = values.to_numpy(zero_copy_only=False)
    result = np.zeros(len(empty), words.dtype)
    operation = {"bit_and": np.bitwise_and, "bit_or": np.bitwise_or, "bit_xor": np.bitwise_xor}[accumulator.kind]
    if accumulator.kind == "bit_xor":
        words = np.where(weights & 1, words, np.zeros_like(words))
    if len(words):
        result[~empty] = operation.reduceat(words, starts[:-1][~empty])
    return column(result.astype(np.int64), empty).cast(values.type)


def _products(accumulator: Accumulator, given: GroupValues) -> Array:
    values, weights, starts = given.values, given.weights, given.starts
    empty = starts[1:] == starts[:-1]
    result = np.ones(len(empty))
    if len(values):
        with np.errstate(invalid="ignore", over="ignore", under="ignore"):
            powers = np.power(values.to_numpy(zero_copy_only=False), weights.astype(np.float64))
            result[~empty] = np.multiply.reduceat(powers, starts[:-1][~empty])
    return column(result, empty)


def _modes(accumulator: Accumulator, parts: Parts) -> list[Part]:
    """Of each part the value that is its mode, as often as it occurs."""
    last = bool(dict(accumulator.options)["descending"])
    made = []
    for values, weights in parts():
        weights = np.ones_like(weights) if accumulator.distinct else weights
        row = len(weights) - 1 - int(np.argmax(weights[::-1])) if last else int(np.argmax(weights))
        made.append((values.slice(row, 1), weights[row : row + 1]))
    return made


_BITS = {"bit_and": "BitAndAgg", "bit_or": "BitOrAgg", "bit_xor": "BitXorAgg"}

declare_kinds(
    Kind("mode", _columns, lambda _: (MergeOp.LAST,), of_group=_mode, of_parts=_modes),
    *(Kind(name, _columns, lambda _: (MergeOp.LAST,), of_group=_bits) for name in _BITS),
    Kind("product", lambda _, types: (pa.float64(),), lambda _: (MergeOp.LAST,), of_group=_products),
)
declare_functions(
    AggregateFunction("mode", from_all_values),
    *(
        AggregateFunction(name, from_all_values, catalyst=Catalyst(read, (name,), keeps_distinct=name == "bit_xor"))
        for name, read in _BITS.items()
    ),
    AggregateFunction(
        "product",
        from_all_values,
        catalyst=Catalyst(
            "Product",
            ("product (DataFrames)",),
            pa.float64(),
            keeps_distinct=True,
            meaning="values are multiplied in ascending order",
        ),
    ),
)
