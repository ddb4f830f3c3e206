"""Rules for VARIANT, which may be a value inside an expression, but not a column."""

from __future__ import annotations

import pyarrow as pa

from tidemill.plan.catalyst.expressions.rules import Rule, Translator, call, fixed, type_of, unsupported
from tidemill.plan.catalyst.trees.tree import JsonTree
from tidemill.schema import type_to_ddl
from tidemill.task.expressions import Expression
from tidemill.task.functions.documents.variant import VARIANT, parse_variant_path


def holds_variant(type_: pa.DataType) -> bool:
    """Whether a type is VARIANT or has one inside."""
    if type_ == VARIANT:
        return True
    return any(holds_variant(type_.field(i).type) for i in range(type_.num_fields))


def no_column(expression: Expression) -> Expression:
    """The expression of a column of a query; VARIANT cannot be one."""
    if holds_variant(expression.type):
        raise unsupported(
            "VARIANT as a column",
            "take values out of it in the same SELECT: variant_get(v, path, type), v:path::type, to_json(v)",
        )
    return expression


def _check_target(type_: pa.DataType) -> None:
    if pa.types.is_map(type_):
        if not pa.types.is_string(type_.key_type):
            raise unsupported(f"VARIANT as {type_to_ddl(type_)}", "keys of maps are STRING")
        _check_target(type_.item_type)
    elif pa.types.is_list(type_):
        _check_target(type_.value_type)
    elif pa.types.is_struct(type_):
        for field in type_:
            _check_target(field.type)
    elif pa.types.is_timestamp(type_) or pa.types.is_binary(type_):
        raise unsupported(f"VARIANT as {type_to_ddl(type_)}", "get it as STRING and cast that")


def variant_as(
    value: Expression, path: tuple[tuple[str, str | int], ...], target: pa.DataType, mode: str
) -> Expression:
    """The value at a path of a variant, as a type."""
    if target != VARIANT:
        _check_target(target)
    return call("variant_get", (value,), target, True, mode=mode, path=path)


def _variant_get(node: JsonTree, to: Translator) -> Expression:
    steps = parse_variant_path(to.constant(node, 1))
    if steps is None:
        raise unsupported(f"variant_get with the path {to.constant(node, 1)!r}")
    target = VARIANT if node.fields["targetType"] == "variant" else type_of(node.fields["targetType"])
    return variant_as(to.arg(node, 0), steps, target, "ansi" if node.fields["failOnError"] else "try")


def _parse_json(node: JsonTree, to: Translator) -> Expression:
    if to.constant(node, 1):
        raise unsupported("parse_json with keys given twice", "set spark.sql.variant.allowDuplicateKeys to false")
    mode = "ansi" if to.constant(node, 2) else "try"
    return call("parse_json", (to.arg(node, 0),), VARIANT, True, mode=mode)


VARIANT_RULES: dict[str, Rule] = {"VariantGet": _variant_get}

VARIANT_INVOKED: dict[str, Rule] = {
    "VariantExpressionEvalUtils.parseJson": _parse_json,
    "VariantExpressionEvalUtils.isVariantNull": fixed("is_variant_null", pa.bool_(), False),
}
