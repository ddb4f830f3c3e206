"""Where the columns of a native row lie: all offsets follow from the schema and the options."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa

from tidemill.errors import TidemillError, nearest
from tidemill.formats.rows.malformed import MODE, Mode
from tidemill.options.kinds import FLAG, TEXT, choice, number
from tidemill.options.option import Option, OptionGroup, lowered
from tidemill.schema import TIMESTAMP, TIMESTAMP_NTZ, Field, Schema, type_to_ddl

ENDIANNESS = Option("endianness", choice("little", "big"), "little", "order of the bytes of numbers")
NULL_BITMAP = Option("nullBitmap", FLAG, True, "rows begin with a bitmap of NULLs")
WIDTHS = Option("widths", TEXT, "", "STRING and BINARY columns of fixed width: `code:4, city:20`")
MAX_ROW_BYTES = Option("maxRowBytes", number(1, (1 << 30) - 1), 16 << 20, "largest size of a row")
NATIVE_OPTIONS = OptionGroup("Native", "Tables `USING native`.", (MODE, ENDIANNESS, NULL_BITMAP, WIDTHS, MAX_ROW_BYTES))
SIZE_BYTES = 4

_WIDTHS = {
    pa.bool_(): 1,
    pa.int8(): 1,
    pa.int16(): 2,
    pa.int32(): 4,
    pa.int64(): 8,
    pa.float32(): 4,
    pa.float64(): 8,
    pa.date32(): 4,
    TIMESTAMP: 8,
    TIMESTAMP_NTZ: 8,
}


@dataclass(frozen=True)
class Place:
    """A column of a row.

    Attributes
    ----------
    ordinal : int
        Its number in the schema, and that of its bit in the null bitmap.
    offset, width : int
        Bytes from the row's body; ``width`` is 8 for a field that says where in the row a value lies.
    variable : bool
        The field is such an offset and length.
    """

    ordinal: int
    field: Field
    offset: int
    width: int
    variable: bool


@dataclass(frozen=True)
class Layout:
    """The layout of a table's rows; see :class:`~tidemill.formats.native.format.NativeFormat`.

    Attributes
    ----------
    places : tuple of Place
        All columns in schema order.
    fixed : int
        Bytes of the null bitmap and all fields.
    bitmap, big, sized : bool
        Rows have a null bitmap; numbers are big-endian; rows have a size, because a column has no fixed width.
    most : int
        Largest size of a row.
    """

    places: tuple[Place, ...]
    fixed: int
    bitmap: bool
    big: bool
    sized: bool
    most: int
    mode: Mode


def layout_of(schema: Schema, options: Mapping[str, str]) -> Layout:
    """The layout of a table.

    Raises
    ------
    TidemillError
        TM4003 for a bad option, TM4004 for a column that native rows cannot hold.
    """
    given = lowered(options)
    bitmap = NULL_BITMAP.of(given)
    widths = _declared_widths(schema, WIDTHS.of(given))
    offset = (len(schema) + 7) // 8 if bitmap else 0
    places = []
    for ordinal, field in enumerate(schema):
        width, variable = _width(field, widths.get(ordinal))
        places.append(Place(ordinal, field, offset, width, variable))
        offset += width
    most = MAX_ROW_BYTES.of(given)
    if offset > most:
        raise MAX_ROW_BYTES.bad(str(most), f"at least the {offset} bytes of a row's fields, less than 1 GiB")
    sized = any(place.variable for place in places)
    return Layout(tuple(places), offset, bitmap, ENDIANNESS.of(given) == "big", sized, most, MODE.of(given))


def _width(field: Field, declared: int | None) -> tuple[int, bool]:
    if field.type in (pa.string(), pa.binary()):
        return (8, True) if declared is None else (declared, False)
    if pa.types.is_decimal128(field.type):
        return (4 if field.type.precision <= 9 else 8 if field.type.precision <= 18 else 16), False
    if field.type not in _WIDTHS:
        raise TidemillError(
            "TM4004",
            f"the column {field.name!r} has a type that native cannot hold",
            got=type_to_ddl(field.type),
            hint="binary, or a format with nested types",
        )
    return _WIDTHS[field.type], False


def _declared_widths(schema: Schema, text: str) -> dict[int, int]:
    """``name:16, other:4`` as widths by ordinal."""
    found: dict[int, int] = {}
    names = [n.lower() for n in schema.names]
    for part in filter(None, (p.strip() for p in text.split(","))):
        name, _, digits = (p.strip() for p in part.rpartition(":"))
        if name.lower() not in names:
            raise WIDTHS.bad(text, nearest(name, schema.names))
        ordinal = names.index(name.lower())
        valid = digits.isascii() and digits.isdigit() and 0 < int(digits) < 1 << 20
        if not valid or ordinal in found or schema.types[ordinal] not in (pa.string(), pa.binary()):
            raise WIDTHS.bad(text, "name:bytes, of string and binary columns, each once: 'code:4, city:20'")
        found[ordinal] = int(digits)
    return found
