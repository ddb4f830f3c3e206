"""The parsers that tables choose by name in plain Python, one value at a time: the oracle in tests."""

from __future__ import annotations

import base64
import datetime as dt
import re
from collections.abc import Callable
from typing import Any

import pyarrow as pa
from tests.formats.value_reference import plain_value

from tidemill.schema import TIMESTAMP

_EPOCH = re.compile(rb"([+-]?)([0-9]+)(?:\.([0-9]+))?")
_HEX = re.compile(rb"([+-]?)(?:0[xX](?=.))?([0-9a-fA-F]+)", re.DOTALL)
_HEX_BYTES = re.compile(rb"(?:0x|\\x)?((?:[0-9a-fA-F]{2})*)")
_BASE64 = re.compile(rb"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?")


def plain_chosen_value(name: str, type_: pa.DataType, text: bytes) -> Any:
    """The value that a text spells for a parser; ValueError when it is malformed."""
    return _PLAIN[name.lower()](type_, text)


def _matched(pattern: re.Pattern[bytes], text: bytes) -> re.Match[bytes]:
    match = pattern.fullmatch(text)
    if match is None:
        raise ValueError(text)
    return match


def _epoch(places: int) -> Callable[[pa.DataType, bytes], dt.datetime]:
    def parse(type_: pa.DataType, text: bytes) -> dt.datetime:
        sign, whole, part = _matched(_EPOCH, text).groups()
        micros = int(whole + (part or b"").ljust(places, b"0")[:places])
        zone = dt.UTC if type_ == TIMESTAMP else None
        try:
            return dt.datetime(1970, 1, 1, tzinfo=zone) + dt.timedelta(microseconds=-micros if sign == b"-" else micros)
        except OverflowError as error:
            raise ValueError(text) from error

    return parse


def _days(_: pa.DataType, text: bytes) -> dt.date:
    try:
        return dt.date(1970, 1, 1) + dt.timedelta(days=plain_value(pa.int32(), text))
    except OverflowError as error:
        raise ValueError(text) from error


def _hex(type_: pa.DataType, text: bytes) -> int | bytes:
    if type_ == pa.binary():
        return bytes.fromhex(_matched(_HEX_BYTES, text)[1].decode())
    sign, digits = _matched(_HEX, text).groups()
    number: int = plain_value(type_, sign + str(int(digits, 16)).encode())
    return number


def _base64(_: pa.DataType, text: bytes) -> bytes:
    return base64.b64decode(_matched(_BASE64, text)[0])


def _percent(type_: pa.DataType, text: bytes) -> Any:
    if not text.endswith(b"%"):
        raise ValueError(text)
    return plain_value(type_, text[:-1] + b"e-2")


def _grouped(group: bytes, point: bytes) -> Callable[[pa.DataType, bytes], Any]:
    one = re.escape(group)
    pattern = re.compile(rb"([+-]?)([0-9]{1,3}(?:%b[0-9]{3})+|[0-9]*)([^0-9%b][^%b]*)?" % (one, one, one), re.DOTALL)

    def parse(type_: pa.DataType, text: bytes) -> Any:
        sign, whole, rest = _matched(pattern, text).groups()
        return plain_value(type_, sign + whole.replace(group, b"") + (rest or b"").replace(point, b"."))

    return parse


def _words(true: bytes, false: bytes) -> Callable[[pa.DataType, bytes], bool]:
    def parse(_: pa.DataType, text: bytes) -> bool:
        lower = text.lower()
        if lower not in (true, true[:1], false, false[:1]):
            raise ValueError(text)
        return lower in (true, true[:1])

    return parse


_PLAIN: dict[str, Callable[[pa.DataType, bytes], Any]] = {
    "epoch_seconds": _epoch(6),
    "epoch_millis": _epoch(3),
    "epoch_micros": _epoch(0),
    "epoch_days": _days,
    "hex": _hex,
    "base64": _base64,
    "percent": _percent,
    "comma_groups": _grouped(b",", b"."),
    "comma_decimal": _grouped(b".", b","),
    "zero_one": _words(b"1", b"0"),
    "yes_no": _words(b"yes", b"no"),
    "true_false": _words(b"true", b"false"),
}
