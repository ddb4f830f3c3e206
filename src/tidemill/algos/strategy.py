"""What a strategy is: a small class that follows views, and sends orders."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import pyarrow as pa

from tidemill.algos.account import Fill
from tidemill.algos.desk import Desk


@dataclass(frozen=True)
class ViewChange:
    """A view after an epoch that changed it.

    Attributes
    ----------
    view : str
    epoch : int
    rows : list of dict
        All rows of the view, in no order.
    changes : pyarrow.Table
        What the epoch changed: the view's columns, and int64 ``__weight``.
    """

    view: str
    epoch: int
    rows: list[dict[str, Any]]
    changes: pa.Table

    @property
    def row(self) -> dict[str, Any]:
        """The only row of a view of one row; without columns when there is none."""
        return self.rows[0] if self.rows else {}


class Strategy:
    """Override what you need. The methods are called one at a time, in the order in which things happen.

    A subclass is a dataclass if it has options: its fields, of type int, float, bool or str. The tables that views may
    read are ``orders`` (t, id, broker_id, volume, price, side), all orders that rest, and ``bids`` and ``asks``.

    Attributes
    ----------
    views : dict
        The views that it follows: name to query, or to an empty text. A view that does not exist is created; one that
        does is followed as it is.
    timer : int
        Milliseconds between two calls of :meth:`on_timer`; 0 for none.
    desk : Desk
        Where it sends orders, and sees its position; set before :meth:`on_start`.
    now : int
        The time, in ms since midnight: that of the trace, in a back-test.
    """

    views: ClassVar[Mapping[str, str]] = {}
    timer: ClassVar[int] = 0
    desk: Desk
    now: int = 0

    def on_start(self) -> None:
        """Before anything else."""

    def on_view(self, change: ViewChange) -> None:
        """A view that it follows has changed; all changes of an epoch come one after the other."""

    def on_epoch(self) -> None:
        """All changes of an epoch have come."""

    def on_fill(self, fill: Fill) -> None:
        """One of its orders was executed, in part or in full."""

    def on_timer(self) -> None:
        """Time has passed."""
