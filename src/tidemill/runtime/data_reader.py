"""Reads files for Spark: plans partitions in the process beside the driver, reads them on the workers.

Each partition is a part of a file, read as Arrow record batches. Where a part of a file with quotes begins is told to
its reader, not guessed: the planning process looks for quotes in such files, in all parts at once with guesses, and
again in those that were guessed wrong.
"""

from __future__ import annotations

import copy
import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from tidemill.ddl import parse_columns
from tidemill.errors import FormatError
from tidemill.formats.base import (
    BEGINNING_BYTES,
    FileRowReader,
    RowError,
    RowReader,
    Rows,
    SplitReader,
    WholeByBeginning,
    WholeFiles,
    has_lines,
)
from tidemill.formats.codecs import parse_codec_options
from tidemill.formats.delimiter_split import DelimiterSplitReader
from tidemill.formats.delimiters import Delimiters
from tidemill.formats.feeding import FileBytes, feed, file_bytes, open_split
from tidemill.formats.inference.options import INFERENCE_OPTIONS
from tidemill.formats.line_ends import Bytes, LineRules
from tidemill.formats.line_numbers import LineNumbers
from tidemill.formats.line_split import NOTHING, LineSplitReader
from tidemill.formats.malformed import Mode, parse_mode
from tidemill.formats.options import bad_option, parse_size
from tidemill.formats.read_modes import check_read_mode, parse_read_mode
from tidemill.formats.registry import lookup
from tidemill.formats.rescue.options import rescue_column, rescuing
from tidemill.schema import Field, Schema, type_from_spark, type_to_ddl
from tidemill.sources.file_info import FileInfo
from tidemill.sources.file_metadata import (
    METADATA_OPTION,
    FileMetadata,
    metadata_name,
    metadata_type,
    without_metadata,
)
from tidemill.sources.files import local_pattern
from tidemill.sources.filters import FILTER_OPTIONS
from tidemill.sources.place import place_of, reader_of
from tidemill.sources.split import Split

NAME = "tidemill"
DEFAULT_PARTITION = "128m"

LIMITS = ("maxFilesPerTrigger", "maxBytesPerTrigger", "maxRowsPerTrigger")
"""Options that say how much one batch of a stream has at most."""

OWN_OPTIONS = (
    frozenset(
        {"path", "paths", "format", "maxpartitionbytes", "errorspath", "columns", "statelocation", METADATA_OPTION}
    )
    | {name.lower() for name in LIMITS}
    | FILTER_OPTIONS
)
"""Options that no format is told of, in lower case."""

_ERRORS = pa.schema(
    [
        pa.field("file", pa.string(), False),
        pa.field("position", pa.int64(), False),
        pa.field("line", pa.int64()),
        pa.field("at", pa.int64()),
        pa.field("column", pa.string()),
        pa.field("reason", pa.string(), False),
        pa.field("raw", pa.binary(), False),
    ]
)


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


class TidemillReader(DataSourceReader):  # type: ignore[misc]
    """Plans partitions, and reads them on the workers.

    Parameters
    ----------
    given : mapping
        Options, with names in lower case.
    columns : StructType
    """

    def __init__(self, given: Mapping[str, str], columns: StructType) -> None:
        self._format = given["format"]
        self._options = {name: value for name, value in given.items() if name not in OWN_OPTIONS | INFERENCE_OPTIONS}
        self._given = dict(given)
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
            raise bad_option("rescuedDataColumn", column, f"add it to the schema: .schema('..., {column} STRING')")
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
            yield from place_of(path, self._given).listing()

    def parts(self, pieces: Iterable[Piece]) -> list[Part]:
        """Pieces of files cut into parts, in order."""
        most = parse_size("maxPartitionBytes", self._given.get("maxpartitionbytes", DEFAULT_PARTITION))
        found: list[list[Split]] = []
        for piece in pieces:
            file, length = piece.file, piece.end - piece.start
            parts = max(-(-length // most), 1)
            parts = 1 if parts > 1 and self.is_whole(file) else parts
            cuts = [piece.start + length * k // parts for k in range(parts + 1)]
            found.append([_split(file, start, end) for start, end in pairwise(cuts)])
        return [Part(split) for split in self._told_of_quotes(found)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Record batches of a part, with the types of the schema."""
        if not isinstance(partition, Part):  # there are no files
            return
        split = partition.split
        arrow = to_arrow_schema(self._columns, timezone="UTC")
        file = FileMetadata(split, metadata_type(self._format.lower()))
        with _naming(split), _Errors(self._given.get("errorspath"), split, self._lines_of(split)) as errors:
            for rows in self._rows(split):
                errors.add(rows.errors)
                if rows.count:
                    columns = list(rows.batch.columns)
                    if self._metadata is not None:
                        columns.insert(self._metadata, file.column(rows.positions))
                    yield _as_spark_has_it(columns, arrow)

    def is_whole(self, file: FileInfo) -> bool:
        """Whether a file can only be read from its beginning to its end."""
        format_ = lookup(self._format)
        if isinstance(format_, WholeFiles) and format_.reads_whole_files(self._schema, self._options):
            return True
        if parse_codec_options(self._options).of(file.path):
            return True
        if not isinstance(format_, WholeByBeginning):
            return False
        head = place_of(file.path, self._given).beginning(file.path, BEGINNING_BYTES)
        return format_.begins_whole(self._schema, self._options, head)

    def count_rows(self, piece: Piece, most: int) -> tuple[int, int]:
        """How many rows a piece has, and where it ends; if these are more than ``most``, where row ``most + 1`` begins.

        What can only be read whole, or is no text, is counted to its end, so that there may be more.

        Returns
        -------
        tuple of int
            Rows, and the byte behind them.
        """
        cut = has_lines(lookup(self._format)) and not self.is_whole(piece.file)
        counter = copy.copy(self)
        counter._needed, counter._options = (), {**self._options, "mode": Mode.PERMISSIVE.value}
        count, split = 0, _split(piece.file, piece.start, piece.end, in_quotes=False)
        with _naming(split):
            for rows in counter._rows(split):
                if cut and count + rows.count > most:
                    return most, int(rows.positions[most - count])
                count += rows.count
        return count, piece.end

    def _lines_of(self, split: Split) -> LineNumbers | None:
        """What tells on which lines errors are, by reading the file again; None for a format that is no text."""
        if not has_lines(lookup(self._format)):
            return None
        again = FileBytes(reader_of(split, self._options), split.path, split.size, self._options)
        return LineNumbers(again, (split.path, split.size, split.modified))

    def _rows(self, split: Split) -> Iterator[Rows]:
        reader = self._reader()
        file = reader_of(split, self._options, parse_read_mode(self._options).buffer_bytes)
        try:
            if isinstance(reader, FileRowReader):
                parse_codec_options(self._options).refuse(split.path)
                yield from reader.rows(file.open(0), start=split.start, end=split.end, file_size=split.size)
                return
            source = file_bytes(file, split.path, split.size, split.end, self._options, whole=True)
            place = {"start": split.start, "end": split.end, "size": split.size}
            try:
                part = open_split(reader, source, **place, in_quotes=split.in_quotes)
                yield from feed(part, source, parse_mode(self._options))
            finally:
                source.close()
        finally:
            file.close()

    def _reader(self) -> RowReader | FileRowReader:
        return lookup(self._format).reader(self._schema, self._options, self._needed)

    def _told_of_quotes(self, files: list[list[Split]]) -> list[Split]:
        """The splits of all files; each knows whether it begins within quotes."""
        finder = _QuoteFinder(self._format, self._schema, self._options)
        uncertain = [s for splits in files if len(splits) > 1 and finder.needed(splits[0]) for s in splits]
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            guesses = dict(zip(uncertain, pool.map(finder.look, uncertain), strict=True))
        told: list[Split] = []
        for splits in files:
            inside = False
            for split in splits:
                if split not in guesses:
                    told.append(replace(split, in_quotes=False))
                    continue
                sure = replace(split, in_quotes=inside)
                assumed, parity = guesses[split]
                if assumed != inside:
                    _, parity = finder.look(sure)
                inside ^= bool(parity)
                told.append(sure)
        return told


def paths_of(given: Mapping[str, str]) -> list[str]:
    """The paths that are loaded; names of options in lower case."""
    if "paths" in given:
        return [str(path) for path in json.loads(given["paths"])]
    return [given["path"]] if "path" in given else []


def _split(file: FileInfo, start: int, end: int, in_quotes: bool | None = None) -> Split:
    known = False if start == 0 else in_quotes
    return Split(NAME, file.path, start, end, file.size, file.modified, known, etag=file.etag)


class _QuoteFinder:
    """Reads splits for nothing but what they tell of quotes."""

    def __init__(self, format_: str, schema: Schema, options: Mapping[str, str]) -> None:
        self._options = {**options, "mode": Mode.PERMISSIVE.value}
        fields = tuple(Field(f.name, f.type) for f in schema)
        self._reader = lookup(format_).reader(Schema(fields), self._options, ())

    def needed(self, split: Split) -> bool:
        """Whether a part of this file may begin within quotes."""
        if isinstance(self._reader, FileRowReader):
            return False
        return self._open(replace(split, start=1, end=2, in_quotes=True))[0].assumed_in_quotes

    def look(self, split: Split) -> tuple[bool, int]:
        """Whether the split was taken to begin within quotes, and its parity."""
        reader, source = self._open(split)
        if isinstance(reader, LineSplitReader | DelimiterSplitReader):
            reader.builder = _NoRows(reader.builder.lines, reader.builder.build(NOTHING, 0, 0, False, False))
        try:
            for _ in feed(reader, source, Mode.PERMISSIVE):
                pass
        finally:
            source.close()
        return reader.assumed_in_quotes, reader.quote_parity

    def _open(self, split: Split) -> tuple[SplitReader, Any]:
        assert isinstance(self._reader, RowReader)
        file = reader_of(split, self._options, parse_read_mode(self._options).buffer_bytes)
        source = file_bytes(file, split.path, split.size, split.end, self._options, whole=True)
        place = {"start": split.start, "end": split.end, "size": split.size}
        with _naming(split):
            return open_split(self._reader, source, **place, in_quotes=split.in_quotes), source


@dataclass(frozen=True)
class _NoRows:
    """Makes no rows of lines."""

    lines: LineRules | Delimiters
    none: Rows

    def build(self, data: Bytes, position: int, row_ends: int, quotes: bool, unterminated: bool) -> Rows:
        return self.none


class _Errors:
    """Writes what is malformed in a split to a file of a directory, if there is something; whole or not at all.

    The file is named after the split, so a task that runs again writes it again.
    """

    def __init__(self, directory: str | None, split: Split, lines: LineNumbers | None) -> None:
        self._split = split
        self._lines = lines
        self._target: Path | None = None
        self._writer: pq.ParquetWriter | None = None
        if directory is not None:
            name = hashlib.sha256(f"{split.path}\0{split.start}".encode()).hexdigest()[:16]
            self._target = Path(local_pattern(directory)) / f"{name}.parquet"
            self._hidden = self._target.with_name(f".{name}-{os.getpid()}")

    def __enter__(self) -> _Errors:
        return self

    def add(self, errors: tuple[RowError, ...]) -> None:
        """Note some errors."""
        if self._target is None or not errors:
            return
        if self._writer is None:
            self._target.parent.mkdir(parents=True, exist_ok=True)
            self._writer = pq.ParquetWriter(self._hidden, _ERRORS)
        if self._lines is not None:
            errors = self._lines.numbered(errors)
        columns: list[Any] = [
            [self._split.path] * len(errors),
            [e.position for e in errors],
            [e.line for e in errors],
            [e.at for e in errors],
            [e.column for e in errors],
            [e.reason for e in errors],
            [e.raw for e in errors],
        ]
        arrays = [pa.array(values, field.type) for values, field in zip(columns, _ERRORS, strict=True)]
        self._writer.write_table(pa.table(arrays, schema=_ERRORS))

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if self._lines is not None:
            self._lines.close()
        if self._writer is not None:
            self._writer.close()
            assert self._target is not None
            if kind is None:
                self._hidden.replace(self._target)
            else:
                self._hidden.unlink()


def _file_columns(given: Mapping[str, str], asked: Schema) -> Schema:
    """All columns of the files, by the option ``columns``: those that are asked for must be among them."""
    if "columns" not in given:
        return asked
    known, _ = rescuing(parse_columns(given["columns"]), given, inferred=False)
    types = {f.name: f.type for f in known}
    wanted = {f.name: f for f in asked}
    for field in asked:
        if types.get(field.name) != field.type:
            raise bad_option(
                "columns",
                given["columns"],
                f"{field.name} {type_to_ddl(field.type)} of the schema must be one of them, with its type",
            )
    return Schema(tuple(wanted.get(f.name, f) for f in known))


def _place_of_metadata(given: Mapping[str, str], asked: Schema) -> int | None:
    """Where among the columns that are asked for that of metadata is, if it is one of them. TM4003 for another type."""
    name, type_ = metadata_name(given), metadata_type(given["format"].lower())
    if name is None or name not in asked.names:
        return None
    place = asked.names.index(name)
    if asked.types[place] != type_:
        raise bad_option("metadataColumn", name, f"its type is {type_to_ddl(type_)}")
    return place


def _as_spark_has_it(columns: Sequence[pa.Array], arrow: pa.Schema) -> pa.RecordBatch:
    """Columns with the names that Spark gives to what is within them."""
    pairs = zip(columns, arrow, strict=True)
    arrays = [column if column.type == field.type else column.cast(field.type) for column, field in pairs]
    return pa.RecordBatch.from_arrays(arrays, schema=arrow)


@contextmanager
def _naming(split: Split) -> Iterator[None]:
    """Errors of formats name the file they are about."""
    try:
        yield
    except FormatError as error:
        raise FormatError(error.number, error.what, f"{split.path}: {error.got}", error.hint) from error
