"""The value parsers in plain Python, one value at a time: the oracle of the kernels in tests."""

from __future__ import annotations

import datetime as dt
import re
import struct
from collections.abc import Callable
from decimal import ROUND_HALF_UP, Context, Decimal, localcontext
from fractions import Fraction
from typing import Any

import pyarrow as pa
from tests.formats.pattern_reference import plain_pattern_time

from tidemill.formats.values.times.time_pattern import compile_pattern
from tidemill.schema import TIMESTAMP, TIMESTAMP_NTZ

_INTEGER = re.compile(rb"[+-]?[0-9]+")
_NUMBER = re.compile(rb"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
_SPECIAL = re.compile(rb"[+-]?(Infinity|Inf|NaN)")
_DATE = rb"(?P<yyyy>[0-9]{4})-(?P<MM>[0-9]{1,2})-(?P<dd>[0-9]{1,2})"
_TIME = rb"(?P<HH>[0-9]{2}):(?P<mm>[0-9]{2})(:(?P<ss>[0-9]{2})(\.(?P<S>[0-9]{1,9}))?)?"
_ZONE = rb"(?P<zone>Z|[+-][0-9]{2}:?[0-9]{2})?"
_DEFAULT_DATE = re.compile(_DATE)
_DEFAULT_TIMESTAMP = re.compile(rb"%s([ T]%s%s)?" % (_DATE, _TIME, _ZONE))
_DEFAULT_TIMESTAMP_NTZ = re.compile(rb"%s([ T]%s)?" % (_DATE, _TIME))
_PATTERN_TOKEN = re.compile(r"yyyy|MM|LL|dd|HH|mm|ss|S+|'(?:[^']|'')*'|[^A-Za-z']", re.DOTALL)


def plain_value(type_: pa.DataType, text: bytes, pattern: str | None = None) -> Any:
    """The value that a text spells, in the form in which PyArrow's ``as_py`` gives it.

    Parameters
    ----------
    type_ : pyarrow.DataType
    text : bytes
        Without quotes, not NULL.
    pattern : str or None
        ``dateFormat`` or ``timestampFormat``; None for the default layout.

    Raises
    ------
    ValueError
        The text is malformed for the type.
    """
    if pa.types.is_decimal(type_):
        return _plain_decimal(text, type_.precision, type_.scale)
    if pa.types.is_date(type_):
        return _plain_moment(type_, text, _DEFAULT_DATE, pattern).date()
    if pa.types.is_timestamp(type_):
        default = _DEFAULT_TIMESTAMP if type_ == TIMESTAMP else _DEFAULT_TIMESTAMP_NTZ
        moment = _plain_moment(type_, text, default, pattern)
        return moment if type_ == TIMESTAMP_NTZ else moment.replace(tzinfo=dt.UTC)
    return _PLAIN[type_](text)


def _plain_bool(text: bytes) -> bool:
    if text.lower() not in (b"true", b"false"):
        raise ValueError(text)
    return text.lower() == b"true"


def _plain_integer(bits: int) -> Callable[[bytes], int]:
    def parse(text: bytes) -> int:
        if not _INTEGER.fullmatch(text) or not -(1 << bits - 1) <= int(text) < 1 << bits - 1:
            raise ValueError(text)
        return int(text)

    return parse


def _plain_double(text: bytes) -> float:
    if not _NUMBER.fullmatch(text) and not _SPECIAL.fullmatch(text):
        raise ValueError(text)
    return float(text)


def _plain_float(text: bytes) -> float:
    """The float32 nearest to the exact number, ties to even, found among the neighbours of a first try."""
    number = _plain_double(text)
    if number == 0 or number != number or abs(number) > 2.0**128:
        return number if abs(number) <= 2.0**128 or number != number else number * float("inf")
    exact = Fraction(text.decode())
    magnitude = min(abs(number), 3.4028234663852886e38)
    (bits,) = struct.unpack("<I", struct.pack("<f", magnitude))
    candidates = range(max(bits - 1, 0), min(bits + 1, 0x7F7FFFFF) + 1)
    best = min(candidates, key=lambda b: (abs(abs(exact) - Fraction(_float_of(b))), b & 1))
    # Half a unit above the greatest float32 is where infinity begins.
    nearest = float("inf") if abs(exact) >= Fraction(2**128 - 2**103) else _float_of(best)
    return -nearest if text.startswith(b"-") else nearest


def _float_of(bits: int) -> float:
    (number,) = struct.unpack("<f", struct.pack("<I", bits))
    return float(number)


def _plain_decimal(text: bytes, precision: int, scale: int) -> Decimal:
    if not _NUMBER.fullmatch(text):
        raise ValueError(text)
    with localcontext(Context(prec=2000, Emax=10**9, Emin=-(10**9))):
        number = Decimal(text.decode())
        if number and number.adjusted() >= precision - scale:
            raise ValueError(text)
        if number.adjusted() < -scale - 1:
            number = Decimal(0)
        number = number.quantize(Decimal(1).scaleb(-scale), rounding=ROUND_HALF_UP)
        if abs(number) >= Decimal(1).scaleb(precision - scale):
            raise ValueError(text)
    return number


def _plain_text(text: bytes) -> str:
    return text.decode("utf-8")


def _plain_moment(type_: pa.DataType, text: bytes, default: re.Pattern[bytes], pattern: str | None) -> dt.datetime:
    if pattern is None:
        return _plain_time(text, default)
    compiled = compile_pattern(pattern)
    if compiled.plain:
        return _plain_time(text, _pattern_regex(pattern))
    return plain_pattern_time(text, compiled, date=pa.types.is_date(type_), zoned=type_ == TIMESTAMP)


def _plain_time(text: bytes, layout: re.Pattern[bytes]) -> dt.datetime:
    match = layout.fullmatch(text)
    if match is None:
        raise ValueError(text)
    part = {name: value for name, value in match.groupdict().items() if value is not None}
    moment = dt.datetime(
        int(part.get("yyyy", 1970)),
        int(part.get("MM", 1)),
        int(part.get("dd", 1)),
        int(part.get("HH", 0)),
        int(part.get("mm", 0)),
        int(part.get("ss", 0)),
        int(part.get("S", b"0").ljust(6, b"0")[:6]),
    )
    zone = part.get("zone", b"Z")
    if zone == b"Z":
        return moment
    offset = dt.timedelta(hours=int(zone[1:3]), minutes=int(zone[-2:]))
    if int(zone[-2:]) > 59 or offset > dt.timedelta(hours=18):
        raise ValueError(text)
    try:
        return moment - offset if zone.startswith(b"+") else moment + offset
    except OverflowError as error:
        raise ValueError(text) from error


def _pattern_regex(pattern: str) -> re.Pattern[bytes]:
    layout = b""
    for token in _PATTERN_TOKEN.findall(pattern):
        if token[0] == "S":
            layout += rb"(?P<S>[0-9]{1,%d}+)" % len(token)
        elif token[0].isascii() and token[0].isalpha():
            layout += rb"(?P<%s>[0-9]{%d})" % (token.replace("L", "M").encode(), len(token))
        elif token[0] == "'":
            layout += re.escape((token[1:-1].replace("''", "'") or "'").encode())
        else:
            layout += re.escape(token.encode())
    return re.compile(layout, re.DOTALL | re.IGNORECASE)


_PLAIN: dict[pa.DataType, Callable[[bytes], Any]] = {
    pa.bool_(): _plain_bool,
    pa.int8(): _plain_integer(8),
    pa.int16(): _plain_integer(16),
    pa.int32(): _plain_integer(32),
    pa.int64(): _plain_integer(64),
    pa.float32(): _plain_float,
    pa.float64(): _plain_double,
    pa.string(): _plain_text,
    pa.binary(): bytes,
}
