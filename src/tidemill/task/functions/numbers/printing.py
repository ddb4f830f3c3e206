"""``format_number`` and ``format_string`` of one value, with the roundings of Java's formatters."""

from __future__ import annotations

import decimal
import math
import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import pyarrow as pa

from tidemill.task.expressions import Call

_WIDE = decimal.Context(prec=1200)
_PATTERN = re.compile(r"([#,]*)([0,]*)(?:\.(0*)(#*))?")


class UnknownFormatError(ValueError):
    """A format that is not supported."""


@lru_cache(512)
def number_pattern(pattern: str) -> tuple[int, int, int, int]:
    """A pattern of ``format_number``: size of a group, least whole digits, least and most digits of the fraction.

    Raises
    ------
    UnknownFormatError
        When it has more than ``#``, ``0``, ``,`` and ``.``.
    """
    match = _PATTERN.fullmatch(pattern)
    if match is None or not match[0] or match[0] == ".":
        raise UnknownFormatError(pattern)
    whole = match[1] + match[2]
    group = len(whole) - whole.rindex(",") - 1 if "," in whole else 0
    if "," in whole and not group:
        raise UnknownFormatError(pattern)
    least = match[2].count("0")
    pointed = "." in pattern and "0" not in pattern
    if pointed and whole:  # DecimalFormat makes a 0 of one #, before the point or else behind it
        least = 1
    fraction = len(match[3] or "") + (pointed and not whole), len(match[3] or "") + len(match[4] or "")
    if not whole and not fraction[1]:
        raise UnknownFormatError(pattern)
    return group, least, *fraction


def number_layout(digits: int | str) -> tuple[int, int, int, int]:
    """What :func:`number_pattern` says, for the second argument of ``format_number``."""
    if isinstance(digits, str):
        return number_pattern(digits) if digits else (3, 0, 0, 0)
    return 3, 1, digits, digits


def number_text(call: Call, value: Any, digits: int | str) -> str | None:
    """``format_number`` of one value, however large."""
    group, least, fewest, most = number_layout(digits)
    if most < 0:
        return None
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if value != value else "-\u221e" if value < 0 else "\u221e"
    shortest = decimal.Decimal(repr(value)) if isinstance(value, float) else decimal.Decimal(value)
    exponent = shortest.as_tuple().exponent
    assert isinstance(exponent, int)
    # Java has the shortest digits of a double, but rounds what the double is exactly.
    exact = decimal.Decimal(value) if -exponent > most else shortest
    rounded = exact.quantize(decimal.Decimal(1).scaleb(-most), decimal.ROUND_HALF_EVEN, context=_WIDE)
    text = format(rounded.copy_abs(), "f")
    whole, _, fraction = text.partition(".")
    kept = fraction[:fewest] + fraction[fewest:].rstrip("0")
    whole = whole.lstrip("0").rjust(least, "0")
    if not whole and not kept:
        whole = "0"
    if group:
        head = len(whole) % group
        parts = [whole[:head]] * bool(head) + [whole[i : i + group] for i in range(head, len(whole), group)]
        whole = ",".join(parts)
    return ("-" if rounded.is_signed() else "") + whole + ("." + kept if kept else "")


_SPECIFIER = re.compile(r"%(?:(\d+)\$)?([-#+ 0,(]*)(\d+)?(?:\.(\d+))?([a-zA-Z%])")
_OF_TYPES: dict[str, Callable[[pa.DataType], bool]] = {
    "d": pa.types.is_integer, "x": pa.types.is_integer, "X": pa.types.is_integer, "o": pa.types.is_integer,
    "f": pa.types.is_floating, "e": pa.types.is_floating, "E": pa.types.is_floating,
    "c": pa.types.is_int32,
}  # fmt: skip
_ANY = frozenset("sSbB")
_SHOWN = (pa.types.is_string, pa.types.is_integer, pa.types.is_boolean)

Piece = tuple[str, str, int, int | None, int]
"""Conversion (or "" and a text as flags), flags, width, precision, and the number of the argument."""


@lru_cache(512)
def pieces(text: str, types: tuple[pa.DataType, ...]) -> tuple[Piece, ...]:
    """The parts of a format for arguments of these types.

    Raises
    ------
    UnknownFormatError
        For a conversion that is not supported, or not for the type of its argument.
    """
    result: list[Piece] = []
    position = ordinary = 0
    while position < len(text):
        percent = text.find("%", position)
        if percent < 0:
            percent = len(text)
        if percent > position:
            result.append(("", text[position:percent], 0, None, 0))
            position = percent
            continue
        match = _SPECIFIER.match(text, position)
        if match is None:
            raise UnknownFormatError(f"{text[position:]!r}")
        position = match.end()
        conversion, flags = match[5], match[2]
        if conversion in "%n":
            if flags or match[3] or match[4]:
                raise UnknownFormatError(match[0])
            result.append(("", "%" if conversion == "%" else "\n", 0, None, 0))
            continue
        if match[1]:
            number = int(match[1]) - 1
        else:
            number, ordinary = ordinary, ordinary + 1
        _check(match, number, types)
        result.append((conversion, flags, int(match[3] or 0), None if match[4] is None else int(match[4]), number))
    return tuple(result)


def uses(text: str) -> dict[int, set[str]]:
    """The conversions of each argument, by number."""
    found: dict[int, set[str]] = {}
    ordinary = 0
    for match in _SPECIFIER.finditer(text):
        if match[5] in "%n":
            continue
        number = int(match[1]) - 1 if match[1] else ordinary
        ordinary += not match[1]
        found.setdefault(number, set()).add(match[5])
    return found


def _check(match: re.Match[str], number: int, types: tuple[pa.DataType, ...]) -> None:
    conversion, flags = match[5], match[2]
    if not 0 <= number < len(types):
        raise UnknownFormatError(f"{match[0]} has no argument")
    type_ = types[number]
    known = conversion in _OF_TYPES and (_OF_TYPES[conversion](type_) or pa.types.is_null(type_))
    if conversion in _ANY:
        known = any(test(type_) for test in (*_SHOWN, pa.types.is_null))
    allowed = {"d": "-+ 0,(", "f": "-+ 0,(", "e": "-+ 0", "E": "-+ 0", "x": "-0", "X": "-0", "o": "-0"}.get(
        conversion, "-"
    )
    repeated = len(set(flags)) < len(flags) or ("-" in flags and "0" in flags) or ("+" in flags and " " in flags)
    if not known or set(flags) - set(allowed) or repeated or (set(flags) & set("-0") and not match[3]):
        raise UnknownFormatError(f"{match[0]} of {type_}")
    if match[4] is not None and conversion not in "feEsSbB":
        raise UnknownFormatError(match[0])


def printed(piece: Piece, value: Any, type_: pa.DataType) -> str:
    """A value, or None for NULL, as a piece of a format shows it."""
    conversion, flags, width, precision, _ = piece
    if conversion in "bB":
        shown = str(value).lower() if isinstance(value, bool) else "false" if value is None else "true"
    elif value is None:
        shown = "null"
    elif conversion in "sS":
        shown = str(value).lower() if isinstance(value, bool) else str(value)
    elif conversion == "c":
        shown = chr(value)
    elif conversion in "xXo":
        shown = format(value & (2**type_.bit_width - 1), conversion.lower())
        return _upper(conversion, _padded(shown, flags, width))
    else:
        return _upper(conversion, _number(conversion, flags, width, precision, value))
    if precision is not None:
        shown = _first_units(shown, precision)
    return _upper(conversion, _padded(shown, flags.replace("0", ""), width))


def _first_units(text: str, count: int) -> str:
    """As many UTF-16 units, as Java counts; half a character is a question mark."""
    units = text.encode("utf-16-le")[: 2 * count]
    return (
        units.decode("utf-16-le", errors="replace").replace("\ufffd", "?") if text.isascii() is False else text[:count]
    )


def _upper(conversion: str, text: str) -> str:
    return text.upper() if conversion.isupper() else text


def _padded(text: str, flags: str, width: int) -> str:
    width -= sum(ord(letter) > 0xFFFF for letter in text)
    if "-" in flags:
        return text.ljust(width)
    return text.rjust(width, "0" if "0" in flags else " ")


def _number(conversion: str, flags: str, width: int, precision: int | None, value: Any) -> str:
    if isinstance(value, float) and not math.isfinite(value):
        negative = value < 0
        body = "NaN" if value != value else "Infinity"
        flags = flags.replace("0", "")
    else:
        negative = math.copysign(1, value) < 0 if isinstance(value, float) else value < 0
        body = _digits(conversion, abs(value), 6 if precision is None else precision)
        if "," in flags:
            whole, point, fraction = body.partition(".")
            body = f"{int(whole):,}" + point + fraction
    sign = "-" if negative else "+" if "+" in flags else " " if " " in flags else ""
    if body == "NaN":
        sign = ""
    close = ""
    if negative and "(" in flags:
        sign, close = "(", ")"
    if "0" in flags:
        body = body.rjust(width - len(sign) - len(close), "0")
    return _padded(sign + body + close, flags.replace("0", ""), width)


def _digits(conversion: str, value: Any, precision: int) -> str:
    """Digits after rounding the shortest decimal of a double half up."""
    if conversion == "d":
        return str(value)
    number = decimal.Decimal(repr(value))
    if conversion == "f":
        return format(number.quantize(decimal.Decimal(1).scaleb(-precision), decimal.ROUND_HALF_UP, context=_WIDE), "f")
    if not number:
        return format(decimal.Decimal(0), f".{precision}f") + "e+00"
    exponent = number.adjusted()
    mantissa = number.scaleb(-exponent, context=_WIDE)
    mantissa = mantissa.quantize(decimal.Decimal(1).scaleb(-precision), decimal.ROUND_HALF_UP, context=_WIDE)
    if mantissa >= 10:
        exponent += 1
        mantissa = (mantissa / 10).quantize(decimal.Decimal(1).scaleb(-precision), context=_WIDE)
    return f"{mantissa:f}e{'-' if exponent < 0 else '+'}{abs(exponent):02d}"
