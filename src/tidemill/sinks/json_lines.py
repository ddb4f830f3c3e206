"""Rows as JSON: one object a line, made column by column."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from tidemill.task.functions.columns.compute import pc
from tidemill.task.functions.documents.json_write import value_texts

_MOST_ROWS = 1 << 16
"""Rows whose text is made at once: a column of text holds 2 GiB."""


def batches(table: pa.Table, most: int = _MOST_ROWS) -> Iterator[pa.RecordBatch]:
    """A table in batches of at most so many rows, each column in one piece."""
    for start in range(0, table.num_rows, most):
        part = table.slice(start, most).combine_chunks()
        yield from part.to_batches()


def objects(batch: pa.RecordBatch, time_zone: str, separator: str) -> bytes:
    """JSON objects, one a row, joined by a separator. NULL is ``null``; values are as ``value_texts`` writes them."""
    if not batch.num_rows:
        return b""
    rows = value_texts(pa.StructArray.from_arrays(batch.columns, names=batch.schema.names), time_zone)
    whole = pa.ListArray.from_arrays(pa.array([0, len(rows)], pa.int32()), rows)
    text: bytes = pc.binary_join(whole, separator)[0].as_buffer().to_pybytes()
    return text


def lines(table: pa.Table, time_zone: str) -> Iterator[bytes]:
    """A table as JSON lines, each with its line end, in parts of at most 65,536 rows."""
    for batch in batches(table):
        yield objects(batch, time_zone, "\n") + b"\n"
