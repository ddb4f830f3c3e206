"""An input whose rows are sorted by key columns: checked as it comes, taken from its beginning."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from tidemill.errors import TidemillError
from tidemill.kernels.types import int64
from tidemill.kernels.words import I64, U8, Bytes, Ints, compare, kernel
from tidemill.state.keys.keys import KeyColumn, Keys, encode
from tidemill.state.runs.searching import locate_prefixes
from tidemill.task.dataflow.deltas import batch_of


@kernel(int64, I64, U8)
def _first_smaller(offsets: Ints, data: Bytes) -> int:
    """The first row whose key is smaller than that of the row before it, or -1."""
    for row in range(1, offsets.size - 1):
        if compare(data, offsets[row], offsets[row + 1], data, offsets[row - 1], offsets[row]) < 0:
            return row
    return -1


class SortedRows:
    """Rows that have come and have not been taken, in the order of their keys.

    Parameters
    ----------
    name : str
        What errors call the input.
    columns : sequence of int
        The key columns of the rows.
    layout : sequence of KeyColumn
        Types and order of the keys.
    """

    def __init__(self, name: str, columns: Sequence[int], layout: Sequence[KeyColumn]) -> None:
        self._name, self._columns, self._layout = name, tuple(columns), tuple(layout)
        self.clear()

    def clear(self) -> None:
        """Begin anew: the next row may have any key."""
        self._last_row: list[pa.Array[Any]] = []
        self._batches: deque[pa.RecordBatch] = deque()
        self._keys: deque[Keys] = deque()
        self._seen = 0
        self.last: bytes | None = None
        """The key of the newest row, also when it has been taken."""

    def __len__(self) -> int:
        return sum(map(len, self._keys))

    def append(self, batch: pa.RecordBatch) -> None:
        """Add rows behind those that came before.

        Raises
        ------
        TidemillError
            TM9020 when they are not in the order of their keys.
        """
        if not batch.num_rows:
            return
        columns = [batch.column(c) for c in self._columns]
        keys = encode(columns, self._layout, 0)
        if self.last is not None and keys[0] < self.last:
            self._fail(0, columns, self._last_row)
        wrong = int(_first_smaller(keys.offsets, keys.data))
        if wrong >= 0:
            self._fail(wrong, columns, [c.slice(wrong - 1, 1) for c in columns])
        self._batches.append(batch)
        self._keys.append(keys)
        self._seen += batch.num_rows
        self.last = keys[len(keys) - 1]
        self._last_row = [c.slice(len(c) - 1) for c in columns]

    def _shown(self, columns: Sequence[pa.Array[Any]], row: int) -> str:
        return "(" + ", ".join(repr(c[row].as_py()) for c in columns) + ")"

    def _fail(self, row: int, columns: Sequence[pa.Array[Any]], before: Sequence[pa.Array[Any]]) -> None:
        place = self._seen + row
        raise TidemillError(
            "TM9020",
            "rows are not sorted by their keys",
            got=f"{self._name}: {self._shown(columns, row)} in row {place} behind {self._shown(before, 0)}",
            hint="sort the files by the keys, NULL first; or use join() and aggregate(), which take any order",
        )

    @property
    def newest(self) -> bytes | None:
        """The key of the newest row that has not been taken."""
        return self._keys[-1][len(self._keys[-1]) - 1] if self._keys else None

    def before(self, key: bytes) -> int:
        """How many of the rows have a smaller key."""
        probe, count = np.frombuffer(key, np.uint8), 0
        for keys in self._keys:
            low, _ = locate_prefixes(keys.offsets, keys.data, np.array([0, len(probe)], np.int64), probe)
            count += int(low[0])
            if low[0] < len(keys):
                break
        return count

    def take(self, count: int) -> tuple[pa.RecordBatch, Keys]:
        """Take the first rows, with their keys."""
        batches: list[pa.RecordBatch] = []
        parts: list[Keys] = []
        while count:
            batch, keys = self._batches[0], self._keys[0]
            some = min(count, batch.num_rows)
            batches.append(batch.slice(0, some))
            parts.append(keys.slice(0, some))
            count -= some
            if some == batch.num_rows:
                self._batches.popleft()
                self._keys.popleft()
            else:
                self._batches[0], self._keys[0] = batch.slice(some), keys.slice(some, len(keys))
        if not batches:
            return batch_of((), 0), Keys.empty()
        if len(batches) == 1:
            return batches[0], parts[0]
        columns = [pa.concat_arrays([b.column(i) for b in batches]) for i in range(batches[0].num_columns)]
        return batch_of(columns, sum(b.num_rows for b in batches)), Keys.concat(parts)
