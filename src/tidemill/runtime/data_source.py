"""``spark.read.format("tidemill")``: the formats as a data source of Spark, without a mill.

Spark asks a process of Python beside the driver for the partitions. Each is a part of a file, and the workers read
them as Arrow record batches. Where a part of a file with quotes begins is told to its reader, not guessed: the planning
process looks for quotes in such files, in all parts at once with guesses, and again in those that were guessed wrong.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from tidemill.ddl import parse_columns
from tidemill.errors import FormatError, TidemillError, nearest
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
from tidemill.formats.codecs import CODEC_OPTIONS, parse_codec_options
from tidemill.formats.delimiter_split import DelimiterSplitReader
from tidemill.formats.delimiters import Delimiters
from tidemill.formats.feeding import FileBytes, feed, file_bytes, open_split
from tidemill.formats.inference.infer import INFERABLE, infer_columns
from tidemill.formats.inference.options import INFERENCE_OPTIONS
from tidemill.formats.line_ends import Bytes, LineRules
from tidemill.formats.line_numbers import LineNumbers
from tidemill.formats.line_split import NOTHING, LineSplitReader
from tidemill.formats.malformed import Mode, parse_mode
from tidemill.formats.options import bad_option, check_options, parse_size
from tidemill.formats.read_modes import READ_OPTIONS, check_read_mode, parse_read_mode
from tidemill.formats.registry import built_in, lookup
from tidemill.formats.rescue.options import rescue_column, rescuing
from tidemill.objectstore.connection import CONNECTION_OPTIONS, is_object_url
from tidemill.schema import Field, Schema, type_from_spark, type_to_ddl
from tidemill.sources.files import local_pattern
from tidemill.sources.filters import FILTER_OPTIONS
from tidemill.sources.place import place_of, reader_of
from tidemill.sources.split import Split

NAME = "tidemill"
DEFAULT_PARTITION = "128m"

_OWN_OPTIONS = frozenset({"path", "paths", "format", "maxpartitionbytes", "errorspath", "columns"}) | FILTER_OPTIONS
_OF_CHANGES = ("debezium", "orderbook")
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


def register(spark: SparkSession) -> None:
    """Make ``spark.read.format("tidemill")`` known to a session; also ``tidemill.register``.

    Options: ``format`` (``csv``, ``json``, ...: as written in ``USING``), those of that format, of codecs and of modes
    of reading; ``maxPartitionBytes`` (128m), the size of parts of files; ``errorsPath``, a directory that receives what
    is malformed; ``columns``, all columns of the files. Without a schema or ``columns`` they are inferred, where the
    format allows.

    All columns of the schema are parsed: Spark tells sources in Python which filters there are (``pushFilters``), but
    not which columns are needed. So name only these in the schema. Where columns are matched by position (CSV without a
    header, Native, frames) say with the option ``columns`` what the files have.
    """
    spark.dataSource.register(TidemillSource)


class TidemillSource(DataSource):  # type: ignore[misc]  # PySpark has no types here
    """Files of any format that has rows. The names of options are checked when the source is loaded."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self.given = {name.lower(): value for name, value in options.items()}
        name = self.given.get("format", "")
        if not name or name.lower() in _OF_CHANGES:
            rows = [n for n in built_in() if n not in _OF_CHANGES]
            raise TidemillError(
                "TM4070",
                "the option format names no format of rows",
                got=repr(name),
                hint=f"{nearest(name, rows)}; changelogs and order books are read by a mill",
            )
        known = (
            lookup(name).option_names
            | CODEC_OPTIONS
            | READ_OPTIONS
            | INFERENCE_OPTIONS
            | _OWN_OPTIONS
            | CONNECTION_OPTIONS
        )
        check_options(name, self.given, known)
        parse_size("maxPartitionBytes", self.given.get("maxpartitionbytes", DEFAULT_PARTITION))
        if not _paths(self.given):
            raise TidemillError(
                "TM5005", "a table needs a path", got="no path", hint='.load("directory, file or glob")'
            )
        self._check_errors_path()

    def _check_errors_path(self) -> None:
        """TM4003 where errors would be written among the files that are read, or to a file."""
        given = self.given.get("errorspath")
        if given is None:
            return
        directory = Path(local_pattern(given))
        if directory.exists() and not directory.is_dir():
            raise bad_option("errorsPath", given, "a directory: this is a file")
        for path in (path for path in _paths(self.given) if not is_object_url(path)):
            read = Path(local_pattern(path))
            if read == directory or (directory / "x.parquet").match(str(read)):
                raise bad_option("errorsPath", given, "a directory that is not read itself")

    @classmethod
    def name(cls) -> str:
        """As in ``spark.read.format``."""
        return NAME

    def schema(self) -> str:
        """The columns that a sample of the files has, where none are given.

        Raises
        ------
        TidemillError
            TM4073 for a format whose columns cannot be inferred, TM4071 when there is no row, and what
            :func:`tidemill.formats.inference.infer.infer_columns` raises.
        """
        name = self.given["format"].lower()
        if "columns" in self.given:
            return rescuing(parse_columns(self.given["columns"]), self.given, inferred=False)[0].to_ddl()
        if name not in INFERABLE:
            raise TidemillError(
                "TM4073",
                "the columns of this format cannot be inferred",
                got=name,
                hint='.schema("a BIGINT, b STRING") before .load',
            )
        found = [file.path for path in _paths(self.given) for file in place_of(path, self.given).listing() if file.size]
        return rescuing(infer_columns(name, found, self.given), self.given, inferred=False)[0].to_ddl()

    def reader(self, schema: StructType) -> TidemillReader:
        """Errors as :meth:`tidemill.formats.base.Format.validate`."""
        return TidemillReader(self.given, schema)


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
        self._options = {name: value for name, value in given.items() if name not in _OWN_OPTIONS | INFERENCE_OPTIONS}
        self._given = dict(given)
        self._columns = columns
        asked = Schema(
            tuple(Field(f.name, type_from_spark(f.dataType.jsonValue()), f.nullable) for f in columns.fields)
        )
        self._needed = asked.names
        self._schema = _file_columns(given, asked)
        column = rescue_column(self._options)
        if column is not None and column.lower() not in map(str.lower, self._schema.names):
            raise bad_option("rescuedDataColumn", column, f"add it to the schema: .schema('..., {column} STRING')")
        format_ = lookup(self._format)
        format_.validate(self._schema, self._options)
        check_read_mode(self._format, self._reader(), self._options)

    def partitions(self) -> list[InputPartition]:
        """Parts of all files, in order.

        Raises
        ------
        TidemillError
            TM5001 for a path that does not exist, TM5006 for an archive that no codec reads.
        """
        most = parse_size("maxPartitionBytes", self._given.get("maxpartitionbytes", DEFAULT_PARTITION))
        format_, codecs = lookup(self._format), parse_codec_options(self._options)
        whole = isinstance(format_, WholeFiles) and format_.reads_whole_files(self._schema, self._options)
        found: list[list[Split]] = []
        for path in _paths(self._given):
            place = place_of(path, self._given)
            for file in place.listing():
                parts = 1 if whole or codecs.of(file.path) else max(-(-file.size // most), 1)
                if parts > 1 and isinstance(format_, WholeByBeginning):
                    head = place.beginning(file.path, BEGINNING_BYTES)
                    parts = 1 if format_.begins_whole(self._schema, self._options, head) else parts
                cuts = [file.size * k // parts for k in range(parts + 1)]
                found.append(
                    [
                        Split(
                            NAME,
                            file.path,
                            start,
                            end,
                            file.size,
                            file.modified,
                            False if start == 0 else None,
                            etag=file.etag,
                        )
                        for start, end in pairwise(cuts)
                    ]
                )
        return [Part(split) for split in self._told_of_quotes(found)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Record batches of a part, with the types of the schema."""
        if not isinstance(partition, Part):  # there are no files
            return
        split = partition.split
        arrow = to_arrow_schema(self._columns, timezone="UTC")
        with _naming(split), _Errors(self._given.get("errorspath"), split, self._lines_of(split)) as errors:
            for rows in self._rows(split):
                errors.add(rows.errors)
                if rows.count:
                    yield _as_spark_has_it(rows, arrow)

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
            source = file_bytes(file, split.path, split.size, split.end, self._options)
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
        source = file_bytes(file, split.path, split.size, split.end, self._options)
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


def _paths(given: Mapping[str, str]) -> list[str]:
    if "paths" in given:
        return [str(path) for path in json.loads(given["paths"])]
    return [given["path"]] if "path" in given else []


def _as_spark_has_it(rows: Rows, arrow: pa.Schema) -> pa.RecordBatch:
    """The batch with the names that Spark gives to what is within columns."""
    columns = zip(rows.batch.columns, arrow, strict=True)
    arrays = [column if column.type == field.type else column.cast(field.type) for column, field in columns]
    return pa.RecordBatch.from_arrays(arrays, schema=arrow)


@contextmanager
def _naming(split: Split) -> Iterator[None]:
    """Errors of formats name the file they are about."""
    try:
        yield
    except FormatError as error:
        raise FormatError(error.number, error.what, f"{split.path}: {error.got}", error.hint) from error
