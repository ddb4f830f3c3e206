"""Which field of the file holds which column."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from tidemill.errors import FormatError, nearest
from tidemill.formats.csv.buffer_index import index_buffer
from tidemill.formats.csv.options import CsvOptions
from tidemill.formats.csv.row_ends import bare_return, row_end
from tidemill.formats.csv.spellings import plain_texts
from tidemill.formats.text.line_ends import BYTE_ORDER_MARK, UTF16_MARKS
from tidemill.formats.types.naming import header_columns
from tidemill.formats.values.columns.columns import parser_for
from tidemill.formats.values.field_text import NULL, TextRules
from tidemill.schema import Schema

_NO_TEXT = np.empty(0, np.uint8)
_SHOWN = 500
"""Characters of a header that an error shows."""


@dataclass(frozen=True)
class Layout:
    """Where a file keeps the columns of a schema.

    Attributes
    ----------
    width : int
        Number of fields that each row should have.
    field_of : tuple of int
        For each column of the schema its field.
    data_start : int
        Offset in the file before which no row of the table starts.
    """

    width: int
    field_of: tuple[int, ...]
    data_start: int


@dataclass(frozen=True)
class Header:
    """The first line of a file: the texts of its fields, and the offset behind it."""

    names: tuple[str, ...]
    stop: int


def layout_by_position(schema: Schema) -> Layout:
    """The layout of a file without a header: columns in schema order."""
    return Layout(len(schema), tuple(range(len(schema))), 0)


def layout_by_header(schema: Schema, options: CsvOptions, header: bytes, file_size: int) -> Layout:
    """Match the columns with the header line by name, case-insensitively, in any order; other fields are ignored.

    Fields without a name, or with one that occurs more than once, can be had by the names that Spark gives them
    (:func:`tidemill.formats.types.naming.header_columns`). The header is the first line that is neither empty nor
    a comment.

    Parameters
    ----------
    header : bytes
        The first bytes of the file, the whole header line among them.
    file_size : int
        A file with no line at all has no header and is no error.

    Raises
    ------
    FormatError
        TM4010 when the header lacks a column, TM4011 when it has one more than once.
    """
    line = read_header(header, options)
    if line is None and len(header) >= file_size:
        return layout_by_position(schema)
    names = [] if line is None else list(line.names)
    occurrences = Counter(name.lower() for name in names)
    index = {name.lower(): i for i, name in enumerate(names)}
    for i, name in enumerate(header_columns(names)):
        if name.lower() not in index:  # as Spark names what has no name of its own
            index[name.lower()], occurrences[name.lower()] = i, 1
    for column in schema.names:
        if occurrences[column.lower()] == 0:
            raise FormatError(
                "TM4010",
                f"the header line lacks the column {column!r}",
                got=", ".join(names)[:_SHOWN],
                hint=_why(header, options) or (nearest(column, names) if names else "the file has no header line"),
            )
        if occurrences[column.lower()] > 1:
            raise FormatError(
                "TM4011",
                f"the header line has the column {column!r} more than once",
                got=", ".join(names),
                hint="rename the columns in the file, or use header=false and match by position",
            )
    return Layout(len(names), tuple(index[column.lower()] for column in schema.names), line.stop if line else 0)


def _why(header: bytes, options: CsvOptions) -> str:
    """Why the first line is no header, if its bytes tell."""
    if header[:2] in UTF16_MARKS:
        return "the file begins with the mark of UTF-16: convert it to UTF-8"
    stop, _ = row_end(np.frombuffer(header, np.uint8), 0, options.lines)
    if bare_return(header[: stop if stop >= 0 else len(header)].removesuffix(b"\r"), options) >= 0:
        return "carriage returns end the lines of the file: lineSep '\\r' reads it"
    return ""


def has_header(data: bytes, options: CsvOptions) -> bool:
    """Whether the first bytes of a file have the whole header line, with its end."""
    found = _first_line(data, options)
    return found is not None and found[2]


def read_header(data: bytes, options: CsvOptions) -> Header | None:
    """The first line of a file that is neither empty nor a comment; None when there is none in its first bytes."""
    found = _first_line(data, options)
    return None if found is None else Header(_names(found[0], options), found[1])


def _first_line(data: bytes, options: CsvOptions) -> tuple[bytes, int, bool] | None:
    """The first line that is neither empty nor a comment, the offset behind it, and whether its end is there."""
    buffer = np.frombuffer(data, np.uint8)
    strips = options.general.strips_return
    begin = len(BYTE_ORDER_MARK) if data.startswith(BYTE_ORDER_MARK) else 0
    while begin < len(data):
        stop, inside = row_end(buffer, begin, options.lines)
        behind = len(data) if stop < 0 else stop + len(options.general.row_end)
        line = data[begin : stop if stop >= 0 else len(data)]
        if strips and not inside:
            line = line.removesuffix(b"\r")
        if line and line[0] != options.comment:
            return line, behind, stop >= 0
        begin = behind
    return None


def _names(line: bytes, options: CsvOptions) -> tuple[str, ...]:
    """The texts of the fields of a line, as those of a row, but none is NULL; with wrong quotes as they are written."""
    data = np.frombuffer(line, np.uint8)
    plain = replace(options, null_text=b"", null_texts=(b"",), not_finite=())
    counts = index_buffer(data, 0, 0, plain, 1, True, np.array([-1], np.int32)).field_counts
    if not counts.size:  # a carriage return before that of the line end
        return (line.decode("utf-8", "replace"),)
    count = int(counts[0])
    fields = index_buffer(data, 0, 0, plain, 1, True, np.arange(count, dtype=np.int32))
    texts, places = plain_texts(data, fields, plain, [pa.binary()] * count)
    offsets, written = places.offsets(), fields.offsets()
    parser = parser_for(pa.binary())
    assert parser is not None
    parsed = parser.parse(
        texts, offsets.starts[:, 0].copy(), offsets.ends[:, 0].copy(), TextRules(plain.quote, plain.trim, _NO_TEXT)
    )
    names = [b"" if name is None else name for name in parsed.array.to_pylist()]
    if parsed.status is not None:
        for i in np.flatnonzero(parsed.status > NULL).tolist():
            names[i] = line[written.starts[i, 0] : written.ends[i, 0]]
    return tuple(name.decode("utf-8", "replace") for name in names)
