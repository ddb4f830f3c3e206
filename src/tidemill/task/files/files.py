"""Files of one format, divided into splits: what a task or a loader reads."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import pyarrow as pa

from tidemill.ddl import parse_columns
from tidemill.errors import TidemillError, nearest
from tidemill.formats.inference.infer import INFERABLE, infer_columns
from tidemill.formats.inference.options import INFERENCE_OPTIONS
from tidemill.formats.reading.codecs import parse_codec_options
from tidemill.formats.registry import lookup
from tidemill.formats.rescue.options import rescuing
from tidemill.formats.standalone.standalone import check_own_options, given_options
from tidemill.options.option import bad_option
from tidemill.schema import Field, Schema, nullable_type
from tidemill.sources.file_info import FileInfo
from tidemill.sources.filters import FILTER_OPTIONS
from tidemill.sources.locations.location import location_of
from tidemill.sources.split import Split
from tidemill.task.files.split_planner import Piece, SplitPlanner, naming_file, opened

_FORMATS = {
    ".parquet": "parquet",
    ".csv": "csv",
    ".tsv": "csv",
    ".tbl": "csv",
    ".json": "json",
    ".jsonl": "json",
    ".ndjson": "json",
    ".arrow": "arrow",
    ".avro": "avro",
    ".feather": "arrow",
}
"""Formats by the suffix of file names, without that of a codec."""


@dataclass(frozen=True)
class Files:
    """Files of one format, as they were listed. Picklable; splits may be read by many threads.

    Attributes
    ----------
    format : str
    schema : Schema
        Of the files.
    columns : tuple of str
        Those that are given, in that order.
    options : mapping
        Of the format and of stores, with names in lower case.
    splits : tuple of Split
        By name of the file, then by place.
    """

    format: str
    schema: Schema
    columns: tuple[str, ...]
    options: Mapping[str, str]
    splits: tuple[Split, ...]

    @property
    def batch_schema(self) -> pa.Schema:
        """Of the batches that are read."""
        types = {f.name: f for f in self.schema.to_arrow()}
        return pa.schema([types[name] for name in self.columns])

    def read(self, split: Split) -> Iterator[pa.RecordBatch]:
        """The rows of a split, in the order of the file; errors as the format."""
        reader = lookup(self.format).reader(self.schema, self.options, self.columns)
        with naming_file(split), opened(reader, split, self.options, None, True) as part:
            for rows in part:
                if rows.count:
                    yield rows.batch

    def data_fingerprint(self) -> str:
        """Of the names, sizes, versions and splits of the files."""
        seen = hashlib.blake2b(digest_size=16)
        for split in self.splits:
            version = split.etag or split.modified
            seen.update(json.dumps([split.path, split.size, version, split.start, split.end]).encode() + b"\n")
        return seen.hexdigest()

    def plan_fingerprint(self) -> str:
        """Of everything that says which rows the files have."""
        said = [self.format, self.schema.to_ddl(), self.columns, sorted(self.options.items())]
        return hashlib.blake2b(json.dumps(said).encode(), digest_size=16).hexdigest()


def list_files(
    paths: str | Path | Sequence[str | Path],
    format_: str | None,
    schema: Schema | pa.Schema | str | None,
    columns: Sequence[str] | None,
    split_bytes: int,
    options: Mapping[str, Any],
) -> Files:
    """List files, infer their columns unless given, and divide them into splits.

    Raises
    ------
    TidemillError
        TM9001 when there is no file, TM9002 when the format cannot be told, TM4005 for an unknown option, TM4006 for an
        unknown column, TM4071 to TM4073 when columns cannot be inferred; TM5001 to TM5036 as listing, and as reading.
    """
    given = given_options(options)
    many = [paths] if isinstance(paths, str | Path) else paths
    if not isinstance(many, Sequence) or not all(isinstance(path, str | Path) for path in many):
        raise bad_option("paths", repr(paths), "a path or a list of paths")
    named = [str(path) for path in many]
    of_files = {name: value for name, value in given.items() if name in FILTER_OPTIONS.keys}
    found = sorted({f.path: f for path in named for f in location_of(path, given).listing()}.values(), key=_path)
    if not found:
        raise TidemillError(
            "TM9001", "there is nothing to load", got=", ".join(named) or "no path", hint="name files that exist"
        )
    name = _format_of(found, given) if format_ is None else format_.lower()
    of_format = {k: v for k, v in given.items() if k not in of_files}
    check_own_options(
        name, {k: v for k, v in of_format.items() if k not in INFERENCE_OPTIONS.keys}, lookup(name).option_names
    )
    full, of_format = _columns(name, found, schema, of_format)
    lookup(name).validate(full, of_format)
    wanted = _wanted(columns, full)
    planner = SplitPlanner(name, full, of_format, given, "loader")
    splits = planner.splits((Piece(f, 0, f.size) for f in found), split_bytes)
    return Files(name, full, wanted, of_format, tuple(splits))


def _path(file: FileInfo) -> str:
    return file.path


def _format_of(found: Sequence[FileInfo], given: Mapping[str, str]) -> str:
    codecs = parse_codec_options(given)
    names = set()
    for file in found:
        path = PurePosixPath(file.path)
        names.add(
            _FORMATS.get(PurePosixPath(path.stem).suffix.lower() if codecs.of(file.path) else path.suffix.lower())
        )
    if len(names) > 1 or None in names:
        raise TidemillError(
            "TM9002",
            "the format of these files cannot be told by their names",
            got=", ".join(sorted(str(n) for n in names)),
            hint="format='csv', one format for all of them",
        )
    (name,) = names
    assert name is not None
    return name


def _columns(
    name: str, found: Sequence[FileInfo], schema: Schema | pa.Schema | str | None, options: dict[str, str]
) -> tuple[Schema, dict[str, str]]:
    if isinstance(schema, str):
        return rescuing(parse_columns(schema), options, inferred=False)
    if isinstance(schema, pa.Schema):
        fields = tuple(Field(f.name, nullable_type(f.type), f.nullable) for f in schema)
        return rescuing(Schema(fields), options, inferred=False)
    if schema is not None:
        return rescuing(schema, options, inferred=False)
    if name not in INFERABLE:
        raise TidemillError(
            "TM4073",
            "the columns of this format cannot be inferred",
            got=name,
            hint="schema='a BIGINT, b STRING'",
        )
    inferred = infer_columns(name, [f.path for f in found if f.size], options)
    full, options = rescuing(inferred, options, inferred=False)
    return full, {k: v for k, v in options.items() if k not in INFERENCE_OPTIONS.keys}


def _wanted(columns: Sequence[str] | None, schema: Schema) -> tuple[str, ...]:
    if columns is None:
        return schema.names
    for column in columns:
        if column not in schema.names:
            hint = nearest(column, schema.names)
            raise TidemillError("TM4006", "there is no column of this name", got=column, hint=hint)
    if isinstance(columns, str) or not columns or len(set(columns)) < len(columns):
        raise bad_option("columns", repr(columns), "a list of names, each once")
    return tuple(columns)
