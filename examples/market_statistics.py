"""Draws what the simulated market of the exchange is like: price, returns, their memory, and depth.

    python examples/market_statistics.py market.png --messages 1000000

docs/exchange.md shows what this draws.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass

import matplotlib as mpl
import numpy as np
import numpy.typing as npt

from tidemill.exchange.market import OPENING, Session

Floats = npt.NDArray[np.float64]
_SECONDS = 10
"""A return is over so long."""
_LAGS = 60
_TICKS = 60
"""Distances from the best price whose volume is shown."""


@dataclass
class Statistics:
    """Of a market.

    Attributes
    ----------
    seconds, prices : ndarray of float64
        The price at the end of each 10 seconds, in ticks.
    depth : ndarray of float64
        Mean volume by distance from the best price of its side, in ticks.
    spread : float
        Mean distance of the best prices, in ticks.
    levels, orders : int
        Of the book at the end.
    """

    seconds: Floats
    prices: Floats
    depth: Floats
    spread: float
    levels: int
    orders: int

    @property
    def returns(self) -> Floats:
        """Changes of the price, in ticks."""
        return np.diff(self.prices)

    @property
    def excess_kurtosis(self) -> float:
        """0 for a normal distribution, more for one with more large changes."""
        scaled = (self.returns - self.returns.mean()) / self.returns.std()
        return float((scaled**4).mean() - 3)


def autocorrelation(values: Floats, lags: int) -> Floats:
    """For lags 1, 2, ..."""
    centred = values - values.mean()
    return np.array([(centred[lag:] * centred[:-lag]).mean() for lag in range(1, lags + 1)]) / centred.var()


def statistics_of(messages: int, seed: int) -> Statistics:
    """Let a market trade, and look at it every ten seconds of its time."""
    session = Session(seed)
    tick, book = session.market.rules.tick, session.exchange.books[0]
    prices, depth, spreads = list[float](), np.zeros(_TICKS), list[int]()
    count, price, next_look = 0, 0, OPENING + _SECONDS * 1000
    while count < messages:
        found = session.step()
        count += len(found)
        traded = found["price"][(found["letter"] == ord("E")) | (found["letter"] == ord("F"))]
        price = int(traded[-1]) // tick if len(traded) else price
        while session.time >= next_look:
            next_look += _SECONDS * 1000
            sides = [[(level.price // tick, level.volume) for level in book.levels(side)] for side in "BS"]
            if price and all(sides):
                prices.append(price)
                bid, ask = max(sides[0])[0], min(sides[1])[0]
                spreads.append(ask - bid)
                for side, best in zip(sides, (bid, ask)):
                    for at, volume in side:
                        if abs(at - best) < _TICKS:
                            depth[abs(at - best)] += volume
    levels = sum(len(list(book.levels(side))) for side in "BS")
    times = np.arange(1, len(prices) + 1, dtype=np.float64) * _SECONDS
    orders = len(list(session.exchange.orders(0)))
    return Statistics(times, np.array(prices), depth / 2 / len(prices), float(np.mean(spreads)), levels, orders)


def draw(found: Statistics, path: str) -> None:
    """Write the picture."""
    mpl.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(2, 2, figsize=(10, 6.5), layout="constrained")
    axes[0, 0].plot(found.seconds / 60, found.prices, linewidth=0.8)
    axes[0, 0].set(title="price", xlabel="minutes", ylabel="ticks")
    returns, deviation = found.returns, found.returns.std()
    bins = np.arange(returns.min() - 0.5, returns.max() + 1.5)
    axes[0, 1].hist(returns, bins, density=True, label="market")
    normal = np.exp(-0.5 * (bins / deviation) ** 2) / deviation / np.sqrt(2 * np.pi)
    axes[0, 1].plot(bins, normal, "k--", linewidth=1, label="normal")
    axes[0, 1].set(title=f"changes in {_SECONDS} s", xlabel="ticks", yscale="log", ylim=(1 / len(returns) / 2, 1))
    axes[0, 1].legend()
    lags = np.arange(1, _LAGS + 1) * _SECONDS
    axes[1, 0].plot(lags, autocorrelation(np.abs(returns), _LAGS), label="size of changes")
    axes[1, 0].plot(lags, autocorrelation(returns, _LAGS), label="changes")
    axes[1, 0].axhline(0, color="k", linewidth=0.5)
    axes[1, 0].set(title="autocorrelation", xlabel="seconds")
    axes[1, 0].legend()
    axes[1, 1].bar(np.arange(_TICKS), found.depth, width=1)
    axes[1, 1].set(title="mean volume of a side", xlabel="ticks from its best price")
    figure.savefig(path, dpi=80)


def main() -> None:
    """Draw, and print some numbers."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("picture", help="a file, such as market.png")
    options.add_argument("--messages", type=int, default=1_000_000)
    options.add_argument("--seed", type=int, default=0)
    given = options.parse_args()
    found = statistics_of(given.messages, given.seed)
    draw(found, given.picture)
    print(f"{found.levels:,} levels, {found.orders:,} orders, mean spread {found.spread:.1f} ticks")
    spread, kurtosis = found.returns.std(), found.excess_kurtosis
    print(f"changes in {_SECONDS} s: deviation {spread:.1f} ticks, excess kurtosis {kurtosis:.1f}")


if __name__ == "__main__":
    main()
