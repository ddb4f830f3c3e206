"""Casts from the Arrow type of a file to the type that a table declares, where no value can change.

| file | table |
|---|---|
| integer | wider integer; float or double that holds all its values; decimal with enough digits |
| half, float | float, double |
| decimal | decimal with as many digits before and behind the point |
| date | date, timestamp_ntz |
| timestamp with zone | timestamp |
| timestamp without zone | timestamp_ntz |
| any string or binary type | string (if UTF-8), binary |
| void | anything |
| dictionary, run-end-encoded, extension | what the type of its values allows |
| list, struct, map | the same of such elements; fields of structs by name, a missing one is NULL |

What a type allows, a value may still not fit: nanoseconds that are no whole microseconds, bytes that are no UTF-8.
Then the cast raises ``pyarrow.ArrowInvalid``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidemill.kernels.columns import map_array, nulls
from tidemill.schema import TIMESTAMP, TIMESTAMP_NTZ

Array: TypeAlias = "pa.Array[Any]"
Cast: TypeAlias = "Callable[[Array], Array]"

_DIGITS = {8: 3, 16: 5, 32: 10, 64: 19}
_UNSIGNED_DIGITS = {8: 3, 16: 5, 32: 10, 64: 20}


def lossless(source: pa.DataType, target: pa.DataType) -> Cast | None:
    """The cast from the type of a file to the declared one; None when values could change."""
    if isinstance(source, pa.BaseExtensionType):
        return _after(lambda array: array.storage, lossless(source.storage_type, target))
    if pa.types.is_dictionary(source):
        return _after(lambda array: array.dictionary_decode(), lossless(source.value_type, target))
    if pa.types.is_run_end_encoded(source):
        return _after(_run_end_decode, lossless(source.value_type, target))
    if pa.types.is_null(source):
        return lambda array: nulls(len(array), target)
    if pa.types.is_struct(target):
        return _structs(source, target) if pa.types.is_struct(source) else None
    if pa.types.is_map(target):
        return _maps(source, target) if pa.types.is_map(source) else None
    if pa.types.is_list(target):
        return _lists(source, target) if _is_list(source) else None
    if source == target:
        return lambda array: array
    if _leaf(source, target):
        return lambda array: array.cast(target)
    return None


def _after(first: Callable[[Any], Array], cast: Cast | None) -> Cast | None:
    """A cast behind another step; None when there is none."""
    return None if cast is None else lambda array: cast(first(array))


def _run_end_decode(array: Array) -> Array:
    decoded: Array = pc.call_function("run_end_decode", [array])
    return decoded


def _leaf(source: pa.DataType, target: pa.DataType) -> bool:
    types = pa.types
    if types.is_integer(source):
        return _integer(source, target)
    if types.is_floating(source):
        return bool(types.is_floating(target) and target.bit_width >= source.bit_width)
    if types.is_decimal(source):
        return bool(types.is_decimal(target) and _digits(target) >= _digits(source) and target.scale >= source.scale)
    if types.is_date(source):
        return target in (pa.date32(), TIMESTAMP_NTZ)
    if types.is_timestamp(source):
        return bool(target == (TIMESTAMP_NTZ if source.tz is None else TIMESTAMP))
    if _is_text(source):
        return target in (pa.string(), pa.binary())
    return False


def _integer(source: pa.DataType, target: pa.DataType) -> bool:
    signed = pa.types.is_signed_integer(source)
    width = source.bit_width
    if pa.types.is_signed_integer(target):
        return bool(target.bit_width >= width if signed else target.bit_width > width)
    if target == pa.float32():
        return bool(width <= 16)
    if target == pa.float64():
        return bool(width <= 32)
    if pa.types.is_decimal(target):
        return _digits(target) >= (_DIGITS if signed else _UNSIGNED_DIGITS)[width]
    return False


def _digits(type_: Any) -> int:
    """Digits of a decimal before the point."""
    return int(type_.precision - type_.scale)


def _is_text(type_: pa.DataType) -> bool:
    types = pa.types
    found = types.is_string(type_) or types.is_large_string(type_) or types.is_string_view(type_)
    found = found or types.is_binary(type_) or types.is_large_binary(type_) or types.is_binary_view(type_)
    return bool(found or types.is_fixed_size_binary(type_))


def _is_list(type_: pa.DataType) -> bool:
    types = pa.types
    return bool(types.is_list(type_) or types.is_large_list(type_) or types.is_fixed_size_list(type_))


def _lists(source: Any, target: pa.ListType[Any]) -> Cast | None:
    inner = lossless(source.value_type, target.value_type)
    if inner is None:
        return None

    def cast(array: Any) -> Array:
        values = inner(array.flatten())
        lengths: pa.Array[Any] = pc.list_value_length(array).fill_null(0)
        ends = np.cumsum(lengths.to_numpy(zero_copy_only=False), dtype=np.int64)
        offsets = pa.array(np.concatenate([[0], ends])).cast(pa.int32())
        return pa.ListArray.from_arrays(offsets, values, type=target, mask=array.is_null())

    return cast


def _structs(source: pa.StructType, target: pa.StructType) -> Cast | None:
    parts: list[tuple[int, Cast]] = []
    for field in target:
        found = matching([f.name for f in source], field.name)
        inner = None if len(found) > 1 else lossless(source[found[0]].type if found else pa.null(), field.type)
        if inner is None:
            return None
        parts.append((found[0] if found else -1, inner))

    def cast(array: Any) -> Array:
        missing = nulls(len(array))
        fields = [inner(array.field(index) if index >= 0 else missing) for index, inner in parts]
        if not fields:
            cast_: Array = array.cast(target)
            return cast_
        return pa.StructArray.from_arrays(fields, fields=list(target), mask=array.is_null())

    return cast


def _maps(source: pa.MapType[Any, Any, Any], target: pa.MapType[Any, Any, Any]) -> Cast | None:
    key = lossless(source.key_type, target.key_type)
    item = lossless(source.item_type, target.item_type)
    if key is None or item is None:
        return None

    def cast(array: Any) -> Array:
        present = array.drop_null()
        entries = pa.ListArray.from_arrays(
            present.offsets, pa.StructArray.from_arrays([present.keys, present.items], ["key", "value"])
        )
        flat: Any = entries.flatten()
        lengths = np.zeros(len(array), np.int64)
        lengths[array.is_valid().to_numpy(zero_copy_only=False)] = pc.list_value_length(entries).to_numpy()
        offsets = pa.array(np.concatenate([[0], np.cumsum(lengths)])).cast(pa.int32())
        return map_array(offsets, key(flat.field(0)), item(flat.field(1)), target, array.is_null())

    return cast


def matching(names: list[str], wanted: str) -> list[int]:
    """The indices of the names that equal ``wanted`` in any case, as Spark resolves names."""
    return [i for i, name in enumerate(names) if name.lower() == wanted.lower()]
