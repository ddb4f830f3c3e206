"""``pyarrow.compute`` for columns whose types are known at run time only.

The stubs of pyarrow choose the type of a result by the static types of the arguments, accept no Python values as
arguments, and lack some functions. Here a function accepts anything and returns an array, an aggregate a scalar.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeAlias, cast

import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute

Array: TypeAlias = "pa.Array[Any]"
"""An Arrow array of a type that is known at run time."""


class _Compute(Protocol):
    def all(self, values: Array) -> pa.Scalar[Any]: ...
    def any(self, values: Array) -> pa.Scalar[Any]: ...
    def extract_regex(self, texts: Array, pattern: str) -> pa.StructArray: ...
    def index(self, values: Array, value: object) -> pa.Scalar[Any]: ...
    def max(self, values: Array) -> pa.Scalar[Any]: ...
    def min_max(self, values: Array) -> pa.StructScalar: ...
    def sum(self, values: Array) -> pa.Scalar[Any]: ...
    def __getattr__(self, name: str) -> Callable[..., Array]: ...


pc = cast("_Compute", pyarrow.compute)
nulls = cast("Callable[[int, pa.DataType], Array]", pa.nulls)
repeat = cast("Callable[[pa.Scalar[Any], int], Array]", pa.repeat)
buffer = cast("Callable[[npt.NDArray[Any]], pa.Buffer]", pa.py_buffer)


def null_where(mask: Array, values: Array) -> Array:
    """The values, NULL where ``mask`` is true or NULL."""
    return pc.if_else(mask, pa.scalar(None, values.type), values)


def null_unless(mask: Array, values: Array) -> Array:
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


def columns_of(structs: Array) -> list[Array]:
    """The fields of structs as columns, NULL where a struct is NULL."""
    return cast("pa.StructArray", structs).flatten()
