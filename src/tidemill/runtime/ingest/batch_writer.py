"""Writes the rows of one partition of a batch as files in the root, on an executor."""

from __future__ import annotations

import tempfile
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark import TaskContext

from tidemill.runtime.ingest.log import unwritable
from tidemill.state.versions.objects import STAGED, Objects

WRITTEN = "name STRING, rows BIGINT"
"""The schema of what a task returns: one row per file."""

FILE_BYTES = 16 << 20
"""The approximate size of a file in memory."""

_GROUP_ROWS = 1 << 17
"""Rows of a row group of Parquet."""


@dataclass(frozen=True)
class BatchWriter:
    """Writes the rows of a partition; gives the names of the files and how many rows each has.

    Parameters
    ----------
    objects : Objects
        The root.
    folder : str
        Where the files go.
    format : str
        ``arrow`` or ``parquet``.
    schema : pyarrow.Schema
        What the columns become.
    """

    objects: Objects
    folder: str
    format: str
    schema: pa.Schema

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Files of about 16 MiB of rows."""
        context = TaskContext.get()
        assert context is not None
        waiting = (b for b in batches if b.num_rows)
        number = 0
        while (first := next(waiting, None)) is not None:
            name = f"{self.folder}/{context.partitionId():05d}-{number:05d}-{uuid.uuid4().hex}.{self.format}"
            rows = self._write(name, chain([first], waiting))
            yield pa.RecordBatch.from_pydict({"name": [name], "rows": [rows]})
            number += 1

    def _write(self, name: str, batches: Iterator[pa.RecordBatch]) -> int:
        """Write one file, and put it into the root; the rows that it has."""
        target = self.objects.path(name)
        place = None if target is None else target.parent  # the file is linked from there, not copied
        try:
            if place is not None:
                place.mkdir(parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile(dir=place, prefix=".", suffix=STAGED) as staged:
                rows = self._fill(staged.name, batches)
                self.objects.put(name, Path(staged.name))
        except OSError as error:
            raise unwritable(name, error) from error
        return rows

    def _fill(self, path: str, batches: Iterator[pa.RecordBatch]) -> int:
        size = rows = 0
        with self._opened(path) as sink:
            for batch in batches:
                sink.write_batch(self._cast(batch))
                size, rows = size + batch.nbytes, rows + batch.num_rows
                if size >= FILE_BYTES:
                    break
        return rows

    def _opened(self, path: str) -> pa.ipc.RecordBatchFileWriter | _RowGroups:
        if self.format == "arrow":
            return pa.ipc.new_file(path, self.schema, options=pa.ipc.IpcWriteOptions(compression="lz4"))
        return _RowGroups(path, self.schema)

    def _cast(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows with the types of the table: Spark has its own zone in timestamps, and names within columns."""
        columns = [c if c.type == f.type else c.cast(f.type) for c, f in zip(batch.columns, self.schema, strict=True)]
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)


class _RowGroups:
    """A file of Parquet whose row groups are larger than the batches they come in."""

    def __init__(self, path: str, schema: pa.Schema) -> None:
        self._writer = pq.ParquetWriter(path, schema)
        self._schema = schema
        self._waiting: list[pa.RecordBatch] = []
        self._rows = 0

    def __enter__(self) -> _RowGroups:
        return self

    def write_batch(self, batch: pa.RecordBatch) -> None:
        """Add rows."""
        self._waiting.append(batch)
        self._rows += batch.num_rows
        if self._rows >= _GROUP_ROWS:
            self._flush()

    def _flush(self) -> None:
        if self._waiting:
            self._writer.write_table(pa.Table.from_batches(self._waiting, self._schema))
        self._waiting, self._rows = [], 0

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if kind is None:
            self._flush()
        self._writer.close()
