"""Java's regular expressions on Python's ``re``, which backtracks as Java does.

:mod:`tidemill.task.functions.text.patterns` has RE2, over whole columns, for the patterns that are constants and mean
the same there. Here are the functions that need every match or its place, patterns that are columns, and the constructs
that RE2 lacks: look-around, back references, ``(?i)``, ``$`` anywhere, ``\\b``.
"""

from __future__ import annotations

import re
import unicodedata
from functools import cache, lru_cache

from tidemill.task.expressions import Call
from tidemill.task.functions.columns.by_value import RowFailureError, by_value
from tidemill.task.functions.text.patterns import DifferentRegexError, java_class, like_regex, repetition_end

_CLASSES = {"d": "0-9", "w": "a-zA-Z0-9_", "s": r"\t\n\x0B\f\r "}
_LINE_ENDS = "\\n\\r\\x85\u2028\u2029"
_DOLLAR = r"(?:\Z|(?<!\r)(?=\n\Z)|(?=\r\n\Z)|(?=[\r\x85" + "\u2028\u2029" + r"]\Z))"
_GROUPS = ("(?:", "(?=", "(?!", "(?<=", "(?<!")


def _boundary(negated: bool) -> str:
    word = _word()
    one_side = rf"(?<={word})(?!{word})|(?<!{word})(?={word})"
    return rf"(?!{one_side})" if negated else rf"(?:{one_side})"


@cache
def _word() -> str:
    """The characters that Java counts to a word at ``\\b``: underscore, letters, decimal digits."""
    return "[" + "".join(_ranges()) + "]"


def _ranges() -> list[str]:
    words = [n for n in range(0x110000) if n == 95 or unicodedata.category(chr(n))[0] == "L" or chr(n).isdecimal()]
    result, first = [], words[0]
    for at, following in zip(words, [*words[1:], -1], strict=True):
        if following != at + 1:
            result.append(f"\\U{first:08x}-\\U{at:08x}")
            first = following
    return result


def python_regex(pattern: str) -> tuple[str, int, int]:
    """Python's spelling of a Java pattern, the flags it needs, and how many groups it has.

    Raises
    ------
    DifferentRegexError
        For every construct outside the part where both agree.
    """
    result: list[str] = []
    flags, groups, position = 0, 0, 0
    if pattern.startswith("(?i)"):
        flags, position = re.IGNORECASE | re.ASCII, 4
    while position < len(pattern):
        letter = pattern[position]
        if letter == "[":
            body, position = java_class(pattern, position)
            result.append(_in_python(body))
        elif letter == "\\":
            text, position = _escape(pattern, position, groups)
            result.append(text)
        elif letter == "(":
            opening = next((g for g in _GROUPS if pattern.startswith(g, position)), None)
            if opening is None and pattern.startswith("(?", position):
                raise DifferentRegexError(f"group {pattern[position : position + 4]!r}")
            groups += opening is None
            result.append(opening or "(")
            position += len(opening or "(")
        elif letter in "*+?{":
            end = repetition_end(pattern, position)
            result.append(pattern[position:end])
            position = end
        else:
            special = {".": f"[^{_LINE_ENDS}]", "^": r"\A", "$": _DOLLAR}
            result.append(special.get(letter, letter))
            position += 1
    text = "".join(result)
    try:
        re.compile(text, flags)
    except re.error as error:
        raise DifferentRegexError(str(error)) from None
    return text, flags, groups


def _in_python(body: str) -> str:
    """A class with escapes where Python would warn of a possible set operation."""
    return re.sub(r"(?<!^)([-|~])(?=\1)", r"\\\1", body)


def _escape(pattern: str, position: int, groups: int) -> tuple[str, int]:
    following = pattern[position + 1 : position + 2]
    end = position + 2
    if following in ("b", "B"):
        return _boundary(following == "B"), end
    if following in ("A", "z"):
        return {"A": r"\A", "z": r"\Z"}[following], end
    if following and following in "dws":
        return f"[{_CLASSES[following]}]", end
    if following and following in "DWS":
        return f"[^{_CLASSES[following.lower()]}]", end
    if following and following in "tnrf":
        return "\\" + following, end
    if following.isdigit() and following != "0" and not pattern[end : end + 1].isdigit():
        if int(following) > groups:
            raise DifferentRegexError(f"back reference '\\{following}' before its group")
        return f"(?:\\{following})", end
    if pattern.startswith("Q", position + 1):
        quoted, found, _ = pattern[end:].partition("\\E")
        return re.escape(quoted), end + len(quoted) + 2 * bool(found)
    if following and not following.isalnum() and ord(following) < 128:
        return re.escape(following), end
    raise DifferentRegexError(f"'\\{following}'")


@lru_cache(512)
def _compiled(pattern: str) -> tuple[re.Pattern[str], int]:
    try:
        text, flags, groups = python_regex(pattern)
    except DifferentRegexError as error:
        raise RowFailureError(f"the regular expression is not supported: {error}") from None
    return re.compile(text, flags), groups


def _group(pattern: str, number: int) -> re.Pattern[str]:
    compiled, groups = _compiled(pattern)
    if not 0 <= number <= groups:
        raise RowFailureError("the regular expression has no such group")
    return compiled


def matches(call: Call, text: str, pattern: str) -> bool:
    """``text RLIKE pattern``."""
    return _compiled(pattern)[0].search(text) is not None


@by_value("regexp_extract_java", sql=("regexp_extract",), fails=True)
def _extract(call: Call, text: str, pattern: str, group: int) -> str:
    found = _group(pattern, group).search(text)
    return (found[group] or "") if found else ""


@by_value("regexp_extract_all_java", sql=("regexp_extract_all", "regexp_count"), fails=True)
def _extract_all(call: Call, text: str, pattern: str, group: int) -> list[str]:
    return [found[group] or "" for found in _group(pattern, group).finditer(text)]


@by_value("regexp_instr_java", sql=("regexp_instr",), fails=True)
def _instr(call: Call, text: str, pattern: str, group: int) -> int:
    found = _compiled(pattern)[0].search(text)
    return found.start() + 1 if found else 0


@lru_cache(512)
def _replacement(text: str, groups: int) -> tuple[str | int, ...]:
    """The pieces of a replacement: texts, and numbers of groups. ``$12`` is group 12 if there are so many."""
    pieces: list[str | int] = []
    position = 0
    while position < len(text):
        letter = text[position]
        position += 1
        if letter == "\\":
            if position == len(text):
                raise RowFailureError("the replacement of a regular expression ends in \\")
            pieces.append(text[position])
            position += 1
        elif letter == "$":
            digit = text[position : position + 1]
            if not ("0" <= digit <= "9") or int(digit) > groups:
                raise RowFailureError("the replacement of a regular expression has a $ without the number of a group")
            number = int(digit)
            position += 1
            while text[position : position + 1] in tuple("0123456789"):
                longer = number * 10 + int(text[position])
                if longer > groups:
                    break
                number, position = longer, position + 1
            pieces.append(number)
        else:
            pieces.append(letter)
    return tuple(pieces)


def re2_replacement(text: str, groups: int) -> str | None:
    """The replacement as RE2 spells it, or None where it has no spelling or an error."""
    try:
        pieces = _replacement(text, groups)
    except RowFailureError:
        return None
    if any(isinstance(piece, int) and piece > 9 for piece in pieces):
        return None
    return "".join(f"\\{p}" if isinstance(p, int) else p.replace("\\", "\\\\") for p in pieces)


@by_value("regexp_replace_java", sql=("regexp_replace",), fails=True)
def _replace(call: Call, text: str, pattern: str, replacement: str, start: int) -> str:
    """Matches from code point ``start`` on; look-behind sees what is before."""
    compiled, groups = _compiled(pattern)
    if start < 1:
        raise RowFailureError("the position to replace from must be positive")
    kept: list[str] = []
    last = 0
    if start - 1 >= len(text) and not (start == 1 and not text):
        return text
    for found in compiled.finditer(text, start - 1):
        kept.append(text[last : found.start()])
        pieces = _replacement(replacement, groups)
        kept += [(found[piece] or "") if isinstance(piece, int) else piece for piece in pieces]
        last = found.end()
    return "".join(kept) + text[last:]


def parts(call: Call, text: str, pattern: str, limit: int) -> list[str]:
    """Java's ``split`` with a limit, or -1: an empty match gives letters, none at the beginning of the text."""
    compiled = _compiled(pattern)[0]
    if not pattern:
        letters = list(text) or [""]
        few = limit <= 0 or len(letters) <= limit
        return letters if few else [*letters[: limit - 1], "".join(letters[limit - 1 :])]
    found_parts: list[str] = []
    last = 0
    for found in compiled.finditer(text):
        if 0 < limit <= len(found_parts) + 1:
            break
        if found.end() == 0:
            continue
        found_parts.append(text[last : found.start()])
        last = found.end()
    return [*found_parts, text[last:]]


@lru_cache(512)
def _like_compiled(pattern: str, escape: str) -> re.Pattern[str]:
    try:
        return re.compile(like_regex(pattern, escape).replace(r"\z", r"\Z"))
    except DifferentRegexError as error:
        raise RowFailureError(str(error)) from None


def is_like(call: Call, text: str, pattern: str) -> bool:
    """``text LIKE pattern``."""
    return _like_compiled(pattern, str(call.option("escape"))).match(text) is not None
