"""The columns of a table, inferred from a sample of its files."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from tidemill.errors import FormatError, TidemillError
from tidemill.formats.arrow.format import file_schema as arrow_schema
from tidemill.formats.avro.files import file_schema as avro_schema
from tidemill.formats.base import RowReader, Rows
from tidemill.formats.columnar.types import merged_schema
from tidemill.formats.csv.format import CsvFormat
from tidemill.formats.csv.header import Header, read_header
from tidemill.formats.csv.options import parse_options as parse_csv_options
from tidemill.formats.inference.options import InferenceOptions, parse_inference, with_hints
from tidemill.formats.inference.sampling import chosen, sample_texts
from tidemill.formats.json.format import JsonFormat
from tidemill.formats.parquet.format import file_schema as parquet_schema
from tidemill.formats.reading.codecs import parse_codec_options
from tidemill.formats.reading.whole_source import Source, seekable
from tidemill.formats.rescue.options import RESCUE_OPTIONS
from tidemill.formats.types.field_types import type_of_fields
from tidemill.formats.types.json_shapes import Seen, seen_of
from tidemill.formats.types.naming import header_columns, spelling
from tidemill.schema import Field, Schema


def infer_columns(format_: str, sources: Sequence[Source], options: Mapping[str, str]) -> Schema:
    """The columns that a sample of some sources has, all nullable.

    Parameters
    ----------
    format_ : str
        One of ``INFERABLE``.
    options : mapping
        Those of the table, with names in lower case; others than of the format and of inference are ignored.

    Raises
    ------
    TidemillError
        TM4071 when there is no column in the sample; TM4003 for a bad option; TM4041, TM4044 and TM4072 for columnar
        files; OSError when a file cannot be read.
    """
    limits = parse_inference(options)
    schema = with_hints(_INFER[format_](sources, options, limits), limits.hints)
    if not len(schema):
        raise TidemillError(
            "TM4071",
            "no columns can be inferred",
            got=f"{len(sources)} source{'' if len(sources) == 1 else 's'} without a row of {format_}",
            hint="put a file with rows there first, or list the columns with their types",
        )
    return schema


def _of_format(options: Mapping[str, str], names: Collection[str]) -> dict[str, str]:
    """The options that say how files are read; a sample has whatever columns it has."""
    return {k: v for k, v in options.items() if k in names and k not in RESCUE_OPTIONS.keys}


def _infer_json(sources: Sequence[Source], options: Mapping[str, str], limits: InferenceOptions) -> Schema:
    known = _of_format(options, JsonFormat.option_names)
    reader = JsonFormat().reader(Schema(()), known | {"mode": "PERMISSIVE"}, ())
    seen = Seen()

    def take(data: bytes, whole: bool) -> bool:
        found = seen_of(_good_rows(reader, data, whole), limits.timestamps, options.get("timestampformat"))
        seen.merge(found)
        return found.objects

    sample_texts(sources, options, limits, take)
    return Schema(tuple(Field(f.name, f.type if limits.types else pa.string()) for f in seen.columns()))


def _good_rows(reader: RowReader, data: bytes, whole: bool) -> Iterator[bytes]:
    """The complete records at the beginning of a file, without those that are malformed."""
    split = reader.split(start=0, end=1 << 62, file_size=1 << 62, in_quotes=False, header=data)
    rows = split.feed(data, whole)
    broken = {error.position for error in rows.errors}
    for row, position in enumerate(rows.positions.tolist()):
        if position not in broken:
            yield rows.raw(row)


def _infer_csv(sources: Sequence[Source], options: Mapping[str, str], limits: InferenceOptions) -> Schema:
    known = _of_format(options, CsvFormat.option_names) | {"mode": "PERMISSIVE"}
    parsed = parse_csv_options(known)
    columns: dict[str, list[pa.Array[pa.StringScalar]]] = {}
    spellings: dict[str, dict[str, int]] = {}

    def take(data: bytes, whole: bool) -> bool:
        head = read_header(data, parsed)
        if head is None or (not whole and head.stop >= len(data)):
            return False
        names = header_columns(head.names) if parsed.header else [f"_c{i}" for i in range(len(head.names))]
        rows = _texts(known, head, data, whole, parsed.header)
        for i, name in enumerate(names):
            columns.setdefault(name.lower(), []).append(rows.batch.column(i))
            spelt = spellings.setdefault(name.lower(), {})
            spelt[name] = spelt.get(name, 0) + rows.count
        return rows.count > 0

    sample_texts(sources, options, limits, take)
    fields = []
    for lowered, values in columns.items():
        type_ = type_of_fields(values, parsed.patterns) if limits.types else pa.string()
        fields.append(Field(spelling(spellings[lowered]), type_))
    return Schema(tuple(fields))


def _texts(options: Mapping[str, str], head: Header, data: bytes, whole: bool, header: bool) -> Rows:
    """The complete rows at the beginning of a file, every field as text."""
    names = [f"_c{i}" for i in range(len(head.names))]
    schema = Schema(tuple(Field(name, pa.string()) for name in names))
    reader = CsvFormat().reader(schema, {**options, "header": "false"}, names)
    split = reader.split(start=0, end=1 << 62, file_size=1 << 62, in_quotes=False, header=None)
    rows = split.feed(data, whole)
    first = int((rows.positions < head.stop).sum()) if header else 0
    return Rows(rows.batch.slice(first), rows.count - first, rows.positions[first:], ())


def _columnar(read: Callable[[Any], pa.Schema]) -> Callable[..., Schema]:
    def infer(sources: Sequence[Source], options: Mapping[str, str], limits: InferenceOptions) -> Schema:
        found = []
        for source in chosen(sources, limits.files):
            path = str(source) if isinstance(source, str | Path) else ""
            parse_codec_options(options).refuse(path)
            try:
                with seekable(source, options) as file:
                    found.append((path, read(file)))
            except FormatError as error:
                raise FormatError(error.number, error.what, f"{path}: {error.got}", error.hint) from error
        return merged_schema(found)

    return infer


_INFER = {
    "arrow": _columnar(arrow_schema),
    "avro": _columnar(avro_schema),
    "csv": _infer_csv,
    "json": _infer_json,
    "parquet": _columnar(parquet_schema),
}

INFERABLE = tuple(_INFER)
"""Formats whose columns can be inferred."""
