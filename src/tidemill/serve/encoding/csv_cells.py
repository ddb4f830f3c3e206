"""Tables whose cells CSV can hold."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from tidemill.task.functions.columns.compute import pc
from tidemill.task.functions.documents.json_write import value_texts
from tidemill.task.functions.times.time_text import usual_days
from tidemill.zones import UTC


def csv_cells(table: pa.Table, time_zone: str = UTC) -> pa.Table:
    """Columns that CSV has no form for as text: times, dates beyond the years 1 to
    9999 and nested values as in JSON, binary as Base64."""
    return pa.Table.from_arrays([_cells(c, time_zone) for c in table.columns], names=table.column_names)


def _cells(column: pa.ChunkedArray[Any], time_zone: str) -> pa.ChunkedArray[Any]:
    type_ = column.type
    is_time = pa.types.is_timestamp(type_) or (pa.types.is_date(type_) and not all(map(usual_days, column.chunks)))
    if not (is_time or pa.types.is_binary(type_) or pa.types.is_nested(type_)):
        return column
    array = column.combine_chunks()
    texts = value_texts(array, time_zone)
    if not pa.types.is_nested(type_):
        texts = pc.utf8_slice_codeunits(texts, 1, -1)  # without the quotes
    return pa.chunked_array([pc.if_else(array.is_valid(), texts, pa.scalar(None, pa.string()))])
