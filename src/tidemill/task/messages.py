"""The messages of an epoch that have reached the owner of their keys."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidemill.state.keys import Keys, decode, encode, group
from tidemill.state.merge import Rows
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
        What the messages say.
    """

    keys: Keys
    starts: npt.NDArray[np.int64]
    values: tuple[pa.Array, ...]


def by_key(rows: Rows, operation: ArrangeMessages, table: StateTable) -> Messages:
    """The messages of each key, from arranged ones."""
    columns = decode(rows.keys, operation.table.key)[:-1]
    encoded = encode(columns, table.key, table.distribution)
    _, firsts = group(encoded)
    return Messages(encoded.take(firsts), np.append(firsts, len(encoded)), rows.values)
