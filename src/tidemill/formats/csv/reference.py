"""The rules of CSV rows in plain Python: reads the header line, and is the oracle of the kernels in tests."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tidemill.formats.line_ends import BYTE_ORDER_MARK, NO_BYTE


@dataclass(frozen=True)
class PlainRow:
    """One row.

    Attributes
    ----------
    position : int
        Offset of its first byte.
    fields : tuple of bytes
        Its fields as they stand in the file, with their quotes.
    begins : tuple of int
        Offset of the first byte of each field.
    stop : int
        Offset behind its line end.
    comment : bool
        It is a comment and not a row of the table.
    terminated : bool
        False when the file ends inside quotes.
    """

    position: int
    fields: tuple[bytes, ...]
    begins: tuple[int, ...]
    stop: int
    comment: bool
    terminated: bool


def plain_rows(
    data: bytes, separator: int, quote: int, comment: int = NO_BYTE, trim_leading: bool = False
) -> Iterator[PlainRow]:
    """The rows of a whole file in order, comments among them, empty lines left out.

    A quote opens a field at its beginning (with ``trim_leading`` also behind blanks), and again right behind the
    quote that closed it, as a doubled quote does; elsewhere it is text.
    """
    position = 0
    while position < len(data):
        fields: list[bytes] = []
        begins: list[int] = []
        begin = i = position + len(BYTE_ORDER_MARK) * (position == 0 and data.startswith(BYTE_ORDER_MARK))
        inside, may_open = False, True
        while i < len(data) and (inside or data[i] != ord("\n")):
            if data[i] == quote and (inside or may_open):
                inside, may_open = not inside, inside
            elif not inside:
                if data[i] == separator:
                    fields.append(data[begin:i])
                    begins.append(begin)
                    begin = i + 1
                may_open = data[i] == separator or (may_open and trim_leading and data[i] in b" \t")
            i += 1
        field = data[begin:i]
        if i < len(data):
            field = field.removesuffix(b"\r")
        fields.append(field)
        begins.append(begin)
        if fields != [b""]:
            yield PlainRow(
                position=position,
                fields=tuple(fields),
                begins=tuple(begins),
                stop=min(i + 1, len(data)),
                comment=comment != NO_BYTE and _first_byte(fields, separator) == comment,
                terminated=not inside,
            )
        position = i + 1


def _first_byte(fields: list[bytes], separator: int) -> int:
    return fields[0][0] if fields[0] else separator


def plain_text(field: bytes, quote: int, trim_leading: bool = False, trim_trailing: bool = False) -> tuple[bytes, bool]:
    """The text of a field and whether it was quoted.

    Raises
    ------
    ValueError
        The field opens with a quote, but is not a quoted text with every inner quote doubled.
    """
    if trim_leading:
        field = field.lstrip(b" \t")
    if trim_trailing:
        field = field.rstrip(b" \t")
    if quote == NO_BYTE or field[:1] != bytes([quote]):
        return field, False
    one = bytes([quote])
    inner = field[1:-1]
    if len(field) < 2 or not field.endswith(one) or one in inner.replace(one + one, b""):
        raise ValueError("bad quotes")
    return inner.replace(one + one, one), True
