"""Catalyst's scalar expressions, read as JSON, become :mod:`tidemill.task.expressions` trees.

Read the tree with :func:`read_plan`: plain JSON does not tell ``CAST`` from
``try_cast`` and is refused where that matters.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa

from tidemill.errors import TidemillError
from tidemill.plan.catalyst.expressions.csv import CSV_RULES
from tidemill.plan.catalyst.expressions.intervals import (
    INTERVAL_RULES,
    INTERVALS,
    cast_of_interval,
    interval_arithmetic,
    interval_literal,
    or_interval,
)
from tidemill.plan.catalyst.expressions.invoked import invoked, invoked_name
from tidemill.plan.catalyst.expressions.json import JSON_RULES
from tidemill.plan.catalyst.expressions.nested import NESTED_RULES, nested_literal
from tidemill.plan.catalyst.expressions.python import PYTHON_RULES
from tidemill.plan.catalyst.expressions.rules import (
    Rule,
    Translator,
    ansi,
    call,
    constant_value,
    eval_mode,
    fixed,
    literal,
    only,
    type_of,
    unsupported,
)
from tidemill.plan.catalyst.expressions.text import (
    TEXT_RULES,
    checked_regex,
    is_constant,
    like_columns,
    re2_pattern,
)
from tidemill.plan.catalyst.expressions.time import TIME_RULES
from tidemill.plan.catalyst.expressions.variant import VARIANT_RULES, no_column, variant_as
from tidemill.plan.catalyst.expressions.zones import in_zone, zone_option
from tidemill.plan.catalyst.trees.places import passing
from tidemill.plan.catalyst.trees.tree import TRANSLATED, JsonTree, read_plan, tree
from tidemill.schema import type_to_ddl
from tidemill.task.expressions import Expression, Literal, Ref
from tidemill.task.functions.cast import cast_can_fail, castable, counts_in_zone
from tidemill.task.functions.documents.variant import VARIANT
from tidemill.task.functions.numbers.decimal_types import arithmetic_type, rounded_type
from tidemill.task.functions.text import java_patterns, patterns

__all__ = ["JsonTree", "read_plan", "translate", "tree"]


def translate(node: JsonTree, inputs: Mapping[int, int]) -> Expression:
    """The expression that a Catalyst tree means.

    Parameters
    ----------
    node : JsonTree
        From :func:`tree` of a list in :func:`read_plan`.
    inputs : mapping
        Position of the input column of each ``exprId``.

    Raises
    ------
    TidemillError
        TM2101 for a function, option or type that is not supported; TM2002 for a type that is not stored.
    """
    if node.name == "AttributeReference":
        return _attribute(node, inputs)
    if node.name == TRANSLATED:
        found: Expression = node.fields["expression"]
        return found
    with passing(node):
        if node.name == "Literal":
            interval = interval_literal(node)
            if interval is not None:
                return interval
            return nested_literal(node) if isinstance(node.fields["dataType"], dict) else literal(node)
        rule = _RULES.get(node.name)
        if rule is None:
            raise unsupported(_shown(node))
        return in_zone(node, rule)(node, Translator(inputs, translate))


def _shown(node: JsonTree) -> str:
    if node.name in ("StaticInvoke", "Invoke"):
        return invoked_name(node)
    return node.name


def _attribute(node: JsonTree, inputs: Mapping[int, int]) -> Ref:
    identity = node.fields["exprId"]["id"]
    if identity not in inputs:
        raise TidemillError(
            "TM2900",
            "a column is not among the inputs of its operator",
            got=f"{node.fields['name']}#{identity}",
        )
    return Ref(inputs[identity], type_of(node.fields["dataType"]), bool(node.fields["nullable"]))


def _first(node: JsonTree, to: Translator) -> Expression:
    return no_column(to.arg(node, 0))


def _arithmetic(function: str) -> Rule:
    def rule(node: JsonTree, to: Translator) -> Expression:
        left, right = to.args(node)
        if left.type in INTERVALS and function in ("add", "subtract"):
            return interval_arithmetic(function, left, right, eval_mode(node))
        if not (pa.types.is_integer(left.type) or pa.types.is_floating(left.type) or pa.types.is_decimal(left.type)):
            raise unsupported(f"{node.name} of {type_to_ddl(left.type)}")
        exact = function in ("add", "subtract", "multiply") and pa.types.is_floating(left.type)
        mode = "ansi" if exact else eval_mode(node)
        type_: pa.DataType = left.type
        if function == "integral_divide":
            type_ = pa.int64()
        elif pa.types.is_decimal(type_):
            type_ = arithmetic_type(function, left.type, right.type)
        nullable = left.nullable or right.nullable or mode == "try"
        return call(function, (left, right), type_, nullable, mode=mode)

    return rule


def _cast(node: JsonTree, to: Translator) -> Expression:
    value = to.arg(node, 0)
    if node.fields["dataType"] == "variant":
        raise unsupported("CAST to VARIANT", "to_json and parse_json make a VARIANT of other values")
    target = type_of(node.fields["dataType"])
    if value.type == VARIANT:
        return variant_as(value, (), target, eval_mode(node))
    interval = cast_of_interval(node, value, target)
    if interval is not None:
        return interval
    if value.type == target:
        return value
    if not castable(value.type, target):
        raise unsupported(f"CAST({type_to_ddl(value.type)} AS {type_to_ddl(target)})")
    zone = zone_option(node) if counts_in_zone(value.type, target) else {}
    if not cast_can_fail(value.type, target):
        return call("cast", (value,), target, mode="ansi", **zone)
    lenient = pa.types.is_string(value.type) and pa.types.is_temporal(target)
    # try_to_timestamp arrives as a LEGACY cast, which for dates and timestamps means NULL on bad text.
    mode = "try" if lenient and node.fields.get("evalMode") == "LEGACY" else eval_mode(node)
    inexact = pa.types.is_floating(value.type) and pa.types.is_decimal(target)
    return call("cast", (value,), target, value.nullable or mode == "try" or inexact, mode=mode, **zone)


def _case_when(node: JsonTree, to: Translator) -> Expression:
    args = to.args(node)
    values = args[1::2] + ((args[-1],) if len(args) % 2 else ())
    nullable = len(args) % 2 == 0 or any(value.nullable for value in values)
    return call("case", args, args[1].type, nullable)


def _in_set(node: JsonTree, to: Translator) -> Expression:
    value, listed = to.arg(node, 0), node.fields["hset"]
    if listed is None:
        raise unsupported("InSet without its values", "internal: read the plan with read_plan()")
    constants = [Literal(None if v is None else constant_value(v, value.type), value.type) for v in listed]
    ordered = sorted(constants, key=lambda c: (c.value is None, repr(c.value)))
    return call("in", (value, *ordered), pa.bool_())


def _extreme(function: str) -> Rule:
    def rule(node: JsonTree, to: Translator) -> Expression:
        args = to.args(node)
        return call(function, args, args[0].type, all(arg.nullable for arg in args))

    return rule


def _round(function: str) -> Rule:
    def rule(node: JsonTree, to: Translator) -> Expression:
        value, scale = to.arg(node, 0), to.constant(node, 1)
        ansi(node, "ansiEnabled")
        if abs(scale) > 30:
            raise unsupported(f"{function} to {scale} digits")
        type_ = rounded_type(value.type, scale) if pa.types.is_decimal(value.type) else value.type
        return call(function, (value,), type_, scale=scale)

    return rule


def _ceil_floor(function: str) -> Rule:
    def rule(node: JsonTree, to: Translator) -> Expression:
        ansi(node)
        value = to.arg(node, 0)
        if pa.types.is_decimal(value.type):
            whole = value.type.precision - value.type.scale + 1
            return call(function, (value,), pa.decimal128(min(whole, 38), 0))
        return call(function, (value,), pa.int64())

    return rule


def _ceil_floor_scaled(function: str) -> Rule:
    def rule(node: JsonTree, to: Translator) -> Expression:
        value, scale = to.arg(node, 0), to.constant(node, 1)
        if not pa.types.is_decimal(value.type) or abs(scale) > 30:
            raise unsupported(f"{function}({type_to_ddl(value.type)}, {scale})")
        return call(function, (value,), rounded_type(value.type, scale), scale=scale)

    return rule


def _like(node: JsonTree, to: Translator) -> Expression:
    escape = node.fields.get("escapeChar")
    if escape is None:
        raise unsupported("LIKE without its escape character", "internal: read the plan with read_plan()")
    if not is_constant(node.children[1]):
        return like_columns(node, to)
    return _regex_call(node, to, lambda text: patterns.like_regex(text, escape), "like")


def _rlike(node: JsonTree, to: Translator) -> Expression:
    if not is_constant(node.children[1]):
        return _on_python("rlike")(node, to)
    return _regex_call(node, to, lambda text: patterns.java_regex(text, dollar=True)[0], "rlike")


def _regex_call(
    node: JsonTree, to: Translator, convert: Callable[[str], str], function: str, **options: Any
) -> Expression:
    """A call with the converted pattern; argument 0 is the text and argument 1 the pattern."""
    value, pattern = to.arg(node, 0), to.constant(node, 1)
    try:
        regex = convert(pattern)
        patterns.check(regex)
    except patterns.DifferentRegexError as error:
        if function == "like":
            raise unsupported(f"{function} with the pattern {pattern!r}: {error}") from None
        return _on_python(function)(node, to)
    return call(function, (value,), options.pop("type", pa.bool_()), regex=regex, **options)


def _on_python(function: str) -> Rule:
    """The same function on Python's ``re``: patterns that are columns, and constructs that RE2 has not."""
    return {
        "rlike": checked_regex("rlike_java", pa.bool_(), (0, 1)),
        "regexp_extract": checked_regex("regexp_extract_java", pa.string(), (0, 1, 2), 2),
        "regexp_replace": checked_regex("regexp_replace_java", pa.string(), (0, 1, 2, 3)),
    }[function]


def _like_many(combine: str, negated: bool) -> Rule:
    def rule(node: JsonTree, to: Translator) -> Expression:
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
            except patterns.DifferentRegexError as error:
                raise unsupported(str(error)) from None
            test = call("like", (value,), pa.bool_(), regex=regex)
            tests.append(call("not", (test,), pa.bool_()) if negated else test)
        return tests[0] if len(tests) == 1 else call(combine, tuple(tests), pa.bool_())

    return rule


def _regexp_extract(node: JsonTree, to: Translator) -> Expression:
    if not is_constant(node.children[1]) or not is_constant(node.children[2]):
        return _on_python("regexp_extract")(node, to)
    group = to.constant(node, 2)

    def convert(text: str) -> str:
        regex, groups = patterns.java_regex(text, dollar=False)
        if not 0 <= group <= groups:
            raise patterns.DifferentRegexError(f"there is no group {group}")
        return f"(?P<g0>{regex})"

    return _regex_call(node, to, convert, "regexp_extract", type=pa.string(), group=group)


def _regexp_replace(node: JsonTree, to: Translator) -> Expression:
    if not all(is_constant(child) for child in node.children[1:]):
        return _on_python("regexp_replace")(node, to)
    found = re2_pattern(to.constant(node, 1))
    replacement = None if found is None else java_patterns.re2_replacement(to.constant(node, 2), found[1])
    if found is None or replacement is None or to.constant(node, 3) != 1:
        return _on_python("regexp_replace")(node, to)
    return call("regexp_replace", (to.arg(node, 0),), pa.string(), regex=found[0], replacement=replacement)


def _text_test(function: str) -> Rule:
    def rule(node: JsonTree, to: Translator) -> Expression:
        value = to.arg(node, 0)
        if not is_constant(node.children[1]):
            return call(f"{function}_any", to.args(node), pa.bool_())
        return call(function, (value,), pa.bool_(), pattern=to.constant(node, 1))

    return rule


def _negate(node: JsonTree, to: Translator) -> Expression:
    """``right(s, n)`` is a substring from -n, which wraps around."""
    return fixed("negate" if node.fields.get("failOnError", True) else "negate_wrapping")(_ansi_of(node), to)


def _ansi_of(node: JsonTree) -> JsonTree:
    return JsonTree(node.name, node.fields | {"failOnError": True}, node.children)


def _concat_ws(node: JsonTree, to: Translator) -> Expression:
    args = to.args(node)
    return call("concat_ws", args, pa.string(), args[0].nullable)


def _digest(node: JsonTree, to: Translator) -> Expression:
    algorithm = node.name.lower()
    if algorithm == "sha2":
        bits = to.constant(node, 1) or 256
        if bits not in (224, 256, 384, 512):
            raise unsupported(f"sha2 of {bits} bits")
        algorithm = f"sha{bits}"
    return call("digest", (to.arg(node, 0),), pa.string(), algorithm=algorithm)


def _make_decimal(node: JsonTree, to: Translator) -> Expression:
    type_ = pa.decimal128(node.fields["precision"], node.fields["scale"])
    mode = "try" if node.fields["nullOnOverflow"] else "ansi"
    return call("make_decimal", (to.arg(node, 0),), type_, True, mode=mode)


_STRING, _INT, _LONG = pa.string(), pa.int32(), pa.int64()
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
        name: fixed(function, pa.bool_())
        for name, function in {
            "EqualTo": "eq", "LessThan": "lt", "LessThanOrEqual": "le", "GreaterThan": "gt",
            "GreaterThanOrEqual": "ge",
        }.items()
    },
    "EqualNullSafe": fixed("eq_null_safe", pa.bool_(), False),
    "UnaryMinus": or_interval("interval_negate", _negate),
    "Abs": or_interval("interval_abs", fixed("abs")), "Cast": _cast, "AnsiCast": _cast,
    "And": fixed("and", pa.bool_()), "Or": fixed("or", pa.bool_()), "Not": fixed("not", pa.bool_()),
    "IsNull": fixed("is_null", pa.bool_(), False), "IsNotNull": fixed("is_not_null", pa.bool_(), False),
    "IsNaN": fixed("is_nan", pa.bool_(), False), "NaNvl": fixed("nanvl", None, True),
    "NormalizeNaNAndZero": fixed("normalize_float"),
    "In": fixed("in", pa.bool_()), "InSet": _in_set, "If": _case_when, "CaseWhen": _case_when,
    "Coalesce": _extreme("coalesce"), "Greatest": _extreme("greatest"), "Least": _extreme("least"),
    "Like": _like, "RLike": _rlike, "RegExpExtract": _regexp_extract, "RegExpReplace": _regexp_replace,
    "LikeAll": _like_many("and", False), "LikeAny": _like_many("or", False),
    "NotLikeAll": _like_many("and", True), "NotLikeAny": _like_many("or", True),
    "StartsWith": _text_test("starts_with"), "EndsWith": _text_test("ends_with"), "Contains": _text_test("contains"),
    "Upper": fixed("upper"), "Lower": fixed("lower"), "InitCap": fixed("initcap"),
    "Length": fixed("length", _INT), "OctetLength": fixed("octet_length", _INT),
    "BitLength": fixed("bit_length", _INT),
    "ConcatWs": _concat_ws,
    "Substring": only("substring", (_TEXT, _BYTES)),
    "Ascii": fixed("ascii", _INT), "Chr": fixed("chr", _STRING),
    "Hex": only("hex", (_TEXT, _BYTES, _WHOLE), _STRING), "Md5": _digest, "Sha1": _digest, "Sha2": _digest,
    "Round": _round("round"), "BRound": _round("bround"), "Ceil": _ceil_floor("ceil"), "Floor": _ceil_floor("floor"),
    "RoundCeil": _ceil_floor_scaled("ceil"), "RoundFloor": _ceil_floor_scaled("floor"),
    **{
        name: fixed(function, pa.float64())
        for name, function in {
            "Sqrt": "sqrt", "Cbrt": "cbrt", "Exp": "exp", "Expm1": "expm1", "Sin": "sin",
            "Cos": "cos", "Tan": "tan", "Asin": "asin", "Acos": "acos", "Atan": "atan", "Sinh": "sinh",
            "Cosh": "cosh", "Tanh": "tanh", "ToDegrees": "degrees", "ToRadians": "radians", "Rint": "rint",
            "Pow": "power", "Hypot": "hypot", "Atan2": "atan2",
        }.items()
    },
    **{
        name: fixed(function, pa.float64(), True)
        for name, function in {
            "Log": "ln", "Log10": "log10", "Log2": "log2", "Log1p": "log1p", "Logarithm": "logarithm",
        }.items()
    },
    "BitwiseAnd": fixed("bit_and"), "BitwiseOr": fixed("bit_or"), "BitwiseXor": fixed("bit_xor"),
    "BitwiseNot": fixed("bit_not"), "BitwiseCount": fixed("bit_count", _INT),
    "ShiftLeft": fixed("shift_left"), "ShiftRight": fixed("shift_right"),
    "ShiftRightUnsigned": fixed("shift_right_unsigned"),
    "Signum": or_interval("interval_sign", fixed("signum", pa.float64()), lambda _: pa.float64()),
    **INTERVAL_RULES,
    **TIME_RULES,
    **NESTED_RULES,
    **JSON_RULES,
    **CSV_RULES,
    **VARIANT_RULES,
    "StaticInvoke": invoked, "Invoke": invoked,
    **TEXT_RULES,
    **PYTHON_RULES,
    "UnscaledValue": fixed("unscaled_value", _LONG), "MakeDecimal": _make_decimal,
}  # fmt: skip
