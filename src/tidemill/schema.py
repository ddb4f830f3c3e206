"""Types and schemas: Spark's type names on the outside, Arrow's types inside."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow as pa

from tidemill.errors import TidemillError

WEIGHT = "__weight"
"""Name of the int64 column that carries the Z-set weight of a delta row."""

TIMESTAMP = pa.timestamp("us", tz="UTC")
TIMESTAMP_NTZ = pa.timestamp("us")
DAY_TIME = pa.duration("us")
"""An interval of days to seconds, whichever fields it shows."""
YEAR_MONTH = pa.duration("s")
"""An interval of years and months. Arrow has no such type that it computes with: the unit means months."""

_ATOMIC: dict[str, pa.DataType] = {
    "void": pa.null(),
    "boolean": pa.bool_(),
    "byte": pa.int8(),
    "short": pa.int16(),
    "integer": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": TIMESTAMP,
    "timestamp_ntz": TIMESTAMP_NTZ,
}

_DDL: dict[pa.DataType, str] = {
    pa.null(): "void",
    pa.bool_(): "boolean",
    pa.int8(): "tinyint",
    pa.int16(): "smallint",
    pa.int32(): "int",
    pa.int64(): "bigint",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.string(): "string",
    pa.binary(): "binary",
    pa.date32(): "date",
    TIMESTAMP: "timestamp",
    TIMESTAMP_NTZ: "timestamp_ntz",
    DAY_TIME: "interval day to second",
    YEAR_MONTH: "interval year to month",
}

_DAY_TIME = re.compile(r"interval (day|hour|minute|second)( to (hour|minute|second))?")
_YEAR_MONTH = re.compile(r"interval (year|month)( to month)?")

_DECIMAL = re.compile(r"decimal\((\d+),\s*(-?\d+)\)")
_SIZED_STRING = re.compile(r"(?:var)?char\(\d+\)")


def type_from_spark(spec: Any) -> pa.DataType:
    """The Arrow type of a Spark type in Spark's JSON form.

    Parameters
    ----------
    spec : str or dict
        ``"long"``, ``"decimal(12,2)"``, or the object Spark writes for array, map and struct.

    Raises
    ------
    TidemillError
        TM2002 for a type that Tidemill does not store.
    """
    if isinstance(spec, str):
        if spec in _ATOMIC:
            return _ATOMIC[spec]
        if match := _DECIMAL.fullmatch(spec):
            return pa.decimal128(int(match[1]), int(match[2]))
        if _DAY_TIME.fullmatch(spec):
            return DAY_TIME
        if _YEAR_MONTH.fullmatch(spec):
            return YEAR_MONTH
        if spec.startswith("string collate") or _SIZED_STRING.fullmatch(spec):
            return pa.string()
    elif spec.get("type") == "array":
        return pa.list_(type_from_spark(spec["elementType"]))
    elif spec.get("type") == "map":
        return pa.map_(type_from_spark(spec["keyType"]), type_from_spark(spec["valueType"]))
    elif spec.get("type") == "struct":
        # Fields may always be NULL: what Catalyst knows about that must not make two types of one.
        return pa.struct([pa.field(f["name"], type_from_spark(f["type"])) for f in spec["fields"]])
    raise TidemillError(
        "TM2002",
        "this type cannot be stored",
        got=spec if isinstance(spec, str) else json.dumps(spec),
        hint="supported: " + ", ".join(sorted(_ATOMIC)) + ", decimal(p,s), array, map, struct",
    )


def nullable_type(type_: pa.DataType) -> pa.DataType:
    """The type with every element and field nullable and named as here: how Tidemill writes nested types."""
    if pa.types.is_list(type_):
        return pa.list_(nullable_type(type_.value_type))
    if pa.types.is_map(type_):
        return pa.map_(nullable_type(type_.key_type), nullable_type(type_.item_type))
    if pa.types.is_struct(type_):
        return pa.struct([pa.field(f.name, nullable_type(f.type)) for f in type_])
    return type_


def check_storable(type_: pa.DataType, *not_stored: pa.DataType) -> None:
    """Refuse a type that is, or has within it, one that is only computed with.

    Raises
    ------
    TidemillError
        TM2002 naming the type.
    """
    if type_ in not_stored:
        raise TidemillError(
            "TM2002",
            "this type cannot be stored",
            got=type_to_ddl(type_),
            hint="cast an interval to a number or to a text",
        )
    for at in range(type_.num_fields):
        check_storable(type_.field(at).type, *not_stored)


def quoted(name: str) -> str:
    """A name in back quotes, as SQL takes any name."""
    return f"`{name.replace('`', '``')}`"


def type_to_ddl(type_: pa.DataType) -> str:
    """The name Spark SQL gives to an Arrow type, e.g. ``bigint`` or ``array<string>``."""
    if type_ in _DDL:
        return _DDL[type_]
    if pa.types.is_decimal(type_):
        return f"decimal({type_.precision},{type_.scale})"
    if pa.types.is_list(type_):
        return f"array<{type_to_ddl(type_.value_type)}>"
    if pa.types.is_map(type_):
        return f"map<{type_to_ddl(type_.key_type)},{type_to_ddl(type_.item_type)}>"
    if pa.types.is_struct(type_):
        inner = ",".join(f"{quoted(f.name)}:{type_to_ddl(f.type)}" for f in type_)
        return f"struct<{inner}>"
    raise TidemillError("TM2002", "this type cannot be stored", got=str(type_))


@dataclass(frozen=True)
class Field:
    """One column: its name, Arrow type, and whether NULL may occur."""

    name: str
    type: pa.DataType
    nullable: bool = True


@dataclass(frozen=True)
class Schema:
    """An ordered list of columns."""

    fields: tuple[Field, ...]

    def __iter__(self) -> Iterator[Field]:
        return iter(self.fields)

    def __len__(self) -> int:
        return len(self.fields)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Column names in order."""
        return tuple(f.name for f in self.fields)

    @cached_property
    def types(self) -> tuple[pa.DataType, ...]:
        """Arrow types in order."""
        return tuple(f.type for f in self.fields)

    def to_arrow(self) -> pa.Schema:
        """The same columns as an Arrow schema."""
        return pa.schema([pa.field(f.name, f.type, f.nullable) for f in self.fields])

    def to_ddl(self) -> str:
        """The same columns as a Spark column list."""
        return ", ".join(
            f"{quoted(f.name)} {type_to_ddl(f.type)}{'' if f.nullable else ' NOT NULL'}" for f in self.fields
        )

    def __reduce__(self) -> tuple[type[Schema], tuple[tuple[Field, ...]]]:
        return Schema, (self.fields,)

    def all_nullable(self) -> Schema:
        """The same columns, any of which may be NULL."""
        return Schema(tuple(Field(f.name, f.type) for f in self.fields))
