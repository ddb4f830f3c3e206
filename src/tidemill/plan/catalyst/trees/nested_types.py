"""Parts of types that Spark's analyser has found to be arrays or maps."""

from __future__ import annotations

from typing import Any, cast

import pyarrow as pa


def element_type(array: pa.DataType) -> pa.DataType:
    """The type of an array's elements."""
    return cast("pa.ListType[pa.DataType]", array).value_type


def key_type(map_: pa.DataType) -> pa.DataType:
    """The type of a map's keys."""
    return _map(map_).key_type


def item_type(map_: pa.DataType) -> pa.DataType:
    """The type of a map's values."""
    return _map(map_).item_type


def _map(type_: pa.DataType) -> pa.MapType[pa.DataType, pa.DataType, Any]:
    return cast("pa.MapType[pa.DataType, pa.DataType, Any]", type_)
