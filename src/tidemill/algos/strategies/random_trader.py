"""A trader that knows nothing: the baseline."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import ClassVar

from tidemill.algos.strategy import Strategy


@dataclass
class RandomTrader(Strategy):
    """Once a second buys or sells at the market, or does nothing.

    Parameters
    ----------
    volume : int
        Of an order.
    seed : int
    """

    volume: int = 100
    seed: int = 0

    timer: ClassVar[int] = 1000

    def __post_init__(self) -> None:
        self._chance = random.Random(self.seed)

    def on_timer(self) -> None:
        """Trade."""
        choice = self._chance.randrange(3)
        if choice == 0:
            self.desk.buy(self.volume)
        elif choice == 1:
            self.desk.sell(self.volume)
