"""Batches of rows as DataRow messages, all of a batch at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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
    return [memoryview(messages(b"D", cells_of(part, types, binary, zone), part.num_rows)) for part in parts_of(batch)]


def parts_of(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """A batch as parts of some megabytes; a part has at least one row."""
    if batch.num_rows > 1 and batch.nbytes > _MOST_BYTES:
        half = batch.num_rows // 2
        yield from parts_of(batch.slice(0, half))
        yield from parts_of(batch.slice(half))
    else:
        yield batch


def cells_of(batch: pa.RecordBatch, types: Sequence[PgType], binary: Sequence[bool], zone: str) -> list[pa.Array[Any]]:
    """The values of a batch as bytes, a column each; columns behind those that have a type are left out."""
    return [
        binary_cells(column, type_, zone) if as_binary else text_cells(column, zone).cast(pa.binary())
        for column, type_, as_binary in zip(batch.columns[: len(types)], types, binary, strict=True)
    ]


def messages(kind: bytes, cells: Sequence[pa.Array[Any]], rows: int) -> pa.Buffer:
    """A message for each row: how many cells it has, then each behind its length."""
    head = np.empty(rows, _HEAD)
    total = np.full(rows, 6 + 4 * len(cells), np.int64)
    for cell in cells:
        total += pc.binary_length(cell).fill_null(0).to_numpy()
    head["kind"], head["length"], head["columns"] = kind, total, len(cells)
    ends = np.arange(rows + 1, dtype=np.int32) * np.int32(_HEAD.itemsize)
    heads = pa.Array.from_buffers(pa.binary(), rows, [None, buffer(ends), buffer(head)])
    pieces = [piece for cell in cells for piece in (lengths_of(cell), cell.fill_null(b""))]
    joined = pc.binary_join_element_wise(heads, *pieces, b"")
    data = joined.buffers()[2]
    return pa.py_buffer(b"") if data is None else data.slice(0, int(total.sum()) + rows)
