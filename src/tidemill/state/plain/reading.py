"""The whole of a small table as columns, without kernels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from tidemill.kernels.columns import column, numbers
from tidemill.state.keys.layout import Ints, is_nested
from tidemill.state.merge.operations import MergeOp
from tidemill.state.plain.decoding import decoded
from tidemill.state.plain.merging import combined, merged_keys
from tidemill.state.tables import StateTable

if TYPE_CHECKING:
    from tidemill.state.merge.merge import Rows

MOST_ROWS = 1 << 17
"""Of all runs together: to read them takes less than a tenth of the time in which the first kernel is loaded."""
_MOST_BYTES = 32 << 20
_LONGEST = 1 << 12
"""Bytes of a key: texts are read 8 bytes at a time, those of all rows together."""


class PlainRows(NamedTuple):
    """Rows in key order.

    Attributes
    ----------
    keys, values : list of pa.Array
        Columns of the key and of the values.
    """

    keys: list[pa.Array[Any]]
    values: list[pa.Array[Any]]
    length: int

    def take(self, rows: Ints) -> PlainRows:
        """The given rows (int64)."""
        index = column(rows)
        return PlainRows([k.take(index) for k in self.keys], [v.take(index) for v in self.values], len(rows))


def read_small(table: StateTable, runs: Sequence[Rows]) -> PlainRows | None:
    """All rows of a table whose weight is not 0, as merging with kernels and decoding give them.

    Parameters
    ----------
    runs : sequence of Rows
        Oldest first; each sorted, its keys unique.

    Returns
    -------
    PlainRows or None
        None for a table that is too large, or has what kernels alone can merge or decode.
    """
    runs = [run for run in runs if len(run)]
    if not runs or sum(map(len, runs)) > MOST_ROWS or not _plain(table):
        return None
    keys = [run.keys for run in runs]
    sizes = [np.diff(k.offsets) for k in keys]
    if sum(int(s.sum()) for s in sizes) > _MOST_BYTES or max(int(s.max()) for s in sizes) > _LONGEST:
        return None
    parts = list(zip(*(run.values for run in runs), strict=True))
    found, values = merged_keys([k.to_arrow() for k in keys]), [pa.concat_arrays(column) for column in parts]
    if len(runs) > 1:
        values = combined(found, values, table.ops)
    rows = PlainRows(decoded(found.keys, table.key), values, len(found.keys))
    weights = numbers(values[0])
    return rows if weights.all() else rows.take(np.flatnonzero(weights))


def _plain(table: StateTable) -> bool:
    if table.ops[0] is not MergeOp.SUM or MergeOp.SUM_QD in table.ops:
        return False
    return not any(is_nested(type_) for type_ in (*(k.type for k in table.key), *table.value_types))
