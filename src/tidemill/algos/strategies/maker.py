"""A market maker: an order on each side of the price, moved with it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from tidemill.algos.strategies import views
from tidemill.algos.strategy import Strategy, ViewChange


@dataclass
class MarketMaker(Strategy):
    """Keeps a bid and an ask around the middle of the best prices, farther away on the side of its position.

    Parameters
    ----------
    volume : int
        Of an order.
    spread : int
        Distance of its bid to its ask.
    most : int
        Position at which it stops to add to it.
    tick : int
        Unit of prices.
    """

    volume: int = 100
    spread: int = 400
    most: int = 1000
    tick: int = 100

    views: ClassVar[Mapping[str, str]] = {views.TOP: views.TOP_QUERY}
    timer: ClassVar[int] = 1000

    def __post_init__(self) -> None:
        self._middle = 0.0
        self._quoted = 0.0

    def on_view(self, change: ViewChange) -> None:
        """Note the middle."""
        bid, ask = change.row.get("bid"), change.row.get("ask")
        self._middle = (bid + ask) / 2 if bid and ask else 0.0

    def on_timer(self) -> None:
        """Quote anew where the middle has moved, or an order is gone."""
        if not self._middle or (self._middle == self._quoted and len(self.desk.orders) == 2):
            return
        self.desk.cancel_all()
        self._quoted = self._middle
        lean = -self.spread / 4 * self.desk.position / self.most
        bid = int((self._middle + lean - self.spread / 2) // self.tick) * self.tick
        ask = -int(-(self._middle + lean + self.spread / 2) // self.tick) * self.tick
        if self.desk.position < self.most and bid > 0:
            self.desk.buy(self.volume, bid)
        if self.desk.position > -self.most:
            self.desk.sell(self.volume, ask)
