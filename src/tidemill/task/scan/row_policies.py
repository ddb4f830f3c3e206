"""Policies of a table for its rows: deletions, late rows, metadata.

A policy reads columns of a buffer's rows, reports errors to the split, and says which rows are kept.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tidemill.formats.base import RowError, Rows
from tidemill.sources.file_metadata import FileMetadata
from tidemill.sources.split import Split, file_digest
from tidemill.task.scan.scanned_split import ScannedSplit

Kept: TypeAlias = "pa.BooleanArray | None"
"""Which rows are kept; None for all."""


class Operations:
    """The column of a table that says insert or delete (``opColumn``).

    Parameters
    ----------
    name : str
    place : int
        Of the column among those that are read.
    insert, delete : str
        Its values; any other makes a malformed row.
    """

    def __init__(self, name: str, place: int, insert: str, delete: str) -> None:
        self._name, self._place, self._insert, self._delete = name, place, insert, delete

    def weights(self, split: ScannedSplit, rows: Rows) -> tuple[npt.NDArray[np.int64], Kept]:
        """+1 or -1 for each row, and the rows that have one of the values."""
        found = rows.batch.column(self._place)
        inserts: Any = pc.equal(found, pa.scalar(self._insert)).fill_null(False)
        deletes: Any = pc.equal(found, pa.scalar(self._delete)).fill_null(False)
        weights = np.where(deletes.to_numpy(zero_copy_only=False), -1, 1).astype(np.int64)
        known = pc.or_(inserts, deletes)
        if known.true_count == len(known):
            return weights, None
        for row in np.flatnonzero(~known.to_numpy(zero_copy_only=False)):
            raw = (found[int(row)].as_py() or "").encode()
            split.reject(RowError(int(rows.positions[row]), self._name, "bad_operation", raw, True))
        return weights, known


class EventTimes:
    """The column of a table with a watermark: rows of a split that come too late are noted and left out.

    Parameters
    ----------
    name : str
    place : int
        Of the column among those that are read.
    """

    def __init__(self, name: str, place: int) -> None:
        self._name, self._place = name, place

    def in_time(self, split: ScannedSplit, rows: Rows, kept: Kept) -> Kept:
        """Rows that are not late, of those kept so far."""
        times = rows.batch.column(self._place).cast(pa.int64())
        if split.split.watermark is not None:
            late: Any = pc.less(times, pa.scalar(split.split.watermark)).fill_null(False)
            if kept is not None:
                late = pc.and_(late, kept)
            if late.true_count:
                self._note(split, rows, np.flatnonzero(late.to_numpy(zero_copy_only=False)))
                kept = pc.invert(late) if kept is None else pc.and_not(kept, late)
        split.note_event_times(times if kept is None else times.filter(kept))
        return kept

    def _note(self, split: ScannedSplit, rows: Rows, late: npt.NDArray[np.int64]) -> None:
        split.late += len(late)
        if split.split.backfill_target is None:
            split.note(RowError(int(rows.positions[r]), self._name, "late", rows.raw(int(r)), True) for r in late)


class Metadata:
    """The column of a table that says which file a row comes from.

    Parameters
    ----------
    type_ : pyarrow.StructType
    """

    def __init__(self, type_: pa.StructType) -> None:
        self._type = type_
        self._file: FileMetadata | None = None

    def column(self, split: Split, rows: Rows) -> pa.Array[Any]:
        """The column for some rows of a split."""
        if self._file is None or self._file.split is not split:
            self._file = FileMetadata(split, self._type)
        return self._file.column(rows.positions)


def file_column(path: str, rows: int) -> pa.Array[Any]:
    """The file of some rows, in short, of a table whose files may be overwritten."""
    return pa.repeat(pa.scalar(file_digest(path), pa.binary()), rows)
