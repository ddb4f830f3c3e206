"""Merges the schemas of files that carry one, and widens their types to those of columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from tidemill.errors import FormatError
from tidemill.formats.columnar.lossless import lossless, matching
from tidemill.schema import TIMESTAMP, TIMESTAMP_NTZ, Field, Schema

_UNSIGNED: dict[int, pa.DataType] = {8: pa.int16(), 16: pa.int32(), 32: pa.int64(), 64: pa.decimal128(20, 0)}
_NUMBERS: tuple[pa.DataType, ...] = (pa.int16(), pa.int32(), pa.int64(), pa.float32(), pa.float64())
_DIGITS = {8: 3, 16: 5, 32: 10, 64: 19}
_MOST_DIGITS = 38


def merged_schema(files: Sequence[tuple[str, pa.Schema]]) -> Schema:
    """The columns of some files, by name in any case, in the order in which they first occur.

    Parameters
    ----------
    files : sequence of (str, pyarrow.Schema)
        Path and schema of each.

    Raises
    ------
    FormatError
        TM4072 when no type holds what two files have in a column, or what one has; TM4044 for a column that a file
        has more than once.
    """
    fields: list[pa.Field[Any]] = []
    for path, schema in files:
        for column in schema:
            if len(matching(schema.names, column.name)) > 1:
                raise FormatError(
                    "TM4044",
                    f"the file has the column {column.name!r} more than once",
                    got=f"{path}: {', '.join(schema.names)}",
                    hint="column names are case-insensitive; rename the columns in the file",
                )
        found = _union(fields, list(schema))
        if isinstance(found, str):
            raise FormatError(
                "TM4072",
                "no type holds what the files have in a column",
                got=f"{path}: {found}",
                hint="list the columns with their types, or give the type of this one in schemaHints",
            )
        fields = found
    return Schema(tuple(Field(f.name, pa.string() if f.type == pa.null() else f.type) for f in fields))


def _union(left: list[pa.Field[Any]], right: list[pa.Field[Any]]) -> list[pa.Field[Any]] | str:
    """All fields of both, or what is wrong with one of them."""
    fields = list(left)
    for field in right:
        places = matching([f.name for f in fields], field.name)
        type_ = held_type(field.type)
        if type_ is not None and places:
            type_ = common_type(fields[places[0]].type, type_)
        if type_ is None:
            before = f", {fields[places[0]].type} before" if places else ""
            return f"{field.name} is {field.type}{before}"
        if places:
            fields[places[0]] = pa.field(fields[places[0]].name, type_)
        else:
            fields.append(pa.field(field.name, type_))
    return fields


def held_type(type_: pa.DataType) -> pa.DataType | None:
    """The type of a column that holds all values of a type of Arrow's; None when there is none."""
    types = pa.types
    if isinstance(type_, pa.BaseExtensionType):
        return held_type(type_.storage_type)
    if types.is_dictionary(type_) or types.is_run_end_encoded(type_):
        return held_type(type_.value_type)
    if types.is_unsigned_integer(type_):
        return _UNSIGNED[type_.bit_width]
    if types.is_float16(type_):
        return pa.float32()
    if types.is_decimal(type_):
        digits, scale = max(type_.precision, type_.scale), max(type_.scale, 0)
        return pa.decimal128(digits, scale) if digits <= _MOST_DIGITS and type_.scale >= 0 else None
    if types.is_date(type_):
        return pa.date32()
    if types.is_timestamp(type_):
        return TIMESTAMP_NTZ if type_.tz is None else TIMESTAMP
    if types.is_string(type_) or types.is_large_string(type_) or types.is_string_view(type_):
        return pa.string()
    if types.is_struct(type_):
        fields = _union([], list(type_))
        return pa.struct(fields) if isinstance(fields, list) and fields else None
    if types.is_map(type_):
        key, item = held_type(type_.key_type), held_type(type_.item_type)
        return None if key is None or item is None else pa.map_(key, item)
    if types.is_list(type_) or types.is_large_list(type_) or types.is_fixed_size_list(type_):
        below = held_type(type_.value_type)
        return None if below is None else pa.list_(below)
    binary = types.is_binary(type_) or types.is_large_binary(type_) or types.is_binary_view(type_)
    if binary or types.is_fixed_size_binary(type_):
        return pa.binary()
    plain = types.is_null(type_) or types.is_boolean(type_) or types.is_signed_integer(type_)
    return type_ if plain or types.is_floating(type_) else None


def common_type(left: pa.DataType, right: pa.DataType) -> pa.DataType | None:
    """The narrowest type that holds all values of two types that columns have; None when there is none."""
    types = pa.types
    if types.is_struct(left) and types.is_struct(right):
        fields = _union(list(left), list(right))
        return pa.struct(fields) if isinstance(fields, list) else None
    if types.is_list(left) and types.is_list(right):
        below = common_type(left.value_type, right.value_type)
        return None if below is None else pa.list_(below)
    if types.is_map(left) and types.is_map(right):
        key, item = common_type(left.key_type, right.key_type), common_type(left.item_type, right.item_type)
        return None if key is None or item is None else pa.map_(key, item)
    if lossless(left, right) is not None:
        return right
    if lossless(right, left) is not None:
        return left
    if types.is_decimal(left) or types.is_decimal(right):
        return _decimal(left, right)
    return next((t for t in _NUMBERS if lossless(left, t) is not None and lossless(right, t) is not None), None)


def _decimal(left: pa.DataType, right: pa.DataType) -> pa.DataType | None:
    digits = scale = 0
    for type_ in (left, right):
        if pa.types.is_decimal(type_):
            digits, scale = max(digits, type_.precision - type_.scale), max(scale, type_.scale)
        elif pa.types.is_integer(type_):
            digits = max(digits, _DIGITS[type_.bit_width])
        else:
            return None
    return pa.decimal128(digits + scale, scale) if digits + scale <= _MOST_DIGITS else None
