"""What an exchange's messages mean for its order book, or for one side of it.

For a message (t, id, action, volume, price):

- ``B`` on bids, ``S`` on asks, either on both: the order ``id`` is booked. One of that id that is booked already is
  replaced in the book without a deletion: its row stays in the table.
- ``E``: a booked order loses the message's volume; what is left is booked with its own t and price, and nothing
  is left when it is 0 or less.
- ``F``, ``D``: a booked order goes.
- ``C`` (a partial cancel): as ``E`` if the rules say so, else nothing.
- ``X``, ``T``, and orders of the other side: nothing.

The rules are those of the order-book adaptor of DBToaster, whose benchmark queries use such tables; partial cancels
and tables of both sides are additions.
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

INSERT_LETTERS = {"bids": "B", "asks": "S", "both": "BS"}
"""Which letters book an order, by book."""

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
"""Columns of a table of one side."""

ROWS_OF_BOTH = Schema((*ROWS, Field("side", pa.string(), False)))
"""Columns of a table of both sides; a side is the letter that booked the order, ``B`` or ``S``."""


@dataclass(frozen=True)
class BookRules:
    """One side of a book, or both.

    Parameters
    ----------
    inserts : str
        The letters that book an order: ``B``, ``S`` or both.
    brokers : int
        Number of brokers; a broker is given to each order by its id.
    deterministic : bool
        Whether the broker is ``id mod brokers``; else it is drawn from a hash of the id, so that it is the same
        whenever the message is read again.
    insert_only : bool
        Whether deletions are left out: the table only grows.
    partial_cancels : bool
        Whether ``C`` takes its volume off an order.
    """

    inserts: str
    brokers: int
    deterministic: bool
    insert_only: bool
    partial_cancels: bool = False

    @property
    def rows(self) -> Schema:
        """Columns of the table."""
        return ROWS if len(self.inserts) == 1 else ROWS_OF_BOTH

    @property
    def letters(self) -> str:
        """The actions that can concern the book: those that book an order, then E, F, D, then C if it does."""
        return f"{self.inserts}EFDC" if self.partial_cancels else f"{self.inserts}EFD"

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
