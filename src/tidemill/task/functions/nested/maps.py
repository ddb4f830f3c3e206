"""Maps made of entries and of text."""

from __future__ import annotations

import numpy as np

from tidemill.kernels.columns import column
from tidemill.task.expressions import Call
from tidemill.task.functions.columns.compute import Array, columns_of, pc
from tidemill.task.functions.columns.lists import Lists, keep, take_apart
from tidemill.task.functions.columns.numpy_values import validity
from tidemill.task.functions.columns.registry import Value, as_array, function
from tidemill.task.functions.nested.structs import map_of


@function("map_from_entries", fails=True)
def _map_from_entries(call: Call, args: list[Value], rows: int) -> Value:
    """NULL where an entry is NULL."""
    lists = take_apart(args[0], rows)
    without = np.bincount(lists.owners[~validity(lists.values)], minlength=rows) > 0
    valid = lists.valid & ~without
    kept = keep(lists, valid[lists.owners])
    keys, values = columns_of(kept.values)
    return map_of(call, Lists(valid, kept.offsets, kept.values), keys, values)


@function("str_to_map", fails=True)
def _str_to_map(call: Call, args: list[Value], rows: int) -> Value:
    """Pieces between separators, each cut once more at the first separator of keys and values."""
    options = dict(call.options)
    lists = take_apart(_split(as_array(args[0], rows), options["pairs"], None), rows)
    parts = take_apart(_split(lists.values, options["values"], 1), len(lists.values))
    first = parts.offsets[:-1]
    keys = parts.values.take(column(first))
    missing = parts.lengths < 2
    values = parts.values.take(column(np.where(missing, first, first + 1), missing))
    return map_of(call, lists, keys, values)


def _split(texts: Array, separator: tuple[str, str], most: int | None) -> Array:
    kind, pattern = separator
    split = pc.split_pattern if kind == "text" else pc.split_pattern_regex
    return split(texts, pattern, max_splits=most)
