"""Momentum: a price that has moved goes on."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from tidemill.algos.strategies import views
from tidemill.algos.strategy import Strategy, ViewChange


@dataclass
class Momentum(Strategy):
    """Once a second compares the price with that of some time ago; holds a position in the direction of its move.

    Parameters
    ----------
    volume : int
        What it holds.
    window : int
        Seconds.
    move : int
        Of the price, that is enough.
    """

    volume: int = 200
    window: int = 20
    move: int = 500

    views: ClassVar[Mapping[str, str]] = {views.TOP: views.TOP_QUERY}
    timer: ClassVar[int] = 1000

    def __post_init__(self) -> None:
        self._price = 0.0
        self._past: deque[float] = deque(maxlen=max(1, self.window))

    def on_view(self, change: ViewChange) -> None:
        """Note the price."""
        bid, ask = change.row.get("bid"), change.row.get("ask")
        self._price = (bid + ask) / 2 if bid and ask else 0.0

    def on_timer(self) -> None:
        """Trade towards the position wanted."""
        if not self._price:
            return
        before = self._past[0] if len(self._past) == self._past.maxlen else self._price
        self._past.append(self._price)
        moved = self._price - before
        wanted = 0 if abs(moved) < self.move else self.volume if moved > 0 else -self.volume
        missing = wanted - self.desk.position
        if missing and not self.desk.orders:
            (self.desk.buy if missing > 0 else self.desk.sell)(abs(missing))
