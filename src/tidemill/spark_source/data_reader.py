"""Reads files for Spark: plans partitions in the process beside the driver, reads them on the workers.

Each partition is a part of a file, read as Arrow record batches.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from tidemill.ddl import parse_columns
from tidemill.errors import TidemillError
from tidemill.formats.base import (
    FileRowReader,
    RowReader,
    Rows,
    has_lines,
)
from tidemill.formats.inference.options import INFERENCE_OPTIONS
from tidemill.formats.reading.open_split import lines_of
from tidemill.formats.reading.read_modes import check_read_mode
from tidemill.formats.registry import lookup
from tidemill.formats.rescue.options import RESCUED_DATA_COLUMN, rescue_column, rescuing
from tidemill.formats.rows.malformed import MODE, Mode
from tidemill.formats.text.line_numbers import LineNumbers
from tidemill.options.tables import METADATA_COLUMN
from tidemill.schema import Field, Schema, type_from_spark, type_to_ddl
from tidemill.sources.file_info import FileInfo
from tidemill.sources.file_metadata import (
    FileMetadata,
    metadata_name,
    metadata_type,
    without_metadata,
)
from tidemill.sources.locations.location import location_of, reader_of
from tidemill.sources.split import Split
from tidemill.spark_source.brief_errors import brief_errors
from tidemill.spark_source.error_files import ErrorFile
from tidemill.spark_source.left_out import damaged, log_left_out, parse_ignored
from tidemill.spark_source.source_options import COLUMNS, ERRORS_PATH, FORMAT, OWN_OPTIONS, PARTITION_BYTES, paths_of
from tidemill.task.files.split_planner import Piece, SplitPlanner, naming_file, opened

_T = TypeVar("_T")

NAME = "tidemill"


@dataclass(frozen=True, repr=False)
class Part(InputPartition):  # type: ignore[misc]
    """A part of a file."""

    split: Split


@brief_errors
class TidemillReader(DataSourceReader):  # type: ignore[misc]
    """Plans partitions, and reads them on the workers.

    Parameters
    ----------
    given : mapping
        Options, with names in lower case.
    columns : StructType
    """

    def __init__(self, given: Mapping[str, str], columns: StructType) -> None:
        self._format = given[FORMAT.key]
        self._options = {
            name: value for name, value in given.items() if name not in OWN_OPTIONS | INFERENCE_OPTIONS.keys
        }
        self._given = dict(given)
        self._ignored = parse_ignored(given)
        self._columns = columns
        asked = Schema(
            tuple(Field(f.name, type_from_spark(f.dataType.jsonValue()), f.nullable) for f in columns.fields)
        )
        in_files = without_metadata(asked, given)
        self._metadata = _place_of_metadata(given, asked)
        self._needed = in_files.names
        self._schema = _file_columns(given, in_files)
        column = rescue_column(self._options)
        if column is not None and column.lower() not in map(str.lower, self._schema.names):
            raise RESCUED_DATA_COLUMN.bad(column, f"add it to the schema: .schema('..., {column} STRING')")
        format_ = lookup(self._format)
        format_.validate(self._schema, self._options)
        check_read_mode(self._format, self._reader(), self._options)
        place = (self._format, self._schema, self._options)
        self._planner = SplitPlanner(*place, given, NAME, ignored=self._ignored.covers)

    def partitions(self) -> list[InputPartition]:
        """Parts of all files, in order. Errors as :meth:`listing`."""
        return list(self.parts(Piece(file, 0, file.size) for file in self.listing()))

    def listing(self) -> Iterator[FileInfo]:
        """The files of all paths, path by path.

        Raises
        ------
        TidemillError
            TM5001 for a path that does not exist, TM5006 for an archive that no codec reads.
        """
        for path in paths_of(self._given):
            yield from location_of(path, self._given).listing()

    def unread(self, unread: Callable[[list[str]], list[str]]) -> Iterator[list[FileInfo]]:
        """Files whose names the filter ``unread`` keeps, in pages, in no order; a file may come twice."""
        for path in paths_of(self._given):
            yield from location_of(path, self._given).unread(unread)

    def parts(self, pieces: Iterable[Piece]) -> list[Part]:
        """Pieces of files cut into parts, in order."""
        return [Part(split) for split in self._planner.splits(pieces, PARTITION_BYTES.of(self._given))]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Record batches of a part, with the types of the schema."""
        if not isinstance(partition, Part):  # there are no files
            return
        split = partition.split
        arrow = to_arrow_schema(self._columns, timezone="UTC")
        file = FileMetadata(split, metadata_type(self._format.lower()))
        with naming_file(split), ErrorFile(ERRORS_PATH.of(self._given), split, self._lines_of(split)) as errors:
            for rows in self._readable_rows(split, errors):
                if rows.count:
                    columns = list(rows.batch.columns)
                    if self._metadata is not None:
                        columns.insert(self._metadata, file.column(rows.positions))
                    yield _spark_batch(columns, arrow)

    def _readable_rows(self, split: Split, errors: ErrorFile) -> Iterator[Rows]:
        """Rows of a split, noting their errors; if its file may be left out, those before the error that ends it."""
        try:
            for rows in self._rows(split):
                errors.add(rows.errors)
                yield rows
        except TidemillError as error:
            if not self._ignored.covers(error):
                raise
            errors.leave_out(error)
            log_left_out(split.path, error)

    def count_rows(self, piece: Piece, most: int) -> tuple[int, int]:
        """How many rows a piece has, and where it ends; for more than ``most`` rows, where row ``most + 1`` begins.

        An unsplittable file, and one that is not text, is counted to its end, so that there may be more.

        Returns
        -------
        tuple of int
            Rows, and the byte after them.
        """
        cut = has_lines(lookup(self._format)) and not self._planner.is_unsplittable(piece.file)
        counter = copy.copy(self)
        counter._needed, counter._options = (), {**self._options, MODE.key: Mode.PERMISSIVE.value}
        count, split = 0, piece.split(NAME, piece.start, piece.end, in_quotes=False)
        try:
            with naming_file(split):
                for rows in counter._rows(split):
                    if cut and count + rows.count > most:
                        return most, int(rows.positions[most - count])
                    count += rows.count
        except TidemillError as error:  # the task that reads it records what is left out
            if not self._ignored.covers(error):
                raise
        return count, piece.end

    def _lines_of(self, split: Split) -> LineNumbers | None:
        """Finds the lines of errors by reading the file again; None for a format without lines."""
        file, version = reader_of(split, self._options), (split.path, split.size, split.modified)
        return lines_of(lookup(self._format), file, split.path, split.size, self._options, version)

    def _rows(self, split: Split) -> Iterator[Rows]:
        corrupt = self._ignored.corrupt
        with opened(self._reader(), split, self._options, Mode.PERMISSIVE if corrupt else None, not corrupt) as part:
            for rows in part:
                if part.damage is None:
                    yield rows
                    continue
                yield replace(rows, errors=rows.errors[:-1])
                raise damaged(*part.damage)

    def _reader(self) -> RowReader | FileRowReader:
        return lookup(self._format).reader(self._schema, self._options, self._needed)


def _file_columns(given: Mapping[str, str], asked: Schema) -> Schema:
    """All columns of the files, by the option ``columns``: those that are asked for must be among them."""
    text = COLUMNS.of(given)
    if text is None:
        return asked
    known, _ = rescuing(parse_columns(text), given, inferred=False)
    types = {f.name: f.type for f in known}
    wanted = {f.name: f for f in asked}
    for field in asked:
        if types.get(field.name) != field.type:
            named = f"{field.name} {type_to_ddl(field.type)}"
            raise COLUMNS.bad(text, f"{named} of the schema must be one of them, with its type")
    return Schema(tuple(wanted.get(f.name, f) for f in known))


def _place_of_metadata(given: Mapping[str, str], asked: Schema) -> int | None:
    """Where among the columns that are asked for that of metadata is, if it is one of them. TM4003 for another type."""
    name, type_ = metadata_name(given), metadata_type(given[FORMAT.key].lower())
    if name is None or name not in asked.names:
        return None
    place = asked.names.index(name)
    if asked.types[place] != type_:
        raise METADATA_COLUMN.bad(name, f"its type is {type_to_ddl(type_)}")
    return place


def _spark_batch(columns: Sequence[pa.Array[Any]], arrow: pa.Schema) -> pa.RecordBatch:
    """Columns as a record batch, with the field names that Spark gives to nested types."""
    pairs = zip(columns, arrow, strict=True)
    arrays = [column if column.type == field.type else column.cast(field.type) for column, field in pairs]
    return pa.RecordBatch.from_arrays(arrays, schema=arrow)
