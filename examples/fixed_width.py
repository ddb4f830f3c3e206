"""A format of one's own: lines whose columns lie at fixed places, as mainframes write them.

A package offers it with an entry point; then ``USING fixed_width OPTIONS (widths '8,5,10')`` works like any format::

    [project.entry-points."tidemill.formats"]
    fixed_width = "fixed_width:FixedWidthFormat"

Only phase 1 is written here: where fields lie in a buffer of lines. Splits, lines over many buffers, values of every
type, NULLs, malformed rows and their modes come with :class:`tidemill.formats.csv.rows.RowBuilder`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np

from tidemill.formats.csv.format import check_types, checked_columns
from tidemill.formats.csv.header import layout_by_position
from tidemill.formats.csv.options import parse_options
from tidemill.formats.csv.rows import RowBuilder
from tidemill.formats.rows.field_index import FieldOffsets
from tidemill.formats.text.line_ends import Bytes
from tidemill.formats.text.line_split import LineSplitReader
from tidemill.formats.values.columns.columns import parser_for
from tidemill.options.option import bad_option
from tidemill.schema import Schema

_WIDEST = 1 << 20


class FixedWidthFormat:
    """Lines of columns at fixed places; blanks around a value do not count, a line that ends early lacks columns.

    Options: ``widths``, the bytes of each column, separated by commas; ``mode``, ``nullValue``, ``dateFormat`` and
    ``timestampFormat`` as for CSV.
    """

    name = "fixed_width"
    option_names = frozenset({"widths", "mode", "nullvalue", "dateformat", "timestampformat"})
    is_text = True

    def validate(self, schema: Schema, options: Mapping[str, str]) -> None:
        """Raises TM4003 for bad widths, TM4004 for types of columns without a parser."""
        _widths(schema, options)
        patterns = parse_options(_of_csv(options)).patterns
        check_types(schema, [parser_for(field.type, patterns) for field in schema], self.name)

    def reader(self, schema: Schema, options: Mapping[str, str], needed: Sequence[str]) -> FixedWidthReader:
        """A reader of some columns."""
        return FixedWidthReader(schema, options, needed)


class FixedWidthReader:
    """See :class:`tidemill.formats.base.RowReader`."""

    def __init__(self, schema: Schema, options: Mapping[str, str], needed: Sequence[str]) -> None:
        parsed = parse_options(_of_csv(options))
        parsers = [parser_for(field.type, parsed.patterns) for field in schema]
        columns = checked_columns(schema, parsed, needed, parsers)
        layout, widths = layout_by_position(schema), _widths(schema, options)
        self._builder = _Builder(parsed, layout, columns, len(needed), None, widths)

    def header_bytes_needed(self) -> bool:
        """No: columns are found by their places."""
        return False

    def split(
        self, *, start: int, end: int, file_size: int, in_quotes: bool | None, header: bytes | None
    ) -> LineSplitReader:
        """A reader of one part of a file."""
        return LineSplitReader(self._builder, start=start, end=end, file_size=file_size, in_quotes=False)


@dataclass(frozen=True)
class _Builder(RowBuilder):
    widths: list[int]

    def index(self, data: Bytes, position: int, row_ends: int, quotes: bool, field: int = -1) -> FieldOffsets:
        """Where the fields lie, computed from where the lines end."""
        newlines = np.flatnonzero(data == ord("\n"))
        starts = np.concatenate([[0], newlines + 1]).astype(np.int32)
        ends = np.concatenate([newlines, [data.size]]).astype(np.int32)
        filled = ends > starts
        starts, ends = starts[filled], ends[filled]
        ends -= data[ends - 1] == ord("\r")
        edges = np.array([0, *accumulate(self.widths)], np.int32)
        ordinals = [column.ordinal for column in self.columns] if field < 0 else [min(field, len(self.widths) - 1)]
        begins = np.array([starts + edges[i] for i in ordinals], np.int32).reshape(len(ordinals), starts.size)
        stops = np.array([np.minimum(starts + edges[i + 1], ends) for i in ordinals], np.int32).reshape(begins.shape)
        missing = begins >= stops
        begins[missing], stops[missing] = 0, -1
        # So many columns have at least a byte; a line that is too long has one more.
        counts = np.searchsorted(edges[:-1], ends - starts, "left") + (ends - starts > edges[-1])
        return FieldOffsets(starts, counts.astype(np.int32), begins, stops, False, np.empty(0, np.int32))


def _of_csv(options: Mapping[str, str]) -> dict[str, str]:
    blanks = {"ignoreleadingwhitespace": "true", "ignoretrailingwhitespace": "true"}
    return {k: v for k, v in options.items() if k != "widths"} | blanks | {"quote": ""}


def _widths(schema: Schema, options: Mapping[str, str]) -> list[int]:
    texts = [text.strip() for text in options.get("widths", "").split(",")]
    if len(texts) != len(schema) or not all(t.isascii() and t.isdigit() and 0 < int(t) <= _WIDEST for t in texts):
        raise bad_option("widths", options.get("widths", ""), f"{len(schema)} numbers of bytes, one for each column")
    return [int(text) for text in texts]
