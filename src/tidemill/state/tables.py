"""State tables, as all that reads and writes them knows them."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from tidemill.state.keys.layout import KeyColumn
from tidemill.state.merge.operations import MergeOp, is_multiset


@dataclass(frozen=True)
class StateTable:
    """The layout of one state table.

    ``key`` columns are encoded in this order; the first ``distribution`` of them choose the vnode.
    ``value_types`` has one entry per Arrow column, ``ops`` one per logical value.
    """

    id: str
    key: tuple[KeyColumn, ...]
    distribution: int
    value_types: tuple[pa.DataType, ...]
    ops: tuple[MergeOp, ...]

    @property
    def is_multiset(self) -> bool:
        """Whether a row is its key and a weight, nothing else."""
        return is_multiset(self.ops, self.value_types)

    @property
    def drops_zero(self) -> bool:
        """Whether a key of weight 0 need not be stored. That of an aggregate without GROUP BY tells that it began."""
        return self.is_multiset and bool(self.key)


def multiset_table(id_: str, types: tuple[pa.DataType, ...], distribution: int) -> StateTable:
    """A table of rows with multiplicities: all columns are key, the one value is the weight."""
    return StateTable(id_, tuple(KeyColumn(t) for t in types), distribution, (pa.int64(),), (MergeOp.SUM,))
