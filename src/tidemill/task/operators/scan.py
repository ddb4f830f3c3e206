"""Table scan: fetches the bytes of splits and formats them into rows."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tidemill.errors import FormatError, TidemillError
from tidemill.formats.base import FileRowReader, RowError, RowReader, Rows, SplitReader, has_lines
from tidemill.formats.reading.codecs import parse_codec_options
from tidemill.formats.reading.feeding import FileBytes, feed, file_bytes, open_split
from tidemill.formats.reading.read_modes import parse_read_mode
from tidemill.formats.records.spooled_records import spool_reader
from tidemill.formats.registry import lookup
from tidemill.formats.rescue.new_columns import NewColumnsError
from tidemill.formats.rows.malformed import MODE, MalformedRowError, Mode
from tidemill.formats.rows.row_filter import FilteringReader, RowFilter
from tidemill.formats.text.line_numbers import LineNumbers
from tidemill.kernels.columns import column
from tidemill.sources.file_metadata import FileMetadata
from tidemill.sources.locations.location import SplitFile, reader_of
from tidemill.sources.objects.small_objects import SmallObjects
from tidemill.sources.sockets.spool import HEAD
from tidemill.sources.split import Split, SplitResult, file_digest
from tidemill.sources.unreadable import OF_ONE_FILE, UnreadableFilesError
from tidemill.state.keys.keys import VNODES, encode, in_vnodes, prefix, sort
from tidemill.state.merge.merge import negated
from tidemill.task.dataflow.deltas import Delta, batch_of
from tidemill.task.dataflow.operator import Output, SourceOperator, carries_out
from tidemill.task.expressions import references, remap
from tidemill.task.functions.columns.sizes import TooLargeError
from tidemill.task.functions.evaluate import filter_mask
from tidemill.task.program import ScanStep

_ERRORS_HELD = 4096
"""Malformed rows that are held as objects."""
_SHOWN = 100
"""How many bytes of a malformed row a message shows."""


@carries_out(ScanStep)
class ScanOperator(SourceOperator):
    """Reads splits in the order given; rows come in the order of their file.

    Only the columns in use are parsed. Malformed fields and rows go to the table's errors table. Once
    the barrier is reached every split has been reported with its quote parity. Files that cannot be read are told of
    together, at the barrier, by an error; at once where malformed rows are errors, too. The name of a file that is
    read anew comes out on port 1, and what its earlier version has in the errors table is withdrawn.
    """

    def __init__(self, step: int, operation: ScanStep) -> None:
        super().__init__(step)
        self.operation = operation
        source = operation.source
        needed = operation.columns
        if source.op_column is not None and source.op_column not in needed:
            needed = (*needed, source.op_column)
        if source.watermark is not None and source.watermark not in needed:
            needed = (*needed, source.watermark)
        self._options = dict(source.options)
        format_ = lookup(source.format)
        self._needed = tuple(name for name in needed if name != source.metadata)
        place = (source.file_schema, self._options, self._needed)
        reader = spool_reader(format_, *place, len(HEAD)) if source.pushed else format_.reader(*place)
        self._reader = _filtered(reader, operation, self._needed)
        self._has_lines = has_lines(format_)
        self._queue: deque[Split | None] = deque()
        self._small = SmallObjects(self._options, parse_read_mode(self._options).buffer_bytes)
        self._open: _OpenSplit | None = None
        self._file: FileMetadata | None = None
        self._errors: list[tuple[Split, RowError]] = []
        self._replaced: list[str] = []
        self._unreadable: list[tuple[Split, TidemillError]] = []
        self._must_read = MODE.of(self._options) is Mode.FAILFAST

    def add_split(self, split: Split) -> None:
        """Queue a split."""
        self._queue.append(split)
        self._small.expect(split)

    def request_barrier(self) -> None:
        """Queue the barrier."""
        self._queue.append(None)

    def reached_barrier(self) -> bool:
        """Whether the barrier is next."""
        if self._open is None and self._queue and self._queue[0] is None:
            self._queue.popleft()
            return True
        return False

    def get_output(self) -> Output | None:
        """Rows of the next buffer that has any."""
        while True:
            if self._open is None:
                if not self._queue or self._queue[0] is None:
                    return None
                split = self._queue.popleft()
                assert split is not None
                if split.start == split.end:
                    self.context.finished(SplitResult(split, False, 0, 0, 0, 0, 0))
                elif not self._begin(split):
                    continue
                if split.replaces:
                    self._replaced.append(split.path)
                    return Output(Delta(batch_of([_file_column(split.path, 1)], 1)), 1)
                if self._open is None:
                    continue
            try:
                rows = self._open.read()
            except TidemillError as error:
                self._give_up(self._open.split, error)
                continue
            if rows is None:
                self.context.finished(self._open.result())
                self._open = None
                continue
            split = self._open.split
            delta = self._delta(split, rows)
            self._open.rows += len(delta) + rows.passed_over
            try:
                self._errors += [(split, e) for e in self._open.take_errors()]  # may read the file again, for lines
            except TidemillError as error:
                self._give_up(split, error)
                continue
            if len(self._errors) > _ERRORS_HELD:
                self._write_errors()
            if len(delta):
                return Output(delta)

    def _begin(self, split: Split) -> bool:
        """Open a split; whether that was possible."""
        coming = self._small.take(split)
        try:
            self._open = _OpenSplit(split, self._reader, self._options, self._has_lines, coming)
        except TidemillError as error:
            self._give_up(split, error)
            return False
        return True

    def _give_up(self, split: Split, error: TidemillError) -> None:
        """Leave out the rest of a split, if it is only its file that cannot be read; else raise the error."""
        if self._must_read or error.number not in OF_ONE_FILE:
            raise error
        self._open = None
        self._unreadable.append((split, error))

    def start_drain(self) -> bool:
        """Write the epoch's malformed rows to the errors table, and take out those of versions that were replaced.

        Unless the epoch cannot be: an error tells of files that cannot be read.
        """
        if self._unreadable:
            raise UnreadableFilesError(self._unreadable)
        if self._replaced:
            self._withdraw_errors()
        self._write_errors()
        return False

    def _write_errors(self) -> None:
        """What was malformed since the last call."""
        if self._errors:
            table = self.operation.source.errors
            columns = errors_columns(self._errors)
            self._errors = []
            keys = encode(columns, table.key, table.distribution)
            weights = column(np.ones(len(keys), np.int64))
            self.context.state(table).write_unsorted(keys, [weights])

    def _withdraw_errors(self) -> None:
        """Of a file there is one first split, so nobody else does this."""
        table = self.operation.source.errors
        names = prefix([pa.array(sorted(set(self._replaced)), pa.string())], table.key, 0)
        self._replaced = []
        _, rows = self.context.state(table, everywhere=True).before.scan(in_vnodes(names.take(sort(names)), 0, VNODES))
        self.context.state(table).write(negated(rows))

    def _delta(self, split: Split, rows: Rows) -> Delta:
        source, batch = self.operation.source, rows.batch
        weights: npt.NDArray[np.int64] | None = None
        keep: pa.BooleanArray | None = None
        if source.op_column is not None:
            weights, keep = self._weights(split, rows)
        columns = [
            self._metadata(split).column(rows.positions)
            if c == source.metadata
            else batch.column(self._needed.index(c))
            for c in self.operation.columns
        ]
        if self.operation.sequenced:
            signs = np.ones(rows.count, np.int64) if weights is None else weights
            columns += [column(signs), column(rows.positions + split.base)]
            weights = None
        if self.operation.by_file:
            columns.append(_file_column(split.path, rows.count))
        delta = Delta(batch_of(columns, rows.count), weights, split.audience)
        if source.watermark is not None:
            keep = self._in_time(split, rows, keep)
        return delta if keep is None else delta.filter(keep)

    def _metadata(self, split: Split) -> FileMetadata:
        """What makes the column of metadata for a split, which is kept for its later batches."""
        if self._file is None or self._file.split is not split:
            source = self.operation.source
            self._file = FileMetadata(split, next(f.type for f in source.schema if f.name == source.metadata))
        return self._file

    def _in_time(self, split: Split, rows: Rows, keep: pa.BooleanArray | None) -> pa.BooleanArray | None:
        """Rows that are not late, of those kept so far; the others go to the errors table."""
        source = self.operation.source
        assert source.watermark is not None and self._open is not None
        times = rows.batch.column(self._needed.index(source.watermark)).cast(pa.int64())
        if split.watermark is not None:
            late = pc.fill_null(pc.less(times, split.watermark), False)
            if keep is not None:
                late = pc.and_(late, keep)
            if late.true_count:
                self._note_late(split, rows, np.flatnonzero(late.to_numpy(zero_copy_only=False)))
                keep = pc.invert(late) if keep is None else pc.and_not(keep, late)
        self._open.see(times if keep is None else times.filter(keep))
        return keep

    def _note_late(self, split: Split, rows: Rows, late: npt.NDArray[np.int64]) -> None:
        source = self.operation.source
        assert self._open is not None
        self._open.late += len(late)
        if split.audience is None:
            self._open.note(
                RowError(int(rows.positions[row]), source.watermark, "late", rows.raw(int(row)), True) for row in late
            )

    def _weights(self, split: Split, rows: Rows) -> tuple[npt.NDArray[np.int64], pa.BooleanArray | None]:
        """+1 and -1 by the value of the operation column; any other value makes a malformed row."""
        source = self.operation.source
        assert source.op_column is not None and self._open is not None
        operations = rows.batch.column(self._needed.index(source.op_column))
        inserts = pc.fill_null(pc.equal(operations, source.op_values[0]), False)
        deletes = pc.fill_null(pc.equal(operations, source.op_values[1]), False)
        weights = np.where(deletes.to_numpy(zero_copy_only=False), -1, 1).astype(np.int64)
        known = pc.or_(inserts, deletes)
        if known.true_count == len(known):
            return weights, None
        for row in np.flatnonzero(~known.to_numpy(zero_copy_only=False)):
            raw = (operations[int(row)].as_py() or "").encode()
            error = RowError(int(rows.positions[row]), source.op_column, "bad_operation", raw, True)
            self._open.reject(error)
        return weights, known


def _file_column(path: str, rows: int) -> pa.Array:
    """The file of some rows, in short."""
    return pa.repeat(pa.scalar(file_digest(path), pa.binary()), rows)


def _filtered(
    reader: RowReader | FileRowReader, operation: ScanStep, given: Sequence[str]
) -> RowReader | FileRowReader:
    """The reader of the columns ``given``, told what all its readers ask of a row if it can make use of that."""
    condition = operation.condition
    if condition is None or not isinstance(reader, FilteringReader):
        return reader
    columns = sorted(references(condition))
    asked = remap(condition, {column: place for place, column in enumerate(columns)})
    places = tuple(given.index(operation.columns[column]) for column in columns)

    def test(batch: pa.RecordBatch) -> pa.BooleanArray:
        try:
            return filter_mask(asked, batch)
        except TooLargeError:  # keep all rows: the filter step evaluates them again, in smaller batches
            return pa.repeat(True, batch.num_rows)

    return reader.filtered(RowFilter(places, test))


class _OpenSplit:
    """One split being read."""

    def __init__(
        self,
        split: Split,
        reader: RowReader | FileRowReader,
        options: Mapping[str, str],
        has_lines: bool,
        coming: Future[bytes] | None,
    ) -> None:
        self.split = split
        self.rows = self.malformed = self.dropped = self.late = 0
        self.rows_read = self.rows_malformed = self.new_within = 0
        self.latest: int | None = None
        self._example: RowError | None = None
        # What is wrong with rows of the buffer that was read last, and which of its rows are malformed.
        self._found: list[RowError] = []
        self._malformed_at: set[int] = set()
        self._lines: LineNumbers | None = None
        raw = split if split.encoded is None else replace(split, start=0, end=split.size)
        if has_lines:
            again = FileBytes(reader_of(raw, options), split.path, split.size, options)
            self._lines = LineNumbers(again, (split.path, split.size, split.modified))
        self._reader: SplitReader | None = None
        self._file: FileBytes | SplitFile
        if isinstance(reader, FileRowReader):
            self._file = _seekable(split, options, coming)
            self._parts = reader.rows(self._file.open(0), start=split.start, end=split.end, file_size=split.size)
        else:
            file = reader_of(raw, options, parse_read_mode(options).buffer_bytes, coming)
            self._file = file_bytes(file, split.path, split.size, raw.end, options, whole=True)
            place = {"start": split.start, "end": split.end, "size": split.size}
            part = split.encoded is not None
            with _naming(split):
                self._reader = open_split(reader, self._file, **place, in_quotes=split.in_quotes, part=part)
            self._parts = feed(self._reader, self._file, MODE.of(options))

    def read(self) -> Rows | None:
        """Rows of the next buffer (perhaps none), or None after the last."""
        rows = None
        try:
            with _naming(self.split):
                rows = self._next()
        finally:
            if rows is None:
                self._file.close()
                if self._lines is not None:
                    self._lines.close()
        if rows is None:
            return None
        self.new_within += rows.new_within
        self.rows_read += rows.count + len({e.position for e in rows.errors if e.dropped})
        for error in rows.errors:
            self.reject(error)
        return rows

    def _next(self) -> Rows | None:
        try:
            return next(self._parts, None)
        except MalformedRowError as error:
            if self._lines is None:
                raise
            raise error.on_line(self._lines.of([error.position])[0]) from error

    def reject(self, error: RowError) -> None:
        """Something is malformed."""
        self.malformed += 1
        self.dropped += error.dropped
        self._malformed_at.add(error.position)
        self._found.append(error)

    def note(self, errors: Iterable[RowError]) -> None:
        """Something belongs into the table of errors, but is not malformed."""
        self._found += errors

    def take_errors(self) -> Sequence[RowError]:
        """What is wrong with rows of the buffer that was read last, with lines; nothing for history, noted before."""
        self.rows_malformed += len(self._malformed_at)
        first = min(self._malformed_at, default=None)
        self._malformed_at = set()
        found: Sequence[RowError] = self._found if self.split.audience is None else ()
        self._found = []
        if self._lines is not None and found:
            with _naming(self.split):
                found = self._lines.numbered(found)
        if self._example is None and first is not None:
            self._example = next((e for e in found if e.position == first and e.reason != "late"), None)
        return found

    def result(self) -> SplitResult:
        """What the barrier needs to know."""
        split = self.split
        encoded = self._file.encoded if isinstance(self._file, FileBytes) else None
        if encoded is not None:
            encoded = max(encoded, split.encoded or 0)  # it is an estimate
        return SplitResult(
            split,
            self._reader is not None and self._reader.assumed_in_quotes,
            0 if self._reader is None else self._reader.quote_parity,
            self.rows,
            split.end - split.start if encoded is None else encoded - (split.encoded or 0),
            self.malformed,
            self.dropped,
            self.late,
            self.latest,
            self.rows_read,
            self.rows_malformed,
            "" if self._example is None else _described(self.split.path, self._example),
            self.new_within,
            encoded,
        )

    def see(self, times: pa.Array) -> None:
        """Note the event times of admitted rows."""
        latest = pc.max(times).as_py()
        if latest is not None and (self.latest is None or latest > self.latest):
            self.latest = latest


def _seekable(split: Split, options: Mapping[str, str], coming: Future[bytes] | None) -> SplitFile:
    """The file of a format that needs random access."""
    with _naming(split):
        parse_codec_options(options).refuse(split.path)
    return reader_of(split, options, coming=coming)


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


def errors_columns(errors: list[tuple[Split, RowError]]) -> list[pa.Array]:
    """Columns of an errors table: file, position, line, at, column, reason, raw."""
    return [
        pa.array([s.path for s, _ in errors], pa.string()),
        pa.array([e.position for _, e in errors], pa.int64()),
        pa.array([e.line for _, e in errors], pa.int64()),
        pa.array([e.at for _, e in errors], pa.int64()),
        pa.array([e.column for _, e in errors], pa.string()),
        pa.array([e.reason for _, e in errors], pa.string()),
        pa.array([e.raw for _, e in errors], pa.binary()),
    ]


def _described(path: str, error: RowError) -> str:
    """What is wrong with a row, and where, in one line."""
    where = "" if error.line is None else f"line {error.line}, "
    where += f"byte {error.position if error.at is None else error.at}"
    if error.column is not None:
        where += f", column {error.column!r}"
    raw = error.raw[:_SHOWN].decode("utf-8", "replace") + ("…" if len(error.raw) > _SHOWN else "")
    return f"{path}, {where}: {error.described}: {raw!r}"
