"""Rules for text, bytes, hashes and regular expressions.

Many of them arrive as calls of Java methods, see :mod:`tidemill.plan.catalyst.expressions.invoked`.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from tidemill.plan.catalyst.expressions.rules import Rule, Translator, ansi, call, fixed, only, type_of, unsupported
from tidemill.plan.catalyst.trees.tree import JsonTree
from tidemill.schema import type_to_ddl
from tidemill.task.expressions import Call, Expression, Literal
from tidemill.task.functions.numbers import number_formats, printing
from tidemill.task.functions.text import java_patterns, patterns

_STRING, _INT, _LONG, _BOOL, _BYTES, _DOUBLE = (
    pa.string(), pa.int32(), pa.int64(), pa.bool_(), pa.binary(), pa.float64(),
)  # fmt: skip
_SPECIAL = frozenset(".$|()[{^?*+\\")


def is_constant(node: JsonTree) -> bool:
    """Whether a child is a constant other than NULL."""
    return node.name == "Literal" and node.fields["value"] is not None


def of_children(
    function: str,
    positions: tuple[int, ...],
    type_: pa.DataType | None = None,
    nullable: bool | None = None,
    **options: Any,
) -> Rule:
    """A function of some of the children, in that order; ``type_`` None means the type of the first."""

    def rule(node: JsonTree, to: Translator) -> Expression:
        args = tuple(to.arg(node, p) for p in positions)
        return call(function, args, type_ or args[0].type, nullable, **options)

    return rule


def checked_regex(function: str, type_: pa.DataType, positions: tuple[int, ...], group: int | None = None) -> Rule:
    """A function on Python's ``re``; a pattern that is a constant is checked while planning."""

    def rule(node: JsonTree, to: Translator) -> Expression:
        if is_constant(node.children[1]):
            pattern = to.constant(node, 1)
            try:
                _, _, groups = java_patterns.python_regex(pattern)
            except patterns.DifferentRegexError as error:
                raise unsupported(f"{node.name} with the pattern {pattern!r}: {error}") from None
            if group is not None and is_constant(node.children[group]):
                number = to.constant(node, group)
                if not 0 <= number <= groups:
                    raise unsupported(f"{node.name} with the pattern {pattern!r}: there is no group {number}")
        return call(function, tuple(to.arg(node, p) for p in positions), type_)

    return rule


def plain_text(pattern: str) -> str | None:
    """The only text that a Java pattern matches, where it is plain text or one escaped character; else None."""
    if pattern and not set(pattern) & _SPECIAL:
        return pattern
    return pattern[1] if len(pattern) == 2 and pattern[0] == "\\" and pattern[1] in _SPECIAL else None


def re2_pattern(pattern: str) -> tuple[str, int] | None:
    """A Java pattern in the syntax of RE2, and its number of groups; None if it has none or matches the empty text."""
    try:
        regex, groups = patterns.java_regex(pattern, dollar=False)
        patterns.check(regex)
    except patterns.DifferentRegexError:
        return None
    return None if patterns.matches_empty(regex) else (regex, groups)


def _every_match(function: str, type_: pa.DataType, *, grouped: bool) -> Rule:
    """A function of the matches of a pattern: on RE2 where the pattern is a constant that means the same there."""
    general = checked_regex(f"{function}_java", type_, (0, 1, 2), 2 if grouped else None)

    def rule(node: JsonTree, to: Translator) -> Expression:
        if not all(is_constant(child) for child in node.children[1:]):
            return general(node, to)
        found, group = re2_pattern(to.constant(node, 1)), to.constant(node, 2) if grouped else 0
        if found is None or not 0 <= group <= min(found[1], 9):
            return general(node, to)
        return call(function, (to.arg(node, 0),), type_, regex=found[0], group=group)

    return rule


def like_columns(node: JsonTree, to: Translator) -> Expression:
    """LIKE with a pattern that is a column; ILIKE has both sides in lower case already."""
    return call("like_java", to.args(node), _BOOL, escape=str(node.fields["escapeChar"]))


def _hash(function: str, type_: pa.DataType) -> Rule:
    def rule(node: JsonTree, to: Translator) -> Expression:
        args = to.args(node)
        if any(_has_map(arg.type) for arg in args):
            raise unsupported(f"{function} of a map")
        return call(function, args, type_, False, seed=int(node.fields["seed"]))

    return rule


def _has_map(type_: pa.DataType) -> bool:
    if pa.types.is_map(type_):
        return True
    return any(_has_map(type_.field(i).type) for i in range(type_.num_fields))


def _format_number(node: JsonTree, to: Translator) -> Expression:
    value, digits = to.args(node)
    if pa.types.is_string(digits.type):
        try:
            printing.number_pattern(to.constant(node, 1)) if to.constant(node, 1) else None
        except printing.UnknownFormatError as error:
            raise unsupported(f"format_number with the pattern {error}") from None
    if pa.types.is_float32(value.type):
        value = call("cast", (value,), _DOUBLE, mode="ansi")
    return call("format_number", (value, digits), _STRING, True)


def _format_string(node: JsonTree, to: Translator) -> Expression:
    text = to.constant(node, 0)
    args = list(to.args_from(node, 1))
    try:
        uses = printing.uses(text)
        for number, conversions in uses.items():
            if number < len(args) and _by_text(args[number].type) and conversions <= set("sS"):
                args[number] = call("cast", (args[number],), _STRING, mode="ansi")
            elif number < len(args) and pa.types.is_float32(args[number].type):
                args[number] = call("cast", (args[number],), _DOUBLE, mode="ansi")
        printing.pieces(text, tuple(arg.type for arg in args))
    except printing.UnknownFormatError as error:
        raise unsupported(f"format_string with {error}") from None
    return call("format_string", tuple(args) or (Literal(0, _INT),), _STRING, False, format=text)


def _by_text(type_: pa.DataType) -> bool:
    """Whether ``%s`` prints what CAST AS STRING prints, and a cast is needed for it."""
    return bool(pa.types.is_floating(type_) or pa.types.is_decimal(type_))


def _to_char(node: JsonTree, to: Translator) -> Expression:
    text = to.constant(node, 1)
    _number_format(node, text)
    return call("to_char_number", (to.arg(node, 0),), _STRING, format=text)


def _number_format(node: JsonTree, text: str) -> number_formats.Format:
    try:
        return number_formats.parsed(text)
    except number_formats.UnknownFormatError:
        raise unsupported(f"{node.name} with the format {text!r}") from None


def _to_number(mode: str) -> Rule:
    def rule(node: JsonTree, to: Translator) -> Expression:
        text = to.constant(node, 1)
        type_ = _number_format(node, text).type
        value = to.arg(node, 0)
        return call("to_number", (value,), type_, value.nullable or mode == "try", format=text, mode=mode)

    return rule


def _conv(node: JsonTree, to: Translator) -> Expression:
    ansi(node, "ansiEnabled")
    return call("conv", to.args(node), _STRING, True)


def _failing(function: str, type_: pa.DataType, **options: Any) -> Rule:
    """A function that returns NULL for invalid input, unless ``failOnError``."""

    def rule(node: JsonTree, to: Translator) -> Expression:
        value = to.arg(node, 0)
        mode = "ansi" if node.fields.get("failOnError") else "try"
        return call(function, (value,), type_, True, mode=mode, **options)

    return rule


def _unbase64(node: JsonTree, to: Translator) -> Expression:
    """``unbase64`` fails on what Java's decoder refuses; with ``failOnError`` Spark checks the text before."""
    return call("unbase64", (to.arg(node, 0),), _BYTES, True, strict=bool(node.fields["failOnError"]), mode="ansi")


def _url_decode(node: JsonTree, to: Translator) -> Expression:
    mode = "ansi" if to.constant(node, 1) else "try"
    return call("url_decode", (to.arg(node, 0),), _STRING, True, mode=mode)


def _parse_url(node: JsonTree, to: Translator) -> Expression:
    mode = "ansi" if str(node.children[0].fields["value"]).endswith(",true)") else "try"
    return call("parse_url", to.args_from(node, 1), _STRING, True, mode=mode)


def _base64(node: JsonTree, to: Translator) -> Expression:
    return call("base64", (to.arg(node, 0),), _STRING, lines=bool(to.constant(node, 1)))


def _charset(function: str, type_: pa.DataType) -> Rule:
    def rule(node: JsonTree, to: Translator) -> Expression:
        if to.constant(node, 2) or to.constant(node, 3):
            raise unsupported(f"{node.fields['functionName']} with legacy settings")
        return call(function, (to.arg(node, 0), to.arg(node, 1)), type_)

    return rule


def _hmac(node: JsonTree, to: Translator) -> Expression:
    name = str(to.constant(node, 2)).upper().replace("-", "").removeprefix("HMAC")
    if name not in ("MD5", "SHA1", "SHA224", "SHA256", "SHA384", "SHA512"):
        raise unsupported(f"hmac with {to.constant(node, 2)!r}")
    return call("hmac", (to.arg(node, 0), to.arg(node, 1)), _BYTES, algorithm=name.lower())


def _utf8(function: str, type_: pa.DataType, mode: str = "ansi") -> Rule:
    """Stored text is UTF-8, so only bytes that are cast to text need a check."""

    def rule(node: JsonTree, to: Translator) -> Expression:
        (child,) = node.children
        cast = child.name == "Cast" and child.fields["dataType"] == "string"
        value = to.translate(child.children[0] if cast else child, to.inputs)
        if pa.types.is_binary(value.type):
            return call(function, (value,), type_, value.nullable or mode == "try", mode=mode)
        value = to.arg(node, 0)
        if not pa.types.is_boolean(type_):
            return value
        present = call("is_not_null", (value,), _BOOL, False)
        return call("case", (present, Literal(True, _BOOL)), _BOOL, value.nullable)

    return rule


def _raise_error(node: JsonTree, to: Translator) -> Expression:
    error, parameters = node.children
    if not is_constant(error) or to.constant(node, 0) != "USER_RAISED_EXCEPTION":
        raise unsupported("raise_error with a class of errors", "raise_error(message) is understood")
    if parameters.name == "CreateMap":
        message = to.translate(parameters.children[1], to.inputs)
    else:
        message = Literal(str(parameters.fields["nested"][0][1]), _STRING)
    return call("raise_error", (message,), type_of(node.fields["dataType"]), True)


def _try(node: JsonTree, to: Translator) -> Expression:
    """``try_f(x)`` whose arguments may fail too: NULL wherever anything in it fails."""
    value = to.arg(node, 0)
    if isinstance(value, Call) and value.option("mode") == "ansi" and all(not isinstance(a, Call) for a in value.args):
        options = dict(value.options) | {"mode": "try"}
        return Call(value.function, value.args, value.type, True, tuple(sorted(options.items())))
    return call("try", (value,), value.type, True)


def _locate(node: JsonTree, to: Translator) -> Expression:
    if node.name == "StringInstr":
        return call("locate", (*to.args(node), Literal(1, _INT)), _INT)
    searched, text, start = to.args(node)
    return call("locate", (text, searched, start), _INT, text.nullable or searched.nullable)


def _trim(function: str) -> Rule:
    """Trims blanks, or the characters of a second argument."""

    def rule(node: JsonTree, to: Translator) -> Expression:
        args = to.args(node)
        return call(function, args if len(args) > 1 else (*args, Literal(" ", _STRING)), args[0].type)

    return rule


def _type_name(node: JsonTree, to: Translator) -> Expression:
    return Literal(type_to_ddl(to.arg(node, 0).type).lower(), _STRING)


split_columns = checked_regex("split_java", pa.list_(_STRING), (0, 1, 2))
"""``split`` on Python's ``re``."""

TEXT_INVOKED: dict[str, Rule] = {
    "Base64.encode": _base64, "Base32.encode": of_children("to_base32", (0,), _STRING),
    "UnBase32.decode": of_children("from_base32", (0,), _BYTES),
    "Encode.encode": _charset("encode", _BYTES), "StringDecode.decode": _charset("decode_bytes", _STRING),
    "UrlCodec.encode": of_children("url_encode", (0,), _STRING), "UrlCodec.decode": _url_decode,
    "ParseUrlEvaluator.evaluate": _parse_url, "ExpressionImplUtils.hmac": _hmac,
    "ByteArrayMethods.contains": of_children("contains_any", (0, 1), _BOOL),
    "ByteArrayMethods.startsWith": of_children("starts_with_any", (0, 1), _BOOL),
    "ByteArrayMethods.endsWith": of_children("ends_with_any", (0, 1), _BOOL),
    "ByteArray.lpad": of_children("lpad", (0, 1, 2), _BYTES), "ByteArray.rpad": of_children("rpad", (0, 1, 2), _BYTES),
    "ExpressionImplUtils.isLuhnNumber": of_children("luhn_check", (0,), _BOOL),
    "ExpressionImplUtils.validateUTF8String": _utf8("validate_utf8", _STRING),
    "ExpressionImplUtils.tryValidateUTF8String": _utf8("validate_utf8", _STRING, "try"),
    "ExpressionImplUtils.quote": of_children("quote", (0,), _STRING),
    "ExpressionImplUtils.jaroWinklerSimilarity": of_children("jaro_winkler_similarity", (0, 1), _DOUBLE),
    "BitmapExpressionUtils.bitmapBitPosition": of_children("bitmap_bit_position", (0,), _LONG),
    "BitmapExpressionUtils.bitmapBucketNumber": of_children("bitmap_bucket_number", (0,), _LONG),
    "BitmapExpressionUtils.bitmapCount": of_children("bitmap_count", (0,), _LONG),
    "isValid": _utf8("is_valid_utf8", _BOOL), "makeValid": _utf8("make_valid_utf8", _STRING),
}  # fmt: skip

_TEXTS = pa.list_(_STRING)

TEXT_RULES: dict[str, Rule] = {
    "TryEval": _try,
    "StringTrim": _trim("trim"), "StringTrimLeft": _trim("ltrim"), "StringTrimRight": _trim("rtrim"),
    **{
        name: only(function, (pa.types.is_string,), _STRING)
        for name, function in {
            "StringReplace": "replace", "StringTranslate": "translate", "SubstringIndex": "substring_index",
            "StringLPad": "lpad", "StringRPad": "rpad",
        }.items()
    },
    "StringRepeat": fixed("repeat"),
    "StringInstr": _locate, "StringLocate": _locate,
    "Murmur3Hash": _hash("hash", _INT), "XxHash64": _hash("xxhash64", _LONG), "Crc32": fixed("crc32", _LONG),
    "UnBase64": _unbase64, "Unhex": _failing("unhex", _BYTES),
    "RegExpExtractAll": _every_match("regexp_extract_all", _TEXTS, grouped=True),
    "RegExpInStr": _every_match("regexp_instr", _INT, grouped=False),
    "FormatNumber": _format_number, "FormatString": _format_string,
    "ToCharacter": _to_char, "ToNumber": _to_number("ansi"), "TryToNumber": _to_number("try"),
    "SoundEx": fixed("soundex", _STRING), "Levenshtein": fixed("levenshtein", _INT), "Mask": fixed("mask", _STRING),
    "FindInSet": fixed("find_in_set", _INT), "Overlay": fixed("overlay"), "Conv": _conv, "Bin": fixed("bin", _STRING),
    "StringSpace": fixed("space", _STRING), "StringInstrWithOccurrence": fixed("instr_occurrence", _INT),
    "Elt": lambda node, to: call("elt", to.args(node), to.arg(node, 1).type, True),
    "Factorial": fixed("factorial", _LONG, True), "WidthBucket": fixed("width_bucket", _LONG, True),
    "BitwiseGet": fixed("bit_get", pa.int8()), "RaiseError": _raise_error, "TypeOf": _type_name,
    "EulerNumber": lambda node, to: Literal(2.718281828459045, _DOUBLE),
    "Pi": lambda node, to: Literal(3.141592653589793, _DOUBLE),
    **{
        name: fixed(function, _DOUBLE)
        for name, function in {
            "Acosh": "acosh", "Asinh": "asinh", "Atanh": "atanh", "Cot": "cot", "Sec": "sec", "Csc": "csc",
        }.items()
    },
}  # fmt: skip
