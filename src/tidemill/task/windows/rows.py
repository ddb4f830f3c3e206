"""The rows of a window's partitions as they were and as they are, and how many of them a task may look at together."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidemill.kernels.columns import numbers
from tidemill.state.keys.keys import Keys
from tidemill.state.lookup.merge_chunks import run_bytes
from tidemill.state.lookup.reader import TableState
from tidemill.state.merge.merge import Rows
from tidemill.task.dataflow.matching import slice_rows
from tidemill.task.functions.columns.sizes import partition_too_large

_Ints = npt.NDArray[np.int64]

_COPIES = 8
"""How often a row is in memory while its partition is computed, before and after, as it is stored and decoded."""
_LEAST_BYTES = 64 << 20
"""A partition of so many bytes is computed whatever memory_bytes says."""


class Sides(Enum):
    """Which rows of a partition are read: those before the epoch, those after it, or both."""

    BEFORE = 1
    AFTER = 2
    BOTH = 3


def weights_of(rows: Rows, sides: Sides) -> tuple[_Ints, _Ints]:
    """How often each row occurs before and after the epoch; 0 on a side that is not read.

    Parameters
    ----------
    rows : Rows
        As :meth:`tidemill.state.lookup.reader.TableState.compare` gives them. History that is read beside new rows can
        bring the delete of a row before the row: a weight that is negative counts as 0.
    """
    before, added = (numbers(v) for v in rows.values)
    was, now = np.maximum(before, 0), np.maximum(before + added, 0)
    none = np.zeros(len(rows), np.int64)
    return none if sides is Sides.AFTER else was, none if sides is Sides.BEFORE else now


def present_rows(rows: Rows, sides: Sides) -> Rows:
    """The rows that occur on a side that is read."""
    before, after = weights_of(rows, sides)
    return rows.take(np.flatnonzero((before > 0) | (after > 0)))


def rows_together(parts: Sequence[Rows], limit: int) -> int:
    """How many rows of some runs may be in memory together; ``limit`` is in bytes, 0 for no limit."""
    return max(1, max(limit, _LEAST_BYTES) // row_bytes(parts))


def row_bytes(parts: Sequence[Rows]) -> int:
    """About how many bytes a row takes while its partition is computed."""
    return _COPIES * (16 + sum(map(run_bytes, parts)) // max(1, sum(map(len, parts))))


def partition_rows(table: TableState, partitions: Keys, sides: Sides, limit: int) -> Rows:
    """All rows of some partitions that occur on a side that is read.

    Parameters
    ----------
    limit : int
        Bytes that a task may hold; 0 for no limit.

    Raises
    ------
    TooLargeError
        TM3020 for one partition that does not fit alone.
    """
    parts = table.now.parts()
    most = rows_together(parts, limit)
    if len(partitions) > 1 or sum(map(len, parts)) <= most:
        return present_rows(table.compare(partitions), sides)
    found: list[Rows] = []
    count = 0
    for rows in table.compare_blocks(partitions[0], slice_rows(parts)):
        kept = present_rows(rows, sides)
        found.append(kept)
        count += max(len(kept), *(int(weights.sum()) for weights in weights_of(kept, sides)))
        if limit and count > most:
            raise partition_too_large(count, row_bytes(parts) * count)
    return joined(found) if found else present_rows(table.compare(partitions), sides)


def joined(found: list[Rows]) -> Rows:
    """Rows one after the other."""
    columns = zip(*(rows.values for rows in found), strict=True)
    return Rows(Keys.concat([rows.keys for rows in found]), tuple(pa.concat_arrays(parts) for parts in columns))
