"""Rules for arrays, structs and maps."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from tidemill.plan.catalyst.expressions.lambdas import LAMBDA_RULES
from tidemill.plan.catalyst.expressions.rules import (
    Rule,
    Translator,
    call,
    constant_value,
    fixed,
    only,
    type_of,
    unsupported,
)
from tidemill.plan.catalyst.expressions.text import is_constant, plain_text, re2_pattern, split_columns
from tidemill.plan.catalyst.expressions.zones import zone_option
from tidemill.plan.catalyst.trees.nested_types import element_type, item_type, key_type
from tidemill.plan.catalyst.trees.tree import JsonTree
from tidemill.schema import DAY_TIME, TIMESTAMP_NTZ, YEAR_MONTH, type_to_ddl
from tidemill.task.expressions import Call, Expression, Literal

_INT, _LONG, _BOOL = pa.int32(), pa.int64(), pa.bool_()


def nested_literal(node: JsonTree) -> Expression:
    """A constant array, struct or map as the call that makes it."""
    type_ = type_of(node.fields["dataType"])
    if node.fields["value"] is None:
        return Literal(None, type_)
    if "nested" not in node.fields:
        raise unsupported(f"constant of type {type_to_ddl(type_)}", "internal: read the plan with read_plan()")
    return constant_expression(node.fields["nested"], type_)


def constant_expression(value: Any, type_: pa.DataType) -> Expression:
    """A value of the JVM as an expression; nested values as calls that make them."""
    if value is None:
        return Literal(None, type_)
    if pa.types.is_list(type_):
        return call("array", tuple(constant_expression(v, type_.value_type) for v in value), type_, False)
    if pa.types.is_struct(type_):
        parts = tuple(constant_expression(v, f.type) for v, f in zip(value, type_, strict=True))
        return call("struct", parts, type_, False)
    if pa.types.is_map(type_):
        pairs = [(constant_expression(k, type_.key_type), constant_expression(v, type_.item_type)) for k, v in value]
        return call("map", tuple(e for pair in pairs for e in pair), type_, False)
    return Literal(constant_value(value, type_), type_)


def _create_array(node: JsonTree, to: Translator) -> Expression:
    args = to.args(node)
    return call("array", args, pa.list_(args[0].type if args else pa.null()), False)


def _create_struct(node: JsonTree, to: Translator) -> Expression:
    names = [child.fields["value"] for child in node.children[::2]]
    values = tuple(to.translate(child, to.inputs) for child in node.children[1::2])
    fields = [pa.field(str(n), v.type) for n, v in zip(names, values, strict=True)]
    return call("struct", values, pa.struct(fields), False)


def _create_map(node: JsonTree, to: Translator) -> Expression:
    args = to.args(node)
    key, item = (args[0].type, args[1].type) if args else (pa.null(), pa.null())
    _check_map_key(key)
    return call("map", args, pa.map_(key, item), False)


def _check_map_key(type_: pa.DataType) -> None:
    if pa.types.is_null(type_):
        raise unsupported("a map without entries", "give its type: CAST(map() AS map<string,int>) is not supported yet")


def _map_from_arrays(node: JsonTree, to: Translator) -> Expression:
    args = to.args(node)
    return call("map_from_arrays", args, pa.map_(element_type(args[0].type), element_type(args[1].type)))


def _struct_field(node: JsonTree, to: Translator) -> Expression:
    value, ordinal = to.arg(node, 0), int(node.fields["ordinal"])
    if isinstance(value, Call) and value.function == "struct":
        return value.args[ordinal]
    return call("struct_field", (value,), value.type.field(ordinal).type, True, ordinal=ordinal)


def _field_of_elements(node: JsonTree, to: Translator) -> Expression:
    value, ordinal = to.arg(node, 0), int(node.fields["ordinal"])
    type_ = pa.list_(element_type(value.type).field(ordinal).type)
    return call("field_of_elements", (value,), type_, True, ordinal=ordinal)


def _mode(node: JsonTree) -> str:
    return "ansi" if node.fields.get("failOnError", True) else "try"


def _array_item(node: JsonTree, to: Translator) -> Expression:
    args = to.args(node)
    return call("array_item", args, element_type(args[0].type), True, mode=_mode(node))


def _map_value(node: JsonTree, to: Translator) -> Expression:
    args = to.args(node)
    return call("map_value", args, item_type(args[0].type), True)


def _element_at(node: JsonTree, to: Translator) -> Expression:
    first = node.children[0]
    if first.name == "StringSplitSQL":
        return call("split_part", (*to.args(first), to.arg(node, 1)), pa.string())
    if pa.types.is_map(to.arg(node, 0).type):
        return _map_value(node, to)
    args = (to.arg(node, 0), to.arg(node, 1))
    return call("element_at", args, element_type(args[0].type), True, mode=_mode(node))


def _size(node: JsonTree, to: Translator) -> Expression:
    if node.fields.get("legacySizeOfNull"):
        raise unsupported("size() that gives -1 for NULL", "set spark.sql.legacy.sizeOfNull to false")
    return call("size", to.args(node), _INT)


def _split(node: JsonTree, to: Translator) -> Expression:
    if not is_constant(node.children[1]) or not is_constant(node.children[2]):
        return split_columns(node, to)
    pattern, limit = to.constant(node, 1), to.constant(node, 2)
    args = (to.arg(node, 0),)
    type_ = pa.list_(pa.string())
    text = plain_text(pattern)
    if text is not None:
        return call("split", args, type_, limit=limit, text=text)
    found = re2_pattern(pattern)
    # Arrow looks for the next separator in the rest of the text, as if that were all of it.
    if found is None or r"\A" in found[0]:
        return split_columns(node, to)
    return call("split", args, type_, limit=limit, regex=found[0])


def _sort_array(node: JsonTree, to: Translator) -> Expression:
    value, ascending = to.arg(node, 0), to.constant(node, 1)
    return call("sort_array", (value,), value.type, value.nullable, ascending=bool(ascending))


def _sequence(node: JsonTree, to: Translator) -> Expression:
    args = to.args(node)
    if pa.types.is_date(args[0].type) or pa.types.is_timestamp(args[0].type):
        if len(args) > 2 and args[2].type not in (DAY_TIME, YEAR_MONTH):
            raise unsupported("sequence of times with this step", "write the step as INTERVAL '1' DAY or MONTH")
        zone = {} if args[0].type == TIMESTAMP_NTZ else zone_option(node)
        return call("sequence_of_times", args, pa.list_(args[0].type), **zone)
    if not pa.types.is_integer(args[0].type):
        raise unsupported(f"sequence of {type_to_ddl(args[0].type)}", "sequences of integers and times are understood")
    return call("sequence", args, pa.list_(args[0].type))


def _of_lists(function: str, otherwise: Rule) -> Rule:
    def rule(node: JsonTree, to: Translator) -> Expression:
        if node.children and pa.types.is_list(to.arg(node, 0).type):
            args = to.args(node)
            return call(function, args, args[0].type)
        return otherwise(node, to)

    return rule


def _reverse(node: JsonTree, to: Translator) -> Expression:
    binary = pa.types.is_binary(to.arg(node, 0).type)
    return fixed("reverse_bytes" if binary else "reverse")(node, to)


def _list_of(function: str, type_of_first: Any) -> Rule:
    def rule(node: JsonTree, to: Translator) -> Expression:
        args = to.args(node)
        return call(function, args, type_of_first(args[0].type), True)

    return rule


def _array_prepend(node: JsonTree, to: Translator) -> Expression:
    array, value = to.arg(node, 0), to.arg(node, 1)
    one = call("array", (value,), array.type, False)
    parts = (one, array) if node.name == "ArrayPrepend" else (array, one)
    return call("array_concat", parts, array.type)


def _map_entries(type_: pa.DataType) -> pa.DataType:
    return pa.list_(pa.struct([pa.field("key", key_type(type_)), pa.field("value", item_type(type_))]))


NESTED_RULES: dict[str, Rule] = {
    "CreateArray": _create_array, "CreateNamedStruct": _create_struct, "CreateMap": _create_map,
    "GetStructField": _struct_field, "GetArrayStructFields": _field_of_elements, "GetArrayItem": _array_item,
    "GetMapValue": _map_value, "ElementAt": _element_at, "Size": _size, "Cardinality": _size,
    "ArrayContains": fixed("array_contains", _BOOL, True), "ArrayPosition": fixed("array_position", _LONG),
    "ArraysOverlap": fixed("arrays_overlap", _BOOL, True),
    "ArrayMin": _list_of("array_min", element_type),
    "ArrayMax": _list_of("array_max", element_type),
    "StringSplit": _split, "SortArray": _sort_array, "Sequence": _sequence, "ArrayDistinct": fixed("array_distinct"),
    "ArrayJoin": fixed("array_join", pa.string()), "Slice": fixed("slice"), "ArrayRemove": fixed("array_remove"),
    "Flatten": _list_of("flatten", element_type), "ArrayRepeat": _list_of("array_repeat", pa.list_),
    "ArrayUnion": fixed("array_union"), "ArrayIntersect": fixed("array_intersect"),
    "ArrayExcept": fixed("array_except"),
    "ArrayAppend": _array_prepend, "ArrayPrepend": _array_prepend,
    "MapKeys": _list_of("map_keys", lambda t: pa.list_(key_type(t))),
    "MapValues": _list_of("map_values", lambda t: pa.list_(item_type(t))),
    "MapEntries": _list_of("map_entries", _map_entries), "MapFromArrays": _map_from_arrays,
    "MapConcat": fixed("map_concat"), "MapSort": fixed("map_sort"), "KnownNotContainsNull": lambda n, to: to.arg(n, 0),
    "Concat": _of_lists("array_concat", only("concat", (pa.types.is_string, pa.types.is_binary))),
    "Reverse": _of_lists("array_reverse", _reverse),
    **LAMBDA_RULES,
}  # fmt: skip
