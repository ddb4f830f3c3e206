"""``spark.readStream.format("tidemill")``: each file of a path once, in batches, exactly once over restarts.

Spark asks one Python process beside the driver for all offsets and partitions of a query. The process lists files,
remembers the names it has seen and chooses the files of the next batch; ``stream_history.py`` records them. Files come
in the order of their modification times. A file is identified by its path: a file that changes after it was read is
not read again, and one that changes between listing and reading is an error (TM5003). Empty files wait until they have
content.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxFiles,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from tidemill.options.tables import LIMITS
from tidemill.sources.file_info import FileInfo
from tidemill.sources.packed_names import PackedNames
from tidemill.spark_source.brief_errors import brief_errors
from tidemill.spark_source.data_reader import TidemillReader
from tidemill.spark_source.source_options import STATE_LOCATION
from tidemill.spark_source.stream_files import StreamFiles
from tidemill.spark_source.stream_history import BEGINNING, Offset, StreamHistory, unfinished
from tidemill.task.files.split_planner import Piece

_LISTING_SHARE = 10
"""While known files wait, listing takes at most one part in this many of the time."""


@dataclass(frozen=True)
class Limits:
    """Limits of one batch: files, bytes of files, rows; None for no limit."""

    files: int | None = None
    bytes: int | None = None
    rows: int | None = None


def parse_limits(given: Mapping[str, str]) -> Limits:
    """The limits in the options of a stream, whose names are in lower case. TM4003 for a bad value."""
    return Limits(*(option.of(given) for option in LIMITS))


@brief_errors
class TidemillStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):  # type: ignore[misc]
    """Offsets, partitions and rows of a stream of files.

    Parameters
    ----------
    given : mapping
        Options, with names in lower case.
    columns : StructType

    Raises
    ------
    TidemillError
        As :class:`TidemillReader`; TM1009 for a ``stateLocation`` of an unknown scheme; TM4003 for a bad limit.
    """

    def __init__(self, given: Mapping[str, str], columns: StructType) -> None:
        self._reader = TidemillReader(given, columns)
        self._history = StreamHistory(STATE_LOCATION.of(given))
        self._limits = parse_limits(given)
        self._at: Offset | None = None
        self._seen = PackedNames()
        self._rest: tuple[FileInfo, int] | None = None
        self._waiting = StreamFiles()
        self._stale_at = 0.0
        self._lists = True

    def initialOffset(self) -> Offset:  # noqa: N802
        """Before the first file."""
        return dict(BEGINNING)

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """One of the given limits, because Spark takes only one; :meth:`latestOffset` applies all of them."""
        if self._limits.rows is not None:
            return ReadMaxRows(self._limits.rows)
        if self._limits.bytes is not None:
            return ReadMaxBytes(self._limits.bytes)
        return ReadAllAvailable() if self._limits.files is None else ReadMaxFiles(self._limits.files)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Files that appear from now on are left for the next run. Errors as :meth:`TidemillReader.listing`."""
        self._seen = PackedNames()
        self._waiting = self._list()
        self._lists, self._at = False, None

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:  # noqa: N802
        """The offset after the next batch; ``start`` if there is nothing to read.

        Raises
        ------
        TidemillError
            As :meth:`TidemillReader.listing`, :meth:`StreamHistory.following` and, with a limit of rows, as reading.
        """
        if start != self._at:
            self._go_to(start)
        self._look()
        chosen = self._choose(self._limits_of(limit))
        if not chosen:
            return start
        end, pieces = self._history.following(start, chosen)
        self._at, self._rest = end, unfinished(pieces)
        self._mark([p.file.path for p in pieces])
        return end

    def partitions(self, start: Offset, end: Offset) -> list[InputPartition]:
        """Parts of all files between two offsets; always the same ones.

        Errors as :meth:`StreamHistory.between`.
        """
        return list(self._reader.parts(self._history.between(start, end)))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """See :meth:`TidemillReader.read`."""
        return self._reader.read(partition)

    def _go_to(self, start: Offset) -> None:
        """Restore what was read before an offset."""
        if self._lists:
            self._seen, self._waiting, self._stale_at = PackedNames(), StreamFiles(), 0.0
        else:
            self._waiting.mark_unread()
        last: list[Piece] = []
        for pieces in self._history.pages_before(start):
            self._mark([p.file.path for p in pieces])
            last = pieces[-1:]
        self._rest, self._at = unfinished(last), start

    def _mark(self, names: list[str]) -> None:
        """Mark files as read or chosen. Their names are only kept while files are listed."""
        self._waiting.mark_read(names)
        if self._lists:
            self._seen.add(names)

    def _list(self) -> StreamFiles:
        """All files that have not been read and are not empty, in the order in which they are read."""
        return StreamFiles([f for f in page if f.size] for page in self._reader.unread(self._unread))

    def _unread(self, names: list[str]) -> list[str]:
        return [names[i] for i in np.flatnonzero(self._seen.find(names) < 0).tolist()]

    def _look(self) -> None:
        """List again when no file waits, or when the last listing is old."""
        began = time.monotonic()
        if self._lists and (not self._waiting or began >= self._stale_at):
            self._waiting = StreamFiles()  # free the old listing first: they may be large
            self._waiting = self._list()
            now = time.monotonic()
            self._stale_at = now + _LISTING_SHARE * (now - began)

    def _limits_of(self, limit: ReadLimit) -> Limits:
        """The limits of a request: none, the one that Spark gives, or those of the options."""
        if isinstance(limit, ReadAllAvailable):
            return Limits()
        if limit == self.getDefaultReadLimit():
            return self._limits
        return Limits(
            limit.max_files if isinstance(limit, ReadMaxFiles) else None,
            limit.max_bytes if isinstance(limit, ReadMaxBytes) else None,
            limit.max_rows if isinstance(limit, ReadMaxRows) else None,
        )

    def _choose(self, most: Limits) -> list[Piece]:
        """The next batch within limits: at least one file, or the rows of it that are allowed."""
        chosen: list[Piece] = []
        size = rows = 0
        for piece in self._next():
            length = piece.end - piece.start
            if most.files is not None and len(chosen) >= most.files:
                break
            if most.bytes is not None and chosen and size + length > most.bytes:
                break
            if most.rows is not None:
                if rows >= most.rows:
                    break
                count, end = self._reader.count_rows(piece, most.rows - rows)
                if chosen and rows + count > most.rows:
                    break
                rows, piece = rows + count, Piece(piece.file, piece.start, end)
            size += length
            chosen.append(piece)
        return chosen

    def _next(self) -> Iterator[Piece]:
        """Pieces that have not been read, in order."""
        if self._rest is not None:
            file, start = self._rest
            yield Piece(file, start, file.size)
        yield from (Piece(f, 0, f.size) for f in self._waiting)
