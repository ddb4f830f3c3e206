"""One split that a scan reads: its rows, their errors, and its counters."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tidemill.connectors.registry import KAFKA_SCHEME, scheme_of
from tidemill.errors import FormatError
from tidemill.formats.base import FileRowReader, Format, RowError, RowReader, Rows
from tidemill.formats.reading.open_split import FilePart, OpenSplit, lines_of
from tidemill.formats.reading.read_modes import parse_read_mode
from tidemill.formats.rescue.new_columns import NewColumnsError
from tidemill.formats.rows.malformed import MalformedRowError
from tidemill.objectstore.connection import is_object_url
from tidemill.sources.files import ROW_BYTES
from tidemill.sources.locations.location import reader_of
from tidemill.sources.split import Split, SplitResult

_SHOWN = 100
"""How many bytes of a malformed row a message shows."""


class ScannedSplit:
    """The rows of a split, buffer by buffer, in the order of its file.

    Parameters
    ----------
    split : Split
    format_ : Format
    reader : RowReader or FileRowReader
        Of that format, for the columns that are wanted.
    options : mapping
        Those of the table, with names in lower case.
    prefetched : Future, optional
        The bytes of a small object whose download has begun.

    Raises
    ------
    TidemillError
        When the file cannot be opened, or is not what was listed.
    """

    def __init__(
        self,
        split: Split,
        format_: Format,
        reader: RowReader | FileRowReader,
        options: Mapping[str, str],
        prefetched: Future[bytes] | None = None,
    ) -> None:
        self.split = split
        self.rows = self.late = 0
        self._malformed = self._dropped = self._rows_read = self._rows_malformed = self._new_within = 0
        self._latest: int | None = None
        self._example: RowError | None = None
        # What is wrong with rows of the buffer that was read last, and which of its rows are malformed.
        self._found: list[RowError] = []
        self._malformed_at: set[int] = set()
        raw = split if split.encoded is None else replace(split, start=0, end=split.size)
        version = (split.path, split.size, split.modified)
        self._lines = lines_of(format_, reader_of(raw, options), split.path, split.size, options, version)
        file = reader_of(raw, options, _buffer_bytes(raw, options), prefetched)
        part = FilePart(split.path, split.start, split.end, split.size, split.in_quotes, split.encoded is not None)
        with _naming(split):
            self._open = OpenSplit(reader, file, part, options, intact=True)

    def read(self) -> Rows | None:
        """Rows of the next buffer (perhaps none), or None after the last."""
        rows = None
        try:
            with _naming(self.split):
                rows = self._next()
        finally:
            if rows is None:
                self.close()
        if rows is None:
            return None
        self._new_within += rows.new_within
        self._rows_read += rows.count + len({e.position for e in rows.errors if e.dropped})
        for error in rows.errors:
            self.reject(error)
        return rows

    def _next(self) -> Rows | None:
        try:
            return next(self._open, None)
        except MalformedRowError as error:
            if self._lines is None:
                raise
            raise error.on_line(self._lines.of([error.position])[0]) from error

    def close(self) -> None:
        """Close the file; may be called twice."""
        self._open.close()
        if self._lines is not None:
            self._lines.close()

    def reject(self, error: RowError) -> None:
        """Count a malformed row or field."""
        self._malformed += 1
        self._dropped += error.dropped
        self._malformed_at.add(error.position)
        self._found.append(error)

    def note(self, errors: Iterable[RowError]) -> None:
        """Add rows to the errors table that are not malformed."""
        self._found += errors

    def take_errors(self) -> Sequence[RowError]:
        """What is wrong with rows of the buffer that was read last, with lines; nothing for history, noted before."""
        self._rows_malformed += len(self._malformed_at)
        first = min(self._malformed_at, default=None)
        self._malformed_at = set()
        found: Sequence[RowError] = self._found if self.split.backfill_target is None else ()
        self._found = []
        if self._lines is not None and found:
            with _naming(self.split):
                found = self._lines.numbered(found)
        if self._example is None and first is not None:
            self._example = next((e for e in found if e.position == first and e.reason != "late"), None)
        return found

    def note_event_times(self, times: pa.Array[Any]) -> None:
        """Note the event times of admitted rows."""
        latest = pc.max(times).as_py()
        if latest is not None and (self._latest is None or latest > self._latest):
            self._latest = latest

    def result(self) -> SplitResult:
        """The report of the split, once all of it has been read."""
        split, encoded = self.split, self._open.encoded
        if encoded is not None:
            encoded = max(encoded, split.encoded or 0)  # it is an estimate
        return SplitResult(
            split,
            self._open.assumed_in_quotes,
            self._open.quote_parity,
            self.rows,
            split.end - split.start if encoded is None else encoded - (split.encoded or 0),
            self._malformed,
            self._dropped,
            self.late,
            self._latest,
            self._rows_read,
            self._rows_malformed,
            "" if self._example is None else _described(split.path, self._example),
            self._new_within,
            encoded,
        )


def _buffer_bytes(split: Split, options: Mapping[str, str]) -> int:
    """Most bytes of one read; ranges of an object are requested side by side, so they are not made larger."""
    mode = parse_read_mode(options)
    return mode.buffer_bytes if is_object_url(split.path) else mode.buffer_for(split.end - split.start, ROW_BYTES)


@contextmanager
def _naming(split: Split) -> Iterator[None]:
    """Errors of formats name the table and the file they are about."""
    try:
        yield
    except NewColumnsError as error:
        raise error.at(split.table, split.path) from error
    except FormatError as error:
        got = f"{split.path} of table {split.table}: {error.got}"
        raise FormatError(error.number, error.what, got, error.hint) from error


def _described(path: str, error: RowError) -> str:
    """What is wrong with a row, and where, in one line."""
    where = "" if error.line is None else f"line {error.line}, "
    unit = "offset" if scheme_of(path) == KAFKA_SCHEME else "byte"
    where += f"{unit} {error.position if error.at is None else error.at}"
    if error.column is not None:
        where += f", column {error.column!r}"
    raw = error.raw[:_SHOWN].decode("utf-8", "replace") + ("…" if len(error.raw) > _SHOWN else "")
    return f"{path}, {where}: {error.described}: {raw!r}"
