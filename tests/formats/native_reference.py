"""Native files read in plain Python, row by row and field by field: the oracle of reader, modes and errors in tests."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa

from tidemill.formats.base import RowError
from tidemill.formats.native.layout import SIZE_BYTES, Layout, Place, layout_of
from tidemill.formats.rows.malformed import Mode
from tidemill.schema import TIMESTAMP, TIMESTAMP_NTZ, Schema

_MOST_RAW = 1024


@dataclass(frozen=True)
class PlainNative:
    """Values by row in schema order, where each row begins, and all errors."""

    rows: tuple[tuple[Any, ...], ...]
    positions: tuple[int, ...]
    errors: tuple[RowError, ...]


def plain_native(data: bytes, schema: Schema, given: Mapping[str, str]) -> PlainNative:
    """Read a file; mode FAILFAST counts as DROPMALFORMED."""
    layout = layout_of(schema, given)
    rows, positions, errors = [], [], []
    at = 0
    while at < len(data):
        begin, size = at, layout.fixed
        if layout.sized:
            head = data[at : at + SIZE_BYTES]
            size = int.from_bytes(head, "big" if layout.big else "little")
            reason = None
            if len(head) == SIZE_BYTES and not layout.fixed <= size <= layout.most:
                reason = "bad_size"
            elif len(head) < SIZE_BYTES or at + SIZE_BYTES + size > len(data):
                reason = "truncated_record"
            if reason:
                raw = head if reason == "bad_size" else data[at : at + _MOST_RAW]
                errors.append(RowError(at, None, reason, raw, True))
                break
            at += SIZE_BYTES
        elif at + size > len(data):
            errors.append(RowError(at, None, "truncated_row", data[at:], True))
            break
        values, flaws = _row(data[at : at + size], layout)
        at += size
        drop = any(r == "null_in_not_null" for _, r in flaws) or (bool(flaws) and layout.mode is not Mode.PERMISSIVE)
        errors += [
            RowError(begin, c, r, data[begin:at], drop, at - size + _offset(data[at - size : at], c, layout))
            for c, r in flaws
        ]
        if not drop:
            rows.append(values)
            positions.append(begin)
    return PlainNative(tuple(rows), tuple(positions), tuple(errors))


def _row(body: bytes, layout: Layout) -> tuple[tuple[Any, ...], list[tuple[str, str]]]:
    values, flaws = [], []
    for place in layout.places:
        value: Any = None
        reason = None
        if not (layout.bitmap and body[place.ordinal // 8] >> place.ordinal % 8 & 1):
            try:
                value = _value(body, place, layout)
            except UnicodeDecodeError:
                reason = "bad_utf8"
            except ValueError as error:
                reason = str(error)
        if value is None and not place.field.nullable:
            reason = "null_in_not_null"
        if reason:
            flaws.append((place.field.name, reason))
        values.append(value)
    return tuple(values), flaws


def _offset(body: bytes, column: str, layout: Layout) -> int:
    """Where in the body of a row a column is malformed."""
    place = next(p for p in layout.places if p.field.name == column)
    try:
        if not (layout.bitmap and body[place.ordinal // 8] >> place.ordinal % 8 & 1):
            _value(body, place, layout)
    except UnicodeDecodeError as error:
        begin = place.offset
        if place.variable:
            begin = int.from_bytes(body[begin : begin + 4], "big" if layout.big else "little")
        return begin + error.start
    except ValueError:
        pass
    return place.offset


def _value(body: bytes, place: Place, layout: Layout) -> Any:
    type_ = place.field.type
    order = "big" if layout.big else "little"
    field = body[place.offset : place.offset + place.width]
    if type_ in (pa.string(), pa.binary()):
        if place.variable:
            offset, length = struct.unpack(">II" if layout.big else "<II", field)
            if offset < layout.fixed or offset + length > len(body):
                raise ValueError("bad_offset")
            field = body[offset : offset + length]
        elif type_ == pa.string():
            field = field.rstrip(b"\0")
        return field.decode() if type_ == pa.string() else field
    if type_ == pa.bool_():
        if field[0] > 1:
            raise ValueError("bad_bool")
        return bool(field[0])
    if pa.types.is_floating(type_):
        return struct.unpack((">" if layout.big else "<") + ("f" if place.width == 4 else "d"), field)[0]
    number = int.from_bytes(field, order, signed=True)  # type: ignore[arg-type]
    if pa.types.is_decimal(type_):
        if abs(number) >= 10**type_.precision:
            raise ValueError("bad_decimal")
        return Decimal((int(number < 0), tuple(map(int, str(abs(number)))), -type_.scale))
    try:
        if type_ == pa.date32():
            return date(1970, 1, 1) + timedelta(days=number)
        if type_ in (TIMESTAMP, TIMESTAMP_NTZ):
            zone = UTC if type_ == TIMESTAMP else None
            return datetime(1970, 1, 1, tzinfo=zone) + timedelta(microseconds=number)
    except OverflowError as error:
        names = {TIMESTAMP: "bad_timestamp", TIMESTAMP_NTZ: "bad_timestamp_ntz"}
        raise ValueError(names.get(type_, "bad_date")) from error
    return number
