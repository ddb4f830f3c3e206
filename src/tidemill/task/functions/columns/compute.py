"""``pyarrow.compute`` for columns whose types are known at run time only.

The stubs of pyarrow choose the type of a result by the static types of the arguments, accept no Python values as
arguments, and lack some functions. Here a function accepts anything and returns an array, an aggregate a scalar.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, cast

import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute


class _Compute(Protocol):
    def all(self, values: pa.Array[Any]) -> pa.Scalar[Any]: ...
    def any(self, values: pa.Array[Any]) -> pa.Scalar[Any]: ...
    def extract_regex(self, texts: pa.Array[Any], pattern: str) -> pa.StructArray: ...
    def index(self, values: pa.Array[Any], value: object) -> pa.Scalar[Any]: ...
    def max(self, values: pa.Array[Any]) -> pa.Scalar[Any]: ...
    def min_max(self, values: pa.Array[Any]) -> pa.StructScalar: ...
    def sum(self, values: pa.Array[Any]) -> pa.Scalar[Any]: ...
    def __getattr__(self, name: str) -> Callable[..., pa.Array[Any]]: ...


pc = cast("_Compute", pyarrow.compute)
nulls = cast("Callable[[int, pa.DataType], pa.Array[Any]]", pa.nulls)
repeat = cast("Callable[[pa.Scalar[Any], int], pa.Array[Any]]", pa.repeat)
buffer = cast("Callable[[npt.NDArray[Any]], pa.Buffer]", pa.py_buffer)


def null_where(mask: pa.Array[Any], values: pa.Array[Any]) -> pa.Array[Any]:
    """The values, NULL where ``mask`` is true or NULL."""
    return pc.if_else(mask, pa.scalar(None, values.type), values)


def null_unless(mask: pa.Array[Any], values: pa.Array[Any]) -> pa.Array[Any]:
    """The values, NULL where ``mask`` is false or NULL."""
    return pc.if_else(mask, values, pa.scalar(None, values.type))


def digits_of(type_: pa.DataType) -> tuple[int, int]:
    """Precision and scale of a decimal type."""
    decimal = cast("pa.Decimal128Type[int, int]", type_)
    return decimal.precision, decimal.scale


def fields_of(type_: pa.DataType) -> list[pa.Field[Any]]:
    """The fields of a struct type."""
    return list(cast("pa.StructType", type_))


def element_type(type_: pa.DataType) -> pa.DataType:
    """The type of the elements of an array type."""
    element: pa.DataType = cast("pa.ListType[Any]", type_).value_type
    return element


def columns_of(structs: pa.Array[Any]) -> list[pa.Array[Any]]:
    """The fields of structs as columns, NULL where a struct is NULL."""
    return cast("pa.StructArray", structs).flatten()
