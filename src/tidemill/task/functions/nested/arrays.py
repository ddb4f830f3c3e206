"""Arrays: making them, and functions that keep or change the order of their elements."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from tidemill.errors import EvaluationError
from tidemill.kernels.columns import column
from tidemill.task.expressions import Call
from tidemill.task.functions.columns import growth
from tidemill.task.functions.columns.compute import Array, element_type, nulls, pc
from tidemill.task.functions.columns.lists import (
    Ints,
    Lists,
    check_elements,
    concatenated,
    first_occurrences,
    identities,
    integers,
    keep,
    offsets_of,
    put_together,
    ranks,
    take_apart,
)
from tidemill.task.functions.columns.numpy_values import validity
from tidemill.task.functions.columns.registry import Value, as_array, function
from tidemill.task.functions.columns.sizes import check_size
from tidemill.task.functions.nested.structs import interleave

_LONGEST = 2**31 - 16


@function("array", strict=False)
def _array(call: Call, args: list[Value], rows: int) -> Value:
    values = interleave([as_array(a, rows) for a in args], rows) if args else nulls(0, element_type(call.type))
    offsets = np.arange(rows + 1, dtype=np.int64) * len(args)
    return put_together(call.type, Lists(np.ones(rows, np.bool_), offsets, values))


@function("sequence", fails=True)
def _sequence(call: Call, args: list[Value], rows: int) -> Value:
    arrays = [as_array(a, rows) for a in args]
    valid = np.logical_and.reduce([validity(a) for a in arrays])
    start, stop = integers(arrays[0]), integers(arrays[1])
    step = integers(arrays[2]) if len(arrays) > 2 else np.where(start <= stop, 1, -1)
    allowed = ((step > 0) & (start <= stop)) | ((step < 0) & (start >= stop)) | ((step == 0) & (start == stop))
    if (valid & ~allowed).any():
        row = int(np.flatnonzero(valid & ~allowed)[0])
        raise EvaluationError(
            "TM3004",
            "a sequence cannot be made of these bounds",
            got=f"sequence({start[row]}, {stop[row]}, {step[row]})",
            hint="the step must lead from the first to the last and must not be 0",
        )
    # Unsigned: the distance of two longs may need 64 bits.
    low, high = np.minimum(start, stop).view(np.uint64), np.maximum(start, stop).view(np.uint64)
    size = np.where(step < 0, -(step + 1), step - 1).view(np.uint64) + np.uint64(1)
    count = (high - low) // np.where(step == 0, np.uint64(1), size) + np.uint64(1)
    count = np.where(valid, count, np.uint64(0))
    if count.astype(np.float64).sum() > _LONGEST:
        raise EvaluationError("TM3004", "a sequence is too long", got=f"{count.max():,} elements")
    check_size(8.0 * float(count.astype(np.float64).sum()))
    lengths = count.astype(np.int64)
    offsets = offsets_of(lengths)
    within = np.arange(int(offsets[-1])) - np.repeat(offsets[:-1], lengths)
    values = np.repeat(start, lengths) + np.repeat(step, lengths) * within
    return put_together(call.type, Lists(valid, offsets, column(values).cast(element_type(call.type))))


@function("sort_array")
def _sort_array(call: Call, args: list[Value], rows: int) -> Value:
    lists = take_apart(args[0], rows)
    rank = ranks(lists.values)
    if not call.option("ascending"):
        rank = -rank
    if call.option("nulls_last", False):
        rank = np.where(validity(lists.values), rank, len(rank) + 1)
    order = np.lexsort((rank, lists.owners))
    return put_together(call.type, lists.with_values(lists.values.take(column(order))))


@function("array_distinct")
def _array_distinct(call: Call, args: list[Value], rows: int) -> Value:
    lists = take_apart(args[0], rows)
    (ids,) = identities(lists.values)
    return put_together(call.type, keep(lists, first_occurrences(lists.owners, ids)))


@function("array_concat", sql=("concat", "||"))
def _array_concat(call: Call, args: list[Value], rows: int) -> Value:
    return put_together(call.type, concatenated([take_apart(a, rows) for a in args]))


@function("array_join", size=growth.elements_joined)
def _array_join(call: Call, args: list[Value], rows: int) -> Value:
    lists = take_apart(args[0], rows)
    if len(args) > 2:
        other = as_array(args[2], rows)
        replacement = other.take(column(lists.owners))
        # Elements that are still NULL belong to NULL rows.
        lists = Lists(lists.valid & validity(other), lists.offsets, pc.coalesce(lists.values, replacement))
    kept = keep(lists, validity(lists.values))
    return pc.binary_join(put_together(pa.list_(pa.string()), kept), as_array(args[1], rows))


@function("slice", fails=True)
def _slice(call: Call, args: list[Value], rows: int) -> Value:
    arrays = [as_array(a, rows) for a in args]
    valid = np.logical_and.reduce([validity(a) for a in arrays])
    lists, start, length = take_apart(arrays[0], rows), integers(arrays[1]), integers(arrays[2])
    for bad, what, shown in (
        (valid & (start == 0), "slice() begins at position 0; the first is 1", start),
        (valid & (length < 0), "slice() has a negative length", length),
    ):
        if bad.any():
            raise EvaluationError("TM3004", what, got=str(shown[int(np.flatnonzero(bad)[0])]))
    sizes = lists.lengths
    first = np.where(start > 0, start - 1, sizes + start)
    inside = valid & (first >= 0) & (first < sizes)
    counts = np.where(inside, np.minimum(length, sizes - first), 0).astype(np.int64)
    return put_together(call.type, _ranges(lists, valid, first, counts))


def _ranges(lists: Lists, valid: np.ndarray, first: Ints, counts: Ints) -> Lists:
    """``counts[i]`` elements of each row from ``first[i]`` on."""
    offsets = offsets_of(counts)
    places = np.arange(int(offsets[-1])) + np.repeat(lists.offsets[:-1] + first - offsets[:-1], counts)
    return Lists(valid, offsets, lists.values.take(column(places)))


@function("array_reverse", sql=("reverse",))
def _array_reverse(call: Call, args: list[Value], rows: int) -> Value:
    lists = take_apart(args[0], rows)
    places = np.repeat(lists.offsets[:-1] + lists.offsets[1:] - 1, lists.lengths) - np.arange(len(lists.values))
    return put_together(call.type, lists.with_values(lists.values.take(column(places))))


@function("flatten")
def _flatten(call: Call, args: list[Value], rows: int) -> Value:
    outer = take_apart(args[0], rows)
    inner = take_apart(outer.values, len(outer.values))
    missing = np.bincount(outer.owners[~inner.valid], minlength=rows) > 0
    valid = outer.valid & ~missing
    ends = inner.offsets[outer.offsets]
    lists = Lists(outer.valid, ends, inner.values)
    return put_together(call.type, Lists(valid, *_without(lists, missing)))


def _without(lists: Lists, gone: np.ndarray) -> tuple[Ints, Array]:
    """Offsets and elements with some rows emptied."""
    kept = keep(lists, ~gone[lists.owners])
    return kept.offsets, kept.values


@function("array_repeat", strict=False, size=growth.copies)
def _array_repeat(call: Call, args: list[Value], rows: int) -> Value:
    value, count = as_array(args[0], rows), as_array(args[1], rows)
    lengths = np.maximum(integers(count), 0)
    check_elements(lengths.astype(np.float64).sum())
    owners = np.repeat(np.arange(rows), lengths)
    return put_together(call.type, Lists(validity(count), offsets_of(lengths), value.take(column(owners))))


@function("array_remove")
def _array_remove(call: Call, args: list[Value], rows: int) -> Value:
    lists, gone = take_apart(args[0], rows), as_array(args[1], rows)
    known, ids = identities(lists.values, gone)
    valid = lists.valid & validity(gone)
    mask = (known != ids[lists.owners]) & valid[lists.owners]
    kept = keep(lists, mask)
    return put_together(call.type, Lists(valid, kept.offsets, kept.values))


def _set_operation(call: Call, args: list[Value], rows: int) -> Value:
    """Elements of either side without duplicates, in the order of the left and then the right."""
    arrays = [as_array(a, rows) for a in args]
    valid = validity(arrays[0]) & validity(arrays[1])
    left, right = (take_apart(a, rows) for a in arrays)
    known, other = identities(left.values, right.values)
    width = int(max(known.max(initial=0), other.max(initial=0))) + 1
    mine, theirs = left.owners * width + known, right.owners * width + other
    values, owners, codes = left.values, left.owners, mine
    if call.function == "array_union":
        values = pa.concat_arrays([left.values, right.values])
        owners, codes = np.concatenate([left.owners, right.owners]), np.concatenate([mine, theirs])
        keep_ = np.ones(len(codes), np.bool_)
    else:
        keep_ = np.isin(mine, theirs, invert=call.function == "array_except")
    _, first = np.unique(codes, return_index=True)
    once = np.zeros(len(codes), np.bool_)
    once[first] = True
    chosen = np.flatnonzero(once & keep_ & valid[owners])
    chosen = chosen[np.argsort(owners[chosen], kind="stable")]
    lengths = np.bincount(owners[chosen], minlength=rows).astype(np.int64)
    return put_together(call.type, Lists(valid, offsets_of(lengths), values.take(column(chosen))))


for _name in ("array_union", "array_intersect", "array_except"):
    function(_name)(_set_operation)


@function("split")
def _split(call: Call, args: list[Value], rows: int) -> Value:
    array, limit = as_array(args[0], rows), call.option("limit")
    most = limit - 1 if limit > 0 else None
    if call.option("text") is not None:
        found = pc.split_pattern(array, call.option("text"), max_splits=most)
    else:
        found = pc.split_pattern_regex(array, call.option("regex"), max_splits=most)
    return found.cast(call.type)
