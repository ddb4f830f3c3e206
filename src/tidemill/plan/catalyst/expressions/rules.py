"""What the rules that translate Catalyst expressions share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any, TypeAlias

import pyarrow as pa

from tidemill.errors import TidemillError
from tidemill.plan.catalyst.trees.field_names import named_alike
from tidemill.plan.catalyst.trees.tree import JsonTree
from tidemill.schema import TIMESTAMP, TIMESTAMP_NTZ, type_from_spark, type_to_ddl
from tidemill.task.expressions import Call, Expression, Literal
from tidemill.task.functions.times.time_text import parse_date, parse_timestamp

_HINT = "docs/functions.md lists the supported functions"


def unsupported(what: str, hint: str = _HINT) -> TidemillError:
    """TM2101 for a function, or an option of one."""
    return TidemillError("TM2101", "function is not supported yet", got=what, hint=hint)


def type_of(spec: Any) -> pa.DataType:
    if isinstance(spec, str) and spec.startswith("string collate"):
        raise unsupported(f"type {spec}", "only the default collation UTF8_BINARY is supported")
    return type_from_spark(spec)


def literal(node: JsonTree) -> Literal:
    text, type_ = node.fields["value"], type_of(node.fields["dataType"])
    if text is None:
        return Literal(None, type_)
    return Literal(constant_value(text, type_), type_)


def constant_value(text: Any, type_: pa.DataType) -> Any:
    if pa.types.is_boolean(type_):
        return text in (True, "true")
    if pa.types.is_integer(type_) or type_ == TIMESTAMP_NTZ or isinstance(text, int):
        return int(text)
    if pa.types.is_floating(type_):
        return float(text)
    if pa.types.is_decimal(type_):
        return Decimal(text)
    if pa.types.is_date(type_):
        return parse_date(pa.array([text])).cast(pa.int32())[0].as_py()
    if type_ == TIMESTAMP:
        return parse_timestamp(pa.array([text]), TIMESTAMP).cast(pa.int64())[0].as_py()
    if pa.types.is_string(type_):
        return str(text)
    if pa.types.is_binary(type_) and not isinstance(text, str):
        return bytes(text)
    raise unsupported(f"constant of type {type_to_ddl(type_)}", "read the plan with read_plan()")


class Translator:
    """What the rules share: translated children, and constants that must be known while planning."""

    def __init__(
        self, inputs: Mapping[int, int], translate: Callable[[JsonTree, Mapping[int, int]], Expression]
    ) -> None:
        self.inputs = inputs
        self.translate = translate

    def args(self, node: JsonTree) -> tuple[Expression, ...]:
        return tuple(self.translate(child, self.inputs) for child in node.children)

    def args_from(self, node: JsonTree, position: int) -> tuple[Expression, ...]:
        return tuple(self.translate(child, self.inputs) for child in node.children[position:])

    def arg(self, node: JsonTree, position: int) -> Expression:
        return self.translate(node.children[position], self.inputs)

    def constant(self, node: JsonTree, position: int) -> Any:
        child = node.children[position]
        if child.name != "Literal" or child.fields["value"] is None:
            raise unsupported(
                f"{node.name} whose argument {position + 1} is not a constant",
                "write that argument as a constant",
            )
        return literal(child).value


Rule: TypeAlias = Callable[[JsonTree, Translator], Expression]


def call(
    function: str, args: tuple[Expression, ...], type_: pa.DataType, nullable: bool | None = None, **options: Any
) -> Call:
    known = any(arg.nullable for arg in args) if nullable is None else nullable
    args = named_alike(function, args, type_)
    return Call(function, args, type_, known, tuple(sorted(options.items())))


def eval_mode(node: JsonTree) -> str:
    mode = node.fields.get("evalMode")
    if mode is None:
        raise unsupported(
            f"{node.name} without its evaluation mode",
            "internal: toJSON() does not say whether this is the try_ form; read the plan with read_plan()",
        )
    if mode == "LEGACY":
        raise unsupported(f"{node.name} in LEGACY mode", "set spark.sql.ansi.enabled to true")
    return str(mode).lower()


def ansi(node: JsonTree, field: str = "failOnError") -> None:
    if not node.fields.get(field, True):
        raise unsupported(f"{node.name} outside ANSI mode", "set spark.sql.ansi.enabled to true")


def fixed(function: str, type_: pa.DataType | None = None, nullable: bool | None = None) -> Rule:
    """A function of all children; ``type_`` ``None`` means the type of the first."""

    def rule(node: JsonTree, to: Translator) -> Expression:
        ansi(node)
        args = to.args(node)
        return call(function, args, type_ or args[0].type, nullable)

    return rule


def only(function: str, types: tuple[Callable[[pa.DataType], bool], ...], type_: pa.DataType | None = None) -> Rule:
    """A function of all children whose first one must be of one of the types."""

    def rule(node: JsonTree, to: Translator) -> Expression:
        args = to.args(node)
        if args and not any(test(args[0].type) for test in types):
            raise unsupported(f"{function} of {type_to_ddl(args[0].type)}")
        return call(function, args, type_ or args[0].type)

    return rule
