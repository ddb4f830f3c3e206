"""Reads files for Spark: plans partitions in the process beside the driver, reads them on the workers.

Each partition is a part of a file, read as Arrow record batches. The planning process finds out which parts begin
within quotes: it scans all parts of such files in parallel, each on a guess, and those that were guessed wrong again.
"""

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import Any, TypeVar

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from tidemill.ddl import parse_columns
from tidemill.errors import FormatError, TidemillError
from tidemill.formats.base import (
    BEGINNING_BYTES,
    FileRowReader,
    RowReader,
    Rows,
    WholeByBeginning,
    WholeFiles,
    has_lines,
)
from tidemill.formats.inference.options import INFERENCE_OPTIONS
from tidemill.formats.reading.codecs import parse_codec_options
from tidemill.formats.reading.open_split import FilePart, OpenSplit, lines_of
from tidemill.formats.reading.read_modes import check_read_mode, parse_read_mode
from tidemill.formats.registry import lookup
from tidemill.formats.rescue.options import RESCUED_DATA_COLUMN, rescue_column, rescuing
from tidemill.formats.rows.malformed import MODE, Mode
from tidemill.formats.text.delimiter_split import DelimiterSplitReader
from tidemill.formats.text.delimiters import Delimiters
from tidemill.formats.text.line_ends import Bytes, LineRules
from tidemill.formats.text.line_numbers import LineNumbers
from tidemill.formats.text.line_split import NOTHING, LineSplitReader
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

_T = TypeVar("_T")

NAME = "tidemill"


@dataclass(frozen=True)
class Piece:
    """Bytes of a file, from ``start`` (where a row begins) to ``end`` (where another one does, or the file ends)."""

    file: FileInfo
    start: int
    end: int


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
        most = PARTITION_BYTES.of(self._given)
        found: list[list[Split]] = []
        for piece in pieces:
            file, length = piece.file, piece.end - piece.start
            parts = max(-(-length // most), 1)
            parts = 1 if parts > 1 and self.is_unsplittable(file) else parts
            cuts = [piece.start + length * k // parts for k in range(parts + 1)]
            found.append([_split(file, start, end) for start, end in pairwise(cuts)])
        return [Part(split) for split in self._with_known_quotes(found)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Record batches of a part, with the types of the schema."""
        if not isinstance(partition, Part):  # there are no files
            return
        split = partition.split
        arrow = to_arrow_schema(self._columns, timezone="UTC")
        file = FileMetadata(split, metadata_type(self._format.lower()))
        with _naming_file(split), ErrorFile(ERRORS_PATH.of(self._given), split, self._lines_of(split)) as errors:
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

    def is_unsplittable(self, file: FileInfo) -> bool:
        """Whether a file can only be read from its beginning to its end."""
        format_ = lookup(self._format)
        if isinstance(format_, WholeFiles) and format_.reads_whole_files(self._schema, self._options):
            return True
        if parse_codec_options(self._options).of(file.path):
            return True
        if not isinstance(format_, WholeByBeginning):
            return False
        head = location_of(file.path, self._given).beginning(file.path, BEGINNING_BYTES)
        return format_.begins_whole(self._schema, self._options, head)

    def count_rows(self, piece: Piece, most: int) -> tuple[int, int]:
        """How many rows a piece has, and where it ends; for more than ``most`` rows, where row ``most + 1`` begins.

        An unsplittable file, and one that is not text, is counted to its end, so that there may be more.

        Returns
        -------
        tuple of int
            Rows, and the byte after them.
        """
        cut = has_lines(lookup(self._format)) and not self.is_unsplittable(piece.file)
        counter = copy.copy(self)
        counter._needed, counter._options = (), {**self._options, MODE.key: Mode.PERMISSIVE.value}
        count, split = 0, _split(piece.file, piece.start, piece.end, in_quotes=False)
        try:
            with _naming_file(split):
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
        with _opened(self._reader(), split, self._options, Mode.PERMISSIVE if corrupt else None, not corrupt) as part:
            for rows in part:
                if part.damage is None:
                    yield rows
                    continue
                yield replace(rows, errors=rows.errors[:-1])
                raise damaged(*part.damage)

    def _reader(self) -> RowReader | FileRowReader:
        return lookup(self._format).reader(self._schema, self._options, self._needed)

    def _with_known_quotes(self, files: list[list[Split]]) -> list[Split]:
        """The splits of all files; each knows whether it begins within quotes.

        A file that may be left out, and cannot be scanned, is one split: the task that reads it meets the error again.
        """
        finder = _QuoteFinder(self._format, self._schema, self._options)
        needed = [s for s in files if len(s) > 1 and self._unless_ignored(finder.needed, s[0]) is not False]
        uncertain = [split for splits in needed for split in splits]
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            looked = pool.map(partial(self._unless_ignored, finder.look), uncertain)
            guesses = dict(zip(uncertain, looked, strict=True))
        found: list[Split] = []
        for splits in files:
            if splits[0] not in guesses:
                found += [replace(split, in_quotes=False) for split in splits]
            else:
                sure = self._without_guesses(finder, [(split, guesses[split]) for split in splits])
                found += sure or [replace(splits[0], end=splits[-1].end, in_quotes=False)]
        return found

    def _without_guesses(
        self, finder: _QuoteFinder, guesses: Sequence[tuple[Split, tuple[bool, int] | None]]
    ) -> list[Split] | None:
        """The splits of a file, given a guess for each; None when the file cannot be scanned."""
        found: list[Split] = []
        inside = False
        for split, guess in guesses:
            sure = replace(split, in_quotes=inside)
            if guess is not None and guess[0] != inside:
                guess = self._unless_ignored(finder.look, sure)
            if guess is None:
                return None
            inside ^= bool(guess[1])
            found.append(sure)
        return found

    def _unless_ignored(self, look: Callable[[Split], _T], split: Split) -> _T | None:
        """What ``look`` finds in a split; None when its file cannot be read, and may be left out."""
        try:
            return look(split)
        except TidemillError as error:
            if not self._ignored.covers(error):
                raise
            return None


def _split(file: FileInfo, start: int, end: int, in_quotes: bool | None = None) -> Split:
    known = False if start == 0 else in_quotes
    return Split(NAME, file.path, start, end, file.size, file.modified, known, etag=file.etag)


class _QuoteFinder:
    """Scans splits for quotes."""

    def __init__(self, format_: str, schema: Schema, options: Mapping[str, str]) -> None:
        self._options = {**options, MODE.key: Mode.PERMISSIVE.value}
        fields = tuple(Field(f.name, f.type) for f in schema)
        self._reader = lookup(format_).reader(Schema(fields), self._options, ())

    def needed(self, split: Split) -> bool:
        """Whether a part of this file may begin within quotes."""
        if isinstance(self._reader, FileRowReader):
            return False
        with self._open(replace(split, start=1, end=2, in_quotes=True)) as part:
            return part.assumed_in_quotes

    def look(self, split: Split) -> tuple[bool, int]:
        """Whether the split was assumed to begin within quotes, and the parity of its quotes."""
        with self._open(split) as part:
            reader = part.reader
            if isinstance(reader, LineSplitReader | DelimiterSplitReader):
                reader.builder = _NoRows(reader.builder.lines, reader.builder.build(NOTHING, 0, 0, False, False))
            for _ in part:
                pass
            return part.assumed_in_quotes, part.quote_parity

    def _open(self, split: Split) -> OpenSplit:
        with _naming_file(split):
            return _opened(self._reader, split, self._options, Mode.PERMISSIVE, True)


def _opened(
    reader: RowReader | FileRowReader, split: Split, options: Mapping[str, str], malformed: Mode | None, intact: bool
) -> OpenSplit:
    file = reader_of(split, options, parse_read_mode(options).buffer_bytes)
    part = FilePart(split.path, split.start, split.end, split.size, split.in_quotes)
    return OpenSplit(reader, file, part, options, malformed=malformed, intact=intact)


@dataclass(frozen=True)
class _NoRows:
    """Discards lines."""

    lines: LineRules | Delimiters
    none: Rows

    def build(self, data: Bytes, position: int, row_ends: int, quotes: bool, unterminated: bool) -> Rows:
        return self.none


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


@contextmanager
def _naming_file(split: Split) -> Iterator[None]:
    """Add the file to errors of formats."""
    try:
        yield
    except FormatError as error:
        raise FormatError(error.number, error.what, f"{split.path}: {error.got}", error.hint) from error
