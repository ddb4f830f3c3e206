"""Number formats of ``to_char`` and ``to_number``: ``S999G999D99``, ``$``, ``MI``, ``PR``."""

from __future__ import annotations

import decimal
import re
from dataclasses import dataclass
from functools import lru_cache

import pyarrow as pa

from tidemill.task.expressions import Call
from tidemill.task.functions.columns.by_value import RowFailureError, by_value

_FORMAT = re.compile(r"(MI|S)?(\$|L)?([09G,]*)(?:([.D])([09]*))?(\$|L)?(PR|MI|S)?", re.IGNORECASE)
_WIDE = decimal.Context(prec=80)


@dataclass(frozen=True)
class Format:
    """A parsed format: the sign before or behind, a dollar sign, and the places of digits."""

    before: str
    dollar: bool
    whole: str
    point: bool
    fraction: str
    behind: str

    @property
    def type(self) -> pa.DataType:
        """The decimal type that ``to_number`` gives."""
        digits = len(re.sub("[^09]", "", self.whole))
        scale = len(self.fraction)
        return pa.decimal128(digits + scale, scale)


class UnknownFormatError(ValueError):
    """A format that is not one, or that is not supported."""


@lru_cache(512)
def parsed(text: str) -> Format:
    """The parts of a format.

    Raises
    ------
    UnknownFormatError
        When it is none.
    """
    match = _FORMAT.fullmatch(text)
    if match is None or (match[2] and match[6]) or (match[1] and match[7]):
        raise UnknownFormatError(text)
    before, dollar, whole, point, fraction, dollar_behind, behind = (part or "" for part in match.groups())
    if (
        not re.search("[09]", whole + fraction)
        or (point and not fraction)
        or (dollar + dollar_behind).upper() == "L"
        or dollar_behind
    ):
        raise UnknownFormatError(text)
    places = whole.upper().replace("G", ",")
    if places.startswith(",") or places.endswith(",") or ",," in places:
        raise UnknownFormatError(text)
    return Format(before.upper(), bool(dollar), places, bool(point), fraction, behind.upper())


@by_value("to_char_number", sql=("to_char(number, format)", "to_varchar"))
def _to_char(call: Call, value: decimal.Decimal) -> str:
    """Digits in their places, blanks before them; ``#`` in every place when there are too many."""
    form = parsed(str(call.option("format")))
    whole, _, fraction = format(value.copy_abs(), "f").partition(".")
    whole, fraction = whole.lstrip("0"), fraction.rstrip("0")
    negative = value < 0
    places = re.sub("[^09]", "", form.whole)
    if len(whole) > len(places) or len(fraction) > len(form.fraction):
        body = re.sub("[09]", "#", form.whole).replace(",", " ") + "." * form.point + "#" * len(form.fraction)
        return _signed(form, body, negative)
    body = _placed(form.whole, whole)
    floats = form.before == "S" or (negative and (form.before == "MI" or form.behind == "PR"))
    if form.point:
        if body.endswith(" ") and (form.dollar or not floats):
            body = body[:-1] + "0"
        body += "." + fraction.ljust(len(form.fraction), "0")
    return _signed(form, body, negative)


def _placed(places: str, digits: str) -> str:
    """The digits from the right; a group of places that begins with 0 is filled with zeros, others with blanks."""
    left = digits.rjust(len(re.sub(",", "", places)))
    result = ""
    position = 0
    for group in places.split(","):
        if position:
            result += "," if result[-1:].isdigit() else " "
        part = left[position : position + len(group)]
        result += part.replace(" ", "0") if group.startswith("0") else part
        position += len(group)
    return result


def _signed(form: Format, body: str, negative: bool) -> str:
    """A sign, or the bracket of PR, stands before the first digit; a dollar sign stays in its place."""
    before = "$" if form.dollar else ""
    if form.behind == "PR":
        return _floating("<", before + body) + ">" if negative else before + body + "  "
    if form.before == "S" or (form.before == "MI" and negative):
        return _floating("-" if negative else "+", before + body)
    if form.before == "MI":
        return " " + before + body
    if form.behind:
        return before + body + ("-" if negative else "+" if form.behind == "S" else " ")
    return before + body


def _floating(sign: str, body: str) -> str:
    digits = body.lstrip(" ")
    return " " * (len(body) - len(digits)) + sign + digits


def _read(text: str, form: Format) -> decimal.Decimal | None:
    """The number that a text of this format means; None when it has another."""
    if form.before and re.match(r"\s+[+-]", text):
        return None  # blanks are passed over among the digits only
    text = re.sub(r"[ \t\r\n]", "", text)
    negative = False
    if form.behind == "PR" and text.startswith("<") and text.endswith(">"):
        negative, text = True, text[1:-1]
    for place, sign in ((0, form.before), (-1, form.behind)):
        if sign in ("S", "MI") and text and text[place] in "+-":
            if text[place] == "+" and sign == "MI":
                return None
            negative = text[place] == "-"
            text = text[1:] if place == 0 else text[:-1]
    if form.dollar:
        if not text.startswith("$"):
            return None
        text = text[1:]
    whole, point, fraction = text.partition(".")
    if point and not form.point:
        return None
    if not re.fullmatch("[0-9]*", fraction) or len(fraction) > len(form.fraction):
        return None
    digits = _whole_digits(whole, form.whole)
    if digits is None or not digits + fraction:
        return None
    number = decimal.Decimal((digits or "0") + "." + (fraction or "0"))
    number = number.quantize(decimal.Decimal(1).scaleb(-len(form.fraction)), context=_WIDE)
    return -number if negative else number


def _whole_digits(text: str, places: str) -> str | None:
    """The digits before the point, checked group by group from the right."""
    given, wanted = text.split(","), places.split(",")
    if len(given) > len(wanted):
        return None
    for n in range(1, len(given) + 1):
        group, place = given[-n], wanted[-n]
        if not re.fullmatch("[0-9]*", group) or len(group) > len(place):
            return None
        if "0" in place and len(group) < len(place[place.find("0") :]):
            return None
    if "0" in "".join(wanted[: len(wanted) - len(given)]):
        return None
    return "".join(given)


@by_value("to_number", sql=("to_number", "try_to_number"), fails=lambda call: call.option("mode") == "ansi")
def _to_number(call: Call, text: str) -> decimal.Decimal | None:
    number = _read(text, parsed(str(call.option("format"))))
    if number is None and call.option("mode") == "ansi":
        hint = "use try_to_number to get NULL"
        raise RowFailureError(f"the text is not a number of the format {call.option('format')}", hint=hint)
    return number
