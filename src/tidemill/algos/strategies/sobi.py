"""Static order book imbalance: where the best orders of one side are nearer to the price, it will move away."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from tidemill.algos.strategies import views
from tidemill.algos.strategy import Strategy, ViewChange


@dataclass
class Sobi(Strategy):
    """Compares the distances of the price to the volume-weighted prices of both sides' best quarters.

    With the bids much farther away than the asks it sells, and the other way round it buys; at most once a second.

    Parameters
    ----------
    volume : int
        Of an order.
    ratio : float
        An imbalance is a ratio of the distances below this.
    pause : int
        Milliseconds between two orders.
    """

    volume: int = 100
    ratio: float = 0.25
    pause: int = 1000

    views: ClassVar[Mapping[str, str]] = {
        views.TOP: views.TOP_QUERY,
        views.VWAP_BIDS: views.VWAP_BIDS_QUERY,
        views.VWAP_ASKS: views.VWAP_ASKS_QUERY,
    }

    def __post_init__(self) -> None:
        self._price = 0.0
        self._vwap = {views.VWAP_BIDS: 0.0, views.VWAP_ASKS: 0.0}
        self._next = 0

    def on_view(self, change: ViewChange) -> None:
        """Note the prices."""
        row = change.row
        if change.view == views.TOP:
            bid, ask = row.get("bid"), row.get("ask")
            self._price = (bid + ask) / 2 if bid and ask else 0.0
        else:
            self._vwap[change.view] = row["value"] / row["volume"] if row.get("volume") else 0.0

    def on_epoch(self) -> None:
        """Trade on an imbalance."""
        bids, asks = self._vwap.values()
        if not (self._price and bids and asks) or self.now < self._next:
            return
        below, above = self._price - bids, asks - self._price
        if below <= 0 or above <= 0:
            return
        if above < self.ratio * below:
            self.desk.sell(self.volume)
        elif below < self.ratio * above:
            self.desk.buy(self.volume)
        else:
            return
        self._next = self.now + self.pause
