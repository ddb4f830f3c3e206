"""Table scan: reads splits in the order given, and gives the rows that their table keeps of them."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any, cast

import numpy as np
import pyarrow as pa

from tidemill.connectors.versioned.data_file import Reading, pool_of, reading_of
from tidemill.errors import TidemillError
from tidemill.formats.base import FileRowReader, RowReader, Rows
from tidemill.formats.messages import reader_of
from tidemill.formats.reading.read_modes import parse_read_mode
from tidemill.formats.records.spooled_records import spool_reader
from tidemill.formats.registry import lookup
from tidemill.formats.rows.malformed import MODE, Mode
from tidemill.formats.rows.row_filter import FilteringReader, RowFilter
from tidemill.kernels.columns import column
from tidemill.sources.objects.small_objects import SmallObjects
from tidemill.sources.sockets.spool import HEAD
from tidemill.sources.split import Split, SplitResult
from tidemill.sources.unreadable import OF_ONE_FILE, UnreadableFilesError
from tidemill.task.dataflow.deltas import Delta, batch_of
from tidemill.task.dataflow.operator import Output, SourceOperator, carries_out
from tidemill.task.expressions import references, remap
from tidemill.task.functions.columns.sizes import TooLargeError
from tidemill.task.functions.evaluate import filter_mask
from tidemill.task.program import ScanStep, TableSource
from tidemill.task.scan.errors_table import ErrorsTable
from tidemill.task.scan.row_policies import EventTimes, Metadata, Operations, file_column
from tidemill.task.scan.scanned_split import ScannedSplit


@carries_out(ScanStep)
class ScanOperator(SourceOperator):
    """Reads splits in the order given; rows come in the order of their file.

    Only the columns in use are parsed. Malformed fields and rows go to the table's errors table. Once
    the barrier is reached every split has been reported with its quote parity. Files that cannot be read are reported
    together, by one error at the barrier; at once where malformed rows are errors, too. The name of a file that is read
    again is emitted on port 1, and the errors of its earlier version are withdrawn.
    """

    def __init__(self, step: int, operation: ScanStep) -> None:
        super().__init__(step)
        self.operation = operation
        source = operation.source
        policies = [c for c in (source.op_column, source.watermark) if c is not None]
        needed = tuple(dict.fromkeys((*operation.columns, *policies)))
        self._options = dict(source.options)
        self._format = lookup(source.format)
        self._needed = tuple(name for name in needed if name != source.metadata)
        place = (self._format, source.file_schema, self._options, self._needed)
        if source.pushed:
            reader = spool_reader(*place, len(HEAD), source.messages)
        else:
            reader = reader_of(*place, source.messages)
        self._reader = _filtered(reader, operation, self._needed)
        self._operations, self._times, self._metadata = _policies(source, self._needed)
        self._errors = ErrorsTable(source.errors)
        self._queue: deque[Split | None] = deque()
        self._small = SmallObjects(self._options, parse_read_mode(self._options).buffer_bytes)
        self._open: ScannedSplit | None = None
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
                begun = self._begin(split)
                if begun and split.replaces:
                    self._errors.replace(split.path)
                    return Output(Delta(batch_of([file_column(split.path, 1)], 1)), 1)
                continue
            delta = self._read(self._open)
            if delta is not None and len(delta):
                return Output(delta)

    def _begin(self, split: Split) -> bool:
        """Open a split, unless nothing of it is read; whether that was possible."""
        if split.start == split.end or reading_of(split.etag) is Reading.NOTHING:
            self.context.finished(SplitResult(split, False, 0, 0, 0, 0, 0))
            return True
        coming = self._small.take(split)
        try:
            self._open = ScannedSplit(split, self._format, self._reader, self._options, coming)
        except TidemillError as error:
            self._give_up(split, error)
            return False
        return True

    def _read(self, open_: ScannedSplit) -> Delta | None:
        """The rows of the next buffer; None at the end of the split."""
        try:
            rows = open_.read()
            if rows is None:
                self.context.finished(open_.result())
                self._open = None
                return None
            delta = self._delta(open_, rows)
            open_.rows += len(delta) + rows.passed_over
            self._errors.add(open_.split, open_.take_errors(), self.context)  # may read the file again, for lines
        except TidemillError as error:
            open_.close()
            self._give_up(open_.split, error)
            return None
        return delta

    def _give_up(self, split: Split, error: TidemillError) -> None:
        """Leave out the rest of a split, if it is only its file that cannot be read; else raise the error."""
        if self._must_read or error.number not in OF_ONE_FILE:
            raise error
        self._open = None
        self._unreadable.append((split, error))

    def start_drain(self) -> bool:
        """Write the epoch's malformed rows to the errors table, and withdraw those of replaced versions of files.

        Raises
        ------
        UnreadableFilesError
            When files could not be read.
        """
        if self._unreadable:
            raise UnreadableFilesError(self._unreadable)
        self._errors.flush(self.context)
        return False

    def _delta(self, open_: ScannedSplit, rows: Rows) -> Delta:
        """The rows of a buffer that the table keeps, with the columns that the step gives."""
        split, count = open_.split, rows.count
        weights, kept = (None, None) if self._operations is None else self._operations.weights(open_, rows)
        weights = rows.weights if weights is None else weights
        columns = [self._column(name, split, rows) for name in self.operation.columns]
        if self.operation.sequenced:
            signs = np.ones(count, np.int64) if weights is None else weights
            columns += [column(signs), column(rows.positions + split.base)]
            weights = None
        if self.operation.by_file:
            columns.append(file_column(pool_of(split.etag) or split.path, count))
        delta = Delta(batch_of(columns, count), weights, split.backfill_target)
        if self._times is not None:
            kept = self._times.in_time(open_, rows, kept)
        return delta if kept is None else delta.filter(kept)

    def _column(self, name: str, split: Split, rows: Rows) -> pa.Array[Any]:
        if self._metadata is not None and name == self.operation.source.metadata:
            return self._metadata.column(split, rows)
        return rows.batch.column(self._needed.index(name))


def _policies(
    source: TableSource, needed: Sequence[str]
) -> tuple[Operations | None, EventTimes | None, Metadata | None]:
    """The policies of a table, given the columns that are read."""
    operations = times = metadata = None
    if source.op_column is not None:
        operations = Operations(source.op_column, needed.index(source.op_column), *source.op_values)
    if source.watermark is not None:
        times = EventTimes(source.watermark, needed.index(source.watermark))
    if source.metadata is not None:
        type_ = next(f.type for f in source.schema if f.name == source.metadata)
        metadata = Metadata(cast("pa.StructType", type_))
    return operations, times, metadata


def _filtered(
    reader: RowReader | FileRowReader, operation: ScanStep, given: Sequence[str]
) -> RowReader | FileRowReader:
    """The reader of the columns ``given``, with the condition of the scan if the reader can use it."""
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
