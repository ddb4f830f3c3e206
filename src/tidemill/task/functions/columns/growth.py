"""Estimates, in bytes, of results that may be much larger than the arguments.

These are the ``size`` of :func:`tidemill.task.functions.columns.registry.function`. The evaluator calls them before the
kernel: a result that is too large is TM3020, or is computed for fewer rows at a time. Results of other functions are at
most a few times as large as the arguments, and are compared with the limit afterwards.
"""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidemill.task.expressions import Call
from tidemill.task.functions.columns.compute import pc
from tidemill.task.functions.columns.registry import Value

Floats = npt.NDArray[np.float64]


def lengths(value: Value, rows: int) -> Floats | float:
    """Bytes of each text, 0 for NULL."""
    if isinstance(value, pa.Scalar):
        return float(len(cast("pa.BinaryScalar", value).as_buffer())) if value.is_valid else 0.0
    found: Floats = pc.fill_null(pc.binary_length(value), 0).to_numpy(zero_copy_only=False).astype(np.float64)
    return found


def _counts(value: Value) -> Floats | float:
    """Numbers that are not negative, 0 for NULL."""
    if isinstance(value, pa.Scalar):
        return max(float(value.as_py() or 0), 0.0)
    numbers = pc.fill_null(value, 0).to_numpy(zero_copy_only=False).astype(np.float64)
    found: Floats = np.maximum(numbers, 0.0)
    return found


def _total(sizes: Floats | float, rows: int) -> float:
    return sizes * rows if isinstance(sizes, float) else float(sizes.sum())


def joined(call: Call, args: list[Value], rows: int) -> float:
    """Concatenated texts; a constant counts once for each row."""
    return sum(_total(lengths(arg, rows), rows) for arg in args)


def joined_by(call: Call, args: list[Value], rows: int) -> float:
    """Texts and arrays of texts, joined by the first argument."""
    separator, *parts = args
    size = max(len(parts) - 1, 0) * _total(lengths(separator, rows), rows)
    for part in parts:
        if pa.types.is_list(part.type):
            size += elements_joined(call, [part, separator], rows)
        else:
            size += _total(lengths(part, rows), rows)
    return size


def repeated(call: Call, args: list[Value], rows: int) -> float:
    """A text, repeated as often as the second argument says."""
    return _total(lengths(args[0], rows) * _counts(args[1]), rows)


def spaces(call: Call, args: list[Value], rows: int) -> float:
    """As many blanks as the argument says."""
    return _total(_counts(args[0]), rows)


def replaced_by_pattern(call: Call, args: list[Value], rows: int) -> float:
    """A text whose matches of a pattern are replaced by a constant, which may refer to groups of the match."""
    size, by = _total(lengths(args[0], rows), rows), str(call.option("replacement")).encode()
    if len(by) <= 1 or not size:
        return size
    found = pc.count_substring_regex(args[0], str(call.option("regex")))
    return (1 + by.count(b"\\")) * size + len(by) * _total(_counts(found), rows)


def elements_joined(call: Call, args: list[Value], rows: int) -> float:
    """The elements of an array, joined by a text, perhaps with another one for NULL."""
    counts = _elements(args[0])
    between = sum(_total(lengths(arg, rows) * counts, rows) for arg in args[1:])
    own = args[0] if isinstance(args[0], pa.Array) else pa.array([args[0].as_py()], args[0].type)
    return between + float(own.nbytes) * (1 if isinstance(args[0], pa.Array) else rows)


def _elements(value: Value) -> Floats | float:
    if isinstance(value, pa.Scalar):
        elements = cast("pa.ListScalar[Any]", value).values if value.is_valid else None
        return 0.0 if elements is None else float(len(elements))
    return _counts(pc.list_value_length(value))


def copies(call: Call, args: list[Value], rows: int) -> float:
    """Arrays of one value, repeated as often as the second argument says."""
    value, counts = args[0], _counts(args[1])
    if pa.types.is_string(value.type) or pa.types.is_binary(value.type):
        return _total((8.0 + lengths(value, rows)) * counts, rows)
    width = 8.0 + (value.nbytes / max(1, rows) if isinstance(value, pa.Array) else 8.0)
    return _total(width * counts, rows)


def inserted(call: Call, args: list[Value], rows: int) -> float:
    """Arrays into which an element is inserted, perhaps far beyond their end."""
    positions = args[1] if isinstance(args[1], pa.Scalar) else args[1].cast(pa.float64())
    reach = abs(float(positions.as_py() or 0)) if isinstance(positions, pa.Scalar) else _counts(pc.abs(positions))
    return (float(args[0].nbytes) if isinstance(args[0], pa.Array) else 0.0) + 8.0 * _total(reach, rows)


def fields(call: Call, args: list[Value], rows: int) -> float:
    """Structs parsed from texts: each row has every field, whatever its text has."""
    return float(_width(call.type) * rows) + _total(lengths(args[0], rows), rows)


def _width(type_: pa.DataType) -> int:
    """About how many bytes a NULL or empty value takes."""
    if pa.types.is_struct(type_):
        return 1 + sum(_width(field.type) for field in type_)
    return type_.bit_width // 8 + 1 if pa.types.is_primitive(type_) else 8
