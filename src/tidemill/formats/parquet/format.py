"""Parquet files: columns are matched and cast, not parsed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
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
from tidemill.formats.parquet.footer import Footer
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
            footer = Footer(parquet, file_size)
            groups = _owned(parquet.metadata, footer.first_bytes(), start, end, file_size)
            instants = _int96(parquet)
            schema = _with_instants(parquet.schema_arrow, instants)
        if not groups:
            return
        with unreadable("parquet", _HINT):
            columns = self._choice.of(schema)
            names = columns.names or _smallest(parquet, footer)
            chunks = _chunks(parquet, footer, groups, names)
            parquet = pq.ParquetFile(
                file,
                metadata=parquet.metadata,
                read_dictionary=chunks.encoded,
                buffer_size=_PAGE_BYTES,
                coerce_int96_timestamp_unit="us",
            )
        for (group, first, count), size in zip(groups, chunks.rows_at_once, strict=True):
            batches = parquet.iter_batches(size, row_groups=[group], columns=names)
            yield from _group_rows(batches, group, first, count, names, columns, instants, chunks.encoded)


def file_schema(file: IO[bytes]) -> pa.Schema:
    """The columns of a file, from its footer. TM4041 for a damaged file."""
    with unreadable("parquet", _HINT):
        parquet = pq.ParquetFile(file, coerce_int96_timestamp_unit="us")
        return _with_instants(parquet.schema_arrow, _int96(parquet))


def _owned(metadata: pq.FileMetaData, begins: list[int], start: int, end: int, size: int) -> list[tuple[int, int, int]]:
    """Row groups that begin in ``[start, end)``: number, first row, rows."""
    found = []
    row = 0
    for number, begin in enumerate(begins):
        rows = metadata.row_group(number).num_rows
        if rows < 0:
            raise ValueError(f"row group {number} has {rows} rows")
        if start <= min(max(begin, 0), size - 1) < end:
            found.append((number, row, rows))
        row += rows
    return found


def _int96(parquet: pq.ParquetFile) -> frozenset[str]:
    """Top-level columns of physical type INT96: timestamps as Spark used to write them, in UTC without saying so."""
    columns = (parquet.schema.column(i) for i in range(len(parquet.schema)))
    return frozenset(c.path for c in columns if c.physical_type == "INT96" and c.path == c.name)


def _with_instants(schema: pa.Schema, instants: frozenset[str]) -> pa.Schema:
    return pa.schema([f.with_type(TIMESTAMP) if f.name in instants else f for f in schema])


def _smallest(parquet: pq.ParquetFile, footer: Footer) -> list[str]:
    """The column to read when none is needed, so that damage is found though rows are only counted."""
    flat = [f.name for f in parquet.schema_arrow if not pa.types.is_nested(f.type)]
    if not flat:
        return list(parquet.schema_arrow.names[:1])
    (chunks,) = footer.chunks([0], flat)
    sizes = {path: chunk.total_compressed_size for path, chunk in chunks}
    return [min(flat, key=lambda name: sizes.get(name, 1 << 62))]


@dataclass(frozen=True)
class _Chunks:
    """How some columns of row groups are read.

    Attributes
    ----------
    encoded : list of str
        Columns of texts and bytes that have dictionaries in some row group. They are read as dictionaries, since their
        decoded size is not known: a few bytes of a file can be a text of 1 MB in each of a million rows.
    rows_at_once : list of int
        For each row group the rows of a batch, by what a row takes on average.
    """

    encoded: list[str]
    rows_at_once: list[int]


def _chunks(parquet: pq.ParquetFile, footer: Footer, groups: list[tuple[int, int, int]], names: list[str]) -> _Chunks:
    texts = {f.name for f in parquet.schema_arrow if pa.types.is_string(f.type) or pa.types.is_binary(f.type)}
    encoded: dict[str, None] = {}
    at_once = []
    for (_, _, rows), chunks in zip(groups, footer.chunks([number for number, _, _ in groups], names), strict=True):
        encoded.update((path, None) for path, chunk in chunks if path in texts and chunk.has_dictionary_page)
        size = sum(chunk.total_uncompressed_size for _, chunk in chunks)
        at_once.append(max(1, min(MOST_ROWS, MOST_BYTES * max(rows, 1) // max(size, 1))))
    return _Chunks(list(encoded), at_once)


def _decoded(batch: pa.RecordBatch, encoded: list[str]) -> pa.RecordBatch:
    """A batch without the dictionaries that it was read with."""
    for name in encoded:
        place = batch.schema.get_field_index(name)
        decoded = cast("pa.DictionaryArray[Any, Any]", batch.column(place)).dictionary_decode()
        batch = batch.set_column(place, name, decoded)
    return batch


def _group_rows(
    batches: Iterator[Any],
    group: int,
    first: int,
    count: int,
    names: list[str],
    columns: FileColumns,
    instants: frozenset[str],
    encoded: list[str],
) -> Iterator[Rows]:
    """The rows of a row group, of which there must be ``count``."""
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
