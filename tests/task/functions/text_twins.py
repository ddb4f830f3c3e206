"""Functions of text in plain Python, one row at a time: what the kernels over columns are compared with.

None is NULL where an argument is not; a twin raises ``ValueError`` where Spark fails.
"""

from __future__ import annotations

import base64
import binascii
import decimal
import hashlib
import re
import unicodedata
import urllib.parse
import zlib
from typing import Any

_SOUNDEX = dict(zip("ABCDEFGHIJKLMNOPQRSTUVWXYZ", "01230127022455012623017202", strict=True))
_DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"


def replace(text: str, search: str, replacement: str) -> str:
    return text.replace(search, replacement) if search else text


def translate(text: str, source: str, target: str) -> str:
    table: dict[int, str | None] = {}
    for position, letter in enumerate(source):
        table.setdefault(ord(letter), target[position] if position < len(target) else None)
    return text.translate(table)


def substring_index(text: str, delimiter: str, count: int) -> str:
    if not delimiter or count == 0:
        return ""
    starts = [at for at in range(len(text)) if text.startswith(delimiter, at)]
    if abs(count) > len(starts):
        return text
    return text[: starts[count - 1]] if count > 0 else text[starts[count] + len(delimiter) :]


def split_part(text: str, delimiter: str, number: int) -> str:
    if number == 0:
        raise ValueError
    parts = text.split(delimiter) if delimiter else [text]
    index = number - 1 if number > 0 else len(parts) + number
    return parts[index] if 0 <= index < len(parts) else ""


def trim(text: str, characters: str) -> str:
    return text.strip(characters) if characters else text


def ltrim(text: str, characters: str) -> str:
    return text.lstrip(characters) if characters else text


def rtrim(text: str, characters: str) -> str:
    return text.rstrip(characters) if characters else text


def _padding(text: Any, width: int, padding: Any) -> Any:
    missing = width - len(text)
    return padding[:0] if not padding else (padding * (missing // len(padding) + 1))[:missing]


def lpad(text: Any, width: int, padding: Any) -> Any:
    return text[: max(width, 0)] if width <= len(text) else _padding(text, width, padding) + text


def rpad(text: Any, width: int, padding: Any) -> Any:
    return text[: max(width, 0)] if width <= len(text) else text + _padding(text, width, padding)


def overlay(text: Any, by: Any, position: int, length: int) -> Any:
    behind = position + (length if length >= 0 else len(by))
    start = behind - 1 if behind > 0 else len(text) + behind if behind < 0 else 0
    return text[: max(position - 1, 0)] + by + text[max(start, 0) :]


def initcap(text: str) -> str:
    return " ".join(word[:1].title() + word[1:].lower() for word in text.split(" "))


def quote(text: str) -> str:
    return "'" + text.replace("'", "\\'") + "'"


def reverse_bytes(content: bytes) -> bytes:
    return content[::-1]


def soundex(text: str) -> str:
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


def levenshtein(left: str, right: str, threshold: int | None = None) -> int:
    row = list(range(len(right) + 1))
    for i, a in enumerate(left, 1):
        before, row[0] = row[0], i
        for j, b in enumerate(right, 1):
            cost = before if a == b else 1 + min(before, row[j], row[j - 1])
            before, row[j] = row[j], cost
    return -1 if threshold is not None and row[-1] > threshold else row[-1]


def jaro_winkler_similarity(left: str, right: str) -> float:
    if left == right:
        return 1.0
    left, right = ("".join(map(chr, memoryview(text.encode("utf-16-le")).cast("H"))) for text in (left, right))
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


def luhn_check(text: str) -> bool:
    if not re.fullmatch("[0-9]+", text):
        return False
    digits = [int(digit) for digit in reversed(text)]
    doubled = (sum(divmod(2 * digit, 10)) for digit in digits[1::2])
    return (sum(digits[::2]) + sum(doubled)) % 10 == 0


def mask(text: str | None, upper: str | None, lower: str | None, digit: str | None, other: str | None) -> str | None:
    if text is None:
        return None
    kinds = {"Lu": upper, "Ll": lower, "Nd": digit}
    by = [kinds.get(unicodedata.category(letter), other) for letter in text]
    return "".join(letter if new is None else new for letter, new in zip(text, by, strict=True))


def find_in_set(text: str, listed: str) -> int:
    parts = listed.split(",")
    return parts.index(text) + 1 if "," not in text and text in parts else 0


def concat_ws(separator: str | None, *parts: str | list[str | None] | None) -> str | None:
    if separator is None:
        return None
    listed = (part if isinstance(part, list) else [part] for part in parts)
    return separator.join(text for texts in listed for text in texts if text is not None)


def locate(text: str | None, search: str | None, start: int | None) -> int | None:
    if start is None:
        return 0
    if text is None or search is None:
        return None
    return 0 if start < 1 else 1 if not search else text.find(search, start - 1) + 1


def instr_occurrence(text: str, search: str, start: int, occurrence: int) -> int:
    if occurrence < 1:
        raise ValueError
    if start == 0 or not search:
        return int(not search)
    starts = [at + 1 for at in range(len(text)) if text.startswith(search, at)]
    if start > 0:
        found = [at for at in starts if at >= start]
    else:
        found = [at for at in reversed(starts) if at <= len(text) + start + 1]
    return found[occurrence - 1] if occurrence <= len(found) else 0


def contains_any(text: str, part: str) -> bool:
    return part in text


def starts_with_any(text: str, part: str) -> bool:
    return text.startswith(part)


def ends_with_any(text: str, part: str) -> bool:
    return text.endswith(part)


def bin_(number: int) -> str:
    return format(number & 2**64 - 1, "b")


def hex_(value: int | str | bytes) -> str:
    if isinstance(value, int):
        return f"{value & 2**64 - 1:X}"
    return binascii.hexlify(value.encode() if isinstance(value, str) else value).decode().upper()


def unhex(text: str) -> bytes | None:
    if re.fullmatch("[0-9a-fA-F]*", text, re.ASCII) is None:
        return None
    return binascii.unhexlify("0" + text if len(text) % 2 else text)


def base64_(content: bytes) -> str:
    return base64.b64encode(content).decode()


def base64_lines(content: bytes) -> str:
    text = base64_(content)
    return "\r\n".join(text[i : i + 76] for i in range(0, len(text), 76))


def unbase64(text: str) -> bytes | None:
    """Java's MIME decoder: padding ends the text, and before it everything but the alphabet is passed over."""
    letters, equals, rest = text.partition("=")
    kept = re.sub(r"[^A-Za-z0-9+/]", "", letters)
    if len(kept) % 4 == 1:
        return None
    if equals:
        # A letter of padding is due directly behind the first where two are missing.
        if len(kept) % 4 == 0 or (len(kept) % 4 == 2 and not rest.startswith("=")):
            return None
        if re.search("[A-Za-z0-9+/=]", rest[1:] if len(kept) % 4 == 2 else rest):
            return None
    return base64.b64decode(kept + "=" * (-len(kept) % 4))


def unbase64_strict(text: str) -> bytes | None:
    match = re.fullmatch(r"([A-Za-z0-9+/]*)(={0,2})", re.sub(r"[ \t\r\n]", "", text))
    if match is None:
        return None
    letters, padding = len(match[1]), len(match[2])
    good = letters % 4 != 1 and (not padding or (letters + padding) % 4 == 0)
    return unbase64(text) if good else None


def url_encode(text: str) -> str:
    return urllib.parse.quote_plus(text, safe="*").replace("~", "%7E")


_ESCAPE = re.compile(r"%(?:[0-9a-fA-F]{2}|\+[0-9a-fA-F])")


def url_decode(text: str) -> str | None:
    if "%" in _ESCAPE.sub("", text):
        return None
    return urllib.parse.unquote_plus(re.sub(r"%\+", "%0", text), errors="replace")


def crc32(content: bytes) -> int:
    return zlib.crc32(content)


def bitmap_count(content: bytes) -> int:
    return int.from_bytes(content, "big").bit_count()


def conv(number: str, source: int, target: int) -> str | None:
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
            raise ValueError
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


def digest(content: bytes, algorithm: str) -> str:
    return hashlib.new(algorithm, content).hexdigest()


_WIDE = decimal.Context(prec=1200)


def format_number(value: float | int | decimal.Decimal, places: int) -> str | None:
    if places < 0:
        return None
    if isinstance(value, float) and value != value:
        return "NaN"
    if isinstance(value, float) and abs(value) == float("inf"):
        return "-\u221e" if value < 0 else "\u221e"
    number = decimal.Decimal(repr(value)) if isinstance(value, float) else decimal.Decimal(value)
    exponent = number.as_tuple().exponent
    assert isinstance(exponent, int)
    if -exponent > places:
        number = decimal.Decimal(value)
    rounded = number.quantize(decimal.Decimal(1).scaleb(-places), decimal.ROUND_HALF_EVEN, context=_WIDE)
    return ("-" if rounded.is_signed() else "") + format(rounded.copy_abs(), ",f")


def regexp_extract_all(text: str, pattern: str, group: int) -> list[str]:
    return [found[group] or "" for found in re.finditer(pattern, text)]


def regexp_instr(text: str, pattern: str) -> int:
    found = re.search(pattern, text)
    return found.start() + 1 if found else 0


def substring(text: Any, position: int, length: int) -> Any:
    start = position - 1 if position > 0 else len(text) + position if position < 0 else 0
    return text[max(start, 0) : max(start + length, 0)]


def like_java(text: str, pattern: str) -> bool:
    known = {"%": "(?s:.*)", "_": "(?s:.)"}
    pieces = re.findall(r"\\[\s\S]|[\s\S]", pattern)
    if any(piece[0] == "\\" and piece[1:] not in ("%", "_", "\\") for piece in pieces):
        raise ValueError
    return re.fullmatch("".join(known.get(p, re.escape(p[-1])) for p in pieces), text) is not None


def _regex(pattern: str) -> re.Pattern[str]:
    """The patterns of the tests have nothing that Java reads in another way, except escaped letters."""
    return re.compile(pattern)


def rlike_java(text: str, pattern: str) -> bool:
    return _regex(pattern).search(text) is not None


def split_java(text: str, pattern: str, limit: int) -> list[str]:
    if not pattern:
        letters = list(text) or [""]
        return (
            letters if limit <= 0 or len(letters) <= limit else [*letters[: limit - 1], "".join(letters[limit - 1 :])]
        )
    return _regex(pattern).split(text, 0 if limit <= 0 else limit - 1) if limit != 1 else [text]


def format_string(text: str | None, number: int | None, value: float | None) -> str:
    """``[%1$s]%2$d %2$7d %2$-7d%3$,.1f %3$12.3f``: doubles are rounded half up by their shortest digits."""

    def fixed(places: int, grouped: str) -> str:
        if value is None:
            return "null"[:places]  # as Java does
        exact = decimal.Decimal(repr(value))
        rounded = exact.quantize(decimal.Decimal(1).scaleb(-places), decimal.ROUND_HALF_UP, context=_WIDE)
        return format(rounded, grouped + "f")

    shown = "null" if number is None else str(number)
    return f"[{'null' if text is None else text}]{shown} {shown:>7} {shown:7}{fixed(1, ',')} {fixed(3, ''):>12}"


_URL = re.compile(r"([^:/?#]+)://([^/?#]*)([^?#]*)(\?[^#]*)?(#.*)?")
"""RFC 3986, appendix B."""


def parse_url(url: str, part: str, key: str | None = None) -> str | None:
    found = _URL.fullmatch(url)
    assert found
    scheme, authority, path, query, fragment = found.groups()
    user, at, place = authority.rpartition("@")
    if key is not None:
        named = [p.partition("=") for p in (query or "?")[1:].split("&")]
        return next((value for name, equals, value in named if name == key and equals), None)
    known = {
        "HOST": None if "_" in place else re.sub(r":[0-9]*$", "", place), "PATH": path, "PROTOCOL": scheme,
        "QUERY": None if query is None else query[1:], "REF": None if fragment is None else fragment[1:],
        "FILE": path + (query or ""), "AUTHORITY": authority, "USERINFO": user if at and "_" not in place else None,
    }  # fmt: skip
    return known[part]
