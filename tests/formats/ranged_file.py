"""Files in memory whose reads take random times, read in either mode."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator, Mapping
from itertools import pairwise

from csv_reading import Table, as_table

from tidemill.errors import FormatError
from tidemill.formats.base import RowReader, Rows
from tidemill.formats.reading.feeding import FileBytes, feed, file_bytes, open_split
from tidemill.formats.rows.malformed import MODE


class RangedFile:
    """See :class:`tidemill.formats.reading.range_reads.RangeFile`; counts what is under way."""

    def __init__(self, data: bytes, buffer_bytes: int, latency: float = 0.0, rng: random.Random | None = None) -> None:
        self.data = data
        self.buffer_bytes = buffer_bytes
        self.latency = latency
        self.rng = rng
        self.is_open = False
        self.under_way = self.most = self.reads = 0
        self.furthest = 0
        self.fails_at: dict[int, Exception] = {}
        self._position = 0
        self._guard = threading.Lock()

    def open(self, position: int) -> None:
        self.is_open = True
        self._position = position

    def fill(self) -> bytes:
        found = self.read_at(self._position, min(self.buffer_bytes, len(self.data) - self._position))
        self._position += len(found)
        return found

    def read_at(self, position: int, length: int) -> bytes:
        assert self.is_open
        with self._guard:
            self.under_way += 1
            self.reads += 1
            self.most = max(self.most, self.under_way)
            self.furthest = max(self.furthest, position + length)
            pause = self.latency if self.rng is None else self.latency * self.rng.random()
        if pause:
            time.sleep(pause)
        with self._guard:
            self.under_way -= 1
        for at, error in self.fails_at.items():
            if position <= at < position + length:
                raise error
        assert self.is_open, "a file is closed when no read is under way"
        return self.data[position : position + length]

    def first_bytes(self, count: int) -> bytes:
        return self.data[:count]

    def close(self) -> None:
        assert not self.under_way
        self.is_open = False


class Split:
    """A split being read: rows as they come, then what it tells of quotes."""

    def __init__(
        self,
        reader: RowReader,
        file: RangedFile,
        options: Mapping[str, str],
        bounds: tuple[int, int],
        in_quotes: bool | None,
        path: str = "",
    ) -> None:
        size = len(file.data)
        self.file: FileBytes = file_bytes(file, path, size, bounds[1], options)
        self.reader = open_split(
            reader, self.file, start=bounds[0], end=bounds[1], size=size, in_quotes=in_quotes, part=False
        )
        self._mode = MODE.of(options)

    def rows(self) -> Iterator[Rows]:
        try:
            yield from feed(self.reader, self.file, self._mode)
        finally:
            self.file.close()


def outcome(split: Split) -> tuple[Table, str, tuple[bool, int] | None]:
    """Rows up to the first failure, the failure, and what is told of quotes."""
    found: list[Rows] = []
    failure = ""
    try:
        for rows in split.rows():
            found.append(rows)
    except (FormatError, OSError) as error:
        failure = str(error)
    told = None if failure else (split.reader.assumed_in_quotes, split.reader.quote_parity)
    return as_table(found), failure, told


def read_cut(
    reader: RowReader, file: RangedFile, options: Mapping[str, str], cuts: list[int], guess: bool
) -> tuple[Table, list[tuple[bool, int] | None]]:
    """All splits of a file; a wrong guess is redone, as at the barrier."""
    parts: list[Rows] = []
    told: list[tuple[bool, int] | None] = []
    inside = False
    for bounds in pairwise([0, *cuts, len(file.data)]):
        split = Split(reader, file, options, bounds, None if guess else inside)
        found = list(split.rows())
        told.append((split.reader.assumed_in_quotes, split.reader.quote_parity))
        if split.reader.assumed_in_quotes != inside and bounds[0] < bounds[1]:
            split = Split(reader, file, options, bounds, inside)
            found = list(split.rows())
        inside ^= bool(split.reader.quote_parity)
        parts += found
    return as_table(parts), told
