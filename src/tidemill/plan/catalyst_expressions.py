"""Catalyst's scalar expressions, read as JSON, become :mod:`tidemill.plan.expressions` trees.

``plan.toJSON()`` leaves out what cannot be guessed: whether a cast is ``CAST`` or ``try_cast``, the bytes of
binary constants, the list of ``InSet``, the escape character of LIKE. :func:`read_plan` and
:func:`read_expression` ask the Java objects for exactly these; plain JSON is refused where they matter.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, TypeAlias

import pyarrow as pa

from tidemill.errors import TidemillError
from tidemill.plan.expressions import Call, Expression, Literal, Ref
from tidemill.schema import TIMESTAMP, TIMESTAMP_NTZ, type_from_spark, type_to_ddl
from tidemill.task.functions import patterns
from tidemill.task.functions.cast import cast_can_fail, castable
from tidemill.task.functions.date_patterns import can_parse, can_print
from tidemill.task.functions.decimal_types import arithmetic_type, rounded_type
from tidemill.task.functions.time_text import parse_date, parse_timestamp

_EXPRESSIONS = "org.apache.spark.sql.catalyst.expressions."
_HINT = "docs/functions.md lists the supported functions"


@dataclass(frozen=True)
class JsonTree:
    """One node of a Catalyst expression.

    Attributes
    ----------
    name : str
        The class without its package, e.g. ``GreaterThan``.
    fields : dict
        Every JSON field of the node.
    children : tuple of JsonTree
        In Catalyst's order.
    """

    name: str
    fields: dict[str, Any]
    children: tuple[JsonTree, ...]


def tree(nodes: list[dict[str, Any]]) -> JsonTree:
    """Rebuild a tree from Catalyst's pre-order list of nodes."""
    remaining = iter(nodes)

    def build() -> JsonTree:
        fields = next(remaining)
        children = tuple(build() for _ in range(fields["num-children"]))
        return JsonTree(fields["class"].rsplit(".", 1)[-1], fields, children)

    return build()


def read_expression(expression: Any) -> JsonTree:
    """The tree of a Java ``Expression``, with the fields that its JSON leaves out."""
    nodes = json.loads(expression.toJSON())
    _complete(nodes, expression)
    return tree(nodes)


def read_plan(plan: Any) -> list[dict[str, Any]]:
    """``json.loads(plan.toJSON())`` of a Java ``LogicalPlan``, with what the JSON of expressions leaves out."""
    nodes: list[dict[str, Any]] = json.loads(plan.toJSON())
    _complete_plan(iter(nodes), plan)
    return nodes


def _elements(sequence: Any) -> Iterator[Any]:
    iterator = sequence.iterator()
    while iterator.hasNext():
        yield iterator.next()


def _complete_plan(nodes: Iterator[dict[str, Any]], plan: Any) -> None:
    fields = next(nodes)
    listed = list(_expression_lists(fields))
    if fields["num-children"] or any(len(nodes_) > 1 for nodes_ in listed):
        for nodes_, expression in zip(listed, _elements(plan.expressions()), strict=True):
            _complete(nodes_, expression)
    for child in _elements(plan.children()):
        _complete_plan(nodes, child)


def _expression_lists(value: Any) -> Iterator[list[dict[str, Any]]]:
    """The pre-order lists of expressions inside the fields of a plan node, in their order."""
    if isinstance(value, dict):
        for inner in value.values():
            yield from _expression_lists(inner)
    elif isinstance(value, list):
        if value and isinstance(value[0], dict) and "num-children" in value[0]:
            if ".plans." not in value[0]["class"] and ".execution." not in value[0]["class"]:
                yield value
        else:
            for inner in value:
                yield from _expression_lists(inner)


def _complete(nodes: list[dict[str, Any]], expression: Any) -> None:
    remaining = iter(nodes)

    def visit(java: Any) -> None:
        fields = next(remaining)
        name = fields["class"].rsplit(".", 1)[-1]
        if "evalMode" in fields:
            fields["evalMode"] = java.evalMode().toString()
        elif "evalContext" in fields:
            fields["evalMode"] = java.evalContext().evalMode().toString()
        if "escapeChar" in fields:
            fields["escapeChar"] = str(java.escapeChar())
        if name == "InSet":
            fields["hset"] = [_java_value(value) for value in _elements(java.hset())]
        elif name in ("LikeAll", "LikeAny", "NotLikeAll", "NotLikeAny"):
            fields["patterns"] = [_java_value(value) for value in _elements(java.patterns())]
        elif name == "Literal" and fields["dataType"] == "binary":
            fields["value"] = java.value()
        elif isinstance(fields.get("plan"), list) and hasattr(java, "plan"):
            _complete_plan(iter(fields["plan"]), java.plan())
        if fields["num-children"]:
            for child in _elements(java.children()):
                visit(child)

    visit(expression)


def _java_value(value: Any) -> Any:
    return value if value is None or isinstance(value, bool | int | float | bytes | str) else value.toString()


def unsupported(what: str, hint: str = _HINT) -> TidemillError:
    """TM2101 for a function, or an option of one."""
    return TidemillError("TM2101", "function is not supported yet", got=what, hint=hint)


def _type(spec: Any) -> pa.DataType:
    if isinstance(spec, str) and spec.startswith("string collate"):
        raise unsupported(f"type {spec}", "only the default collation UTF8_BINARY is supported")
    return type_from_spark(spec)


def translate(node: JsonTree, inputs: Mapping[int, int]) -> Expression:
    """The expression that a Catalyst tree means.

    Parameters
    ----------
    node : JsonTree
        From :func:`read_expression`, or :func:`tree` of a list in :func:`read_plan`.
    inputs : mapping
        Position of the input column of each ``exprId``.

    Raises
    ------
    TidemillError
        TM2101 for a function, option or type that is not supported; TM2002 for a type that is not stored.
    """
    if node.name == "AttributeReference":
        return _attribute(node, inputs)
    if node.name == "Literal":
        return _literal(node)
    rule = _RULES.get(node.name)
    if rule is None:
        raise unsupported(_shown(node))
    return rule(node, _Translator(inputs))


def _shown(node: JsonTree) -> str:
    if node.name in ("StaticInvoke", "Invoke"):
        return f"{node.name} {node.fields.get('staticObject', '')}.{node.fields.get('functionName')}"
    return node.name


def _attribute(node: JsonTree, inputs: Mapping[int, int]) -> Ref:
    identity = node.fields["exprId"]["id"]
    if identity not in inputs:
        raise TidemillError(
            "TM2101",
            "internal: a column is not among the inputs of its operator",
            got=f"{node.fields['name']}#{identity}",
        )
    return Ref(inputs[identity], _type(node.fields["dataType"]), bool(node.fields["nullable"]))


def _literal(node: JsonTree) -> Literal:
    text, type_ = node.fields["value"], _type(node.fields["dataType"])
    if text is None:
        return Literal(None, type_)
    return Literal(_constant(text, type_), type_)


def _constant(text: Any, type_: pa.DataType) -> Any:
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


class _Translator:
    """What the rules share: translated children, and constants that must be known while planning."""

    def __init__(self, inputs: Mapping[int, int]) -> None:
        self.inputs = inputs

    def args(self, node: JsonTree) -> tuple[Expression, ...]:
        return tuple(translate(child, self.inputs) for child in node.children)

    def arg(self, node: JsonTree, position: int) -> Expression:
        return translate(node.children[position], self.inputs)

    def constant(self, node: JsonTree, position: int) -> Any:
        child = node.children[position]
        if child.name != "Literal" or child.fields["value"] is None:
            raise unsupported(
                f"{node.name} whose argument {position + 1} is not a constant",
                "write that argument as a constant",
            )
        return _literal(child).value


Rule: TypeAlias = Callable[[JsonTree, _Translator], Expression]


def _call(
    function: str, args: tuple[Expression, ...], type_: pa.DataType, nullable: bool | None = None, **options: Any
) -> Call:
    known = any(arg.nullable for arg in args) if nullable is None else nullable
    return Call(function, args, type_, known, tuple(sorted(options.items())))


def _mode(node: JsonTree) -> str:
    mode = node.fields.get("evalMode")
    if mode is None:
        raise unsupported(
            f"{node.name} without its evaluation mode",
            "internal: toJSON() does not say whether this is the try_ form; read the plan with read_plan()",
        )
    if mode == "LEGACY":
        raise unsupported(f"{node.name} in LEGACY mode", "set spark.sql.ansi.enabled to true")
    return str(mode).lower()


def _ansi(node: JsonTree, field: str = "failOnError") -> None:
    if not node.fields.get(field, True):
        raise unsupported(f"{node.name} outside ANSI mode", "set spark.sql.ansi.enabled to true")


def _fixed(function: str, type_: pa.DataType | None = None, nullable: bool | None = None) -> Rule:
    """A function of all children; ``type_`` ``None`` means the type of the first."""

    def rule(node: JsonTree, to: _Translator) -> Expression:
        _ansi(node)
        args = to.args(node)
        return _call(function, args, type_ or args[0].type, nullable)

    return rule


def _first(node: JsonTree, to: _Translator) -> Expression:
    return to.arg(node, 0)


def _arithmetic(function: str) -> Rule:
    def rule(node: JsonTree, to: _Translator) -> Expression:
        left, right = to.args(node)
        if not (pa.types.is_integer(left.type) or pa.types.is_floating(left.type) or pa.types.is_decimal(left.type)):
            raise unsupported(f"{node.name} of {type_to_ddl(left.type)}")
        exact = function in ("add", "subtract", "multiply") and pa.types.is_floating(left.type)
        mode = "ansi" if exact else _mode(node)
        type_ = left.type
        if function == "integral_divide":
            type_ = pa.int64()
        elif pa.types.is_decimal(type_):
            type_ = arithmetic_type(function, left.type, right.type)
        nullable = left.nullable or right.nullable or mode == "try"
        return _call(function, (left, right), type_, nullable, mode=mode)

    return rule


def _cast(node: JsonTree, to: _Translator) -> Expression:
    value, target = to.arg(node, 0), _type(node.fields["dataType"])
    if value.type == target:
        return value
    if not castable(value.type, target):
        raise unsupported(f"CAST({type_to_ddl(value.type)} AS {type_to_ddl(target)})")
    if node.fields.get("timeZoneId", "UTC") not in (None, "UTC", "Etc/UTC"):
        raise unsupported(f"CAST in time zone {node.fields['timeZoneId']}", "set spark.sql.session.timeZone to UTC")
    if not cast_can_fail(value.type, target):
        return _call("cast", (value,), target, mode="ansi")
    lenient = pa.types.is_string(value.type) and pa.types.is_temporal(target)
    # try_to_timestamp arrives as a LEGACY cast, which for dates and timestamps means NULL on bad text.
    mode = "try" if lenient and node.fields.get("evalMode") == "LEGACY" else _mode(node)
    inexact = pa.types.is_floating(value.type) and pa.types.is_decimal(target)
    return _call("cast", (value,), target, value.nullable or mode == "try" or inexact, mode=mode)


def _case_when(node: JsonTree, to: _Translator) -> Expression:
    args = to.args(node)
    values = args[1::2] + ((args[-1],) if len(args) % 2 else ())
    nullable = len(args) % 2 == 0 or any(value.nullable for value in values)
    return _call("case", args, args[1].type, nullable)


def _in_set(node: JsonTree, to: _Translator) -> Expression:
    value, listed = to.arg(node, 0), node.fields["hset"]
    if listed is None:
        raise unsupported("InSet without its values", "internal: read the plan with read_plan()")
    constants = [Literal(None if v is None else _constant(v, value.type), value.type) for v in listed]
    ordered = sorted(constants, key=lambda c: (c.value is None, repr(c.value)))
    return _call("in", (value, *ordered), pa.bool_())


def _in(node: JsonTree, to: _Translator) -> Expression:
    args = to.args(node)
    if pa.types.is_nested(args[0].type):
        raise unsupported(f"IN of {type_to_ddl(args[0].type)}")
    return _call("in", args, pa.bool_())


def _compared(function: str, type_: pa.DataType | None = None, nullable: bool | None = None) -> Rule:
    plain = _fixed(function, type_, nullable)

    def rule(node: JsonTree, to: _Translator) -> Expression:
        result = plain(node, to)
        assert isinstance(result, Call)
        if any(pa.types.is_nested(arg.type) for arg in result.args):
            raise unsupported(f"{node.name} of {type_to_ddl(result.args[0].type)}")
        return result

    return rule


def _extreme(function: str) -> Rule:
    def rule(node: JsonTree, to: _Translator) -> Expression:
        args = to.args(node)
        if pa.types.is_nested(args[0].type):
            raise unsupported(f"{function} of {type_to_ddl(args[0].type)}")
        return _call(function, args, args[0].type, all(arg.nullable for arg in args))

    return rule


def _round(function: str) -> Rule:
    def rule(node: JsonTree, to: _Translator) -> Expression:
        value, scale = to.arg(node, 0), to.constant(node, 1)
        _ansi(node, "ansiEnabled")
        if abs(scale) > 30:
            raise unsupported(f"{function} to {scale} digits")
        type_ = rounded_type(value.type, scale) if pa.types.is_decimal(value.type) else value.type
        return _call(function, (value,), type_, scale=scale)

    return rule


def _ceil_floor(function: str) -> Rule:
    def rule(node: JsonTree, to: _Translator) -> Expression:
        _ansi(node)
        value = to.arg(node, 0)
        if pa.types.is_decimal(value.type):
            whole = value.type.precision - value.type.scale + 1
            return _call(function, (value,), pa.decimal128(min(whole, 38), 0))
        return _call(function, (value,), pa.int64())

    return rule


def _ceil_floor_scaled(function: str) -> Rule:
    def rule(node: JsonTree, to: _Translator) -> Expression:
        value, scale = to.arg(node, 0), to.constant(node, 1)
        if not pa.types.is_decimal(value.type) or abs(scale) > 30:
            raise unsupported(f"{function}({type_to_ddl(value.type)}, {scale})")
        return _call(function, (value,), rounded_type(value.type, scale), scale=scale)

    return rule


def _like(node: JsonTree, to: _Translator) -> Expression:
    escape = node.fields.get("escapeChar")
    if escape is None:
        raise unsupported("LIKE without its escape character", "internal: read the plan with read_plan()")
    return _regex_call(node, to, lambda text: patterns.like_regex(text, escape), "like")


def _rlike(node: JsonTree, to: _Translator) -> Expression:
    return _regex_call(node, to, lambda text: patterns.java_regex(text, dollar=True)[0], "rlike")


def _regex_call(
    node: JsonTree, to: _Translator, convert: Callable[[str], str], function: str, **options: Any
) -> Expression:
    """A call with the converted pattern; argument 0 is the text and argument 1 the pattern."""
    value, pattern = to.arg(node, 0), to.constant(node, 1)
    try:
        regex = convert(pattern)
        patterns.check(regex)
    except patterns.DifferentRegex as error:
        raise unsupported(f"{function} with the pattern {pattern!r}: {error}") from None
    return _call(function, (value,), options.pop("type", pa.bool_()), regex=regex, **options)


def _like_many(combine: str, negated: bool) -> Rule:
    def rule(node: JsonTree, to: _Translator) -> Expression:
        value, listed = to.arg(node, 0), node.fields["patterns"]
        if listed is None:
            raise unsupported(node.name, "internal: read the plan with read_plan()")
        tests: list[Expression] = []
        for pattern in listed:
            if pattern is None:
                tests.append(Literal(None, pa.bool_()))
                continue
            try:
                regex = patterns.like_regex(pattern, "\\")
            except patterns.DifferentRegex as error:
                raise unsupported(str(error)) from None
            test = _call("like", (value,), pa.bool_(), regex=regex)
            tests.append(_call("not", (test,), pa.bool_()) if negated else test)
        return tests[0] if len(tests) == 1 else _call(combine, tuple(tests), pa.bool_())

    return rule


def _regexp_extract(node: JsonTree, to: _Translator) -> Expression:
    group = to.constant(node, 2)

    def convert(text: str) -> str:
        regex, groups = patterns.java_regex(text, dollar=False)
        if not 0 <= group <= groups:
            raise patterns.DifferentRegex(f"there is no group {group}")
        return f"(?P<g0>{regex})"

    return _regex_call(node, to, convert, "regexp_extract", type=pa.string(), group=group)


def _regexp_replace(node: JsonTree, to: _Translator) -> Expression:
    replacement = to.constant(node, 2)
    if to.constant(node, 3) != 1 or "\\" in replacement or "$" in replacement:
        raise unsupported("regexp_replace with a start position, or with $ or \\ in the replacement")

    def convert(text: str) -> str:
        regex, _ = patterns.java_regex(text, dollar=False)
        if patterns.matches_empty(regex):
            raise patterns.DifferentRegex("it can match the empty text")
        return regex

    return _regex_call(node, to, convert, "regexp_replace", type=pa.string(), replacement=replacement)


def _text_test(function: str) -> Rule:
    def rule(node: JsonTree, to: _Translator) -> Expression:
        value = to.arg(node, 0)
        if not pa.types.is_string(value.type):
            raise unsupported(f"{function} of {type_to_ddl(value.type)}")
        return _call(function, (value,), pa.bool_(), pattern=to.constant(node, 1))

    return rule


def _only(function: str, types: tuple[Callable[[pa.DataType], bool], ...], type_: pa.DataType | None = None) -> Rule:
    """A function of all children whose first one must be of one of the types."""

    def rule(node: JsonTree, to: _Translator) -> Expression:
        args = to.args(node)
        if args and not any(test(args[0].type) for test in types):
            raise unsupported(f"{function} of {type_to_ddl(args[0].type)}")
        return _call(function, args, type_ or args[0].type)

    return rule


def _with_constants(function: str, kept: tuple[int, ...], type_: pa.DataType, **options: int) -> Rule:
    """A function of the ``kept`` children, whose other children are options and must be constants."""

    def rule(node: JsonTree, to: _Translator) -> Expression:
        known = {name: to.constant(node, position) for name, position in options.items()}
        args = tuple(to.arg(node, position) for position in kept)
        if args[0].type != pa.string() and "search" in known | {"delimiter": 0}:
            raise unsupported(f"{function} of {type_to_ddl(args[0].type)}")
        return _call(function, args, type_, **known)

    return rule


def _trim(function: str) -> Rule:
    def rule(node: JsonTree, to: _Translator) -> Expression:
        characters = to.constant(node, 1) if len(node.children) > 1 else " "
        return _call(function, (to.arg(node, 0),), pa.string(), characters=characters)

    return rule


def _pad(function: str) -> Rule:
    return _with_constants(function, (0, 1), pa.string(), padding=2)


def _locate(node: JsonTree, to: _Translator) -> Expression:
    if node.name == "StringInstr":
        return _call("locate", (to.arg(node, 0),), pa.int32(), search=to.constant(node, 1))
    text, start = to.arg(node, 1), to.arg(node, 2)
    args: tuple[Expression, ...] = (text,) if start == Literal(1, pa.int32()) else (text, start)
    return _call("locate", args, pa.int32(), text.nullable, search=to.constant(node, 0))


def _element_at(node: JsonTree, to: _Translator) -> Expression:
    split = node.children[0]
    if split.name != "StringSplitSQL":
        raise unsupported("element_at")
    args = (to.arg(split, 0), to.arg(node, 1))
    return _call("split_part", args, pa.string(), delimiter=to.constant(split, 1))


def _digest(node: JsonTree, to: _Translator) -> Expression:
    bits = to.constant(node, 1) if node.name == "Sha2" else 0
    names = {"Md5": {0: "md5"}, "Sha1": {0: "sha1"}, "Sha2": {0: "sha256", 224: "sha224", 256: "sha256"}}
    algorithm = (names[node.name] | ({384: "sha384", 512: "sha512"} if node.name == "Sha2" else {})).get(bits)
    if algorithm is None:
        raise unsupported(f"sha2 of {bits} bits")
    return _call("digest", (to.arg(node, 0),), pa.string(), algorithm=algorithm)


_TRUNC_UNITS = {
    "microsecond": "microsecond", "millisecond": "millisecond", "second": "second", "minute": "minute",
    "hour": "hour", "day": "day", "dd": "day", "week": "week", "month": "month", "mon": "month", "mm": "month",
    "quarter": "quarter", "year": "year", "yyyy": "year", "yy": "year",
}  # fmt: skip
_DATE_UNITS = frozenset({"week", "month", "quarter", "year"})
_WEEKDAYS = {
    name: number
    for number, names in enumerate(
        (("mo", "mon", "monday"), ("tu", "tue", "tuesday"), ("we", "wed", "wednesday"), ("th", "thu", "thursday"),
         ("fr", "fri", "friday"), ("sa", "sat", "saturday"), ("su", "sun", "sunday"))
    )
    for name in names
}  # fmt: skip


def _truncate(node: JsonTree, to: _Translator) -> Expression:
    date = node.name == "TruncDate"
    value, name = to.arg(node, 0 if date else 1), to.constant(node, 1 if date else 0)
    unit = _TRUNC_UNITS.get(name.lower())
    if unit is None or (date and unit not in _DATE_UNITS):
        return Literal(None, value.type)
    return _call("trunc_date" if date else "trunc_timestamp", (value,), value.type, unit=unit)


def _next_day(node: JsonTree, to: _Translator) -> Expression:
    weekday = _WEEKDAYS.get(to.constant(node, 1).strip().lower())
    if weekday is None:
        raise unsupported(f"next_day to {to.constant(node, 1)!r}")
    return _call("next_day", (to.arg(node, 0),), pa.date32(), weekday=weekday)


def _date_format(node: JsonTree, to: _Translator) -> Expression:
    pattern = to.constant(node, 1)
    if not can_print(pattern):
        raise unsupported(f"date_format with the pattern {pattern!r}")
    value = to.arg(node, 0)
    if node.name == "FromUnixTime":
        value = _call("timestamp_seconds", (value,), TIMESTAMP)
    return _call("date_format", (value,), pa.string(), pattern=pattern)


def _parsed(node: JsonTree, value: Expression, pattern: str, type_: pa.DataType) -> Expression:
    if not can_parse(pattern):
        raise unsupported(f"to_timestamp with the pattern {pattern!r}")
    mode = "ansi" if node.fields["failOnError"] else "try"
    return _call("parse_timestamp", (value,), type_, value.nullable or mode == "try", pattern=pattern, mode=mode)


def _get_timestamp(node: JsonTree, to: _Translator) -> Expression:
    return _parsed(node, to.arg(node, 0), to.constant(node, 1), _type(node.fields["dataType"]))


def _unix_timestamp(node: JsonTree, to: _Translator) -> Expression:
    value = to.arg(node, 0)
    if pa.types.is_string(value.type):
        value = _parsed(node, value, to.constant(node, 1), TIMESTAMP)
    elif pa.types.is_date(value.type):
        value = _call("cast", (value,), TIMESTAMP, mode="ansi")
    return _call("unix_timestamp", (value,), pa.int64())


def _timestamp_add(node: JsonTree, to: _Translator) -> Expression:
    value, quantity = to.arg(node, 1), to.arg(node, 0)
    unit = {"DAYOFYEAR": "day"}.get(node.fields["unit"].upper(), node.fields["unit"].lower())
    if unit not in _TRUNC_UNITS:
        raise unsupported(f"timestampadd of {unit}")
    return _call("timestamp_add", (value, quantity), value.type, unit=unit)


def _timestamp_diff(node: JsonTree, to: _Translator) -> Expression:
    unit = node.fields["unit"].lower()
    if unit not in _TRUNC_UNITS:
        raise unsupported(f"timestampdiff of {unit}")
    return _call("timestamp_diff", to.args(node), pa.int64(), unit=unit)


def _plus_interval(node: JsonTree, to: _Translator) -> Expression:
    value, interval = to.arg(node, 0), node.children[1]
    kind = interval.fields.get("dataType")
    if interval.name != "Literal" or not isinstance(kind, str) or interval.fields["value"] is None:
        raise unsupported(f"{node.name} with an interval that is not a constant")
    if kind == "interval" or not kind.startswith("interval "):
        raise unsupported(f"{node.name} with a value of type {kind}", "write INTERVAL '1' DAY or INTERVAL '1' MONTH")
    number, months = int(interval.fields["value"]), kind.split()[1] in ("year", "month")
    if pa.types.is_date(value.type):
        if not months:
            raise unsupported(f"{node.name} with {kind}")
        return _call("add_months", (value, Literal(number, pa.int32())), pa.date32())
    unit = "month" if months else "microsecond"
    return _call("timestamp_add", (value, Literal(number, pa.int64())), value.type, unit=unit)


def _make_date(node: JsonTree, to: _Translator) -> Expression:
    mode = "ansi" if node.fields["failOnError"] else "try"
    args = to.args(node)
    return _call("make_date", args, pa.date32(), mode == "try" or any(a.nullable for a in args), mode=mode)


def _months_between(node: JsonTree, to: _Translator) -> Expression:
    return _call("months_between", (to.arg(node, 0), to.arg(node, 1)), pa.float64(), round=to.constant(node, 2))


def _make_decimal(node: JsonTree, to: _Translator) -> Expression:
    type_ = pa.decimal128(node.fields["precision"], node.fields["scale"])
    mode = "try" if node.fields["nullOnOverflow"] else "ansi"
    return _call("make_decimal", (to.arg(node, 0),), type_, True, mode=mode)


def _precise_timestamp(node: JsonTree, to: _Translator) -> Expression:
    target = _type(node.fields["toType"])
    function = "unix_micros" if target == pa.int64() else "timestamp_micros"
    return _call(function, (to.arg(node, 0),), target)


_STRING, _BINARY, _INT, _LONG = pa.string(), pa.binary(), pa.int32(), pa.int64()
_TEXT, _BYTES, _WHOLE = pa.types.is_string, pa.types.is_binary, pa.types.is_integer

_RULES: dict[str, Rule] = {
    **dict.fromkeys(
        ("Alias", "PromotePrecision", "KnownNotNull", "KnownNullable", "KnownFloatingPointNormalized"), _first
    ),
    **{
        name: _arithmetic(function)
        for name, function in {
            "Add": "add", "Subtract": "subtract", "Multiply": "multiply", "Divide": "divide",
            "IntegralDivide": "integral_divide", "Remainder": "remainder", "Pmod": "pmod",
        }.items()
    },
    **{
        name: _compared(function, pa.bool_())
        for name, function in {
            "EqualTo": "eq", "LessThan": "lt", "LessThanOrEqual": "le", "GreaterThan": "gt",
            "GreaterThanOrEqual": "ge",
        }.items()
    },
    "EqualNullSafe": _compared("eq_null_safe", pa.bool_(), False),
    "UnaryMinus": _fixed("negate"), "Abs": _fixed("abs"), "Cast": _cast, "AnsiCast": _cast,
    "And": _fixed("and", pa.bool_()), "Or": _fixed("or", pa.bool_()), "Not": _fixed("not", pa.bool_()),
    "IsNull": _fixed("is_null", pa.bool_(), False), "IsNotNull": _fixed("is_not_null", pa.bool_(), False),
    "IsNaN": _fixed("is_nan", pa.bool_(), False), "NaNvl": _fixed("nanvl", None, True),
    "NormalizeNaNAndZero": _fixed("normalize_float"),
    "In": _in, "InSet": _in_set, "If": _case_when, "CaseWhen": _case_when,
    "Coalesce": _extreme("coalesce"), "Greatest": _extreme("greatest"), "Least": _extreme("least"),
    "Like": _like, "RLike": _rlike, "RegExpExtract": _regexp_extract, "RegExpReplace": _regexp_replace,
    "LikeAll": _like_many("and", False), "LikeAny": _like_many("or", False),
    "NotLikeAll": _like_many("and", True), "NotLikeAny": _like_many("or", True),
    "StartsWith": _text_test("starts_with"), "EndsWith": _text_test("ends_with"), "Contains": _text_test("contains"),
    "Upper": _fixed("upper"), "Lower": _fixed("lower"), "InitCap": _fixed("initcap"),
    "Length": _fixed("length", _INT), "OctetLength": _fixed("octet_length", _INT),
    "BitLength": _fixed("bit_length", _INT),
    "Concat": _only("concat", (_TEXT, _BYTES)), "ConcatWs": _only("concat_ws", (_TEXT,)),
    "Substring": _only("substring", (_TEXT, _BYTES)), "Reverse": _only("reverse", (_TEXT,)),
    "StringTrim": _trim("trim"), "StringTrimLeft": _trim("ltrim"), "StringTrimRight": _trim("rtrim"),
    "StringReplace": _with_constants("replace", (0,), _STRING, search=1, replacement=2),
    "StringTranslate": _with_constants("translate", (0,), _STRING, source=1, target=2),
    "SubstringIndex": _with_constants("substring_index", (0,), _STRING, delimiter=1, count=2),
    "StringLPad": _pad("lpad"), "StringRPad": _pad("rpad"), "StringRepeat": _fixed("repeat"),
    "StringInstr": _locate, "StringLocate": _locate, "ElementAt": _element_at,
    "Ascii": _fixed("ascii", _INT), "Chr": _fixed("chr", _STRING),
    "Hex": _only("hex", (_TEXT, _BYTES, _WHOLE), _STRING), "Md5": _digest, "Sha1": _digest, "Sha2": _digest,
    "Round": _round("round"), "BRound": _round("bround"), "Ceil": _ceil_floor("ceil"), "Floor": _ceil_floor("floor"),
    "RoundCeil": _ceil_floor_scaled("ceil"), "RoundFloor": _ceil_floor_scaled("floor"),
    **{
        name: _fixed(function, pa.float64())
        for name, function in {
            "Sqrt": "sqrt", "Cbrt": "cbrt", "Exp": "exp", "Expm1": "expm1", "Signum": "signum", "Sin": "sin",
            "Cos": "cos", "Tan": "tan", "Asin": "asin", "Acos": "acos", "Atan": "atan", "Sinh": "sinh",
            "Cosh": "cosh", "Tanh": "tanh", "ToDegrees": "degrees", "ToRadians": "radians", "Rint": "rint",
            "Pow": "power", "Hypot": "hypot", "Atan2": "atan2",
        }.items()
    },
    **{
        name: _fixed(function, pa.float64(), True)
        for name, function in {
            "Log": "ln", "Log10": "log10", "Log2": "log2", "Log1p": "log1p", "Logarithm": "logarithm",
        }.items()
    },
    "BitwiseAnd": _fixed("bit_and"), "BitwiseOr": _fixed("bit_or"), "BitwiseXor": _fixed("bit_xor"),
    "BitwiseNot": _fixed("bit_not"), "BitwiseCount": _fixed("bit_count", _INT),
    "ShiftLeft": _fixed("shift_left"), "ShiftRight": _fixed("shift_right"),
    "ShiftRightUnsigned": _fixed("shift_right_unsigned"),
    **{
        name: _fixed(function, _INT)
        for name, function in {
            "Year": "year", "Quarter": "quarter", "Month": "month", "DayOfMonth": "day", "DayOfYear": "day_of_year",
            "DayOfWeek": "day_of_week", "WeekDay": "weekday", "WeekOfYear": "week_of_year",
            "YearOfWeek": "year_of_week", "Hour": "hour", "Minute": "minute", "Second": "second",
            "UnixDate": "unix_date", "DateDiff": "date_diff",
        }.items()
    },
    "SecondWithFraction": _fixed("second_with_fraction", pa.decimal128(8, 6)),
    "MonthName": _fixed("month_name", _STRING), "DayName": _fixed("day_name", _STRING),
    "DateFromUnixDate": _fixed("date_from_unix_date", pa.date32()),
    "DateAdd": _fixed("date_add"), "DateSub": _fixed("date_sub"), "AddMonths": _fixed("add_months"),
    "LastDay": _fixed("last_day"), "NextDay": _next_day, "TruncDate": _truncate, "TruncTimestamp": _truncate,
    "DateFormatClass": _date_format, "FromUnixTime": _date_format, "GetTimestamp": _get_timestamp,
    "UnixTimestamp": _unix_timestamp, "ToUnixTimestamp": _unix_timestamp, "MakeDate": _make_date,
    "TimestampAdd": _timestamp_add, "TimestampDiff": _timestamp_diff, "MonthsBetween": _months_between,
    **dict.fromkeys(("TimestampAddInterval", "TimestampAddYMInterval", "DateAddYMInterval"), _plus_interval),
    "UnixSeconds": _fixed("unix_seconds", _LONG), "UnixMillis": _fixed("unix_millis", _LONG),
    "UnixMicros": _fixed("unix_micros", _LONG), "SecondsToTimestamp": _only("timestamp_seconds", (_WHOLE,), TIMESTAMP),
    "MillisToTimestamp": _fixed("timestamp_millis", TIMESTAMP),
    "MicrosToTimestamp": _fixed("timestamp_micros", TIMESTAMP), "PreciseTimestampConversion": _precise_timestamp,
    "UnscaledValue": _fixed("unscaled_value", _LONG), "MakeDecimal": _make_decimal,
}  # fmt: skip
