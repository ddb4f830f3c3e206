"""date_format, from_unixtime, to_timestamp and to_date with the common letters of datetime patterns."""

from __future__ import annotations

import itertools
import re
from functools import lru_cache

import numpy as np
import pyarrow as pa

from tidemill.task.expressions import Call
from tidemill.task.functions.columns import failures
from tidemill.task.functions.columns.compute import Array, null_unless, pc
from tidemill.task.functions.columns.numpy_values import from_numpy
from tidemill.task.functions.columns.registry import Value, as_array, fails_unless_try, function
from tidemill.task.functions.times.dates import DAYS, MONTHS
from tidemill.task.functions.times.time_text import MICROS_PER_DAY, days_from_civil
from tidemill.task.functions.times.timestamps import micros

_FULL_MONTHS = [
    "January", "February", "March", "April", "May", "June",
    "July", "August", "September", "October", "November", "December",
]  # fmt: skip
_FULL_DAYS = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]

_PRINTED = {
    "yyyy", "yy", "y", "MM", "M", "MMM", "MMMM", "dd", "d", "DDD", "HH", "H", "hh", "h", "mm", "m", "ss", "s",
    "S", "SS", "SSS", "SSSS", "SSSSS", "SSSSSS", "E", "EE", "EEE", "EEEE", "a",
}  # fmt: skip
_PARSED = {
    "yyyy": "-?[0-9]{4}|[+-][0-9]{5,7}",
    "MM": "[0-9]{2}", "dd": "[0-9]{2}", "HH": "[0-9]{2}", "mm": "[0-9]{2}", "ss": "[0-9]{2}",
    "M": "[0-9]{1,9}", "d": "[0-9]{1,9}", "H": "[0-9]{1,9}", "m": "[0-9]{1,9}", "s": "[0-9]{1,9}",
    "S": "[0-9]{1}", "SS": "[0-9]{2}", "SSS": "[0-9]{3}", "SSSSSS": "[0-9]{6}",
}  # fmt: skip
_FEWER = 4
"""Texts are made once each where there are so many times fewer than rows."""
_KEPT = 1 << 10
"""So many texts of a pattern are kept for the next rows."""
_TOKEN = re.compile(r"'((?:[^']|'')*)'|([A-Za-z])\2*|[^A-Za-z']+")


def tokens(pattern: str) -> list[tuple[str, bool]]:
    """The pattern as (text, is a field) pairs; quotes are resolved."""
    result = []
    position = 0
    for match in _TOKEN.finditer(pattern):
        if match.start() != position:
            return [("?", True)]
        position = match.end()
        if match[2]:
            result.append((match[0], True))
        elif match[1] is not None:
            result.append((match[1].replace("''", "'") or "'", False))
        else:
            result.append((match[0], False))
    return result if position == len(pattern) else [("?", True)]


def can_print(pattern: str) -> bool:
    """Whether :func:`date_format` knows every field of the pattern."""
    parts = tokens(pattern)
    return not re.search(r"[\[\]{}#]", pattern) and all(not field or text in _PRINTED for text, field in parts)


def can_parse(pattern: str) -> bool:
    """Whether the pattern can be parsed: known fields, year present, fields apart where widths vary."""
    parts = tokens(pattern)
    fields = [text for text, field in parts if field]
    if re.search(r"[\[\]{}#]", pattern) or any(text not in _PARSED for text in fields):
        return False
    letters = [text[0] for text in fields]
    if "y" not in letters or len(set(letters)) != len(letters):
        return False
    if ("d" in letters and "M" not in letters) or ("m" in letters and "H" not in letters):
        return False
    # Java reads adjacent numbers greedily in its own way; only fixed widths after the year mean the same.
    return all(not (a[1] and b[1]) or len(b[0]) >= 2 for a, b in itertools.pairwise(parts))


def _printed(field: str, array: Array) -> Array:
    letter, width = field[0], len(field)
    if letter == "y":
        year = pc.year(array)
        if width == 2:
            short = pc.subtract(
                year, pc.multiply(pc.floor(pc.divide(year.cast(pa.float64()), 100.0)).cast(pa.int64()), 100)
            )
            return pc.utf8_lpad(short.cast(pa.string()), 2, "0")
        text = pc.utf8_zero_fill(year.cast(pa.string()), width)
        return (
            pc.if_else(pc.greater(year, 9999), pc.binary_join_element_wise("+", text, ""), text) if width == 4 else text
        )
    if letter == "M" and width > 2:
        return pa.array(MONTHS if width == 3 else _FULL_MONTHS).take(pc.subtract(pc.month(array), 1))
    if letter == "E":
        return pa.array(DAYS if width < 4 else _FULL_DAYS).take(pc.day_of_week(array))
    if letter == "a":
        return pc.if_else(pc.less(pc.hour(array), 12), "AM", "PM")
    if letter == "S":
        within = from_numpy(micros(array, len(array)) % 1_000_000, pa.int64(), array)
        return pc.utf8_slice_codeunits(pc.utf8_lpad(within.cast(pa.string()), 6, "0"), 0, width)
    if letter == "h":
        hour = pc.hour(array)
        hour = pc.if_else(pc.greater(hour, 12), pc.subtract(hour, 12), hour)
        number = pc.if_else(pc.equal(hour, 0), pa.scalar(12, pa.int64()), hour)
    else:
        compute = {
            "M": pc.month, "d": pc.day, "D": pc.day_of_year, "H": pc.hour, "m": pc.minute, "s": pc.second,
        }  # fmt: skip
        number = compute[letter](array)
    return pc.utf8_lpad(number.cast(pa.string()), width, "0")


_FIRST = -(1 << 63)
"""The first timestamp that there is."""
_SECOND, _HOUR = 1_000_000, 3_600_000_000
_UNITS = {"s": _SECOND, "m": 60 * _SECOND, "H": _HOUR, "h": _HOUR, "a": _HOUR}
"""Microseconds within which all timestamps have the same field; those of other letters stay the same for a day."""


def _unit(parts: list[tuple[str, bool]]) -> int:
    """Microseconds within which all timestamps have the same text."""
    fields = [text for text, field in parts if field]
    return min(
        (10 ** (6 - len(f)) if f[0] == "S" else _UNITS.get(f[0], MICROS_PER_DAY) for f in fields),
        default=MICROS_PER_DAY,
    )


@lru_cache(64)
def _parts(pattern: str) -> tuple[list[tuple[str, bool]], int]:
    """The parts of a pattern, and its unit."""
    parts = tokens(pattern)
    return parts, _unit(parts)


def _made(pattern: str, first: int, last: int) -> Array:
    """The texts of some units after another, both ends included."""
    parts, unit = _parts(pattern)
    return _texts(parts, pa.array(np.arange(first, last + 1) * unit, pa.timestamp("us")))


_texts_between = lru_cache(64)(_made)
"""The same for a few texts, which the next rows need again."""


def _texts(parts: list[tuple[str, bool]], array: Array) -> Array:
    """The text of each timestamp; anything for NULL."""
    plain = array.cast(pa.int64()).cast(pa.timestamp("us"))
    pieces = [_printed(text, plain) if field else pa.scalar(text) for text, field in parts]
    return as_array(pc.binary_join_element_wise(*pieces, ""), len(array))


@function("date_format", sql=("date_format", "from_unixtime"))
def date_format(call: Call, args: list[Value], rows: int) -> Value:
    """Timestamps as text in the pattern of option ``pattern``.

    Where they are close together, as in an epoch, there are few texts: each is made once.
    """
    array = as_array(args[0], rows)
    pattern = str(call.option("pattern"))
    parts, unit = _parts(pattern)
    if not parts:
        return pc.if_else(array.is_valid(), "", pa.scalar(None, pa.string()))
    least, most = (end.as_py() for end in pc.min_max(array.cast(pa.int64())).values())
    if unit > 1 and least is not None:
        first, last = least // unit, most // unit
        if (last - first + 1) * _FEWER <= rows and first * unit >= _FIRST:
            texts = _texts_between(pattern, first, last) if last - first < _KEPT else _made(pattern, first, last)
            places = np.floor_divide(micros(array, rows), unit) - first
            return texts.take(from_numpy(places, pa.int64(), array))
    return null_unless(array.is_valid(), _texts(parts, array))


@function(
    "parse_timestamp", sql=("to_timestamp(s, fmt)", "to_date(s, fmt)", "unix_timestamp(s, fmt)"), fails=fails_unless_try
)
def parse_pattern(call: Call, args: list[Value], rows: int) -> Value:
    """Text in the pattern of option ``pattern`` as timestamps in UTC."""
    array = as_array(args[0], rows)
    regex = "".join(
        f"(?P<{text[0]}>{_PARSED[text]})" if field else re.sub(r"([^\w\s])", r"\\\1", text)
        for text, field in tokens(str(call.option("pattern")))
    )
    parts = pc.extract_regex(array, f"^{regex}$")
    matched = parts.is_valid()
    found = {parts.type.field(i).name: parts.field(i) for i in range(parts.type.num_fields)}

    def number(letter: str, default: int) -> np.ndarray:
        if letter not in found:
            return np.full(rows, default, dtype=np.int64)
        text = pc.if_else(matched, found[letter], str(default))
        values: np.ndarray = (
            pc.fill_null(pc.utf8_ltrim(text, "+"), str(default)).cast(pa.int64()).to_numpy(zero_copy_only=False)
        )
        return values

    days, exists = days_from_civil(number("y", 1970), number("M", 1), number("d", 1))
    hour, minute, second = number("H", 0), number("m", 0), number("s", 0)
    width = next((len(t) for t, f in tokens(str(call.option("pattern"))) if f and t[0] == "S"), 6)
    fraction = number("S", 0) * 10 ** (6 - width)
    good = matched.to_numpy(zero_copy_only=False) & exists & (hour < 24) & (minute < 60) & (second < 60)
    total = days * MICROS_PER_DAY + (hour * 3600 + minute * 60 + second) * 1_000_000 + fraction
    bad = pc.and_(pa.array(~good), array.is_valid())
    if fails_unless_try(call) and failures.any_true(bad):
        raise failures.invalid_cast(array, call.type, bad)
    return pa.array(np.where(good, total, 0), pa.int64(), mask=~good).cast(call.type)
