"""LIKE and regular expressions on RE2, limited to patterns that mean the same in Java."""

from __future__ import annotations

import re

import numpy as np
import pyarrow as pa

from tidemill.task.expressions import Call
from tidemill.task.functions.columns import growth
from tidemill.task.functions.columns.compute import null_unless, pc
from tidemill.task.functions.columns.lists import Lists, put_together
from tidemill.task.functions.columns.registry import Value, as_array, function
from tidemill.task.functions.columns.text_buffers import cut, of_columns, texts
from tidemill.task.functions.kernels.cut import marked
from tidemill.task.functions.text.text_positions import code_point_of

_LINE_ENDS = r"\n\r\x{85}\x{2028}\x{2029}"
_JAVA_SPACE = r"\t\n\x0B\f\r "
_CLASSES = {"d": "0-9", "w": "a-zA-Z0-9_", "s": _JAVA_SPACE}
_ESCAPES = {"t": r"\t", "n": r"\n", "r": r"\r", "f": r"\f"}
_QUANTIFIER = re.compile(r"\{[0-9]{1,3}(?:,[0-9]{0,3})?\}")


class DifferentRegexError(ValueError):
    """A construct that Java and RE2 read differently, or that one of them lacks."""


def quote(text: str) -> str:
    """The text as a pattern that matches it alone."""
    return re.sub(r"([^\w\s])", lambda m: "\\" + m[1] if ord(m[1]) < 128 else m[1], text)


def like_regex(pattern: str, escape: str) -> str:
    """The regular expression of a LIKE pattern.

    Raises
    ------
    DifferentRegexError
        When the escape character stands before anything but ``_``, ``%`` or itself, or at the end.
    """
    result = []
    position = 0
    while position < len(pattern):
        letter = pattern[position]
        position += 1
        if letter == escape:
            if position == len(pattern) or pattern[position] not in ("_", "%", escape):
                raise DifferentRegexError(f"invalid escape in LIKE pattern {pattern!r}")
            result.append(quote(pattern[position]))
            position += 1
        else:
            result.append({"_": ".", "%": ".*"}.get(letter, quote(letter)))
    return r"(?s)\A" + "".join(result) + r"\z"


def java_class(pattern: str, start: int) -> tuple[str, int]:
    """A bracket expression that begins at ``start``, and the position after it."""
    position = start + 1
    body = "["
    if pattern[position : position + 1] == "^":
        body += "^"
        position += 1
    empty = True
    while position < len(pattern):
        letter = pattern[position]
        if letter == "]" and not empty:
            return body + "]", position + 1
        if letter in "[]" or (letter == "^" and empty):
            raise DifferentRegexError(f"{letter!r} inside a character class")
        if pattern.startswith("&&", position):
            raise DifferentRegexError("'&&' inside a character class")
        if letter == "\\":
            following = pattern[position + 1 : position + 2]
            if following in _CLASSES:
                body += _CLASSES[following]
            elif following in _ESCAPES:
                body += _ESCAPES[following]
            elif following and not following.isalnum() and ord(following) < 128:
                body += "\\" + following
            else:
                raise DifferentRegexError(f"'\\{following}' inside a character class")
            position += 2
        else:
            body += letter
            position += 1
        empty = False
    raise DifferentRegexError("unclosed character class")


def java_regex(pattern: str, *, dollar: bool) -> tuple[str, int]:
    """The RE2 spelling of a Java pattern with named groups ``g1``, ``g2``..., and how many groups there are.

    Parameters
    ----------
    pattern : str
        Java's ``java.util.regex`` syntax.
    dollar : bool
        Whether ``$`` may occur; Java lets it match before a final line end, so it may consume that.

    Raises
    ------
    DifferentRegexError
        For every construct outside the part where both agree.
    """
    result: list[str] = []
    groups = 0
    position = 0
    while position < len(pattern):
        letter = pattern[position]
        if letter == "[":
            body, position = java_class(pattern, position)
            result.append(body)
        elif letter == "\\":
            following = pattern[position + 1 : position + 2]
            if following in _CLASSES:
                result.append(f"[{_CLASSES[following]}]")
            elif following.lower() in _CLASSES and following:
                result.append(f"[^{_CLASSES[following.lower()]}]")
            elif following in _ESCAPES:
                result.append(_ESCAPES[following])
            elif following and not following.isalnum() and ord(following) < 128:
                result.append("\\" + following)
            else:
                raise DifferentRegexError(f"'\\{following}'")
            position += 2
        elif letter == "(":
            if pattern.startswith("(?:", position):
                result.append("(?:")
                position += 3
            elif pattern.startswith("(?", position):
                raise DifferentRegexError(f"group {pattern[position : position + 4]!r}")
            else:
                groups += 1
                result.append(f"(?P<g{groups}>")
                position += 1
        elif letter == "$":
            if not dollar or position + 1 != len(pattern):
                raise DifferentRegexError("'$' other than at the end of a tested pattern")
            result.append(rf"(?:\r\n|[{_LINE_ENDS}])?\z")
            position += 1
        elif letter in "*+?" or letter == "{":
            end = repetition_end(pattern, position)
            result.append(pattern[position:end])
            position = end
        else:
            result.append({".": f"[^{_LINE_ENDS}]", "^": r"\A"}.get(letter, letter))
            position += 1
    return "".join(result), groups


def repetition_end(pattern: str, position: int) -> int:
    """The position behind the quantifier that begins at ``position``, with the ``?`` that makes it reluctant.

    Raises
    ------
    DifferentRegexError
        For a brace that is none, and for possessive and double repetition.
    """
    if pattern[position] == "{":
        match = _QUANTIFIER.match(pattern, position)
        if match is None:
            raise DifferentRegexError("'{' that is not a repetition")
        position = match.end()
    else:
        position += 1
    if pattern[position : position + 1] == "?":
        position += 1
    if pattern[position : position + 1] in ("+", "*", "{", "?") and position < len(pattern):
        raise DifferentRegexError("possessive or double repetition")
    return position


def check(pattern: str) -> None:
    """Compile an RE2 pattern, so that a bad one is found while planning.

    Raises
    ------
    DifferentRegexError
        When RE2 refuses it.
    """
    try:
        pc.match_substring_regex(pa.array([""]), pattern)
    except pa.ArrowInvalid as error:
        raise DifferentRegexError(str(error)) from None


def matches_empty(pattern: str) -> bool:
    """Whether the RE2 pattern matches the empty text."""
    return bool(pc.match_substring_regex(pa.array([""]), pattern)[0].as_py())


@function("like", sql=("LIKE", "ILIKE", "LIKE ALL", "LIKE ANY"))
def _like(call: Call, args: list[Value], rows: int) -> Value:
    return pc.match_substring_regex(args[0], str(call.option("regex")))


@function("rlike", sql=("RLIKE", "regexp", "regexp_like"))
def _rlike(call: Call, args: list[Value], rows: int) -> Value:
    return pc.match_substring_regex(args[0], str(call.option("regex")))


@function("regexp_extract")
def _extract(call: Call, args: list[Value], rows: int) -> Value:
    array = as_array(args[0], rows)
    parts = pc.extract_regex(array, str(call.option("regex")))
    group = parts.field(parts.type.get_field_index(f"g{call.option('group')}"))
    found = pc.if_else(parts.is_valid(), pc.fill_null(group, ""), "")
    return null_unless(array.is_valid(), found)


@function("regexp_replace", size=growth.replaced_by_pattern)
def _replace(call: Call, args: list[Value], rows: int) -> Value:
    return pc.replace_substring_regex(args[0], str(call.option("regex")), str(call.option("replacement")))


@of_columns("regexp_extract_all", sql=("regexp_extract_all", "regexp_count"))
def _extract_all(call: Call, args: list[Value], rows: int) -> Value:
    """RE2 puts marks around the group of every match, bytes that no text has; what is between them is cut out."""
    array = as_array(args[0], rows)
    group = b"\xff\\%d\xfe" % int(call.option("group"))
    found = texts(pc.replace_substring_regex(array, str(call.option("regex")), group), rows)
    ends, nothing = np.zeros(rows + 1, np.int64), np.zeros(0, np.int32)
    marked(*found.parts, ends, nothing, nothing)
    ends[1:][~found.valid] = 0
    np.cumsum(ends, out=ends)
    every = np.ones(int(ends[-1]), np.bool_)
    values = cut(pa.string(), found, every, lambda first, last: marked(*found.parts, ends, first, last))
    return put_together(call.type, Lists(found.valid, ends, values))


@of_columns("regexp_instr")
def _instr(call: Call, args: list[Value], rows: int) -> Value:
    array = as_array(args[0], rows)
    return code_point_of(array, pc.find_substring_regex(array, str(call.option("regex"))))
