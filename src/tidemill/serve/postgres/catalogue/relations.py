"""The columns of catalogue relations, and their Arrow types."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.resources import files

import pyarrow as pa

_TYPES: dict[str, pa.DataType] = {
    "text": pa.string(),
    "oid": pa.uint32(),
    "int2": pa.int16(),
    "int4": pa.int32(),
    "int8": pa.int64(),
    "bool": pa.bool_(),
    "float4": pa.float32(),
    "float8": pa.float64(),
    "bytea": pa.binary(),
    "numeric": pa.decimal128(38, 0),
    "interval": pa.month_day_nano_interval(),
    "timestamptz": pa.timestamp("us", tz="UTC"),
}
PG_CATALOG, INFORMATION_SCHEMA = "pg_catalog", "information_schema"


@cache
def relations() -> Mapping[str, pa.Schema]:
    """The schema of each relation of the catalogue, by its full name such as ``pg_catalog.pg_class``."""
    found: dict[str, list[tuple[str, pa.DataType]]] = {}
    columns: list[tuple[str, pa.DataType]] = []
    for line in files(__package__).joinpath("relations.txt").read_text().splitlines():
        if line.startswith(" "):
            columns += [(n, _type(t)) for n, t in (part.split(":") for part in line.split())]
        elif not line.startswith("#"):
            columns = found.setdefault(line, [])
    return {name: pa.schema(fields) for name, fields in found.items()}


def _type(name: str) -> pa.DataType:
    return pa.list_(_TYPES[name[:-2]]) if name.endswith("[]") else _TYPES[name]


def full_name(schema: str, name: str) -> str | None:
    """The full name of a catalogue relation; ``schema`` is empty for a name alone. None when there is none.

    A name alone is one of ``pg_catalog``, which is searched first.
    """
    wanted = f"{schema or PG_CATALOG}.{name}"
    return wanted if wanted in relations() else None
