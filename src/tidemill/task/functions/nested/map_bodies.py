"""Functions of maps with a body: map_filter, transform_keys, transform_values, map_zip_with."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from tidemill.kernels.columns import column
from tidemill.task.expressions import Call
from tidemill.task.functions.columns.compute import pc
from tidemill.task.functions.columns.lists import (
    Lists,
    entries_of,
    identities,
    keep,
    offsets_of,
    put_together,
    take_apart,
)
from tidemill.task.functions.columns.registry import Value, function
from tidemill.task.functions.nested.structs import map_of


@function("map_filter", bodies=True)
def _map_filter(call: Call, args: list[Value], rows: int) -> Value:
    lists = take_apart(args[0], rows)
    holds = pc.fill_null(args[1](lists.owners, lists.entries), False)
    return put_together(call.type, keep(lists, holds.to_numpy(zero_copy_only=False)))


@function("transform_keys", bodies=True, fails=True)
def _transform_keys(call: Call, args: list[Value], rows: int) -> Value:
    lists = take_apart(args[0], rows)
    keys, values = lists.entries
    return map_of(call, lists, args[1](lists.owners, [keys, values]), values)


@function("transform_values", bodies=True)
def _transform_values(call: Call, args: list[Value], rows: int) -> Value:
    lists = take_apart(args[0], rows)
    keys, values = lists.entries
    changed = args[1](lists.owners, [keys, values])
    return put_together(call.type, lists.with_values(entries_of(keys, changed)))


@function("map_zip_with", bodies=True)
def _map_zip_with(call: Call, args: list[Value], rows: int) -> Value:
    """Keys of the first map in its order, then those that only the second has."""
    left, right = (take_apart(a, rows) for a in args[:2])
    valid = left.valid & right.valid
    left, right = (keep(part, valid[part.owners]) for part in (left, right))
    (keys, mine), (others, theirs) = left.entries, right.entries
    known, ids = identities(keys, others)
    width = int(max(known.max(initial=0), ids.max(initial=0))) + 1
    codes, other_codes = left.owners * width + known, right.owners * width + ids
    found, other_found = _positions(codes, other_codes), _positions(other_codes, codes)
    only = np.flatnonzero(other_found < 0)
    owners = np.concatenate([left.owners, right.owners[only]])
    order = np.argsort(owners, kind="stable")
    places = np.concatenate([found, only])
    first = mine.take(column(np.concatenate([np.arange(len(mine)), np.zeros_like(only)]), _tail(len(mine), len(only))))
    second = theirs.take(column(np.maximum(places, 0), places < 0))
    all_keys = pa.concat_arrays([keys, others.take(column(only))])
    variables = [c.take(column(order)) for c in (all_keys, first, second)]
    owners = owners[order]
    values = args[2](owners, variables)
    entries = entries_of(variables[0], values)
    lengths = np.bincount(owners, minlength=rows).astype(np.int64)
    return put_together(call.type, Lists(valid, offsets_of(lengths), entries))


def _tail(before: int, behind: int) -> np.ndarray:
    return np.concatenate([np.zeros(before, np.bool_), np.ones(behind, np.bool_)])


def _positions(codes: np.ndarray, among: np.ndarray) -> np.ndarray:
    """Where each code is among others, -1 where it is not."""
    order = np.argsort(among, kind="stable")
    place = np.searchsorted(among[order], codes)
    inside = place < len(among)
    result = np.full(len(codes), -1, np.int64)
    candidates = order[place[inside]]
    result[inside] = np.where(among[candidates] == codes[inside], candidates, -1)
    return result
