"""What flows between operators: deltas (rows with weights) and keyed rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidemill.kernels.columns import column
from tidemill.state.merge.merge import Rows
from tidemill.state.merge.unordered import Unordered


@dataclass(frozen=True)
class Delta:
    """A Z-set of rows.

    Parameters
    ----------
    batch : pyarrow.RecordBatch
        The rows; columns are used by position.
    weights : numpy int64 array or None
        One weight a row: +1 inserts, -1 deletes. None means all +1.
    backfill_target : int or None
        None for rows that every step sees. A number for rows of history: only steps created at that epoch see them.
    """

    batch: pa.RecordBatch
    weights: npt.NDArray[np.int64] | None = None
    backfill_target: int | None = None

    def __len__(self) -> int:
        return int(self.batch.num_rows)

    def explicit_weights(self) -> npt.NDArray[np.int64]:
        """The weights as an array, also when all are +1."""
        return np.ones(len(self), np.int64) if self.weights is None else self.weights

    def take(self, rows: npt.NDArray[np.int64]) -> Delta:
        """The rows at some positions."""
        weights = None if self.weights is None else self.weights[rows]
        return Delta(self.batch.take(column(rows)), weights, self.backfill_target)

    def halves(self) -> tuple[Delta, Delta]:
        """The first and the second half of the rows."""
        middle = len(self) // 2
        return self.take(np.arange(middle)), self.take(np.arange(middle, len(self)))

    def filter(self, mask: pa.BooleanArray) -> Delta:
        """The rows where ``mask`` is true; it has no NULLs."""
        weights = self.weights
        if weights is not None:
            weights = weights[mask.to_numpy(zero_copy_only=False)]
        return Delta(self.batch.filter(mask), weights, self.backfill_target)


def batch_of(columns: list[pa.Array[Any]] | tuple[pa.Array[Any], ...], rows: int) -> pa.RecordBatch:
    """A record batch with columns named by position; ``rows`` counts when there is no column."""
    if columns:
        return pa.RecordBatch.from_arrays(list(columns), names=[str(i) for i in range(len(columns))])
    empty: Any = pa.StructArray.from_buffers(pa.struct([]), rows, [None])
    return pa.RecordBatch.from_struct_array(empty)


def concat(deltas: Sequence[Delta]) -> Delta:
    """The rows of several deltas of equal columns, at least one, in order, without a backfill target."""
    if len(deltas) == 1:
        return deltas[0]
    batches = [d.batch for d in deltas]
    columns = [pa.concat_arrays([b.column(i) for b in batches]) for i in range(batches[0].num_columns)]
    weights = None
    if any(d.weights is not None for d in deltas):
        weights = np.concatenate([d.explicit_weights() for d in deltas])
    return Delta(batch_of(columns, sum(map(len, deltas))), weights)


def single_rows(delta: Delta) -> pa.RecordBatch:
    """The rows of a delta without deletions, each as often as its weight says."""
    if delta.weights is None:
        return delta.batch
    assert not len(delta) or int(delta.weights.min()) > 0, "rows that go, where nothing has come"
    if not len(delta) or int(delta.weights.max()) == 1:
        return delta.batch
    return delta.batch.take(column(np.repeat(np.arange(len(delta)), delta.weights)))


@dataclass(frozen=True)
class Keyed:
    """Rows sorted by key, each key once: what is written to state and what crosses an exchange."""

    rows: Rows

    def __len__(self) -> int:
        return len(self.rows.keys)


@dataclass(frozen=True)
class Loose:
    """Rows by key in any order: what steps store that nothing else reads, within their task."""

    rows: Unordered

    def __len__(self) -> int:
        return len(self.rows)


Item: TypeAlias = Delta | Keyed | Loose
