"""Functions of text that are rules for one value."""

from __future__ import annotations

import re
import unicodedata
from typing import Any

from tidemill.task.expressions import Call
from tidemill.task.functions.by_value import RowFailureError, by_value
from tidemill.task.functions.registry import fails_unless_try

_SOUNDEX = dict(zip("ABCDEFGHIJKLMNOPQRSTUVWXYZ", "01230127022455012623017202", strict=True))


@by_value("soundex")
def _soundex(call: Call, text: str) -> str:
    """A letter and three digits. A text that begins with anything but an ASCII letter stays as it is."""
    first = text[:1].upper() if text[:1].isascii() else ""
    if first not in _SOUNDEX or not first:
        return text
    result, last = first, _SOUNDEX[first]
    for letter in text[1:]:
        code = _SOUNDEX.get(letter.upper()) if letter.isascii() else None
        if code is None:
            last = "0"
        elif code != "7":
            if code not in ("0", last):
                result += code
                if len(result) == 4:
                    break
            last = code
    return result.ljust(4, "0")


@by_value("levenshtein")
def _levenshtein(call: Call, left: str, right: str, threshold: int | None = None) -> int:
    """The number of edits; -1 where it is above the threshold."""
    if len(left) < len(right):
        left, right = right, left
    row = list(range(len(right) + 1))
    for i, a in enumerate(left, 1):
        before, row[0] = row[0], i
        for j, b in enumerate(right, 1):
            cost = before if a == b else 1 + min(before, row[j], row[j - 1])
            before, row[j] = row[j], cost
    return -1 if threshold is not None and row[-1] > threshold else row[-1]


@by_value("jaro_winkler_similarity")
def _jaro_winkler(call: Call, left: str, right: str) -> float:
    if left == right:
        return 1.0
    if not left or not right:
        return 0.0
    reach = max(max(len(left), len(right)) // 2 - 1, 0)
    taken = [False] * len(right)
    matches: list[str] = []
    for i, letter in enumerate(left):
        for j in range(max(0, i - reach), min(len(right), i + reach + 1)):
            if not taken[j] and right[j] == letter:
                taken[j] = True
                matches.append(letter)
                break
    if not matches:
        return 0.0
    others = [letter for letter, used in zip(right, taken, strict=True) if used]
    moved = sum(a != b for a, b in zip(matches, others, strict=True)) // 2
    count = len(matches)
    jaro = (count / len(left) + count / len(right) + (count - moved) / count) / 3.0
    prefix = next(
        (i for i, (a, b) in enumerate(zip(left[:4], right[:4], strict=False)) if a != b), min(4, len(left), len(right))
    )
    return jaro + prefix * 0.1 * (1.0 - jaro)


@by_value("luhn_check")
def _luhn_check(call: Call, text: str) -> bool:
    if not re.fullmatch("[0-9]+", text):
        return False
    digits = [int(digit) for digit in reversed(text)]
    doubled = (sum(divmod(2 * digit, 10)) for digit in digits[1::2])
    return (sum(digits[::2]) + sum(doubled)) % 10 == 0


@by_value("mask", strict=False)
def _mask(
    call: Call, text: str | None, upper: str | None, lower: str | None, digit: str | None, other: str | None
) -> str | None:
    """Each kind of character replaced by one; NULL keeps the characters of its kind."""
    if text is None:
        return None
    kinds = {"Lu": upper, "Ll": lower, "Nd": digit}

    def masked(letter: str) -> str:
        by = kinds.get(unicodedata.category(letter), other)
        return letter if by is None else by

    return "".join(map(masked, text))


@by_value("find_in_set")
def _find_in_set(call: Call, text: str, listed: str) -> int:
    parts = listed.split(",")
    return parts.index(text) + 1 if "," not in text and text in parts else 0


@by_value("overlay")
def _overlay(call: Call, text: Any, by: Any, position: int, length: int) -> Any:
    """``by`` in place of ``length`` characters from ``position``; a negative length means that of ``by``."""
    size = length if length >= 0 else len(by)
    return text[: max(position - 1, 0)] + by + _from(text, position + size)


def _from(text: Any, position: int) -> Any:
    """Spark's substring to the end: a position of 0 is that of 1, a negative one counts from the end."""
    start = position - 1 if position > 0 else len(text) + position if position < 0 else 0
    return text[max(start, 0) :]


@by_value("concat_ws_lists", sql=("concat_ws",), strict=False)
def _concat_ws(call: Call, separator: str | None, *parts: str | list[str | None] | None) -> str | None:
    if separator is None:
        return None
    listed = (part if isinstance(part, list) else [part] for part in parts)
    return separator.join(text for texts in listed for text in texts if text is not None)


@by_value("is_valid_utf8")
def _is_valid(call: Call, content: bytes) -> bool:
    return _text_of(content) is not None


@by_value("make_valid_utf8")
def _make_valid(call: Call, content: bytes) -> str:
    return content.decode("utf-8", errors="replace")


@by_value("validate_utf8", sql=("validate_utf8", "try_validate_utf8"), fails=fails_unless_try)
def _validate(call: Call, content: bytes) -> str | None:
    text = _text_of(content)
    if text is None and fails_unless_try(call):
        raise RowFailureError("the bytes are no UTF-8", hint="use try_validate_utf8 to get NULL")
    return text


def _text_of(content: bytes) -> str | None:
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:
        return None


@by_value("quote")
def _quote(call: Call, text: str) -> str:
    return "'" + text.replace("'", "\\'") + "'"


def _replaced(text: str, search: str, replacement: str) -> int:
    return len(text) + (text.count(search) * max(len(replacement) - len(search), 0) if search else 0)


def _padded(text: Any, width: int, padding: Any) -> int:
    return max(len(text), width)


@by_value("replace_any", sql=("replace",), size=_replaced)
def _replace(call: Call, text: str, search: str, replacement: str) -> str:
    return text.replace(search, replacement) if search else text


@by_value("translate_any", sql=("translate",))
def _translate(call: Call, text: str, source: str, target: str) -> str:
    table: dict[int, str | None] = {}
    for position, letter in enumerate(source):
        table.setdefault(ord(letter), target[position] if position < len(target) else None)
    return text.translate(table)


@by_value("substring_index_any", sql=("substring_index",))
def _substring_index(call: Call, text: str, delimiter: str, count: int) -> str:
    if not delimiter or count == 0:
        return ""
    if count > 0:
        return delimiter.join(text.split(delimiter, count)[:count])
    return delimiter.join(text.rsplit(delimiter, -count)[count:])


@by_value("split_part_any", sql=("split_part",), fails=True)
def _split_part(call: Call, text: str, delimiter: str, number: int) -> str:
    if number == 0:
        raise RowFailureError("the number of a part must not be 0")
    parts = text.split(delimiter) if delimiter else [text]
    index = number - 1 if number > 0 else len(parts) + number
    return parts[index] if 0 <= index < len(parts) else ""


@by_value("trim_any", sql=("trim(BOTH x FROM s)", "btrim", "ltrim", "rtrim"))
def _trim(call: Call, text: Any, characters: Any) -> Any:
    if not characters:
        return text
    side = call.option("side")
    if side == "trim":
        return text.strip(characters)
    return text.lstrip(characters) if side == "ltrim" else text.rstrip(characters)


def _padding(text: Any, width: int, padding: Any) -> Any:
    missing = width - len(text)
    return padding[:0] if not padding else (padding * (missing // len(padding) + 1))[:missing]


@by_value("lpad_any", sql=("lpad",), size=_padded)
def _lpad(call: Call, text: Any, width: int, padding: Any) -> Any:
    return text[: max(width, 0)] if width <= len(text) else _padding(text, width, padding) + text


@by_value("rpad_any", sql=("rpad",), size=_padded)
def _rpad(call: Call, text: Any, width: int, padding: Any) -> Any:
    return text[: max(width, 0)] if width <= len(text) else text + _padding(text, width, padding)


@by_value("reverse_bytes", sql=("reverse",))
def _reverse_bytes(call: Call, content: bytes) -> bytes:
    return content[::-1]


@by_value("instr_occurrence", sql=("instr(text, part, start, occurrence)",), fails=True)
def _instr(call: Call, text: str, search: str, start: int, occurrence: int) -> int:
    """The place of the n-th occurrence from a position on; a negative position searches backwards."""
    if occurrence < 1:
        raise RowFailureError("the occurrence must be positive")
    if start == 0 or not search:
        return int(start != 0)
    found = start - 1 if start > 0 else len(text) + start
    if start > 0:
        found -= 1
        for _ in range(occurrence):
            found = text.find(search, found + 1)
            if found < 0:
                return 0
        return found + 1
    if found < 0:
        return 0
    found += 1
    for _ in range(occurrence):
        found = text.rfind(search, 0, found - 1 + len(search)) if found > 0 else -1
        if found < 0:
            return 0
    return found + 1


@by_value("bin")
def _bin(call: Call, number: int) -> str:
    return format(number & 2**64 - 1, "b")


_DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"


@by_value("conv", fails=True)
def _conv(call: Call, number: str, source: int, target: int) -> str | None:
    """A number in another base, in 64 unsigned bits; digits end at the first character that is none."""
    if not 2 <= source <= 36 or not 2 <= abs(target) <= 36:
        return None
    text = number.strip(" ")
    if not text:
        return None
    negative = text.startswith("-")
    value = 0
    for letter in text[negative:]:
        digit = _DIGITS.find(letter.upper()) if letter.isascii() else -1
        if not 0 <= digit < source:
            break
        value = value * source + digit
        if value >= 2**64:
            raise RowFailureError("the result does not fit its type", "TM3002", hint="conv has 64 bits")
    signed = value - 2**64 if value >= 2**63 else value
    if negative and target > 0:
        value = 2**64 - 1 if signed < 0 else -signed % 2**64
    elif negative and signed >= 0:
        value = signed
    if target < 0 and not negative and signed < 0:
        negative, value = True, -signed
    elif target < 0 and negative and signed < 0:
        value = -signed
    digits = ""
    base = abs(target)
    while value:
        value, digit = divmod(value, base)
        digits = _DIGITS[digit] + digits
    return ("-" if negative and target < 0 else "") + (digits or "0")
