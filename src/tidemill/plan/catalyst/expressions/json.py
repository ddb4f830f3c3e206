"""Rules for functions of JSON. Some arrive as calls of a Java evaluator."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa

from tidemill.plan.catalyst.expressions.intervals import INTERVALS
from tidemill.plan.catalyst.expressions.rules import Rule, Translator, call, fixed, type_of, unsupported
from tidemill.plan.catalyst.expressions.zones import zone_option
from tidemill.plan.catalyst.trees.tree import JsonTree
from tidemill.schema import type_to_ddl
from tidemill.task.expressions import Call, Expression, Literal
from tidemill.task.functions.documents.variant import VARIANT
from tidemill.task.functions.times.date_patterns import can_parse, can_print
from tidemill.task.functions.times.time_formats import OFFSET, OPTIONS


def json_tuple(args: tuple[Expression, ...]) -> Expression:
    """The generator as an array of one struct."""
    struct = pa.struct([pa.field(f"c{i}", pa.string()) for i in range(len(args) - 1)])
    return Call("json_tuple", args, pa.list_(struct), False)


def known_options(function: str, given: dict[str, str] | None, known: tuple[str, ...]) -> dict[str, str]:
    """Options by their names in lower case. TM2101 for an unknown one."""
    found = {name.lower(): value for name, value in (given or {}).items()}
    other = sorted(found.keys() - {name.lower() for name in known})
    if other:
        raise unsupported(f"{function} with the option {other[0]}", f"{function} understands: {', '.join(known)}")
    return found


TIMES = ("dateFormat", "timestampFormat", "timestampNTZFormat", "timeZone")
"""The options that say how times are written."""


def time_options(function: str, given: dict[str, str], node: JsonTree, can: Callable[[str], bool]) -> dict[str, Any]:
    """The options of a call that say how times are written."""
    found: dict[str, Any] = {}
    for name, option in zip(TIMES, (*OPTIONS, "zone"), strict=True):
        text = given.get(name.lower())
        if option == "zone":
            found |= zone_option(JsonTree(node.name, {"timeZoneId": text}, ()) if text is not None else node)
        elif text is not None and not can(text):
            raise unsupported(f"{function} with the {name} {text!r}")
        elif text is not None:
            found[option] = text
    return found


_DEFAULT_CORRUPT = "_corrupt_record"


def _from_json(node: JsonTree, to: Translator) -> Expression:
    options = known_options("from_json", node.fields["options"], ("mode", "columnNameOfCorruptRecord", *TIMES))
    mode = options.get("mode", "PERMISSIVE").upper()
    if mode not in ("PERMISSIVE", "FAILFAST"):
        raise unsupported(f"from_json in mode {mode}", "modes: PERMISSIVE, FAILFAST")
    type_ = type_of(node.fields["schema"])
    _check_read(type_)
    name = options.get("columnnameofcorruptrecord", _DEFAULT_CORRUPT)
    times = time_options("from_json", options, node, can_parse)
    known = pa.types.is_struct(type_) and type_.get_field_index(name) >= 0
    return call("from_json", (to.arg(node, 0),), type_, True, mode=mode, corrupt=name if known else None, **times)


def _check_read(type_: pa.DataType) -> None:
    """TM2101 for a type that ``from_json`` does not support."""
    if pa.types.is_map(type_):
        if not pa.types.is_string(type_.key_type):
            raise unsupported(f"from_json as {type_to_ddl(type_)}", "keys of maps are STRING")
        _check_read(type_.item_type)
    elif pa.types.is_list(type_):
        _check_read(type_.value_type)
    elif pa.types.is_struct(type_):
        for field in type_:
            _check_read(field.type)
    elif type_ in INTERVALS:
        raise unsupported(f"from_json as {type_to_ddl(type_)}", "read it as STRING and cast it")
    elif pa.types.is_binary(type_):
        raise unsupported("from_json as BINARY", "read it as STRING and use unbase64")


def _to_json(node: JsonTree, to: Translator) -> Expression:
    options = known_options("to_json", node.children[0].fields.get("options"), ("ignoreNullFields", *TIMES))
    value = to.arg(node, 1)
    if value.type == VARIANT:
        return call("variant_to_json", (value,), pa.string(), True)
    _check_written(value.type)
    ignore = options.get("ignorenullfields", "true").lower() != "false"
    times = time_options("to_json", options, node.children[0], can_write)
    return call("to_json", (value,), pa.string(), ignore_nulls=ignore, **times)


def can_write(pattern: str) -> bool:
    """Whether a pattern of timestamps can be printed."""
    return can_print(pattern.removesuffix(OFFSET))


def _check_written(type_: pa.DataType) -> None:
    """TM2101 for a type that ``to_json`` does not support."""
    if type_ == VARIANT:
        raise unsupported("to_json of VARIANT inside another value", "write the variant by itself")
    if pa.types.is_map(type_):
        if not (pa.types.is_string(type_.key_type) or pa.types.is_integer(type_.key_type)):
            raise unsupported(f"to_json of {type_to_ddl(type_)}", "keys of maps are STRING or integers")
        _check_written(type_.item_type)
    elif pa.types.is_list(type_):
        _check_written(type_.value_type)
    elif pa.types.is_struct(type_):
        for field in type_:
            _check_written(field.type)
    elif pa.types.is_binary(type_):
        raise unsupported("to_json of BINARY", "use base64 for such columns")
    elif type_ in INTERVALS:
        raise unsupported(f"to_json of {type_to_ddl(type_)}", "cast the interval to STRING")


def schema_of(node: JsonTree, to: Translator) -> Expression:
    """``schema_of_json`` and ``schema_of_csv``, whose arguments are constants: what Catalyst says."""
    return Literal(str(node.fields["java"].node.eval(None)), pa.string())


JSON_RULES: dict[str, Rule] = {
    "GetJsonObject": fixed("get_json_object", pa.string(), True),
    "JsonToStructs": _from_json,
}

JSON_INVOKED: dict[str, Rule] = {
    "JsonExpressionUtils.lengthOfJsonArray": fixed("json_array_length", pa.int32(), True),
    "StructsToJsonEvaluator.evaluate": _to_json,
    "SchemaOfJsonEvaluator.evaluate": schema_of,
    "JsonExpressionUtils.jsonObjectKeys": fixed("json_object_keys", pa.list_(pa.string()), True),
}
