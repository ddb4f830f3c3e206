"""Values that clients bind, from either format, as texts that both engines understand."""

from __future__ import annotations

import struct
from collections.abc import Callable
from decimal import Decimal, InvalidOperation

import numpy as np

from tidemill.errors import TidemillError
from tidemill.serve.postgres.values import pg_types
from tidemill.serve.postgres.values.pg_types import PgType

Value = str | list["Value"] | None
"""NULL, a text, or the elements of an array."""

_EPOCH_DAYS = 10_957
_DAY = 86_400_000_000
_MOST_EXPONENT = 1000
_INTEGERS = {pg_types.INT2: "!h", pg_types.INT4: "!i", pg_types.INT8: "!q", pg_types.OID: "!I"}
_FLOATS = {pg_types.FLOAT4: "!f", pg_types.FLOAT8: "!d"}
_TRUE, _FALSE = ("t", "true", "y", "yes", "on", "1"), ("f", "false", "n", "no", "off", "0")


def parameter_value(data: bytes | None, binary: bool, type_: PgType) -> Value:
    """The value of a parameter.

    Returns
    -------
    str, list or None
        Numbers in digits, ``true`` and ``false``, dates and times as ISO texts (instants in UTC with ``+00``), bytes as
        hexadecimal digits, intervals as ``n months n days n microseconds``.

    Raises
    ------
    TidemillError
        TM8118 when the bytes are no value of the type.
    """
    if data is None:
        return None
    try:
        if type_.element is not None:
            return _array(data, type_.element) if binary else _array_text(data.decode(), type_.element)
        return _BINARY.get(type_, _plain)(data) if binary else _from_text(data.decode(), type_)
    except (ValueError, struct.error, LookupError, OverflowError, InvalidOperation) as error:
        shown = data[:40].decode(errors="replace") if not binary else data[:20].hex()
        raise TidemillError(
            "TM8118",
            "a parameter is no value of its type",
            got=f"{shown!r} for {type_.shown}",
            hint="cast it in the query to the type that is meant, such as $1::text",
        ) from error


def _from_text(text: str, type_: PgType) -> str:
    stripped = text.strip().lower()
    if type_ in _INTEGERS:
        return str(int(text))
    if type_ is pg_types.NUMERIC:
        return _digits(Decimal(text.strip()))
    if type_ in _FLOATS:
        return repr(float(text))
    if type_ is pg_types.BOOL:
        return "true" if stripped in _TRUE else "false" if stripped in _FALSE else _refuse(text)
    if type_ is pg_types.BYTEA:
        return bytes.fromhex(text[2:]).hex() if text.startswith("\\x") else _escaped(text)
    if "\0" in text:
        return _refuse(text)
    return text


def _digits(number: Decimal) -> str:
    """All digits of a number; ``1e999999999`` would have a billion."""
    exponent = number.as_tuple().exponent
    if number.is_snan() or (isinstance(exponent, int) and abs(exponent) > _MOST_EXPONENT):
        return _refuse(str(number))
    return format(number, "f")


def _refuse(text: str) -> str:
    raise ValueError(text)


def _escaped(text: str) -> str:
    """The older format of bytes: ``\\ooo`` in octal, and two backslashes for one."""
    found, at, raw = bytearray(), 0, text.encode()
    while at < len(raw):
        if raw[at] != ord("\\"):
            found.append(raw[at])
            at += 1
        elif raw[at + 1] == ord("\\"):
            found.append(raw[at])
            at += 2
        else:
            found.append(int(raw[at + 1 : at + 4], 8))
            at += 4
    return found.hex()


def _plain(data: bytes) -> str:
    return _from_text(data.decode(), pg_types.TEXT)


def _unpack(form: str) -> Callable[[bytes], str]:
    def unpack(data: bytes) -> str:
        return repr(struct.unpack(form, data)[0])

    return unpack


def _numeric(data: bytes) -> str:
    count, weight, sign, scale = struct.unpack_from("!hhHh", data)
    if sign not in (0, 0x4000):
        return {0xC000: "NaN", 0xD000: "Infinity", 0xF000: "-Infinity"}[sign]
    if not 0 <= scale <= _MOST_EXPONENT or abs(weight) > _MOST_EXPONENT:
        _refuse("numeric")
    number = 0
    for digit in struct.unpack_from(f"!{count}h", data, 8):
        number = number * 10_000 + digit
    shift = scale + 4 * (weight - count + 1)
    number = number * 10**shift if shift >= 0 else number // 10**-shift
    digits = str(number).rjust(scale + 1, "0")
    text = f"{digits[:-scale]}.{digits[-scale:]}" if scale else digits
    return f"-{text}" if sign and number else text


def _date(data: bytes) -> str:
    return str(np.datetime64(struct.unpack("!i", data)[0] + _EPOCH_DAYS, "D"))


def _timestamp(data: bytes) -> str:
    return str(np.datetime64(struct.unpack("!q", data)[0] + _EPOCH_DAYS * _DAY, "us")).replace("T", " ")


def _time(data: bytes) -> str:
    return str(np.datetime64(struct.unpack("!q", data)[0] % _DAY, "us")).partition("T")[2]


def _interval(data: bytes) -> str:
    micros, days, months = struct.unpack("!qii", data)
    return f"{months} months {days} days {micros} microseconds"


_BINARY: dict[PgType, Callable[[bytes], str]] = {
    **{t: _unpack(form) for t, form in (_INTEGERS | _FLOATS).items()},
    pg_types.BOOL: lambda data: "true" if struct.unpack("!?", data)[0] else "false",
    pg_types.BYTEA: bytes.hex,
    pg_types.NUMERIC: _numeric,
    pg_types.DATE: _date,
    pg_types.TIME: _time,
    pg_types.TIMESTAMP: _timestamp,
    pg_types.TIMESTAMPTZ: lambda data: _timestamp(data) + "+00",
    pg_types.INTERVAL: _interval,
    pg_types.JSONB: lambda data: data[1:].decode(),
    pg_types.UUID: lambda data: "-".join(
        data.hex()[a:b] for a, b in ((0, 8), (8, 12), (12, 16), (16, 20), (20, 16 + 16))
    ),
}


def _array(data: bytes, element: PgType) -> list[Value]:
    """An array in the binary format, of one dimension."""
    dimensions, _, type_oid = struct.unpack_from("!iiI", data)
    if dimensions == 0:
        return []
    if dimensions != 1:
        _refuse("more than one dimension")
    count, at = struct.unpack_from("!i", data, 12)[0], 20
    if not 0 <= count <= len(data) // 4:
        _refuse("elements")
    found: list[Value] = []
    inner = pg_types.BY_OID.get(type_oid, element)
    for _ in range(count):
        (length,) = struct.unpack_from("!i", data, at)
        at += 4
        if length >= 0 and at + length > len(data):
            _refuse("elements")
        found.append(None if length < 0 else parameter_value(data[at : at + length], True, inner))
        at += max(length, 0)
    return found


def _array_text(text: str, element: PgType) -> list[Value]:
    """An array in the text format, of one dimension: ``{1,"a, b",NULL}``."""
    text = text.strip()
    if not (text.startswith("{") and text.endswith("}")) or len(text) < 2:
        _refuse(text)
    found: list[Value] = []
    at, end = 1, len(text) - 1
    while at < end:
        piece, quoted = [], False
        while at < end and text[at] != ",":
            if text[at] == '"':
                quoted, at = True, at + 1
                while text[at] != '"':
                    at += text[at] == "\\"
                    piece.append(text[at])
                    at += 1
            elif text[at] == "{":
                _refuse("more than one dimension")
            else:
                piece.append(text[at])
            at += 1
        at += 1
        value = "".join(piece) if quoted else "".join(piece).strip()
        found.append(None if value.upper() == "NULL" and not quoted else _from_text(value, element))
    return found
