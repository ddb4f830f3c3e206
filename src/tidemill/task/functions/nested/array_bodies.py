"""Functions of arrays with a body: transform, filter, exists, forall, aggregate, zip_with."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from tidemill.errors import EvaluationError
from tidemill.kernels.columns import column
from tidemill.task.expressions import Call
from tidemill.task.functions.columns import growth
from tidemill.task.functions.columns.compute import Array, element_type, fields_of, pc
from tidemill.task.functions.columns.lists import Lists, check_elements, keep, offsets_of, put_together, take_apart
from tidemill.task.functions.columns.numpy_values import Bools, validity
from tidemill.task.functions.columns.registry import Value, as_array, function
from tidemill.task.functions.nested.bodies import Body


def _variables(body: Body, lists: Lists) -> list[Array]:
    """The element and, where the body has a parameter for it, its position."""
    variables = [lists.values]
    if body.variables > 1:
        positions = np.arange(len(lists.values)) - np.repeat(lists.offsets[:-1], lists.lengths)
        variables.append(column(positions).cast(pa.int32()))
    return variables


@function("transform", bodies=True)
def _transform(call: Call, args: list[Value], rows: int) -> Value:
    lists, body = take_apart(args[0], rows), args[1]
    return put_together(call.type, lists.with_values(body(lists.owners, _variables(body, lists))))


@function("filter", bodies=True)
def _filter(call: Call, args: list[Value], rows: int) -> Value:
    lists, body = take_apart(args[0], rows), args[1]
    holds = pc.fill_null(body(lists.owners, _variables(body, lists)), False)
    return put_together(call.type, keep(lists, holds.to_numpy(zero_copy_only=False)))


def _tests(lists: Lists, body: Body, decisive: bool) -> tuple[Bools, Bools]:
    """Which rows have an element whose test is ``decisive``, and which one whose test is NULL.

    Spark stops at the first decisive element, so one behind it must not fail.
    """
    decided, unknown = np.zeros(len(lists.valid), np.bool_), np.zeros(len(lists.valid), np.bool_)
    owners = lists.owners
    try:
        found = body(owners, [lists.values])
    except EvaluationError:
        for k in range(int(lists.lengths.max(initial=0))):
            here = np.flatnonzero((lists.lengths > k) & ~decided)
            if not len(here):
                break
            found = body(here, [lists.values.take(column(lists.offsets[here] + k))])
            decided[here] = _equal(found, decisive)
            unknown[here] |= ~validity(found)
        return decided, unknown
    decided[owners[_equal(found, decisive)]] = True
    unknown[owners[~validity(found)]] = True
    return decided, unknown


def _equal(found: Array, wanted: bool) -> Bools:
    holds: Bools = pc.fill_null(found, not wanted).to_numpy(zero_copy_only=False)
    matching: Bools = holds == wanted
    return matching


def _quantifier(call: Call, args: list[Value], rows: int) -> Value:
    lists, decisive = take_apart(args[0], rows), call.function == "exists"
    decided, unknown = _tests(lists, args[1], decisive)
    return column(decided == decisive, ~lists.valid | (unknown & ~decided))


function("exists", sql=("exists", "any_match"), bodies=True)(_quantifier)
function("forall", bodies=True)(_quantifier)


@function("aggregate", sql=("aggregate", "reduce"), bodies=True)
def _aggregate(call: Call, args: list[Value], rows: int) -> Value:
    """Round k merges the k-th element of every array that has one."""
    lists, merge, finish = take_apart(args[0], rows), args[2], args[3]
    # Rows in the order of falling length: those that are still merged are the first ones.
    order = np.argsort(-lists.lengths, kind="stable")
    lengths, begins = lists.lengths[order], lists.offsets[:-1][order]
    state = as_array(args[1], rows).take(column(order))
    done: list[Array] = []
    for k in range(int(lengths.max(initial=0))):
        live = int(np.searchsorted(-lengths, -k, side="left"))
        done.append(state.slice(live))
        element = lists.values.take(column(begins[:live] + k))
        state = merge(order[:live], [state.slice(0, live), element])
    merged = pa.concat_arrays([state, *reversed(done)])
    places = np.empty(rows, np.int64)
    places[order] = np.arange(rows)
    inside = np.flatnonzero(lists.valid)
    result = finish(inside, [merged.take(column(places[inside]))])
    back = np.zeros(rows, np.int64)
    back[inside] = np.arange(len(inside))
    return result.take(column(back, ~lists.valid))


def padded(lists: Lists, lengths: np.ndarray) -> Array:
    """The elements of arrays that are made longer with NULLs."""
    offsets = offsets_of(lengths)
    owners = np.repeat(np.arange(len(lengths)), lengths)
    positions = np.arange(len(owners)) - offsets[owners]
    beyond = positions >= lists.lengths[owners]
    return lists.values.take(column(np.where(beyond, 0, lists.offsets[owners] + positions), beyond))


@function("zip_with", bodies=True)
def _zip_with(call: Call, args: list[Value], rows: int) -> Value:
    parts = [take_apart(a, rows) for a in args[:2]]
    valid = parts[0].valid & parts[1].valid
    lengths = np.where(valid, np.maximum(parts[0].lengths, parts[1].lengths), 0).astype(np.int64)
    owners = np.repeat(np.arange(rows), lengths)
    values = args[2](owners, [padded(part, lengths) for part in parts])
    return put_together(call.type, Lists(valid, offsets_of(lengths), values))


@function("arrays_zip", sql=("arrays_zip",))
def _arrays_zip(call: Call, args: list[Value], rows: int) -> Value:
    parts = [take_apart(a, rows) for a in args]
    valid = np.logical_and.reduce([part.valid for part in parts])
    lengths = np.where(valid, np.max([part.lengths for part in parts], axis=0), 0).astype(np.int64)
    columns = [padded(part, lengths) for part in parts]
    entries = pa.StructArray.from_arrays(columns, fields=fields_of(element_type(call.type)))
    return put_together(call.type, Lists(valid, offsets_of(lengths), entries))


@function("array_insert", sql=("array_insert", "array_append", "array_prepend"), fails=True, size=growth.inserted)
def _array_insert(call: Call, args: list[Value], rows: int) -> Value:
    """Position 1 is before the first element, -1 behind the last; what lies between is filled with NULLs."""
    array, asked, item = (as_array(a, rows) for a in args)
    valid = validity(array) & validity(asked)
    lists = take_apart(array, rows)
    position = pc.fill_null(asked, 1).to_numpy(zero_copy_only=False).astype(np.int64)
    if (valid & (position == 0)).any():
        raise EvaluationError("TM3010", "an index of array_insert is 0", got="0", hint="1 is the first, -1 the last")
    sizes = lists.lengths
    # Places in the result, from 0: of the item and of the first element.
    ahead = np.where(position < 0, np.maximum(-position - sizes - 1, 0), 0)
    place = np.where(position > 0, position - 1, np.maximum(sizes + position + 1, 0))
    lengths = np.where(position > 0, np.maximum(sizes, position - 1) + 1, sizes + 1 + ahead)
    lengths = np.where(valid, lengths, 0).astype(np.int64)
    offsets = offsets_of(lengths)
    check_elements(offsets[-1])
    owners = np.repeat(np.arange(rows), lengths)
    positions = np.arange(len(owners)) - offsets[owners]
    source = positions - ahead[owners] - (positions > place[owners])
    inside = (positions != place[owners]) & (source >= 0) & (source < sizes[owners])
    chosen = np.where(inside, lists.offsets[owners] + source, len(lists.values) + owners)
    values = pa.concat_arrays([lists.values, item.cast(lists.values.type)])
    missing = ~inside & (positions != place[owners])
    return put_together(call.type, Lists(valid, offsets, values.take(column(chosen, missing))))
