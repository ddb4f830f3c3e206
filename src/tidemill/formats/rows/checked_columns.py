"""The columns that a reader parses, and the batch that it makes of those that are needed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import pyarrow as pa

from tidemill.schema import Field

Parser = TypeVar("Parser")


@dataclass(frozen=True)
class CheckedColumn(Generic[Parser]):
    """A column that is parsed because the query needs it, or because it decides whether a row is kept.

    Attributes
    ----------
    ordinal : int
        Its place in the schema.
    parser
        What makes its array.
    """

    ordinal: int
    field: Field
    parser: Parser


def make_batch(fields: Iterable[Field] | pa.Schema, arrays: Sequence[pa.Array[Any]], count: int) -> pa.RecordBatch:
    """A batch of ``count`` rows, also when there is no column."""
    if not arrays:
        rows: Any = pa.Array.from_buffers(pa.struct([]), count, [None])
        return pa.RecordBatch.from_struct_array(rows)
    schema = fields if isinstance(fields, pa.Schema) else schema_of(fields)
    return pa.RecordBatch.from_arrays(list(arrays), schema=schema)


def schema_of(fields: Iterable[Field]) -> pa.Schema:
    """The Arrow schema of columns."""
    return pa.schema([pa.field(f.name, f.type, f.nullable) for f in fields])
