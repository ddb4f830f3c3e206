"""Reading CSV in tests as the runtime does: splits, buffers of any size, guesses checked by parities."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import pyarrow as pa

from tidemill.formats.base import RowError, Rows, SplitReader
from tidemill.formats.csv.format import CsvFormat
from tidemill.schema import Field, Schema


@dataclass(frozen=True)
class Table:
    """What reading yields, in a form that tests compare."""

    rows: tuple[tuple[Any, ...], ...]
    positions: tuple[int, ...]
    errors: tuple[RowError, ...]

    @property
    def reasons(self) -> list[tuple[str | None, str]]:
        """Column and reason of each error."""
        return [(error.column, error.reason) for error in self.errors]


def columns(**types: pa.DataType) -> Schema:
    """A schema of nullable columns."""
    return Schema(tuple(Field(name, type_) for name, type_ in types.items()))


def feed_split(split: SplitReader, data: bytes, sizes: Iterable[int] = ()) -> list[Rows]:
    """Feed a split until it is done: buffers of the given sizes, then the rest at once."""
    at = split.read_from
    rows = []
    steps = iter(sizes)
    while not split.done:
        stop = min(len(data), at + next(steps, len(data)))
        rows.append(split.feed(data[at:stop], stop == len(data)))
        at = stop
    return rows


def as_table(parts: Iterable[Rows]) -> Table:
    """Rows of several feeds as one table; checks what must hold for each of them."""
    rows: list[tuple[Any, ...]] = []
    positions: list[int] = []
    errors: list[RowError] = []
    for part in parts:
        part.batch.validate(full=True)
        assert part.batch.num_rows == part.count == len(part.positions)
        values = [column.to_pylist() for column in part.batch.columns]
        rows.extend(zip(*values) if values else [()] * part.count)
        positions.extend(part.positions.tolist())
        errors.extend(part.errors)
    return Table(tuple(rows), tuple(positions), tuple(errors))


def read(
    data: bytes,
    schema: Schema,
    options: Mapping[str, str] | None = None,
    needed: Sequence[str] | None = None,
    sizes: Iterable[int] = (),
) -> Table:
    """Read a whole file as one split."""
    reader = CsvFormat().reader(schema, options or {}, schema.names if needed is None else needed)
    header = data if reader.header_bytes_needed() else None
    split = reader.split(start=0, end=len(data), file_size=len(data), in_quotes=None, header=header)
    return as_table(feed_split(split, data, sizes))


def read_in_splits(
    data: bytes,
    schema: Schema,
    options: Mapping[str, str],
    cuts: Sequence[int],
    sizes: Sequence[int] = (),
) -> Table:
    """Read a file cut at ``cuts``: every split guesses its state, and is read again when that was wrong."""
    reader = CsvFormat().reader(schema, options, schema.names)
    header = data if reader.header_bytes_needed() else None
    parts: list[Rows] = []
    inside = False
    for start, end in pairwise([0, *cuts, len(data)]):
        bounds = {"start": start, "end": end, "file_size": len(data), "header": header}
        split = reader.split(in_quotes=None, **bounds)
        found = feed_split(split, data, sizes)
        if split.assumed_in_quotes != inside and start < end:
            split = reader.split(in_quotes=inside, **bounds)
            found = feed_split(split, data, sizes)
        inside ^= bool(split.quote_parity)
        parts.extend(found)
    return as_table(parts)
