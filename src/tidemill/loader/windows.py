"""Rows in windows of a fixed number, each shuffled by itself, and batches of what windows give."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from tidemill.loader.order import order_of_rows
from tidemill.loader.reading import Chunk
from tidemill.loader.state import Position


@dataclass(frozen=True)
class Rows:
    """Rows that are given one after the other.

    Attributes
    ----------
    table : pyarrow.Table
    begin : Position
        Of the window that they begin, with as many rows taken as lie before them.
    """

    table: pa.Table
    begin: Position


def windows(chunks: Iterator[Chunk], begin: Position, seed: int | None, size: int) -> Iterator[Rows]:
    """The rows of chunks in the order in which they are given.

    Without a seed these are the chunks. With one they are windows of ``size`` rows, the last one of a pass with fewer,
    shuffled each. Windows are counted from the first row of a pass, so ``begin`` has to be where one begins.

    Parameters
    ----------
    chunks : iterator of Chunk
        From ``begin`` on: rows before it are left out.
    """
    at, skip = begin.at, begin.row
    held: list[pa.RecordBatch] = []
    rows, start = 0, begin
    for chunk in chunks:
        batch, row = chunk.batch, chunk.row
        if chunk.place == begin.place and row < skip:
            left_out = min(skip - row, batch.num_rows)
            batch, row = batch.slice(left_out), row + left_out
        while batch.num_rows:
            if not held:
                start = Position(begin.pass_, at, chunk.place, row, at)
            taken = batch.num_rows if seed is None else min(size - rows, batch.num_rows)
            held.append(batch.slice(0, taken))
            batch, row, rows = batch.slice(taken), row + taken, rows + taken
            if seed is None or rows == size:
                yield _window(held, start, seed)
                at, held, rows = at + rows, [], 0
    if held:
        yield _window(held, start, seed)


def _window(held: list[pa.RecordBatch], start: Position, seed: int | None) -> Rows:
    table = pa.Table.from_batches(held)
    if seed is not None:
        table = table.take(order_of_rows(seed, start.pass_, start.at, table.num_rows))
    return Rows(table, start)


@dataclass(frozen=True)
class Batch:
    """Rows of a batch, and where it ends."""

    table: pa.Table
    end: Position


def batches(rows: Iterator[Rows], taken: int, size: int, keep_last: bool) -> Iterator[Batch]:
    """Batches of ``size`` rows, from the row of the pass on before which ``taken`` lie; the last one may have fewer.

    The position of a batch names the window that its last row is of: to go on behind it, that window is read again.
    """
    held: list[pa.Table] = []
    count = 0
    for part in rows:
        table, before = part.table, part.begin.at
        if before < taken:
            table = table.slice(min(taken - before, table.num_rows))
        while table.num_rows:
            some = table.slice(0, size - count)
            table = table.slice(some.num_rows)
            held.append(some)
            count += some.num_rows
            if count == size:
                taken += size
                yield _batch(held, part.begin, taken)
                held, count = [], 0
        last = part.begin
    if held and keep_last:
        yield _batch(held, last, taken + count)


def _batch(held: list[pa.Table], window: Position, rows: int) -> Batch:
    table = held[0] if len(held) == 1 else pa.concat_tables(held)
    return Batch(table, Position(window.pass_, rows, window.place, window.row, window.at))
