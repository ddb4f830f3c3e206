"""Rules for functions with a body (``x -> ...``), and for functions that build maps and arrays of other values."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from tidemill.plan.catalyst.expressions.rules import Rule, Translator, call, unsupported
from tidemill.plan.catalyst.expressions.text import plain_text
from tidemill.plan.catalyst.trees.nested_types import element_type, item_type, key_type
from tidemill.plan.catalyst.trees.tree import JsonTree
from tidemill.schema import type_from_spark
from tidemill.task.expressions import Call, Expression, Variable
from tidemill.task.functions.text import patterns

_DEFAULT_ORDER = (
    "LambdaFunction If And IsNull V IsNull V Literal If IsNull V Literal If IsNull V Literal If LessThan V V Literal "
    "If GreaterThan V V Literal Literal V V"
)


def shape(node: JsonTree) -> str:
    """The names of the nodes of a body, to recognise those that Catalyst itself makes."""
    name = "V" if node.name == "NamedLambdaVariable" else node.name
    return " ".join([name, *(shape(child) for child in node.children)])


def variable(node: JsonTree, to: Translator) -> Expression:
    """A variable of a body. Among the inputs its number is written as -1, -2, ..."""
    number = -1 - to.inputs[node.fields["exprId"]["id"]]
    return Variable(number, type_from_spark(node.fields["dataType"]), bool(node.fields["nullable"]))


def _body(node: JsonTree, to: Translator) -> tuple[Expression, tuple[int, ...]]:
    """A LambdaFunction as its body and the numbers of its variables."""
    function, *variables = node.children
    first = max(0, *(-position for position in to.inputs.values()))
    numbers = tuple(range(first, first + len(variables)))
    bound = {v.fields["exprId"]["id"]: -1 - n for v, n in zip(variables, numbers, strict=True)}
    return to.translate(function, {**to.inputs, **bound}), numbers


def _with_bodies(
    function: str, plain: int, type_of: Callable[[tuple[Expression, ...], tuple[Expression, ...]], pa.DataType]
) -> Rule:
    """A function of ``plain`` arguments, followed by bodies; its type follows from both."""

    def rule(node: JsonTree, to: Translator) -> Expression:
        args = tuple(to.arg(node, i) for i in range(plain))
        found = [_body(child, to) for child in node.children[plain:]]
        bodies = tuple(body for body, _ in found)
        binds = tuple(numbers for _, numbers in found)
        return call(function, (*args, *bodies), type_of(args, bodies), True, binds=binds)

    return rule


def _array_sort(node: JsonTree, to: Translator) -> Expression:
    value = to.arg(node, 0)
    if shape(node.children[1]) == _DEFAULT_ORDER:
        return call("sort_array", (value,), value.type, value.nullable, ascending=True, nulls_last=True)
    if node.fields.get("allowNullComparisonResult"):
        raise unsupported(
            "array_sort whose comparator may give NULL",
            "set spark.sql.legacy.allowNullComparisonResultInArraySort to false",
        )
    return _with_bodies("array_sort_by", 1, lambda args, _: args[0].type)(node, to)


def _transform(node: JsonTree, to: Translator) -> Expression:
    """Catalyst normalises floats of join keys with this function. Keys are normalised anyway, so it is left out."""
    if shape(node.children[1]) == "LambdaFunction KnownFloatingPointNormalized NormalizeNaNAndZero V V":
        return to.arg(node, 0)
    return _with_bodies("transform", 1, lambda _, bodies: pa.list_(bodies[0].type))(node, to)


def _filter(node: JsonTree, to: Translator) -> Expression:
    """``array_compact`` is a filter with a function of its own."""
    if shape(node.children[1]) == "LambdaFunction IsNotNull V V":
        return call("array_compact", (to.arg(node, 0),), to.arg(node, 0).type)
    return _with_bodies("filter", 1, lambda args, _: args[0].type)(node, to)


def _exists(node: JsonTree, to: Translator) -> Expression:
    if not node.fields.get("followThreeValuedLogic", True):
        raise unsupported("exists() with two truth values", "set spark.sql.legacy.followThreeValuedLogicInArrayExists")
    return _with_bodies("exists", 1, lambda *_: pa.bool_())(node, to)


def _arrays_zip(node: JsonTree, to: Translator) -> Expression:
    args = to.args(node)
    names = [str(name[0]["value"]) for name in node.fields["names"]]
    if not args:
        return Call("array", (), pa.list_(pa.struct([])), False)
    fields = [pa.field(name, element_type(arg.type)) for name, arg in zip(names, args, strict=True)]
    return call("arrays_zip", args, pa.list_(pa.struct(fields)))


def _map_from_entries(node: JsonTree, to: Translator) -> Expression:
    value = to.arg(node, 0)
    entry = element_type(value.type)
    return call("map_from_entries", (value,), pa.map_(entry.field(0).type, entry.field(1).type), True)


def _str_to_map(node: JsonTree, to: Translator) -> Expression:
    pairs, values = (_separator(to.constant(node, i)) for i in (1, 2))
    return call("str_to_map", (to.arg(node, 0),), pa.map_(pa.string(), pa.string()), pairs=pairs, values=values)


def _separator(pattern: str) -> tuple[str, str]:
    """A separator as plain text or as a regular expression."""
    text = plain_text(pattern)
    if text is not None:
        return "text", text
    try:
        regex, _ = patterns.java_regex(pattern, dollar=False)
        patterns.check(regex)
        if patterns.matches_empty(regex):
            raise patterns.DifferentRegexError("it can match the empty text")
    except patterns.DifferentRegexError as error:
        raise unsupported(f"str_to_map with the separator {pattern!r}: {error}") from None
    return "regex", regex


def _array_insert(node: JsonTree, to: Translator) -> Expression:
    if node.fields.get("legacyNegativeIndex"):
        raise unsupported(
            "array_insert at legacy positions", "set spark.sql.legacy.negativeIndexInArrayInsert to false"
        )
    args = to.args(node)
    return call("array_insert", args, args[0].type)


LAMBDA_RULES: dict[str, Rule] = {
    "NamedLambdaVariable": variable,
    "ArrayTransform": _transform, "ArrayFilter": _filter, "ArrayExists": _exists,
    "ArrayForAll": _with_bodies("forall", 1, lambda *_: pa.bool_()),
    "ArrayAggregate": _with_bodies("aggregate", 2, lambda _, bodies: bodies[1].type),
    "ZipWith": _with_bodies("zip_with", 2, lambda _, bodies: pa.list_(bodies[0].type)),
    "ArraySort": _array_sort,
    "MapFilter": _with_bodies("map_filter", 1, lambda args, _: args[0].type),
    "TransformKeys": _with_bodies(
        "transform_keys", 1, lambda args, bodies: pa.map_(bodies[0].type, item_type(args[0].type))
    ),
    "TransformValues": _with_bodies(
        "transform_values", 1, lambda args, bodies: pa.map_(key_type(args[0].type), bodies[0].type)
    ),
    "MapZipWith": _with_bodies("map_zip_with", 2, lambda args, bodies: pa.map_(key_type(args[0].type), bodies[0].type)),
    "ArraysZip": _arrays_zip, "MapFromEntries": _map_from_entries, "StringToMap": _str_to_map,
    "ArrayInsert": _array_insert,
}  # fmt: skip
