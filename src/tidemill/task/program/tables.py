"""State tables and the tables of a mill, as steps know them."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from tidemill.formats.messages import Messages
from tidemill.formats.orderbook.rules import BookRules
from tidemill.schema import Schema
from tidemill.state.keys.keys import KeyColumn
from tidemill.state.merge.merge import MergeOp


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
        return self.ops == (MergeOp.SUM,) and self.value_types == (pa.int64(),)

    @property
    def drops_zero(self) -> bool:
        """Whether a key of weight 0 need not be stored. That of an aggregate without GROUP BY tells that it began."""
        return self.is_multiset and bool(self.key)


def multiset_table(id_: str, types: tuple[pa.DataType, ...], distribution: int) -> StateTable:
    """A table of rows with multiplicities: all columns are key, the one value is the weight."""
    return StateTable(id_, tuple(KeyColumn(t) for t in types), distribution, (pa.int64(),), (MergeOp.SUM,))


@dataclass(frozen=True)
class Changelog:
    """How the rows of a keyed table follow from its messages in their order.

    ``rows`` are the columns of the table, ``key`` those of its primary key by position; ``created_at_epoch`` is the
    epoch sealed last when the table was created. ``book`` are the rules of an order book; without them the last
    message of a key decides: an insertion is the row from then on, a deletion ends it.
    """

    rows: Schema
    key: tuple[int, ...]
    created_at_epoch: int
    book: BookRules | None = None


@dataclass(frozen=True)
class FileVersions:
    """What a table whose files may be overwritten keeps: every row by the file it came from.

    ``rows`` are the columns of the table; ``created_at_epoch`` is the epoch sealed last when the table was created.
    """

    rows: Schema
    created_at_epoch: int


@dataclass(frozen=True)
class TableSource:
    """How the rows of a table are read: everything ``formats/`` and a scan need.

    ``op_column`` names the column that says insert or delete, with its values in ``op_values``.
    """

    name: str
    uid: str
    format: str
    schema: Schema
    options: tuple[tuple[str, str], ...]
    op_column: str | None
    op_values: tuple[str, str]
    errors: StateTable
    changelog: Changelog | None = None
    watermark: str | None = None
    """The column of event times, for tables that leave out late rows."""
    metadata: str | None = None
    """The column that says which file a row comes from; files do not have it."""
    static: bool = False
    """Whether the table is complete before anything that is joined with it begins."""
    versions: FileVersions | None = None
    pushed: bool = False
    """Whether its files are segments of a spool."""
    messages: Messages | None = None
    """What rows say of keys, for a keyed table whose rows may be deletions."""

    @property
    def kept(self) -> Changelog | FileVersions | None:
        """How its rows are kept from its creation on, whatever views there are; None for what is only read."""
        return self.versions if self.changelog is None else self.changelog

    @property
    def file_schema(self) -> Schema:
        """The columns that files have."""
        return Schema(tuple(f for f in self.schema if f.name != self.metadata))
