"""Arrays taken apart and put together: offsets and elements as columns, without a row at a time in Python."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidemill.errors import EvaluationError
from tidemill.kernels.columns import column
from tidemill.state.keys.encoding import encode_datums
from tidemill.state.keys.keys import Keys, group, sort
from tidemill.state.keys.nested import elements, map_array
from tidemill.task.functions.columns.compute import Array, buffer
from tidemill.task.functions.columns.numpy_values import Bools, bitmap, validity
from tidemill.task.functions.columns.registry import Value, as_array

Ints = npt.NDArray[np.int64]

_MOST = 2**31 - 16


@dataclass(frozen=True)
class Lists:
    """Arrays (or maps) of n rows: row i has ``values[offsets[i]:offsets[i + 1]]``, none where it is NULL."""

    valid: Bools
    offsets: Ints
    values: Array

    @property
    def lengths(self) -> Ints:
        """Number of elements of each row (int64)."""
        return np.diff(self.offsets)

    @property
    def owners(self) -> Ints:
        """Row of each element (int64)."""
        return np.repeat(np.arange(len(self.valid)), self.lengths)

    @property
    def entries(self) -> tuple[Array, Array]:
        """Keys and values of maps."""
        structs = cast("pa.StructArray", self.values)
        return structs.field(0), structs.field(1)

    def with_values(self, values: Array) -> Lists:
        """Arrays of the same lengths with other elements."""
        return Lists(self.valid, self.offsets, values)


def entries_of(keys: Array, values: Array) -> pa.StructArray:
    """The elements of maps."""
    return pa.StructArray.from_arrays([keys, values], names=["key", "value"])


def take_apart(value: Value, rows: int) -> Lists:
    """The parts of an array or map column."""
    array = as_array(value, rows)
    valid = validity(array)
    offsets, values = elements(array)
    if not valid.all():
        lengths = np.diff(offsets)
        hidden = lengths.copy()
        hidden[valid] = 0
        if hidden.any():
            keep = np.repeat(valid, lengths)
            values = values.filter(pa.array(keep))
        lengths[~valid] = 0
        offsets = offsets_of(lengths)
    return Lists(valid, offsets, values)


def put_together(type_: pa.DataType, lists: Lists) -> Array:
    """The array or map column of these parts."""
    check_elements(lists.offsets[-1])
    if pa.types.is_map(type_):
        return map_array(type_, lists.offsets, cast("pa.StructArray", lists.values), bitmap(lists.valid))
    buffers = [bitmap(lists.valid), buffer(lists.offsets.astype(np.int32))]
    return pa.Array.from_buffers(type_, len(lists.valid), buffers, children=[lists.values])


def check_elements(count: float) -> None:
    """Fail where arrays of a batch would have more elements than 32-bit offsets can count."""
    if count > _MOST:
        raise EvaluationError("TM3004", "arrays of one batch have too many elements", got=f"{count:,.0f}")


def offsets_of(lengths: Ints) -> Ints:
    """Offsets (int64, n + 1) of lists of these lengths."""
    offsets = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return offsets


def integers(array: Array) -> Ints:
    """An integer column as int64, 0 where NULL."""
    filled: Ints = array.fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    return filled


def concatenated(parts: list[Lists]) -> Lists:
    """The elements of several arrays of each row, one array behind the other; NULL where one of them is."""
    valid = np.logical_and.reduce([part.valid for part in parts])
    owners = np.concatenate([part.owners for part in parts])
    order = np.argsort(owners, kind="stable")
    order = order[valid[owners[order]]]
    lengths = np.where(valid, np.sum([part.lengths for part in parts], axis=0), 0).astype(np.int64)
    return Lists(valid, offsets_of(lengths), pa.concat_arrays([part.values for part in parts]).take(column(order)))


def keep(lists: Lists, mask: Bools) -> Lists:
    """The same arrays with only some of their elements."""
    counts = np.bincount(lists.owners[mask], minlength=len(lists.valid)).astype(np.int64)
    return Lists(lists.valid, offsets_of(counts), lists.values.filter(pa.array(mask)))


def pick(lists: Lists, places: Ints, present: Bools) -> Array:
    """The elements at some places among all of them, NULL where not ``present``."""
    return lists.values.take(column(np.where(present, places, 0), ~present))


def identities(*columns: Array) -> list[Ints]:
    """A number per value: equal numbers for equal values (NULL equals NULL, NaN equals NaN), over all columns."""
    keys = Keys.concat([Keys(*encode_datums([c])) for c in columns])
    ids, _ = group(keys)
    bounds = np.cumsum([0, *(len(c) for c in columns)])
    return [ids[bounds[i] : bounds[i + 1]] for i in range(len(columns))]


def ranks(values: Array) -> Ints:
    """The place of each value in Spark's order, NULL first; equal values have equal ranks."""
    keys = Keys(*encode_datums([values]))
    order = sort(keys)
    ids, _ = group(keys)
    in_order = ids[order]
    steps = np.ones(len(order), np.int64)
    steps[1:] = in_order[1:] != in_order[:-1]
    result = np.empty(len(order), np.int64)
    result[order] = np.cumsum(steps)
    return result


def first_occurrences(owners: Ints, ids: Ints) -> Bools:
    """Which elements are the first of their value in their array."""
    if not len(ids):
        return np.zeros(0, np.bool_)
    _, first = np.unique(owners * (int(ids.max()) + 1) + ids, return_index=True)
    mask = np.zeros(len(ids), np.bool_)
    mask[first] = True
    return mask
