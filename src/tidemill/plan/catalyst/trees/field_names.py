"""Renames fields of structs to those of the result, where Spark accepts structs that differ in field names."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from tidemill.plan.algebra.build import columns_of
from tidemill.plan.algebra.nodes import Node, Project
from tidemill.plan.catalyst.trees.nested_types import element_type, item_type, key_type
from tidemill.task.expressions import Call, Expression, Literal

_ALL = frozenset({"coalesce", "greatest", "least", "array_concat", "array_union", "array_intersect", "array_except"})
_ALL |= {"map_concat"}


def renamed(value: Expression, type_: pa.DataType) -> Expression:
    """The value as that type when it differs in names of fields alone, else the value."""
    if value.type == type_ or not _alike(value.type, type_):
        return value
    if isinstance(value, Literal):
        return Literal(value.value, type_)
    return Call("cast", (value,), type_, value.nullable, (("mode", "ansi"),))


def named_alike(function: str, args: tuple[Expression, ...], type_: pa.DataType) -> tuple[Expression, ...]:
    """The arguments of a function, those renamed that are to be of one type."""
    if function in _ALL:
        return tuple(renamed(arg, type_) for arg in args)
    if function == "array":
        return tuple(renamed(arg, element_type(type_)) for arg in args)
    if function == "map":
        return tuple(renamed(arg, item_type(type_) if i % 2 else key_type(type_)) for i, arg in enumerate(args))
    if function == "case":
        last = len(args) - 1
        return tuple(renamed(arg, type_) if i % 2 or i == last else arg for i, arg in enumerate(args))
    if function == "array_insert":
        return (*args[:2], renamed(args[2], element_type(type_)))
    if function == "aggregate":  # its state has the type that it begins with
        return (*args[:2], renamed(args[2], args[1].type), *args[3:])
    return args


def columns_renamed(node: Node, types: Sequence[pa.DataType]) -> Node:
    """The rows of a node with columns of these types, where they differ in names of fields alone."""
    columns = columns_of(node)
    found = tuple(renamed(column, type_) for column, type_ in zip(columns, types, strict=True))
    return node if found == columns else Project(node, found, node.schema.names)


def _alike(one: pa.DataType, other: pa.DataType) -> bool:
    if pa.types.is_struct(one) and pa.types.is_struct(other):
        pairs = zip(one, other, strict=False)
        return one.num_fields == other.num_fields and all(_alike(a.type, b.type) for a, b in pairs)
    if pa.types.is_list(one) and pa.types.is_list(other):
        return _alike(one.value_type, other.value_type)
    if pa.types.is_map(one) and pa.types.is_map(other):
        return _alike(one.key_type, other.key_type) and _alike(one.item_type, other.item_type)
    return bool(one == other)
