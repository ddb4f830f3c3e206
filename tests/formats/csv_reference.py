"""The rules of CSV rows in plain Python: reads the header line, and is the oracle of the kernels in tests."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tidemill.formats.text.line_ends import BYTE_ORDER_MARK, NO_BYTE


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
    end : int
        Offset of its line end.
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
    end: int
    stop: int
    comment: bool
    terminated: bool


def plain_rows(
    data: bytes,
    separator: int | bytes,
    quote: int,
    comment: int = NO_BYTE,
    trim_leading: bool = False,
    escape: int = NO_BYTE,
    row_end: bytes = b"\n",
    multi_line: bool = True,
) -> Iterator[PlainRow]:
    """The rows of a whole file in order, comments among them, empty lines left out.

    A quote opens a field at its beginning (with ``trim_leading`` also behind blanks), and again right behind the
    quote that closed it, as a doubled quote does; elsewhere it is text. With an escape, which counts inside quotes
    only, a quote does not open again. Unless ``multi_line``, every line
    end ends a row, and a quote that it leaves open is text.
    """
    between = bytes([separator]) if isinstance(separator, int) else separator
    position = 0
    while position < len(data):
        fields: list[bytes] = []
        begins: list[int] = []
        begin = i = position + len(BYTE_ORDER_MARK) * (position == 0 and data.startswith(BYTE_ORDER_MARK))
        inside, may_open = False, True
        line_end = -1 if multi_line else data.find(row_end, position)
        cut = len(data) if line_end < 0 else line_end
        while i < cut and (inside or not data.startswith(row_end, i, cut)):
            if inside:
                if data[i] == escape:
                    i += 1
                elif data[i] == quote:
                    inside, may_open = False, escape == NO_BYTE
            elif may_open and data[i] == quote:
                inside = True
            elif data.startswith(between, i, cut):
                fields.append(data[begin:i])
                begins.append(begin)
                i += len(between)
                begin = i
                may_open = True
                continue
            else:
                may_open = may_open and trim_leading and data[i] in b" \t"
            i += 1
        i = min(i, cut)
        field = data[begin:i]
        inside = inside and multi_line
        if not inside and row_end == b"\n":
            field = field.removesuffix(b"\r")
        fields.append(field)
        begins.append(begin)
        if fields != [b""]:
            yield PlainRow(
                position=position,
                fields=tuple(fields),
                begins=tuple(begins),
                end=begin + len(field),
                stop=min(i + len(row_end), len(data)),
                comment=comment != NO_BYTE and (fields[0] or between)[0] == comment,
                terminated=not inside,
            )
        position = i + len(row_end)


def plain_text(
    field: bytes, quote: int, trim_leading: bool = False, trim_trailing: bool = False, escape: int = NO_BYTE
) -> tuple[bytes, bool]:
    """The text of a field and whether it was quoted.

    Raises
    ------
    ValueError
        The field opens with a quote, but is not a quoted text with every inner quote doubled or escaped.
    """
    if trim_leading:
        field = field.lstrip(b" \t")
    if trim_trailing:
        field = field.rstrip(b" \t")
    if quote == NO_BYTE or field[:1] != bytes([quote]):
        return field, False
    one = bytes([quote])
    if escape != NO_BYTE:
        return _escaped_text(field, one, bytes([escape])), True
    inner = field[1:-1]
    if len(field) < 2 or not field.endswith(one) or one in inner.replace(one + one, b""):
        raise ValueError("bad quotes")
    return inner.replace(one + one, one), True


def _escaped_text(field: bytes, quote: bytes, escape: bytes) -> bytes:
    """The text between quotes: an escape before a quote or another escape is taken off, any other one is text."""
    text = b""
    i = 1
    while i < len(field) and field[i : i + 1] != quote:
        if field[i : i + 1] == escape and field[i + 1 : i + 2] in (quote, escape):
            i += 1
        text += field[i : i + 1]
        i += 1
    if i != len(field) - 1:
        raise ValueError("bad quotes")
    return text
