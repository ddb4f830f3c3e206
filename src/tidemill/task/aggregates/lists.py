"""COLLECT_LIST, COLLECT_SET and ordered lists, of which LISTAGG and others are made."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidemill.kernels.columns import column
from tidemill.state.keys.keys import KeyColumn, encode, sort
from tidemill.state.merge.merge import MergeOp
from tidemill.task.aggregates.accumulators import (
    Accumulator,
    Array,
    GroupValues,
    Ints,
    Kind,
    Part,
    Parts,
    Result,
    Types,
    declare_kinds,
)
from tidemill.task.aggregates.functions import AggregateFunction, declare_functions, from_all_values
from tidemill.task.aggregates.group_values import before, joined, lists_of
from tidemill.task.functions.columns.sizes import LIST_COPIES, check_size, list_too_large


def _columns(accumulator: Accumulator, types: Types) -> Types:
    assert accumulator.argument is not None
    return (pa.list_(types[accumulator.argument]),)


def _ordered_columns(accumulator: Accumulator, types: Types) -> Types:
    assert accumulator.argument is not None
    rows = types[accumulator.argument]
    return (pa.list_(rows.field(rows.num_fields - 1).type),)


def _check(values: Array, weights: Ints) -> None:
    """TM3020 for lists that are larger, together, than what a task may hold."""
    if len(values):
        check_size(values.nbytes * float(weights.sum()) / len(values), LIST_COPIES)


def _list(accumulator: Accumulator, given: GroupValues) -> Array:
    _check(given.values, given.weights)
    rows = np.repeat(np.arange(len(given.ids)), given.weights)
    return lists_of(given.values.take(column(rows)), before(given.weights)[given.starts])


def _set(accumulator: Accumulator, given: GroupValues) -> Array:
    _check(given.values, given.weights)
    return lists_of(given.values, given.starts)


def _ordered_lists(accumulator: Accumulator, given: GroupValues) -> Array:
    """The last field of the values, in the order of the fields before it; of equal ones the smallest first."""
    options: dict[str, Any] = dict(accumulator.options)
    ids, values, weights, groups = given.ids, given.values, given.weights, given.groups
    if options["limit"]:
        weights = np.minimum(weights, options["limit"])
    _check(values, weights)
    wanted = cast("pa.StructArray", values).flatten()[-1]
    order = first_of_order(accumulator, values, ids)
    rows, weights = np.repeat(order, weights[order]), weights[order]
    counts = np.bincount(ids[order], weights, groups).astype(np.int64)
    if options["limit"]:
        places = np.arange(len(rows)) - np.repeat(before(counts)[:-1], counts)
        rows, counts = rows[places < options["limit"]], np.minimum(counts, options["limit"])
    return lists_of(wanted.take(column(rows)), before(counts))


def first_of_order(accumulator: Accumulator, values: Array, ids: Ints | None = None) -> Ints:
    """The rows of the values of an ordered list, in its order; those of each group together, given their groups."""
    options: dict[str, Any] = dict(accumulator.options)
    *keys, wanted = cast("pa.StructArray", values).flatten()
    layout = [
        KeyColumn(k.type, bool(descending), not last)
        for k, descending, last in zip(keys, options["descending"], options["nulls_last"], strict=True)
    ]
    layout.append(KeyColumn(wanted.type))
    if ids is None:
        return sort(encode([*keys, wanted], layout, 0))
    return sort(encode([column(ids), *keys, wanted], [KeyColumn(pa.int64()), *layout], 0))


def _gathered(accumulator: Accumulator, parts: Parts) -> list[Part]:
    """All values, of an ordered list with a limit those that can be in it."""
    options: dict[str, Any] = dict(accumulator.options)
    limit = options.get("limit", 0)
    made: list[Part] = []
    size = 0.0
    for part in parts():
        values, weights = part
        if limit:
            values, weights = joined([*made, part])
            rows = first_of_order(accumulator, values)[:limit]
            values, weights = values.take(column(rows)), np.minimum(weights[rows], limit)
            made, size = [], 0.0
        times = float(len(weights) if accumulator.distinct else weights.sum())
        size += values.nbytes * times / max(1, len(weights))
        check_size(size, LIST_COPIES)
        made.append((values, weights))
    return made


def _refuse_too_large(values: Sequence[Array], counts: Ints) -> None:
    """Raise TM3020 for a list that was too large: it is NULL in state although the group has values."""
    if values[0].null_count and (values[0].is_null().to_numpy(zero_copy_only=False) & (counts > 0)).any():
        raise list_too_large()


def _finish(result: Result, kind: str, values: Sequence[Array], counts: Ints) -> Array:
    """A group that no run has written (the one of an aggregate without GROUP BY) has an empty list."""
    _refuse_too_large(values, counts)
    found = values[0]
    if not found.null_count:
        return found
    lengths = pc.list_value_length(found).fill_null(0).to_numpy()
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
    return lists_of(cast("pa.ListArray[Any]", found).flatten(), offsets)


def _finish_ordered(result: Result, kind: str, values: Sequence[Array], counts: Ints) -> Array:
    """The ordered list of a group without values is NULL."""
    _refuse_too_large(values, counts)
    found = values[0]
    empty = pc.equal(pc.list_value_length(found), pa.scalar(0)).fill_null(True).to_numpy(zero_copy_only=False)
    return found.take(column(np.arange(len(found)), empty)) if empty.any() else found


def _kind(name: str, columns: Any, make: Any, *, in_order: bool = False) -> Kind:
    return Kind(
        name,
        columns,
        lambda _: (MergeOp.LAST,),
        of_group=make,
        of_parts=_gathered,
        is_list=True,
        in_order=in_order,
    )


declare_kinds(
    _kind("collect_list", _columns, _list, in_order=True),
    _kind("collect_set", _columns, _set),
    _kind("ordered_list", _ordered_columns, _ordered_lists),
)
declare_functions(
    AggregateFunction("collect_list", from_all_values, _finish),
    AggregateFunction("collect_set", from_all_values, _finish),
    AggregateFunction("ordered_list", from_all_values, _finish_ordered),
)
