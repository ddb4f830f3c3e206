"""Malformed rows of reads by Spark: Parquet files in a directory, one for each part of a file that has such rows.

A file of which a part is left out has one more, with one record.
"""

from __future__ import annotations

import hashlib
import os
import uuid
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tidemill.errors import TidemillError
from tidemill.formats.base import RowError
from tidemill.formats.text.line_numbers import LineNumbers
from tidemill.sources.files import local_pattern
from tidemill.sources.split import Split

_FIELDS: list[pa.Field[Any]] = [
    pa.field("file", pa.string(), False),
    pa.field("position", pa.int64(), False),
    pa.field("line", pa.int64()),
    pa.field("at", pa.int64()),
    pa.field("column", pa.string()),
    pa.field("reason", pa.string(), False),
    pa.field("raw", pa.binary(), False),
]
_ERRORS = pa.schema(_FIELDS)


class ErrorFile:
    """Writes the malformed rows of a split to a file of a directory, if there are any; completely or not at all.

    The file is named after the split, so a task that runs again writes it again.
    """

    def __init__(self, directory: str | None, split: Split, lines: LineNumbers | None) -> None:
        self._split = split
        self._lines = lines
        self._target: Path | None = None
        self._writer: pq.ParquetWriter | None = None
        if directory is not None:
            name = _short(f"{split.path}\0{split.start}")
            self._target = Path(local_pattern(directory)) / f"{name}.parquet"
            self._hidden = self._target.with_name(f".{name}-{os.getpid()}")

    def __enter__(self) -> ErrorFile:
        return self

    def add(self, errors: tuple[RowError, ...]) -> None:
        """Add errors of rows."""
        if self._target is None or not errors:
            return
        if self._writer is None:
            self._target.parent.mkdir(parents=True, exist_ok=True)
            self._writer = pq.ParquetWriter(self._hidden, _ERRORS)
        if self._lines is not None:
            errors = self._lines.numbered(errors)
        self._writer.write_table(_table(self._split.path, errors))

    def leave_out(self, error: TidemillError) -> None:
        """Record that the rest of the split is left out; of several splits of a file the last record stays."""
        if self._target is None:
            return
        self._target.parent.mkdir(parents=True, exist_ok=True)
        name = f"{_short(self._split.path)}.parquet"
        hidden = self._target.with_name(f".{name}-{uuid.uuid4().hex}")
        reason = f"{error.number}: {error.what}: {error.got}"
        pq.write_table(_table(self._split.path, (RowError(self._split.start, None, reason, b"", True),)), hidden)
        hidden.replace(self._target.with_name(name))

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if self._lines is not None:
            self._lines.close()
        if self._writer is not None:
            self._writer.close()
            assert self._target is not None
            if kind is None:
                self._hidden.replace(self._target)
            else:
                self._hidden.unlink()


def _table(path: str, errors: tuple[RowError, ...]) -> pa.Table:
    columns: list[Any] = [
        [path] * len(errors),
        [e.position for e in errors],
        [e.line for e in errors],
        [e.at for e in errors],
        [e.column for e in errors],
        [e.reason for e in errors],
        [e.raw for e in errors],
    ]
    arrays = [pa.array(values, field.type) for values, field in zip(columns, _ERRORS, strict=True)]
    return pa.table(arrays, schema=_ERRORS)


def _short(name: str) -> str:
    return hashlib.sha256(name.encode()).hexdigest()[:16]
