"""Structs and maps: making them, and what is in them."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import pyarrow as pa

from tidemill.errors import EvaluationError
from tidemill.kernels.columns import column
from tidemill.task.expressions import Call
from tidemill.task.functions.columns.compute import Array, columns_of, element_type, fields_of, null_where, nulls
from tidemill.task.functions.columns.lists import (
    Lists,
    concatenated,
    entries_of,
    first_occurrences,
    identities,
    pick,
    put_together,
    take_apart,
)
from tidemill.task.functions.columns.numpy_values import validity
from tidemill.task.functions.columns.registry import Value, as_array, function


@function("struct", sql=("struct", "named_struct"), strict=False)
def _struct(call: Call, args: list[Value], rows: int) -> Value:
    return pa.StructArray.from_arrays([as_array(a, rows) for a in args], fields=fields_of(call.type))


@function("struct_field", sql=("struct.field",))
def _struct_field(call: Call, args: list[Value], rows: int) -> Value:
    return columns_of(as_array(args[0], rows))[call.option("ordinal")]


@function("field_of_elements", sql=("array_of_structs.field",))
def _field_of_elements(call: Call, args: list[Value], rows: int) -> Value:
    lists = take_apart(args[0], rows)
    field = columns_of(lists.values)[call.option("ordinal")]
    return put_together(call.type, lists.with_values(field))


def _no_null_keys(keys: Array) -> None:
    if keys.null_count:
        raise EvaluationError("TM3004", "a key of a map is NULL", got="NULL", hint="leave such keys out")


def _check_keys(lists: Lists, keys: Array) -> None:
    _no_null_keys(keys)
    (ids,) = identities(keys)
    first = first_occurrences(lists.owners, ids)
    if not first.all():
        twice = keys[int(np.flatnonzero(~first)[0])]
        raise EvaluationError(
            "TM3004", "a map has the same key twice", got=repr(twice.as_py()), hint="keep one value of each key"
        )


def map_of(call: Call, lists: Lists, keys: Array, values: Array) -> Array:
    """The maps of these entries; fails where a key is NULL or comes twice."""
    _check_keys(lists, keys)
    return put_together(call.type, lists.with_values(entries_of(keys, values)))


def interleave(columns: list[Array], rows: int) -> Array:
    """Values of several columns, row by row."""
    width = len(columns)
    order = np.arange(rows * width).reshape(width, rows).T.ravel()
    return pa.concat_arrays(columns).take(column(order))


@function("map", strict=False, fails=lambda call: bool(call.args))
def _map(call: Call, args: list[Value], rows: int) -> Value:
    width = len(args) // 2
    type_ = cast("pa.MapType[Any, Any, Any]", call.type)
    keys, values = nulls(0, type_.key_type), nulls(0, type_.item_type)
    if width:
        keys = interleave([as_array(a, rows) for a in args[::2]], rows)
        values = interleave([as_array(a, rows) for a in args[1::2]], rows)
    offsets = np.arange(rows + 1, dtype=np.int64) * width
    return map_of(call, Lists(np.ones(rows, np.bool_), offsets, values), keys, values)


@function("map_from_arrays", fails=True)
def _map_from_arrays(call: Call, args: list[Value], rows: int) -> Value:
    arrays = [as_array(a, rows) for a in args]
    both = validity(arrays[0]) & validity(arrays[1])
    nothing = pa.array(~both)
    keys, values = (take_apart(null_where(nothing, a) if not both.all() else a, rows) for a in arrays)
    if (keys.lengths != values.lengths).any():
        row = int(np.flatnonzero(keys.lengths != values.lengths)[0])
        raise EvaluationError(
            "TM3004",
            "the arrays of keys and of values have different lengths",
            got=f"{keys.lengths[row]} keys, {values.lengths[row]} values",
        )
    return map_of(call, keys, keys.values, values.values)


@function("map_keys")
def _map_keys(call: Call, args: list[Value], rows: int) -> Value:
    lists = take_apart(args[0], rows)
    return put_together(call.type, lists.with_values(lists.entries[0]))


@function("map_values")
def _map_values(call: Call, args: list[Value], rows: int) -> Value:
    lists = take_apart(args[0], rows)
    return put_together(call.type, lists.with_values(lists.entries[1]))


@function("map_entries")
def _map_entries(call: Call, args: list[Value], rows: int) -> Value:
    lists = take_apart(args[0], rows)
    entries = pa.StructArray.from_arrays(lists.entries, fields=fields_of(element_type(call.type)))
    return put_together(call.type, lists.with_values(entries))


@function("map_value", sql=("map[key]", "element_at"))
def _map_value(call: Call, args: list[Value], rows: int) -> Value:
    lists, wanted = take_apart(args[0], rows), as_array(args[1], rows)
    keys, values = lists.entries
    known, ids = identities(keys, wanted)
    owners = lists.owners
    hits = np.flatnonzero((known == ids[owners]) & validity(wanted)[owners])
    places, present = np.zeros(rows, np.int64), np.zeros(rows, np.bool_)
    places[owners[hits]] = hits
    present[owners[hits]] = True
    return pick(lists.with_values(values), places, present)


@function("map_sort", sql=("(maps in GROUP BY)",))
def _map_sort(call: Call, args: list[Value], rows: int) -> Value:
    return args[0]  # maps are kept in the order of their keys wherever they are compared


@function("map_concat", fails=True)
def _map_concat(call: Call, args: list[Value], rows: int) -> Value:
    lists = concatenated([take_apart(a, rows) for a in args])
    return map_of(call, lists, *lists.entries)
