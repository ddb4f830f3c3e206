"""Parquet files: columns are matched and cast, not parsed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import IO, Any, cast

import pyarrow as pa
import pyarrow.parquet as pq

from tidemill.formats.base import Rows
from tidemill.formats.columnar.rows import (
    COLUMNAR_OPTIONS,
    MOST_BYTES,
    MOST_ROWS,
    ColumnChoice,
    FileColumns,
    column_choice,
    in_bounds,
    unreadable,
    validate_columnar,
)
from tidemill.schema import TIMESTAMP, Schema

_PAGE_BYTES = 1 << 18
"""So much of a column is fetched at once, where all of it would be otherwise."""

_HINT = "write it again, or leave it out with a glob"


class ParquetFormat:
    """Rows of Parquet files, in the order of the file.

    **Columns** are those of the file of the same name, in any case. A column that the file lacks is NULL, as in
    Spark; others of the file are not read. Types are kept or widened where no value can change by it
    (:mod:`tidemill.formats.columnar.lossless`), otherwise TM4042. INT96 is a timestamp in UTC, cut to microseconds
    as in Spark.

    **Splits** own the row groups whose first byte lies in them. The position of a row is its number in the file.

    **Malformed rows.** ``null_in_not_null``: NULL in a NOT NULL column; the row is dropped, in mode FAILFAST it raises
    TM4020. A file that is damaged is an error (TM4041), never fewer rows.
    """

    name = "parquet"
    option_names = COLUMNAR_OPTIONS.keys

    def validate(self, schema: Schema, options: Mapping[str, str]) -> None:
        """See :meth:`tidemill.formats.base.Format.validate`."""
        validate_columnar(schema, options)

    def reader(self, schema: Schema, options: Mapping[str, str], needed: Sequence[str]) -> ParquetReader:
        """See :meth:`tidemill.formats.base.Format.reader`."""
        return ParquetReader(column_choice(schema, options, needed))


class ParquetReader:
    """See :class:`tidemill.formats.base.FileRowReader`."""

    def __init__(self, choice: ColumnChoice) -> None:
        self._choice = choice

    def rows(self, file: IO[bytes], *, start: int, end: int, file_size: int) -> Iterator[Rows]:
        """See :meth:`tidemill.formats.base.FileRowReader.rows`.

        Raises
        ------
        FormatError
            TM4041 for a damaged file, TM4042 to TM4044 for columns that do not fit, TM4020 in mode FAILFAST.
        """
        with unreadable("parquet", _HINT):
            parquet = pq.ParquetFile(file, coerce_int96_timestamp_unit="us")
            groups = _owned(parquet.metadata, start, end, file_size)
            instants = _int96(parquet)
            schema = _with_instants(parquet.schema_arrow, instants)
        if not groups:
            return
        with unreadable("parquet", _HINT):
            columns = self._choice.of(schema)
            names = columns.names or _smallest(parquet)
            encoded = _encoded(parquet, groups, names)
            parquet = pq.ParquetFile(
                file,
                metadata=parquet.metadata,
                read_dictionary=encoded,
                buffer_size=_PAGE_BYTES,
                coerce_int96_timestamp_unit="us",
            )
        for group, first, count in groups:
            yield from _group_rows(parquet, group, first, count, names, columns, instants, encoded)


def file_schema(file: IO[bytes]) -> pa.Schema:
    """The columns of a file, from its footer. TM4041 for a damaged file."""
    with unreadable("parquet", _HINT):
        parquet = pq.ParquetFile(file, coerce_int96_timestamp_unit="us")
        return _with_instants(parquet.schema_arrow, _int96(parquet))


def _owned(metadata: pq.FileMetaData, start: int, end: int, file_size: int) -> list[tuple[int, int, int]]:
    """Row groups that begin in ``[start, end)``: number, first row, rows."""
    found = []
    row = 0
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        begin = 0
        if group.num_columns:
            column = group.column(0)
            begin = column.data_page_offset
            if column.dictionary_page_offset is not None:
                begin = min(begin, column.dictionary_page_offset)
        if group.num_rows < 0:
            raise ValueError(f"row group {number} has {group.num_rows} rows")
        if start <= min(max(begin, 0), file_size - 1) < end:
            found.append((number, row, group.num_rows))
        row += group.num_rows
    return found


def _int96(parquet: pq.ParquetFile) -> frozenset[str]:
    """Top-level columns of physical type INT96: timestamps as Spark used to write them, in UTC without saying so."""
    columns = (parquet.schema.column(i) for i in range(len(parquet.schema)))
    return frozenset(c.path for c in columns if c.physical_type == "INT96" and c.path == c.name)


def _with_instants(schema: pa.Schema, instants: frozenset[str]) -> pa.Schema:
    return pa.schema([f.with_type(TIMESTAMP) if f.name in instants else f for f in schema])


def _smallest(parquet: pq.ParquetFile) -> list[str]:
    """The column to read when none is needed, so that damage is found though rows are only counted."""
    flat = [f.name for f in parquet.schema_arrow if not pa.types.is_nested(f.type)]
    if not flat or parquet.metadata.num_row_groups == 0:
        return list(parquet.schema_arrow.names[:1])
    group = parquet.metadata.row_group(0)
    sizes: dict[str, int] = {}
    for i in range(group.num_columns):
        column = group.column(i)
        sizes[column.path_in_schema] = column.total_compressed_size
    return [min(flat, key=lambda name: sizes.get(name, 1 << 62))]


def _encoded(parquet: pq.ParquetFile, groups: list[tuple[int, int, int]], names: list[str]) -> list[str]:
    """Columns of texts and bytes that have dictionaries in some row group.

    They are read as dictionaries, since their decoded size is not known: a few bytes of a file can be a text of 1 MB in
    each of a million rows.
    """
    held = {f.name for f in parquet.schema_arrow if pa.types.is_string(f.type) or pa.types.is_binary(f.type)}
    found = []
    for group, _, _ in groups:
        metadata = parquet.metadata.row_group(group)
        chunks = [metadata.column(i) for i in range(metadata.num_columns)]
        found += [c.path_in_schema for c in chunks if c.has_dictionary_page and c.path_in_schema in held & set(names)]
    return list(dict.fromkeys(found))


def _rows_at_once(group: pq.RowGroupMetaData, names: list[str]) -> int:
    """Rows of a batch, by what a row of some columns takes on average."""
    chunks = [group.column(i) for i in range(group.num_columns)]
    chosen = [c.total_uncompressed_size for c in chunks if c.path_in_schema.partition(".")[0] in names]
    return int(max(1, min(MOST_ROWS, MOST_BYTES * max(group.num_rows, 1) // max(sum(chosen), 1))))


def _decoded(batch: pa.RecordBatch, encoded: list[str]) -> pa.RecordBatch:
    """A batch without the dictionaries that it was read with."""
    for name in encoded:
        place = batch.schema.get_field_index(name)
        decoded = cast("pa.DictionaryArray[Any, Any]", batch.column(place)).dictionary_decode()
        batch = batch.set_column(place, name, decoded)
    return batch


def _group_rows(
    parquet: pq.ParquetFile,
    group: int,
    first: int,
    count: int,
    names: list[str],
    columns: FileColumns,
    instants: frozenset[str],
    encoded: list[str],
) -> Iterator[Rows]:
    """The rows of a row group, of which there must be ``count``."""
    with unreadable("parquet", _HINT):
        size = _rows_at_once(parquet.metadata.row_group(group), names)
        batches: Iterator[Any] = parquet.iter_batches(size, row_groups=[group], columns=names)
    seen = 0
    while True:
        with unreadable("parquet", _HINT):
            batch = next(batches, None)
            if batch is None:
                if seen != count:
                    raise ValueError(f"row group {group} has {seen} rows of {count}")
                return
            for name in instants & set(names):
                place = batch.schema.get_field_index(name)
                batch = batch.set_column(place, pa.field(name, TIMESTAMP), batch.column(place).cast(TIMESTAMP))
        for part in in_bounds(batch):
            yield columns.rows(_decoded(part, encoded), first + seen)
            seen += part.num_rows
