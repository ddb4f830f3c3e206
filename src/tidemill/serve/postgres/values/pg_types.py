"""PostgreSQL's types, and which of them stands for a type of Spark's or DuckDB's."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

_ARRAY_CATEGORY = "A"


@dataclass(frozen=True)
class PgType:
    """A type as clients know it.

    Attributes
    ----------
    name : str
        As ``format_type`` shows it, without a modifier.
    oid : int
        Its number in ``pg_type``.
    size : int
        Bytes of a value, -1 for a length that varies (``typlen``).
    category : str
        ``typcategory``.
    array : int
        The number of the type of its arrays; 0 for none.
    short : str
        ``typname``.
    modifier : int
        ``atttypmod``: precision and scale of a numeric; -1 for none.
    element : PgType or None
        Of an array.
    """

    name: str
    oid: int
    size: int
    category: str
    array: int
    short: str
    modifier: int = -1
    element: PgType | None = None

    @property
    def shown(self) -> str:
        """As ``format_type`` shows it with its modifier."""
        if self.element is not None:
            return f"{self.element.shown}[]"
        if self.modifier < 0:
            return self.name
        packed = self.modifier - 4
        return f"{self.name}({packed >> 16},{packed & 0xFFFF})"


BOOL = PgType("boolean", 16, 1, "B", 1000, "bool")
BYTEA = PgType("bytea", 17, -1, "U", 1001, "bytea")
CHAR = PgType('"char"', 18, 1, "Z", 1002, "char")
NAME = PgType("name", 19, 64, "S", 1003, "name")
INT8 = PgType("bigint", 20, 8, "N", 1016, "int8")
INT2 = PgType("smallint", 21, 2, "N", 1005, "int2")
INT4 = PgType("integer", 23, 4, "N", 1007, "int4")
TEXT = PgType("text", 25, -1, "S", 1009, "text")
OID = PgType("oid", 26, 4, "N", 1028, "oid")
JSON = PgType("json", 114, -1, "U", 199, "json")
FLOAT4 = PgType("real", 700, 4, "N", 1021, "float4")
FLOAT8 = PgType("double precision", 701, 8, "N", 1022, "float8")
UNKNOWN = PgType("unknown", 705, -2, "X", 0, "unknown")
BPCHAR = PgType("character", 1042, -1, "S", 1014, "bpchar")
VARCHAR = PgType("character varying", 1043, -1, "S", 1015, "varchar")
DATE = PgType("date", 1082, 4, "D", 1182, "date")
TIME = PgType("time without time zone", 1083, 8, "D", 1183, "time")
TIMESTAMP = PgType("timestamp without time zone", 1114, 8, "D", 1115, "timestamp")
TIMESTAMPTZ = PgType("timestamp with time zone", 1184, 8, "D", 1185, "timestamptz")
INTERVAL = PgType("interval", 1186, 16, "T", 1187, "interval")
NUMERIC = PgType("numeric", 1700, -1, "N", 1231, "numeric")
REGCLASS = PgType("regclass", 2205, 4, "N", 2210, "regclass")
REGTYPE = PgType("regtype", 2206, 4, "N", 2211, "regtype")
UUID = PgType("uuid", 2950, 16, "U", 2951, "uuid")
JSONB = PgType("jsonb", 3802, -1, "U", 3807, "jsonb")

SCALARS = (
    *(BOOL, BYTEA, CHAR, NAME, INT8, INT2, INT4, TEXT, OID, JSON, FLOAT4, FLOAT8, UNKNOWN, BPCHAR, VARCHAR, DATE, TIME),
    *(TIMESTAMP, TIMESTAMPTZ, INTERVAL, NUMERIC, REGCLASS, REGTYPE, UUID, JSONB),
)


def array_of(element: PgType) -> PgType:
    """The type of arrays of a type."""
    return PgType(f"{element.name}[]", element.array, -1, _ARRAY_CATEGORY, 0, f"_{element.short}", element=element)


ARRAYS = tuple(array_of(t) for t in SCALARS if t.array)
BY_OID = {t.oid: t for t in (*SCALARS, *ARRAYS)}
BY_NAME = {n: t for t in (*SCALARS, *ARRAYS) for n in (t.name, t.short)} | {"varchar": VARCHAR, "decimal": NUMERIC}

_FROM_ARROW: dict[pa.DataType, PgType] = {
    pa.null(): TEXT,
    pa.bool_(): BOOL,
    pa.int8(): INT2,
    pa.uint8(): INT2,
    pa.int16(): INT2,
    pa.uint16(): INT4,
    pa.int32(): INT4,
    pa.uint32(): OID,
    pa.int64(): INT8,
    pa.uint64(): NUMERIC,
    pa.float32(): FLOAT4,
    pa.float64(): FLOAT8,
    pa.string(): TEXT,
    pa.large_string(): TEXT,
    pa.string_view(): TEXT,
    pa.binary(): BYTEA,
    pa.large_binary(): BYTEA,
    pa.date32(): DATE,
    pa.month_day_nano_interval(): INTERVAL,
}

_FROM_DUCKDB = {
    '"NULL"': TEXT,
    "BOOLEAN": BOOL,
    "TINYINT": INT2,
    "UTINYINT": INT2,
    "SMALLINT": INT2,
    "USMALLINT": INT4,
    "INTEGER": INT4,
    "UINTEGER": OID,
    "BIGINT": INT8,
    "UBIGINT": NUMERIC,
    "HUGEINT": NUMERIC,
    "UHUGEINT": NUMERIC,
    "FLOAT": FLOAT4,
    "DOUBLE": FLOAT8,
    "VARCHAR": TEXT,
    "UUID": TEXT,
    "JSON": JSON,
    "BLOB": BYTEA,
    "DATE": DATE,
    "TIME": TIME,
    "TIMESTAMP": TIMESTAMP,
    "TIMESTAMP_S": TIMESTAMP,
    "TIMESTAMP_MS": TIMESTAMP,
    "TIMESTAMP_NS": TIMESTAMP,
    "TIMESTAMP WITH TIME ZONE": TIMESTAMPTZ,
    "INTERVAL": INTERVAL,
}
"""HUGEINT, which sums of integers have, has at most 38 digits, as the Arrow type has that it becomes."""


def numeric(precision: int, scale: int) -> PgType:
    """``numeric(precision, scale)``."""
    return replace(NUMERIC, modifier=(precision << 16 | scale) + 4)


def of_arrow(type_: pa.DataType) -> PgType:
    """The type of an Arrow type: what views have, and what Spark answers.

    Arrays of scalars are arrays; structs, maps and arrays of these are ``json``.
    """
    if type_ in _FROM_ARROW:
        return _FROM_ARROW[type_]
    if pa.types.is_decimal(type_):
        return numeric(type_.precision, type_.scale)
    if pa.types.is_timestamp(type_):
        return TIMESTAMP if type_.tz is None else TIMESTAMPTZ
    if pa.types.is_time(type_):
        return TIME
    if pa.types.is_duration(type_):
        return INTERVAL
    if pa.types.is_list(type_):
        return _list_of(of_arrow(type_.value_type))
    return JSON


def of_duckdb(type_: Any) -> PgType | None:
    """The type of a DuckDB type (``DuckDBPyType``); None for one that has none here."""
    name = str(type_)
    if name in _FROM_DUCKDB:
        return _FROM_DUCKDB[name]
    match type_.id:
        case "decimal":
            (_, precision), (_, scale) = type_.children
            return numeric(precision, scale)
        case "enum":
            return TEXT
        case "list" | "array":
            inner = of_duckdb(type_.children[0][1])
            return None if inner is None else _list_of(inner)
        case "struct" | "map":
            return JSON
    return None


def _list_of(element: PgType) -> PgType:
    return array_of(element) if element.array and element is not JSON else JSON
