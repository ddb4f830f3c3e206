"""Tables as JSON texts, made column by column."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa

from tidemill.schema import WEIGHT, type_to_ddl
from tidemill.task.functions.columns.compute import pc
from tidemill.task.functions.documents.json_write import value_texts
from tidemill.zones import UTC

MEDIA_TYPE = "application/json"
_MOST_ROWS = 1 << 16
"""Rows whose text is made at once: a column of text holds 2 GiB."""
_VALUE_BYTES = 24
"""Of a number or a time, about the longest."""


def row_arrays(table: pa.Table, time_zone: str = UTC) -> Iterable[bytes]:
    """JSON arrays, one a row, joined by commas, in parts of at most 65,536 rows; nothing for an empty table.

    Values are written as Spark's ``to_json`` writes them: decimals as numbers, times as ISO texts in ``time_zone``,
    here with microseconds, ``NaN`` and infinities as texts, binary in Base64. NULL is ``null``.
    """
    for part in _parts(table):
        cells = [value_texts(c, time_zone) for c in part.columns]
        yield _joined_rows("[", _separated(cells, part.num_rows), "]")


def change_objects(table: pa.Table, time_zone: str = UTC) -> Iterable[bytes]:
    """JSON objects, one a changed row, joined by commas: ``weight`` first, then the columns of the view.

    A view that has a column ``weight`` gets the multiplicity as ``__weight``.
    """
    names = [n for n in table.column_names if n != WEIGHT]
    weight = WEIGHT if "weight" in names else "weight"
    for part in _parts(table):
        cells = [_named(weight, value_texts(part.column(WEIGHT), time_zone))]
        cells += [_named(n, value_texts(part.column(n), time_zone)) for n in names]
        yield _joined_rows("{", _separated(cells, part.num_rows), "}")


def result(epoch: int, tables: Iterable[pa.Table], time_zone: str = UTC) -> Iterable[bytes]:
    """``{"epoch", "columns", "types", "rows"}``: a whole result, part by part; at least one table."""
    yield head(epoch)
    yield from body(tables, time_zone)


def head(epoch: int) -> bytes:
    """The beginning of a result; :func:`body` is the rest, which does not depend on the epoch."""
    return f'{{"epoch": {epoch}, '.encode()


def body(tables: Iterable[pa.Table], time_zone: str = UTC) -> Iterable[bytes]:
    """What follows :func:`head`."""
    separator = b""
    for i, table in enumerate(tables):
        if not i:
            schema = table.schema
            described = {"columns": schema.names, "types": [type_to_ddl(f.type) for f in schema]}
            yield json.dumps(described)[1:-1].encode() + b', "rows": ['
        for text in row_arrays(table, time_zone):
            yield separator + text
            separator = b","
    yield b"]}"


def changes(epoch: int, view: str, table: pa.Table, time_zone: str = UTC, initial: bool = False) -> bytes:
    """``{"epoch", "view", "changes"}``: what an epoch changed in a view; ``"initial": true`` for all its rows."""
    head = json.dumps({"epoch": epoch, "view": view, **({"initial": True} if initial else {})})[:-1].encode()
    return head + b', "changes": [' + b",".join(change_objects(table, time_zone)) + b"]}"


def fitting(table: pa.Table, most_bytes: int) -> int:
    """About how many of the first rows of a table :func:`changes` can write in so many bytes; at least one."""
    least = sum(len(name) + 6 for name in table.column_names)
    sizes = np.full(table.num_rows, least + 2, np.int64)
    for values in table.columns:
        if pa.types.is_string(values.type) or pa.types.is_binary(values.type):
            sizes += np.asarray(pc.fill_null(pc.binary_length(values), 0).cast(pa.int64())) * 4 // 3
        elif pa.types.is_nested(values.type):
            sizes += 4 * values.nbytes // max(1, len(values))
        else:
            sizes += _VALUE_BYTES
    return max(1, int(np.searchsorted(np.cumsum(sizes), most_bytes, side="right")))


def _parts(table: pa.Table) -> Iterable[pa.RecordBatch]:
    for start in range(0, table.num_rows, _MOST_ROWS):
        part = table.slice(start, _MOST_ROWS).combine_chunks()
        yield pa.RecordBatch.from_arrays([c.combine_chunks() for c in part.columns], names=part.column_names)


def _named(name: str, values: pa.Array[Any]) -> pa.Array[Any]:
    return pc.binary_join_element_wise(json.dumps(name, ensure_ascii=False) + ":", values, "")


def _separated(cells: list[pa.Array[Any]], rows: int) -> pa.Array[Any]:
    if not cells:
        return pa.repeat("", rows)
    return cells[0] if len(cells) == 1 else pc.binary_join_element_wise(*cells, ",")


def _joined_rows(left: str, rows: pa.Array[Any], right: str) -> bytes:
    whole = pa.ListArray.from_arrays(pa.array([0, len(rows)], pa.int32()), rows)
    text = pc.binary_join(whole, f"{right},{left}")[0].as_buffer()
    return b"".join((left.encode(), memoryview(text), right.encode()))
