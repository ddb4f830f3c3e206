"""Reading JSON in tests: a whole file as one split, or in splits, in buffers of any size."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

from csv_reading import Table, as_table, feed_split
from tests.formats.json_reference import PlainTable

from tidemill.formats.base import RowError
from tidemill.formats.json.format import JsonFormat
from tidemill.schema import Schema


def read(
    data: bytes,
    schema: Schema,
    options: Mapping[str, str] | None = None,
    needed: Sequence[str] | None = None,
    sizes: Iterable[int] = (),
    cuts: Sequence[int] = (),
) -> Table:
    """Read a file, cut at ``cuts``."""
    reader = JsonFormat().reader(schema, options or {}, schema.names if needed is None else needed)
    header = data if reader.header_bytes_needed() else None
    parts = []
    for start, end in pairwise([0, *cuts, len(data)]):
        split = reader.split(start=start, end=end, file_size=len(data), in_quotes=None, header=header)
        parts += feed_split(split, data, sizes)
    return as_table(parts)


def comparable(value: Any) -> Any:
    """NaN equal to itself, and -0.0 different from 0.0."""
    if isinstance(value, float):
        return "nan" if math.isnan(value) else (value, math.copysign(1, value))
    if isinstance(value, list | tuple):
        return [comparable(part) for part in value]
    if isinstance(value, dict):
        return {name: comparable(part) for name, part in value.items()}
    return value


def assert_same(found: Table, expected: PlainTable) -> None:
    """Rows, positions and errors are those of the plain reader; what is wrong lies within its row."""
    assert comparable(found.rows) == comparable(expected.rows)
    assert found.positions == expected.positions
    for error in found.errors:
        if error.at is not None:
            assert error.position <= error.at <= error.position + len(error.raw) + 1
    assert tuple(without_place(e) for e in found.errors) == expected.errors


def without_place(error: RowError) -> RowError:
    """The error as the plain reader gives it."""
    return dataclasses.replace(error, at=None)
