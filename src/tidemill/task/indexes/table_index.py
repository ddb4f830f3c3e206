"""A table in memory as an index."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tidemill.kernels.columns import column
from tidemill.schema import Field, Schema, nullable_type
from tidemill.state.keys.keys import KeyColumn, Keys, encode, group, sort
from tidemill.state.runs.searching import locate_prefixes
from tidemill.task.indexes.digests import digest_of


@dataclass(frozen=True, eq=False)
class TableIndex:
    """The rows of a table by some of its columns; rows of one key come in the order of the table.

    Attributes
    ----------
    rows : pyarrow.RecordBatch
        Sorted by key.
    keys : Keys
        Those of the rows.
    schema : Schema
    key_types : tuple of pyarrow.DataType
    columns : tuple of str
        The names of the key columns.
    """

    rows: pa.RecordBatch
    keys: Keys
    columns: tuple[str, ...]
    schema: Schema
    key_types: tuple[pa.DataType, ...]

    @staticmethod
    def of(table: pa.Table, columns: Sequence[str]) -> TableIndex:
        """Sort a table. Rows with a NULL key are left out: nothing equals them."""
        for name in columns:
            if table.column(name).null_count:
                table = table.filter(pc.is_valid(table.column(name)))
        batches = table.combine_chunks().to_batches()
        rows = batches[0] if batches else pa.RecordBatch.from_pylist([], schema=table.schema)
        found = [rows.column(name) for name in columns]
        keys = encode(found, [KeyColumn(c.type) for c in found], 0)
        order = sort(keys)
        fields = tuple(Field(f.name, nullable_type(f.type), f.nullable) for f in table.schema)
        types = tuple(c.type for c in found)
        return TableIndex(rows.take(column(order)), keys.take(order), tuple(columns), Schema(fields), types)

    def look_up(self, keys: pa.RecordBatch) -> tuple[npt.NDArray[np.int64], pa.RecordBatch]:
        """See :class:`~tidemill.task.indexes.index.Index`."""
        if not keys.num_rows or not self.rows.num_rows:
            return np.zeros(0, np.int64), self.rows.slice(0, 0)
        probes = encode(keys.columns, [KeyColumn(t) for t in self.key_types], 0)
        ids, first = group(probes)
        distinct = probes.take(first)
        order = sort(distinct)
        sorted_ = distinct.take(order)
        lows, highs = locate_prefixes(self.keys.offsets, self.keys.data, sorted_.offsets, sorted_.data)
        low, count = np.empty(len(order), np.int64), np.empty(len(order), np.int64)
        low[order], count[order] = lows, highs - lows
        counts = count[ids]
        owners = np.repeat(np.arange(len(ids)), counts)
        starts = np.cumsum(counts) - counts
        within = np.arange(len(owners)) - starts[owners]
        return owners, self.rows.take(column(low[ids][owners] + within))

    def fingerprint(self) -> str:
        """See :class:`~tidemill.task.indexes.index.Index`."""
        return digest_of(pa.Table.from_batches([self.rows])) + ",".join(self.columns)

    def __str__(self) -> str:
        return f"a table of {self.rows.num_rows:,} rows"
