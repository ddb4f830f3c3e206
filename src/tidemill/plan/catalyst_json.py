"""Rules for functions of JSON. Some arrive as calls of a Java evaluator."""

from __future__ import annotations

import pyarrow as pa

from tidemill.plan.catalyst_rules import Rule, Translator, call
from tidemill.plan.catalyst_tree import JsonTree
from tidemill.task.expressions import Call, Expression


def _get_json_object(node: JsonTree, to: Translator) -> Expression:
    return call("get_json_object", to.args(node), pa.string(), True)


def _of_all(function: str, type_: pa.DataType) -> Rule:
    def rule(node: JsonTree, to: Translator) -> Expression:
        return call(function, to.args(node), type_, True)

    return rule


def json_tuple(args: tuple[Expression, ...]) -> Expression:
    """The generator as an array of one struct."""
    struct = pa.struct([pa.field(f"c{i}", pa.string()) for i in range(len(args) - 1)])
    return Call("json_tuple", args, pa.list_(struct), False)


JSON_RULES: dict[str, Rule] = {"GetJsonObject": _get_json_object}

JSON_INVOKED: dict[str, Rule] = {
    "lengthOfJsonArray": _of_all("json_array_length", pa.int32()),
    "jsonObjectKeys": _of_all("json_object_keys", pa.list_(pa.string())),
}
