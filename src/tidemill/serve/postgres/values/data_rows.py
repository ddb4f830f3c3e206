"""Batches of rows as DataRow messages, all of a batch at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from tidemill.serve.postgres.values.binary_cells import binary_cells, lengths_of
from tidemill.serve.postgres.values.pg_types import PgType
from tidemill.serve.postgres.values.text_cells import text_cells
from tidemill.task.functions.columns.compute import buffer, pc

_MOST_BYTES = 16 << 20
_HEAD = np.dtype([("kind", "S1"), ("length", ">i4"), ("columns", ">i2")])


def data_rows(batch: pa.RecordBatch, types: Sequence[PgType], binary: Sequence[bool], zone: str) -> list[memoryview]:
    """The messages of the rows of a batch, in order.

    Parameters
    ----------
    types : sequence of PgType
        Of the columns.
    binary : sequence of bool
        Which columns are in the binary format.
    zone : str
        Whose clock the text format shows.

    Returns
    -------
    list of memoryview
        Parts of some megabytes, unless one row is longer.
    """
    if batch.num_rows > 1 and batch.nbytes > _MOST_BYTES:
        half = batch.num_rows // 2
        parts = (batch.slice(0, half), batch.slice(half))
        return [data for part in parts for data in data_rows(part, types, binary, zone)]
    cells = [
        binary_cells(column, type_, zone) if as_binary else text_cells(column, zone).cast(pa.binary())
        for column, type_, as_binary in zip(batch.columns, types, binary, strict=True)
    ]
    return [memoryview(_rows(cells, batch.num_rows))]


def _rows(cells: Sequence[pa.Array[Any]], rows: int) -> pa.Buffer:
    head = np.empty(rows, _HEAD)
    total = np.full(rows, 6 + 4 * len(cells), np.int64)
    for cell in cells:
        total += pc.binary_length(cell).fill_null(0).to_numpy()
    head["kind"], head["length"], head["columns"] = b"D", total, len(cells)
    ends = np.arange(rows + 1, dtype=np.int32) * np.int32(_HEAD.itemsize)
    heads = pa.Array.from_buffers(pa.binary(), rows, [None, buffer(ends), buffer(head)])
    pieces = [piece for cell in cells for piece in (lengths_of(cell), cell.fill_null(b""))]
    joined = pc.binary_join_element_wise(heads, *pieces, b"")
    data = joined.buffers()[2]
    return pa.py_buffer(b"") if data is None else data.slice(0, int(total.sum()) + rows)
