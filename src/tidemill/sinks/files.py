"""Directories of Parquet files or JSON lines: one file for each delivery of changes, or one for all rows."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import IO, Any

import pyarrow as pa
import pyarrow.parquet as pq

from tidemill.objectstore.connection import CONNECTION_OPTIONS, parse_connection
from tidemill.options.kinds import TEXT, choice
from tidemill.options.option import Option, OptionGroup
from tidemill.schema import Schema
from tidemill.sinks import folder, json_lines
from tidemill.sinks.options import CHANGES, MIN_INTERVAL, MODE, SNAPSHOT
from tidemill.sinks.target import EXACTLY_ONCE, Changes, Identity, Target, TargetKind, as_changes, with_epoch

PATH = Option("path", TEXT, None, "the directory, or prefix of an object store, that is written to; new or empty")
PARQUET_CODEC = Option("compression", choice("none", "snappy", "zstd", "lz4", "gzip"), "zstd", "codec of Parquet files")
JSON_CODEC = Option("compression", choice("none", "gzip"), "none", "how files of JSON lines are compressed")

Write = Callable[[IO[bytes], Iterator[pa.Table]], None]
"""Writes tables of the same columns, at least one, into a file."""


@dataclass
class FilesTarget:
    """A directory of whole files.

    Parameters
    ----------
    into : Folder
    ending : str
        Of the names of files.
    write : callable
    keeps_changes : bool
        Whether files of changes are written; else one file, ``snapshot.<ending>``, is replaced.
    combines : bool
        Whether one file takes several epochs.
    """

    into: folder.Folder | folder.ObjectFolder
    ending: str
    write: Write
    keeps_changes: bool
    combines: bool

    def position(self, begun: bool) -> int | None:
        """The epoch of the newest file of changes. TM8218 when the only file of a snapshot is not there any more."""
        newest = self.into.open(begun, "" if self.keeps_changes else self._only)
        return newest if self.keeps_changes else None

    @property
    def _only(self) -> str:
        return f"snapshot.{self.ending}"

    def snapshot(self, epoch: int, parts: Iterable[pa.Table]) -> None:
        """Write ``<epoch>-snapshot``, or replace ``snapshot``."""
        if self.keeps_changes:
            name = folder.name_of(epoch, SNAPSHOT, self.ending)
            self.into.write(name, lambda file: self.write(file, (as_changes(epoch, p) for p in parts)))
        else:
            self.into.write(self._only, lambda file: self.write(file, iter(parts)))

    def changes(self, changes: Sequence[Changes]) -> None:
        """Write ``<epoch>-changes`` of the last of the epochs."""
        name = folder.name_of(changes[-1].epoch, CHANGES, self.ending)
        self.into.write(name, lambda file: self.write(file, iter((with_epoch(changes),))))

    def close(self) -> None:
        """Nothing is open."""

    def abort(self) -> None:
        """A file that is being written is stopped by its parts."""


def _parquet(options: Mapping[str, str]) -> Write:
    codec: Any = PARQUET_CODEC.of(options)

    def write(file: IO[bytes], tables: Iterator[pa.Table]) -> None:
        first = next(tables)
        with pq.ParquetWriter(file, first.schema, compression=codec) as writer:
            for table in chain((first,), tables):
                writer.write_table(table)

    return write


def _json(options: Mapping[str, str], time_zone: str) -> Write:
    def write(file: IO[bytes], tables: Iterator[pa.Table]) -> None:
        if JSON_CODEC.of(options) == "none":
            _write_lines(file, tables, time_zone)
        else:
            with gzip.GzipFile("", "wb", fileobj=file, mtime=0) as packed:
                _write_lines(packed, tables, time_zone)

    return write


def _write_lines(file: IO[bytes] | gzip.GzipFile, tables: Iterator[pa.Table], time_zone: str) -> None:
    for table in tables:
        for text in json_lines.lines(table, time_zone):
            file.write(text)


def _opened(sink: Identity, options: Mapping[str, str], ending: str, write: Write) -> Target:
    into = folder.folder(options[PATH.key], options, sink.id)
    keeps = MODE.of(options) == CHANGES
    return FilesTarget(into, ending, write, keeps, combines=MIN_INTERVAL.of(options) > 0)


def _make_parquet(sink: Identity, options: Mapping[str, str]) -> Target:
    return _opened(sink, options, "parquet", _parquet(options))


def _make_json(sink: Identity, options: Mapping[str, str]) -> Target:
    ending = "jsonl" if JSON_CODEC.of(options) == "none" else "jsonl.gz"
    return _opened(sink, options, ending, _json(options, sink.time_zone))


def _check(options: Mapping[str, str], schema: Schema) -> None:
    parse_connection(options, options[PATH.key])


def _kind(
    name: str, codec: Option[str], title: str, make: Callable[[Identity, Mapping[str, str]], Target]
) -> TargetKind:
    group = OptionGroup(title, f"Sinks `INTO {name}`.", (PATH, codec, *CONNECTION_OPTIONS.options))
    return TargetKind(
        name,
        group,
        PATH,
        (CHANGES, SNAPSHOT),
        _check,
        folder.resolved,
        make,
        lambda _: EXACTLY_ONCE,
        check_free=folder.check_free,
        library="obstore, for objects",
        tried="local disks, S3's API of moto; read by DuckDB",
    )


PARQUET = _kind("parquet", PARQUET_CODEC, "Sinks into Parquet files", _make_parquet)
JSON = _kind("json", JSON_CODEC, "Sinks into JSON lines", _make_json)
