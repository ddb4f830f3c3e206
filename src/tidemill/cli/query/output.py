"""Tables as text for people and as CSV, JSON and Arrow for programs."""

from __future__ import annotations

import datetime
import json
import math
from collections.abc import Callable, Iterable
from io import IOBase
from itertools import chain
from typing import IO, Any, cast

import pyarrow as pa
import pyarrow.csv

from tidemill.cli.query.far_years import values_of
from tidemill.errors import TidemillError, nearest
from tidemill.zones import UTC

_WIDEST = 60


def write(table: pa.Table, format_: str, stream: IO[bytes]) -> None:
    """Write a table.

    Parameters
    ----------
    format_ : str
        ``table``: aligned columns and a count. ``csv``: a header line, NULL as an empty field, floats in full
        precision. ``json``: one object a line. ``arrow``: an Arrow IPC stream.

    Raises
    ------
    TidemillError
        TM7002 for another format.
    """
    write_parts((table,), format_, stream)


def write_parts(tables: Iterable[pa.Table], format_: str, stream: IO[bytes]) -> None:
    """Write rows that come in several tables of one schema, at least one; see :func:`write`.

    Each table is written before the next is read, except in format ``table``, which needs the widest cell of each
    column.
    """
    check_format(format_)
    FORMATS[format_](tables, stream)


def check_format(format_: str) -> None:
    """TM7002 for a format that does not exist."""
    if format_ not in FORMATS:
        raise TidemillError("TM7002", "unknown output format", got=format_, hint=nearest(format_, FORMATS))


def with_epoch(table: pa.Table, epoch: int) -> pa.Table:
    """The table with a first column ``__epoch``."""
    return table.add_column(0, "__epoch", pa.array([epoch] * table.num_rows, pa.int64()))


def shown_in(table: pa.Table, time_zone: str) -> pa.Table:
    """The table with its timestamps in a time zone; the instants stay the same."""
    schema = pa.schema([f.with_type(_type_in(f.type, time_zone)) for f in table.schema])
    return table if schema == table.schema else table.cast(schema)


def _type_in(type_: pa.DataType, zone: str) -> pa.DataType:
    if pa.types.is_timestamp(type_) and type_.tz:
        return pa.timestamp(type_.unit, zone)
    if pa.types.is_list(type_):
        return pa.list_(type_.value_field.with_type(_type_in(type_.value_type, zone)))
    if pa.types.is_struct(type_):
        return pa.struct([f.with_type(_type_in(f.type, zone)) for f in type_])
    if pa.types.is_map(type_):
        return pa.map_(_type_in(type_.key_type, zone), _type_in(type_.item_type, zone))
    return type_


def _write_table(tables: Iterable[pa.Table], stream: IO[bytes]) -> None:
    table = pa.concat_tables(tables)
    stream.write(aligned(table.schema, shown_columns(table)).encode())


def shown_columns(table: pa.Table) -> list[list[str]]:
    """The cells of each column as a person reads them."""
    return [[_shown(v) for v in _readable(column)] for column in table.columns]


def aligned(schema: pa.Schema, columns: list[list[str]]) -> str:
    """Names, cells in aligned columns, and how many rows there are."""
    names = schema.names
    widths = [max([len(n), *(len(v) for v in c)]) for n, c in zip(names, columns, strict=True)]
    right = [pa.types.is_integer(f.type) or pa.types.is_floating(f.type) or pa.types.is_decimal(f.type) for f in schema]

    def line(values: Iterable[str]) -> str:
        cells = zip(values, widths, right, strict=True)
        return "  ".join(v.rjust(w) if r else v.ljust(w) for v, w, r in cells).rstrip()

    lines = [line(names), line("-" * w for w in widths), *(line(row) for row in zip(*columns, strict=True))]
    rows = len(columns[0]) if columns else 0
    lines.append(f"({rows:,} row{'' if rows == 1 else 's'})")
    return "\n".join(lines) + "\n"


def _shown(value: Any) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return f"{value:.10g}" if math.isfinite(value) else str(value)
    text = _text(value).replace("\n", "\\n").replace("\r", "\\r")
    return text if len(text) <= _WIDEST else text[: _WIDEST - 1] + "…"


def _text(value: Any, exact: bool = False) -> str:
    """A value as text. With ``exact``, for programs, a timestamp outside UTC is followed by its offset."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    if isinstance(value, datetime.datetime):
        with_offset = exact and value.tzinfo is not None and str(value.tzinfo) != UTC
        return (value if with_offset else value.replace(tzinfo=None)).isoformat(" ")
    return str(value)


def _readable(column: pa.ChunkedArray[Any], exact: bool = False) -> list[Any]:
    """The values of a column; those of arrays, structs and maps as Spark casts them to text."""
    values = values_of(column, exact and not pa.types.is_nested(column.type))
    if not pa.types.is_nested(column.type):
        return values
    return [None if v is None else _nested_text(v, column.type) for v in values]


def _nested_text(value: Any, type_: pa.DataType) -> str:
    if value is None:
        return "NULL"
    if pa.types.is_list(type_):
        return "[" + ", ".join(_nested_text(v, type_.value_type) for v in value) + "]"
    if pa.types.is_struct(type_):
        return "{" + ", ".join(_nested_text(value[f.name], f.type) for f in type_) + "}"
    if pa.types.is_map(type_):
        pairs = (f"{_nested_text(k, type_.key_type)} -> {_nested_text(v, type_.item_type)}" for k, v in value)
        return "{" + ", ".join(pairs) + "}"
    return str(value).lower() if isinstance(value, bool) else _text(value)


def _write_csv(tables: Iterable[pa.Table], stream: IO[bytes]) -> None:
    options = pyarrow.csv.WriteOptions(quoting_style="needed")
    parts = map(_printable, tables)
    first = next(parts)
    with pyarrow.csv.CSVWriter(stream, first.schema, write_options=options) as writer:
        for part in chain((first,), parts):
            writer.write_table(part)


def _printable(table: pa.Table) -> pa.Table:
    """Columns that CSV cannot hold, as text."""
    columns = []
    for column in table.columns:
        type_ = column.type
        is_time = pa.types.is_timestamp(type_) or pa.types.is_date(type_)
        if is_time or pa.types.is_binary(type_) or pa.types.is_nested(type_):
            column = pa.chunked_array(
                [pa.array([None if v is None else _text(v, exact=True) for v in _readable(column, True)], pa.string())]
            )
        columns.append(column)
    return pa.Table.from_arrays(columns, names=table.column_names)


def _write_json(tables: Iterable[pa.Table], stream: IO[bytes]) -> None:
    for table in tables:
        columns = [
            [_json_nested(v, c.type) for v in values] if pa.types.is_nested(c.type) else values
            for c, values in zip(table.columns, (values_of(c, exact=True) for c in table.columns), strict=True)
        ]
        for row in zip(*columns, strict=True):
            values = {name: _json_value(value) for name, value in zip(table.column_names, row, strict=True)}
            stream.write(json.dumps(values, ensure_ascii=False, allow_nan=False).encode() + b"\n")


def _json_nested(value: Any, type_: pa.DataType) -> Any:
    """A nested value with its maps as objects."""
    if value is None:
        return None
    if pa.types.is_list(type_):
        return [_json_nested(v, type_.value_type) for v in value]
    if pa.types.is_struct(type_):
        return {f.name: _json_nested(value[f.name], f.type) for f in type_}
    if pa.types.is_map(type_):
        return {_nested_text(k, type_.key_type): _json_nested(v, type_.item_type) for k, v in value}
    return value


def _json_value(value: Any) -> Any:
    """A value for JSON: NaN, decimals, dates and bytes are text, as Spark's ``to_json`` writes them."""
    if isinstance(value, dict):
        return {str(k): _json_value(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_json_value(v) for v in value]
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value if value is None or isinstance(value, bool | int | float | str) else _text(value, exact=True)


def _write_arrow(tables: Iterable[pa.Table], stream: IO[bytes]) -> None:
    parts = iter(tables)
    first = next(parts)
    with pa.ipc.new_stream(cast("IOBase", stream), first.schema) as writer:
        for part in chain((first,), parts):
            writer.write_table(part)


FORMATS: dict[str, Callable[[Iterable[pa.Table], IO[bytes]], None]] = {
    "table": _write_table,
    "csv": _write_csv,
    "json": _write_json,
    "arrow": _write_arrow,
}
