"""Native rows: numbers as they lie in memory, at offsets that follow from the schema."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tidemill.formats.base import SplitReader
from tidemill.formats.native.fixed_split import FixedSplitReader
from tidemill.formats.native.layout import NATIVE_OPTIONS, SIZE_BYTES, Layout, layout_of
from tidemill.formats.native.rows import NativeBuilder
from tidemill.formats.records.sized_records import SizedSplitReader, SizeRules
from tidemill.formats.records.spooled_records import Records, RowWidth
from tidemill.formats.rows.malformed import Mode
from tidemill.schema import Schema


class NativeFormat:
    """Binary rows, one behind the other, nothing between them and no padding.

    **A row** is, in this order::

        size      uint32: bytes of the row behind it             only if some column has no fixed width
        bitmap    ceil(columns / 8) bytes                        unless nullBitmap = false
        fields    one a column, in the order of the table
        values    the bytes of columns without a fixed width     only if there are some

    Numbers are little-endian, with ``endianness = big`` big-endian. Bit ``i % 8`` (the least significant is 0) of byte
    ``i / 8`` of the bitmap is 1 when column i is NULL; what its field holds then does not matter. Other bits neither.

    **Fields.** boolean: one byte, 0 or 1. tinyint, smallint, int, bigint: 1, 2, 4, 8 bytes, two's complement. float,
    double: IEEE 754, 4 and 8 bytes. date: int32, days since 1970-01-01. timestamp, timestamp_ntz: int64, microseconds
    since 1970-01-01 00:00 (UTC). decimal(p, s): the value times 10^s, two's complement, in 4 bytes up to p = 9, 8 up to
    18, else 16. A string or binary column with a width (``widths = 'code:4, city:20'``) has so many bytes; zeros at
    the end of a string are padding. Others have two uint32: the offset of the first byte, counted from behind
    ``size``, and the number of bytes. They must lie in the row, behind its fields; values may overlap.

    **Splits.** Without ``size`` a split owns the rows whose first byte lies in it, and these are multiples of the
    row's width. With it a file is one split.

    **Malformed rows.** Reasons: ``bad_bool``, ``bad_decimal`` (more than p digits), ``bad_date``, ``bad_timestamp`` and
    ``bad_timestamp_ntz`` (outside the years 1 to 9999), ``bad_utf8``, ``bad_offset`` (all of them NULL),
    ``null_in_not_null`` (the row is dropped), ``truncated_row`` (the file ends within a row),
    ``bad_size`` (less than the fields need, or more than ``maxRowBytes``, 16 MiB unless given: the rest of the file is
    one malformed row), ``truncated_record``. Modes as in CSV files.
    """

    name = "native"
    option_names = NATIVE_OPTIONS.keys

    def validate(self, schema: Schema, options: Mapping[str, str]) -> None:
        """See :meth:`tidemill.formats.base.Format.validate`."""
        layout_of(schema, options)

    def reads_whole_files(self, schema: Schema, options: Mapping[str, str]) -> bool:
        """See :class:`tidemill.formats.base.WholeFiles`."""
        return layout_of(schema, options).sized

    def records(self, schema: Schema, options: Mapping[str, str]) -> Records:
        """See :class:`tidemill.formats.records.spooled_records.RecordFormat`."""
        layout = layout_of(schema, options)
        return _sizes(layout) if layout.sized else RowWidth(layout.fixed)

    def reader(self, schema: Schema, options: Mapping[str, str], needed: Sequence[str]) -> NativeReader:
        """See :meth:`tidemill.formats.base.Format.reader`."""
        return NativeReader(layout_of(schema, options), needed)


class NativeReader:
    """See :class:`tidemill.formats.base.RowReader`."""

    def __init__(self, layout: Layout, needed: Sequence[str]) -> None:
        by_name = {place.field.name: place for place in layout.places}
        places = [by_name[name] for name in needed]
        for place in layout.places:
            if place not in places and (layout.mode is not Mode.PERMISSIVE or not place.field.nullable):
                places.append(place)
        self._layout = layout
        self._builder = NativeBuilder(layout, tuple(places), len(needed))

    def header_bytes_needed(self) -> bool:
        """See :meth:`tidemill.formats.base.RowReader.header_bytes_needed`."""
        return False

    def split(
        self, *, start: int, end: int, file_size: int, in_quotes: bool | None, header: bytes | None
    ) -> SplitReader:
        """See :meth:`tidemill.formats.base.RowReader.split`."""
        layout = self._layout
        if layout.sized:
            return SizedSplitReader(self._builder, _sizes(layout), start=start, end=min(end, file_size))
        return FixedSplitReader(self._builder, layout.fixed, start=start, end=min(end, file_size))


def _sizes(layout: Layout) -> SizeRules:
    return SizeRules(SIZE_BYTES, layout.big, layout.fixed, layout.most)
