"""Rows in any order with the columns of their keys as they are: what tasks store, and readers put in order.

Encoding and sorting keys takes longer than all else that storing rows does, and many are never read one by one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from tidemill.kernels.columns import byte_size, column
from tidemill.state.keys.keys import VNODES, KeyColumn, encode, group
from tidemill.state.merge.merge import Rows, consolidate
from tidemill.state.merge.operations import MergeOp, is_multiset

_SAMPLE = 4096
"""Rows, about, of which it is seen whether keys repeat."""
_ROOM = 1 << 20
"""Bytes that batches may keep in memory beside their rows."""


@dataclass(frozen=True, eq=False)
class Unordered:
    """Rows of a state table in any order, equal keys included; of these a later row is newer.

    Attributes
    ----------
    batches : tuple of pa.RecordBatch
        At least one, all of one schema: the columns of the key, then those of the values.
    key : tuple of KeyColumn
    distribution : int
        As of :func:`tidemill.state.keys.keys.encode`.
    """

    batches: tuple[pa.RecordBatch, ...]
    key: tuple[KeyColumn, ...]
    distribution: int

    def __len__(self) -> int:
        return sum(batch.num_rows for batch in self.batches)

    @property
    def nbytes(self) -> int:
        """Bytes of all columns."""
        return sum(byte_size(column) for batch in self.batches for column in batch.columns)

    @property
    def vnodes(self) -> tuple[int, int]:
        """A range of vnodes, its end excluded, that has those of all rows."""
        return (0, VNODES) if self.distribution else (0, 1)

    def values(self, number: int) -> Iterator[pa.Array[Any]]:
        """A column of values, by batch."""
        return (batch.column(len(self.key) + number) for batch in self.batches)

    def encoded(self) -> Rows:
        """The rows with encoded keys, in their order."""
        columns = _columns(self.batches)
        width = len(self.key)
        return Rows(encode(columns[:width], self.key, self.distribution), tuple(columns[width:]))

    def run(self, ops: Sequence[MergeOp]) -> Rows:
        """The rows as a sorted run; of a multiset without those that cancel out."""
        rows = self.encoded()
        return consolidate(rows.keys, rows.values, ops, is_multiset(ops, rows.value_types()))


def unordered(
    keys: Sequence[pa.Array[Any]], values: Sequence[pa.Array[Any]], key: tuple[KeyColumn, ...], distribution: int
) -> Unordered | None:
    """Rows of a table as they are, or None where they had better be encoded at once.

    That is so if a column is of another type than the table's, or keeps much more in memory than its rows.
    """
    if not key or any(column.type != part.type for column, part in zip(keys, key, strict=True)):
        return None
    columns = [*keys, *values]
    batch = pa.RecordBatch.from_arrays(columns, names=_names(len(keys), len(values)))
    made = Unordered((batch,), key, distribution)
    return None if batch.get_total_buffer_size() > 2 * made.nbytes + _ROOM else made


def concatenated(parts: Sequence[Unordered]) -> Unordered:
    """All rows of some parts of one table, zero copy."""
    return Unordered(tuple(batch for part in parts for batch in part.batches), parts[0].key, parts[0].distribution)


def repeated(parts: Sequence[Unordered]) -> bool:
    """Whether there are probably less than half as many keys as rows, of which there is one at least, by a sample.

    If each key is there f times in m rows, about n * n / 2 * (f - 1) / m of n rows are equal to others of them. Columns
    of numbers and times are looked at first: rows that differ there are not equal.
    """
    rows = sum(map(len, parts))
    chance = np.random.default_rng(rows)
    some = [
        (batch, column(np.unique(chance.integers(0, batch.num_rows, -(-batch.num_rows * _SAMPLE // rows)))))
        for part in parts
        for batch in part.batches
        if batch.num_rows
    ]
    key = parts[0].key
    every = list(range(len(key)))
    narrow = [i for i in every if pa.types.is_primitive(key[i].type) and not pa.types.is_boolean(key[i].type)]
    if 0 < len(narrow) < len(every) and not _repeated(some, key, narrow, rows):
        return False
    return _repeated(some, key, every, rows)


def _repeated(
    some: Sequence[tuple[pa.RecordBatch, pa.Array[Any]]], key: Sequence[KeyColumn], columns: Sequence[int], rows: int
) -> bool:
    """Whether so many rows of batches are equal in some columns of the key as if each of ``rows`` were there twice."""
    sample = _columns([batch.select(columns).take(places) for batch, places in some])
    size = len(sample[0])
    equal = size - len(group(encode(sample, [key[i] for i in columns], 0))[1])
    return size * size < 2 * equal * rows


def coalesced(part: Unordered, least: int) -> Unordered:
    """The same rows in batches of at least so many; neighbours that have fewer are copied."""
    groups: list[list[pa.RecordBatch]] = [[]]
    size = 0
    for batch in part.batches:
        if size >= least:
            groups.append([])
            size = 0
        groups[-1].append(batch)
        size += batch.num_rows
    if size < least and len(groups) > 1:
        last = groups.pop()
        groups[-1] += last
    schema = part.batches[0].schema
    batches = [g[0] if len(g) == 1 else pa.RecordBatch.from_arrays(_columns(g), schema=schema) for g in groups]
    return Unordered(tuple(batches), part.key, part.distribution)


def _columns(batches: Sequence[pa.RecordBatch]) -> list[pa.Array[Any]]:
    if len(batches) == 1:
        return batches[0].columns
    return [pa.concat_arrays(parts) for parts in zip(*(batch.columns for batch in batches), strict=True)]


def _names(keys: int, values: int) -> list[str]:
    return [*(f"k{i}" for i in range(keys)), *(f"v{i}" for i in range(values))]
