"""What is in an array: its size, one of its elements, whether it holds a value."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidemill.errors import EvaluationError
from tidemill.kernels.columns import column
from tidemill.task.expressions import Call
from tidemill.task.functions.columns.compute import Array, pc
from tidemill.task.functions.columns.lists import (
    Ints,
    Lists,
    identities,
    integers,
    keep,
    pick,
    put_together,
    ranks,
    take_apart,
)
from tidemill.task.functions.columns.numpy_values import Bools, validity
from tidemill.task.functions.columns.registry import Value, as_array, fails_unless_try, function


@function("size", sql=("size", "cardinality", "array_size"))
def _size(call: Call, args: list[Value], rows: int) -> Value:
    lists = take_apart(args[0], rows)
    return column(lists.lengths, ~lists.valid).cast(pa.int32())


def _outside(index: Ints, sizes: Ints, bad: npt.NDArray[np.bool_], hint: str) -> EvaluationError:
    row = int(np.flatnonzero(bad)[0])
    return EvaluationError(
        "TM3010", "an index is outside its array", got=f"{index[row]} of {sizes[row]} elements", hint=hint
    )


@function("array_item", sql=("array[index]", "get"), fails=fails_unless_try)
def _array_item(call: Call, args: list[Value], rows: int) -> Value:
    array, position = as_array(args[0], rows), as_array(args[1], rows)
    lists, index = take_apart(array, rows), integers(position)
    asked = lists.valid & validity(position)
    inside = asked & (index >= 0) & (index < lists.lengths)
    if fails_unless_try(call) and (asked & ~inside).any():
        raise _outside(index, lists.lengths, asked & ~inside, "the first index is 0; get(array, index) gives NULL")
    return pick(lists, lists.offsets[:-1] + index, inside)


@function("element_at", sql=("element_at", "try_element_at"), fails=True)
def _element_at(call: Call, args: list[Value], rows: int) -> Value:
    array, position = as_array(args[0], rows), as_array(args[1], rows)
    lists, index = take_apart(array, rows), integers(position)
    asked = lists.valid & validity(position)
    if (asked & (index == 0)).any():
        raise EvaluationError("TM3010", "an index of element_at is 0", got="0", hint="1 is the first, -1 the last")
    place = np.where(index > 0, index - 1, lists.lengths + index)
    inside = asked & (place >= 0) & (place < lists.lengths)
    if fails_unless_try(call) and (asked & ~inside).any():
        raise _outside(index, lists.lengths, asked & ~inside, "try_element_at gives NULL")
    return pick(lists, lists.offsets[:-1] + place, inside)


def _matches(lists: Lists, wanted: Array) -> tuple[Bools, Bools]:
    """Per element: whether it equals the value looked for in its row, and whether it is NULL."""
    known, ids = identities(lists.values, wanted)
    present = validity(lists.values)
    return (known == ids[lists.owners]) & present, ~present


def _any_of(lists: Lists, mask: Bools) -> Bools:
    found = np.zeros(len(lists.valid), np.bool_)
    found[lists.owners[mask]] = True
    return found


@function("array_contains")
def _array_contains(call: Call, args: list[Value], rows: int) -> Value:
    lists, wanted = take_apart(args[0], rows), as_array(args[1], rows)
    equal, null = _matches(lists, wanted)
    found, unknown = _any_of(lists, equal), _any_of(lists, null)
    asked = lists.valid & validity(wanted)
    return column(found, ~asked | (unknown & ~found))


@function("array_position")
def _array_position(call: Call, args: list[Value], rows: int) -> Value:
    lists, wanted = take_apart(args[0], rows), as_array(args[1], rows)
    equal, _ = _matches(lists, wanted)
    hits = np.flatnonzero(equal)[::-1]
    places = np.zeros(rows, np.int64)
    owners = lists.owners[hits]
    places[owners] = hits - lists.offsets[owners] + 1
    return column(places, ~(lists.valid & validity(wanted)))


@function("arrays_overlap")
def _arrays_overlap(call: Call, args: list[Value], rows: int) -> Value:
    left, right = (take_apart(a, rows) for a in args)
    known, other = identities(left.values, right.values)
    mine, theirs = validity(left.values), validity(right.values)
    width = int(max(known.max(initial=0), other.max(initial=0))) + 1
    shared = np.isin(left.owners * width + known, (right.owners * width + other)[theirs]) & mine
    found = _any_of(left, shared)
    both = (left.lengths > 0) & (right.lengths > 0)
    unknown = both & (_any_of(left, ~mine) | _any_of(right, ~theirs))
    return column(found, ~(left.valid & right.valid) | (unknown & ~found))


def _extreme(call: Call, args: list[Value], rows: int) -> Value:
    lists = take_apart(args[0], rows)
    rank = ranks(lists.values)
    present = np.flatnonzero(validity(lists.values))
    rank = -rank[present] if call.function == "array_max" else rank[present]
    order = present[np.lexsort((rank, lists.owners[present]))]
    owners = lists.owners[order]
    first = np.ones(len(owners), np.bool_)
    first[1:] = owners[1:] != owners[:-1]
    places, found = np.zeros(rows, np.int64), np.zeros(rows, np.bool_)
    places[owners[first]], found[owners[first]] = order[first], True
    return pick(lists, places, found)


function("array_min")(_extreme)
function("array_max")(_extreme)


@function("array_compact")
def _array_compact(call: Call, args: list[Value], rows: int) -> Value:
    lists = take_apart(args[0], rows)
    return put_together(call.type, keep(lists, pc.is_valid(lists.values).to_numpy(zero_copy_only=False)))
