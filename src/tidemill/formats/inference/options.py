"""Options of schema inference, under the names of Databricks' Auto Loader where it has them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa

from tidemill.ddl import parse_type
from tidemill.errors import TidemillError
from tidemill.options.kinds import FLAG, POSITIVE, SIZE
from tidemill.options.option import Kind, Option, OptionGroup
from tidemill.schema import Field, Schema

_HINT = re.compile(r"\s*((?:`(?:[^`]|``)+`|\w+)(?:\.(?:`(?:[^`]|``)+`|\w+))*)\s*:?\s*(.+)", re.DOTALL)
_WANTED = "columns or fields with their types, such as: id BIGINT, address.zip STRING"
_NAME = re.compile(r"`((?:[^`]|``)+)`|(\w+)")


@dataclass(frozen=True)
class Hint:
    """The type of a column, or of what lies at a path within one."""

    path: tuple[str, ...]
    type: pa.DataType


@dataclass(frozen=True)
class InferenceOptions:
    """How much is looked at, and what is made of it.

    Attributes
    ----------
    files, bytes : int
        At most so many, evenly over all files; each from its beginning.
    types : bool
        False makes every column of text formats STRING.
    timestamps : bool
        Texts in JSON may be timestamps.
    hints : tuple of Hint
    """

    files: int
    bytes: int
    types: bool
    timestamps: bool
    hints: tuple[Hint, ...]


def _parts(text: str) -> list[str]:
    """The text cut at commas outside of brackets and back quotes."""
    parts = [""]
    depth = 0
    for token in re.findall(r"`(?:[^`]|``)*`|.", text, re.DOTALL):
        depth += (token in ("<", "(")) - (token in (">", ")"))
        if token == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += token
    return [part for part in parts if part.strip()]


def _hint(text: str) -> Hint:
    match = _HINT.fullmatch(text)
    if match is None:
        raise ValueError
    path = tuple((m[1] or m[2]).replace("``", "`") for m in _NAME.finditer(match[1]))
    try:
        return Hint(path, parse_type(match[2].strip()))
    except TidemillError as error:
        raise ValueError(f"{error.got}; {_WANTED}") from error


SAMPLE_FILES = Option("schemaInferenceSampleFiles", POSITIVE, 1000, "at most so many files are looked at")
SAMPLE_BYTES = Option(
    "schemaInferenceSampleBytes", SIZE, 4 << 20, "at most so many bytes are looked at, of the beginning of files", "4m"
)
COLUMN_TYPES = Option("inferColumnTypes", FLAG, True, "with `false` all columns are STRING")
TIMESTAMPS = Option("inferTimestamp", FLAG, False, "texts in JSON may be timestamps")
SCHEMA_HINTS = Option(
    "schemaHints",
    Kind(_WANTED, lambda text: tuple(_hint(part) for part in _parts(text))),
    (),
    "columns and fields whose types are not inferred: `id DECIMAL(20,0)`",
    shown="none",
)
INFERENCE_OPTIONS = OptionGroup(
    "Schema inference",
    "Tables of CSV, JSON, Parquet or Arrow files that are created without columns.",
    (SCHEMA_HINTS, COLUMN_TYPES, TIMESTAMPS, SAMPLE_FILES, SAMPLE_BYTES),
)


def parse_inference(given: Mapping[str, str]) -> InferenceOptions:
    """Check the options; names of ``given`` are in lower case. TM4003 for a value that is wrong."""
    return InferenceOptions(
        files=SAMPLE_FILES.of(given),
        bytes=SAMPLE_BYTES.of(given),
        types=COLUMN_TYPES.of(given),
        timestamps=TIMESTAMPS.of(given),
        hints=SCHEMA_HINTS.of(given),
    )


def with_hints(schema: Schema, hints: tuple[Hint, ...]) -> Schema:
    """The schema with hints put in: types of columns and fields replaced, columns that were not seen added.

    A name counts in any case, and the hint's spelling is taken. Within an array ``element``, within a map ``key`` and
    ``value`` are names.

    Raises
    ------
    TidemillError
        TM4003 for a path into what has no such part.
    """
    fields = list(schema.fields)
    for hint in hints:
        name = hint.path[0]
        place = next((i for i, f in enumerate(fields) if f.name.lower() == name.lower()), None)
        before = None if place is None else fields[place].type
        field = Field(name, _hinted(before, hint, 1))
        if place is None:
            fields.append(field)
        else:
            fields[place] = field
    return Schema(tuple(fields))


def _hinted(before: pa.DataType | None, hint: Hint, depth: int) -> pa.DataType:
    if depth == len(hint.path):
        return hint.type
    name = hint.path[depth]
    if before is not None and pa.types.is_list(before) and name == "element":
        return pa.list_(_hinted(before.value_type, hint, depth + 1))
    if before is not None and pa.types.is_map(before) and name in ("key", "value"):
        key, value = before.key_type, before.item_type
        if name == "key":
            return pa.map_(_hinted(key, hint, depth + 1), value)
        return pa.map_(key, _hinted(value, hint, depth + 1))
    if before is not None and not pa.types.is_struct(before):
        raise SCHEMA_HINTS.bad(".".join(hint.path), f"{'.'.join(hint.path[:depth])} has no part {name!r}")
    parts = [] if before is None else list(before)
    place = next((i for i, f in enumerate(parts) if f.name.lower() == name.lower()), None)
    below = pa.field(name, _hinted(None if place is None else parts[place].type, hint, depth + 1))
    if place is None:
        return pa.struct([*parts, below])
    return pa.struct([*parts[:place], below, *parts[place + 1 :]])
