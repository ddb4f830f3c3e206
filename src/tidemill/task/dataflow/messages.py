"""The messages of an epoch that have reached the owner of their keys."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidemill.state.keys.keys import Keys, decode, encode, group
from tidemill.state.lookup.reader import TableState
from tidemill.state.merge.merge import Rows, merge
from tidemill.task.program import ArrangeMessages, StateTable


@dataclass(frozen=True)
class Messages:
    """Messages of k keys, by key and place.

    Attributes
    ----------
    keys : Keys
        The k keys, ascending, as the state table has them.
    starts : ndarray of int64, shape (k + 1,)
        Messages ``starts[i]`` to ``starts[i + 1] - 1`` are of key i, in the order in which they were admitted.
    values : tuple of pyarrow.Array
        The other columns of the messages.
    """

    keys: Keys
    starts: npt.NDArray[np.int64]
    values: tuple[pa.Array[Any], ...]


def parts_by_key(
    held: TableState, operation: ArrangeMessages, table: StateTable, only_last: bool
) -> Iterator[Messages]:
    """The messages that a table holds, some keys at a time; it is closed at the end.

    Parameters
    ----------
    only_last : bool
        Whether only the last message of each key is used: earlier ones may then be missing.
    """
    rows: Rows | None = None
    try:
        for block in held.blocks():
            if rows is not None:  # the last key may have more messages in the next block
                found = by_key(rows, operation, table)
                begin = int(found.starts[-2])
                if begin:
                    values = tuple(v.slice(0, begin) for v in found.values)
                    yield Messages(found.keys.slice(0, len(found.keys) - 1), found.starts[:-1], values)
                left = rows.slice(len(rows) - 1 if only_last else begin, len(rows))
                block = merge([left, block], operation.table.ops, drop_zero=False)
            rows = block
        if rows is not None:
            yield by_key(rows, operation, table)
    finally:
        held.close()


def by_key(rows: Rows, operation: ArrangeMessages, table: StateTable) -> Messages:
    """The messages of each key, from arranged ones."""
    columns = decode(rows.keys, operation.table.key)[:-1]
    encoded = encode(columns, table.key, table.distribution)
    _, firsts = group(encoded)
    return Messages(encoded.take(firsts), np.append(firsts, len(encoded)), rows.values)
