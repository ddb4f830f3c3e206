"""Plans as JSON: what a manifest stores, and what a fingerprint is taken of.

Every node is a frozen dataclass; it becomes ``{"$": class name, field: value, ...}``. Reading back
gives an equal object. Two equal plans give the same text, so a hash of the text names the plan.
"""

from __future__ import annotations

import base64
import dataclasses
import decimal
import hashlib
import json
from functools import cache
from importlib import import_module
from typing import Any

import pyarrow as pa

from tidemill.errors import TidemillError
from tidemill.schema import type_from_spark, type_to_ddl
from tidemill.state.merge.operations import MergeOp

_MODULES = {
    name: module
    for module, names in {
        "tidemill.plan.algebra.nodes": (
            *("Scan", "Project", "Filter", "Union", "Join", "SemiJoin", "SortKey", "TopRows", "Generate", "Repeat"),
            *("AggregateCall", "PairTerm", "Pairs", "Aggregate", "Window", "StepJoin", "StepPath", "Recursion"),
        ),
        "tidemill.task.program.row_steps": ("Calculate", "Explode"),
        "tidemill.task.program.group_steps": ("Comparison",),
        "tidemill.task.program.window_calls": ("WindowCall", "Frame"),
        "tidemill.task.program.read_plan": ("ReadPlan",),
        "tidemill.task.aggregates.accumulators": ("Accumulator", "AggregateLayout", "Multiset", "Result"),
        "tidemill.task.expressions": ("Ref", "Literal", "Variable", "Call"),
        "tidemill.state.tables": ("StateTable",),
        "tidemill.state.keys.layout": ("KeyColumn",),
        "tidemill.schema": ("Field", "Schema"),
    }.items()
    for name in names
}
"""The module of each class that a plan may have. It is imported when a plan with that class is decoded."""

_SPARK_NAMES = {"tinyint": "byte", "smallint": "short", "int": "integer", "bigint": "long"}


def encode(value: Any) -> Any:
    """``value`` in terms of JSON; raises TM2900 for something that is not part of a plan."""
    if isinstance(value, MergeOp):
        return {"$merge": value.value}
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return {"$float": value.hex()}
    if isinstance(value, bytes):
        return {"$bytes": base64.b64encode(value).decode()}
    if isinstance(value, decimal.Decimal):
        return {"$decimal": str(value)}
    if isinstance(value, pa.DataType):
        return {"$type": spark_type(value)}
    if isinstance(value, tuple | list):
        return [encode(v) for v in value]
    if dataclasses.is_dataclass(value) and type(value).__name__ in _MODULES:
        fields = {
            f.name: encode(getattr(value, f.name))
            for f in dataclasses.fields(value)
            if not (f.metadata.get("later") and getattr(value, f.name) == f.default)
        }
        return {"$": type(value).__name__, **fields}
    raise TidemillError("TM2900", "this value cannot be stored in a plan", got=repr(value))


def decode(value: Any) -> Any:
    """The object that :func:`encode` wrote."""
    if isinstance(value, list):
        return tuple(decode(v) for v in value)
    if not isinstance(value, dict):
        return value
    if "$float" in value:
        return float.fromhex(value["$float"])
    if "$bytes" in value:
        return base64.b64decode(value["$bytes"])
    if "$decimal" in value:
        return decimal.Decimal(value["$decimal"])
    if "$merge" in value:
        return MergeOp(value["$merge"])
    if "$type" in value:
        return type_from_spark(value["$type"])
    fields = {k: decode(v) for k, v in value.items() if k != "$"}
    return class_of(value["$"])(**fields)


@cache
def class_of(name: str) -> type[Any]:
    """A class of plans. KeyError when no plan has it."""
    found: type[Any] = getattr(import_module(_MODULES[name]), name)
    return found


def fingerprint(value: Any) -> str:
    """Sixteen hex digits that name a plan: equal plans, and only they, have equal ones."""
    text = json.dumps(encode(value), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def spark_type(type_: pa.DataType) -> Any:
    """A type in Spark's JSON form."""
    if pa.types.is_list(type_):
        return {"type": "array", "elementType": spark_type(type_.value_type), "containsNull": True}
    if pa.types.is_map(type_):
        key, item = spark_type(type_.key_type), spark_type(type_.item_type)
        return {"type": "map", "keyType": key, "valueType": item, "valueContainsNull": True}
    if pa.types.is_struct(type_):
        fields = [{"name": f.name, "type": spark_type(f.type), "nullable": f.nullable, "metadata": {}} for f in type_]
        return {"type": "struct", "fields": fields}
    name = type_to_ddl(type_)
    return _SPARK_NAMES.get(name, name)
