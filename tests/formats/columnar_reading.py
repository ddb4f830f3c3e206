"""Reading Parquet and Arrow files in tests: whole, or in splits."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from itertools import pairwise

from csv_reading import Table, as_table

from tidemill.formats.base import FileRowReader
from tidemill.formats.registry import lookup
from tidemill.schema import Schema


def read_file(
    format_: str,
    data: bytes,
    schema: Schema,
    needed: Sequence[str] | None = None,
    cuts: Sequence[int] = (),
    options: Mapping[str, str] | None = None,
) -> Table:
    """Rows of all splits of a file that is cut at ``cuts``, in order."""
    reader = lookup(format_).reader(schema, options or {}, schema.names if needed is None else needed)
    assert isinstance(reader, FileRowReader)
    parts = []
    for start, end in pairwise([0, *cuts, len(data)]):
        parts += list(reader.rows(io.BytesIO(data), start=start, end=end, file_size=len(data)))
    return as_table(parts)
