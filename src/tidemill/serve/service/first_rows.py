"""The first rows of a view by one of its columns."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tidemill.errors import TidemillError, nearest
from tidemill.task.functions.documents.json_write import value_texts


def first_rows(
    tables: Iterable[pa.Table], column: str | None, descending: bool, most: int, time_zone: str
) -> tuple[int, pa.Table]:
    """The first rows in the order of a column, and how many rows there are.

    Parameters
    ----------
    tables : iterable of pyarrow.Table
        All rows, at least one table. Each is read once, and at most ``most`` rows and one table are in memory.
    column : str or None
        Case-insensitive. NaN and then NULL come last in either direction. Structs, arrays and maps are in the
        order of their JSON texts. Rows with equal values are in no particular order. None for any rows.

    Returns
    -------
    (int, pyarrow.Table)
        Number of all rows; the first ones.

    Raises
    ------
    TidemillError
        TM8300 when there is no such column.
    """
    total, kept, at = 0, None, None
    for table in tables:
        if kept is None and column is not None:
            at = _position(table, column)
        total += table.num_rows
        rows = table if kept is None else pa.concat_tables((kept, table))
        if at is not None:
            keys = pa.table({"key": _key(rows.column(at), time_zone)})
            order = "descending" if descending else "ascending"
            rows = rows.take(pc.sort_indices(keys, sort_keys=[("key", order, "at_end")]).slice(0, most))  # type: ignore[list-item]
        kept = rows.slice(0, most)
    assert kept is not None, "there is at least one table"
    return total, kept


def _position(table: pa.Table, column: str) -> int:
    names = [n.lower() for n in table.column_names]
    if column.lower() not in names:
        raise TidemillError(
            "TM8300", "there is no such column to order by", got=column[:100], hint=nearest(column, table.column_names)
        )
    return names.index(column.lower())


def _key(column: pa.ChunkedArray[Any], time_zone: str) -> pa.ChunkedArray[Any]:
    if pa.types.is_nested(column.type) or pa.types.is_null(column.type):
        texts = value_texts(column.combine_chunks(), time_zone)
        return pa.chunked_array([pc.if_else(column.is_valid().combine_chunks(), texts, pa.scalar(None, texts.type))])
    return column
