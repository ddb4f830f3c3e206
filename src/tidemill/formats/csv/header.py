"""Which field of the file holds which column."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from tidemill.errors import FormatError, nearest
from tidemill.formats.csv.options import CsvOptions
from tidemill.formats.csv.reference import plain_rows, plain_text
from tidemill.formats.inference.naming import header_columns
from tidemill.formats.values.field_text import TRIM_LEADING, TRIM_TRAILING
from tidemill.schema import Schema


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
    """Match the columns with the header line by name, in any case and order; other fields are ignored.

    Fields without a name, or with one that occurs more than once, can be had by the names that Spark gives them
    (:func:`tidemill.formats.inference.naming.header_columns`). The header is the first line that is neither empty nor
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
                got=", ".join(names),
                hint=nearest(column, names) if names else "the file has no header line",
            )
        if occurrences[column.lower()] > 1:
            raise FormatError(
                "TM4011",
                f"the header line has the column {column!r} more than once",
                got=", ".join(names),
                hint="rename the columns in the file, or use header=false and match by position",
            )
    return Layout(len(names), tuple(index[column.lower()] for column in schema.names), line.stop if line else 0)


def read_header(data: bytes, options: CsvOptions) -> Header | None:
    """The first line of a file that is neither empty nor a comment; None when there is none in its first bytes."""
    rules = options.general
    lines = plain_rows(
        data, rules.separator, rules.quote, options.comment, bool(rules.leading), rules.escape, rules.row_end
    )
    line = next((row for row in lines if not row.comment), None)
    if line is None:
        return None
    return Header(tuple(_name(field, options) for field in line.fields), line.stop)


def _name(field: bytes, options: CsvOptions) -> str:
    try:
        text, _ = plain_text(
            field,
            options.quote,
            bool(options.trim & TRIM_LEADING),
            bool(options.trim & TRIM_TRAILING),
            options.general.escape,
        )
    except ValueError:
        text = field
    return text.decode("utf-8", "replace")
