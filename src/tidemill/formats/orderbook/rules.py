"""What an exchange's messages mean for one side of its order book.

For a message (t, id, action, volume, price):

- ``B`` on bids, ``S`` on asks: the order ``id`` is booked. One of that id that is booked already is replaced in
  the book without a deletion: its row stays in the table.
- ``E``: a booked order loses the message's volume; what is left is booked with its own t and price, and nothing
  is left when it is 0 or less.
- ``F``, ``D``: a booked order goes.
- ``X``, ``C``, ``T``, and orders of the other side: nothing. So ``C`` (a partial cancel) leaves the book unchanged.

The rules are those of the order-book adaptor of DBToaster, whose benchmark queries use such tables.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidemill.schema import Field, Schema

LETTERS = "BSEFDXCT"
"""Every action; any other letter is a malformed row."""

INSERT_LETTERS = {"bids": "B", "asks": "S"}
"""Which letter books an order, by book."""

MESSAGES = Schema(
    (
        Field("t", pa.float64(), False),
        Field("id", pa.int64(), False),
        Field("action", pa.string(), False),
        Field("volume", pa.float64(), False),
        Field("price", pa.float64(), False),
    )
)
"""Columns of the file, which has no header."""

ROWS = Schema(
    (
        Field("t", pa.float64(), False),
        Field("id", pa.int64(), False),
        Field("broker_id", pa.int32(), False),
        Field("volume", pa.float64(), False),
        Field("price", pa.float64(), False),
    )
)
"""Columns of the table."""


@dataclass(frozen=True)
class BookRules:
    """One side of a book.

    Parameters
    ----------
    insert : str
        The letter that books an order: ``B`` or ``S``.
    brokers : int
        Number of brokers; a broker is given to each order by its id.
    deterministic : bool
        Whether the broker is ``id mod brokers``; else it is drawn from a hash of the id, so that it is the same
        whenever the message is read again.
    insert_only : bool
        Whether deletions are left out: the table only grows.
    """

    insert: str
    brokers: int
    deterministic: bool
    insert_only: bool

    def broker_ids(self, ids: npt.NDArray[np.int64]) -> npt.NDArray[np.int32]:
        """The broker of each order; the remainder has the sign of the id, as in C and SQL."""
        if self.deterministic:
            brokers: npt.NDArray[Any] = np.fmod(ids, np.int64(self.brokers))
        else:
            brokers = _mixed(ids.astype(np.uint64)) % np.uint64(self.brokers)
        return brokers.astype(np.int32)


def _mixed(words: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """SplitMix64's output function (Steele, Lea and Flood, 2014)."""
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return words ^ (words >> np.uint64(31))
