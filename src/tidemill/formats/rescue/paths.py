"""Where rescued data came from: ``_file_path`` in each text."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from tidemill.formats.base import Rows
from tidemill.formats.rescue.object_texts import json_text

FILE_PATH = "_file_path"


def with_file_path(rows: Rows, column: str, path: str) -> Rows:
    """The rows with the path of their file put into every text of a column, which are JSON objects with a key."""
    place = rows.batch.schema.get_field_index(column)
    if place < 0 or not path or rows.batch.column(place).null_count == rows.count:
        return rows
    last = f',"{FILE_PATH}":{json_text(path)}}}'
    texts: pa.BinaryArray = rows.batch.column(place).cast(pa.binary())  # type: ignore[assignment]  # no class in the stubs
    texts = pc.binary_replace_slice(texts, -1, 1 << 62, last.encode())
    return replace(rows, batch=rows.batch.set_column(place, rows.batch.schema.field(place), texts.cast(pa.string())))
