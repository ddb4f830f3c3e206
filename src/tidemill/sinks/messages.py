"""Deliveries as messages: each has its epoch and its number within the epoch, by which receivers find repeats."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa

from tidemill.schema import WEIGHT
from tidemill.sinks.json_lines import batches


@dataclass(frozen=True)
class Message:
    """A part of what one epoch changed, or of all rows at an epoch.

    ``rows`` has ``__weight`` first, then the columns of the view; it is empty for an empty view alone. Numbers begin
    with 0 in each epoch, and are the same when the epoch is delivered again with the same number of rows a message.
    """

    epoch: int
    sequence: int
    snapshot: bool
    rows: pa.RecordBatch
    last: bool


def messages(epoch: int, tables: Iterable[pa.Table], most: int, snapshot: bool) -> Iterator[Message]:
    """Tables as messages of at most so many rows, at least one."""
    waiting: pa.RecordBatch | None = None
    sequence = 0
    for batch in _evenly(tables, most, snapshot):
        if waiting is not None:
            yield Message(epoch, sequence, snapshot, waiting, False)
            sequence += 1
        waiting = batch
    assert waiting is not None
    yield Message(epoch, sequence, snapshot, waiting, True)


def _evenly(tables: Iterable[pa.Table], most: int, snapshot: bool) -> Iterator[pa.RecordBatch]:
    """Batches of exactly ``most`` rows, but the last one: however the tables were cut, the messages are the same."""
    kept: pa.Table | None = None
    given = False
    for table in tables:
        weighted = _weight_first(table, snapshot)
        kept = weighted if kept is None else pa.concat_tables([kept, weighted])
        whole = kept.num_rows - kept.num_rows % most
        yield from batches(kept.slice(0, whole), most)
        given |= whole > 0
        kept = kept.slice(whole)
    assert kept is not None
    if kept.num_rows or not given:
        yield from batches(kept, most) if kept.num_rows else iter((_empty(kept),))


def _weight_first(table: pa.Table, snapshot: bool) -> pa.Table:
    if snapshot:
        return table.add_column(0, pa.field(WEIGHT, pa.int64(), False), pa.repeat(pa.scalar(1), table.num_rows))
    return table.select([WEIGHT, *(n for n in table.column_names if n != WEIGHT)])


def _empty(table: pa.Table) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([], table.schema)
