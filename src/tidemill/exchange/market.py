"""A market of simulated traders: requests for one symbol that follow from a seed and from what the exchange answers.

A value that all traders guess at moves in small steps, is drawn back to where it began, and jumps now and then. There
are five kinds of traders:

- *makers* keep orders near the value on both sides, and take them back after a while,
- *patient* ones leave orders far from it, which gives the book its depth,
- *informed* ones trade at once towards the value,
- *followers* trade at once in the direction in which the price went last,
- *random* ones trade at once, in either direction.

Those that trade at once come in bursts. Requests are decided by the seed and the exchange's messages alone, so an
exchange that nobody else trades at gives the same messages every time (:mod:`tidemill.exchange.chance`).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tidemill.exchange.chance import Chance, Ints
from tidemill.exchange.exchange import Exchange, Instrument
from tidemill.exchange.matching import IMMEDIATE, LIMIT, MARKET
from tidemill.exchange.wire import OWN_BROKERS, REQUEST, Records, trace_lines

OPENING = 34_200_000
"""9:30 in ms."""
BATCH = 64
"""Requests in a batch: all of them are made before the exchange answers the first."""

FIRST_BROKER = OWN_BROKERS + 1000
_BROKERS = {"maker": (0, 4), "patient": (4, 3), "informed": (7, 1), "follower": (8, 1), "random": (9, 2)}
"""The first broker of each kind, counted from ``FIRST_BROKER``, and how many there are."""
BROKERS = sum(count for _, count in _BROKERS.values())
"""The simulated traders are brokers ``FIRST_BROKER`` to ``FIRST_BROKER + BROKERS - 1``."""
_NEW = (("maker", 760), ("patient", 140), ("informed", 35), ("follower", 15), ("random", 50))
"""Of a thousand new orders."""
_BOUNDS = np.cumsum([share for _, share in _NEW])
_INFORMED, _FOLLOWER = 2, 3
"""Places in ``_NEW``; the kinds from the first of them on trade at once."""
_SIZES = np.array([100] * 10 + [200] * 3 + [300, 400, 500, 500, 1000, 2000, 5000], np.int64)
_BITS = 16
"""Of the fraction of the value."""


@dataclass(frozen=True)
class MarketRules:
    """What a market is like.

    Attributes
    ----------
    price : int
        Where it begins; a multiple of ``tick``.
    tick, lot : int
        Units of prices and volumes.
    resting : int
        About how many orders rest once the book is full.
    spread : int
        Mean distance of makers' orders from the value, in ticks.
    depth : int
        Greatest distance of patient orders, in ticks.
    jumps : int
        Of a million requests, those before which the value jumps.
    """

    price: int = 275_000
    tick: int = 100
    lot: int = 1
    resting: int = 10_000
    spread: int = 6
    depth: int = 2_500
    jumps: int = 200


class Market:
    """Makes requests for one symbol.

    Parameters
    ----------
    seed : int
    rules : MarketRules
    symbol : int
        Its place in the exchange's list.
    """

    def __init__(self, seed: int = 0, rules: MarketRules | None = None, symbol: int = 0) -> None:
        self.rules, self._symbol = rules or MarketRules(), symbol
        self._chance = Chance(seed)
        self._start = self.rules.price // self.rules.tick << _BITS
        self._value = self._start
        self._price = self._before = self.rules.price // self.rules.tick
        self._orders: list[tuple[int, int, int]] = []
        self._places: dict[int, int] = {}
        self._busy = 0

    def requests(self, count: int = BATCH) -> Records:
        """The next requests, of ``REQUEST``; made of what :meth:`learn` has told so far."""
        chance, live = self._chance, len(self._orders)
        self._move(count)
        kinds = chance.below(1000, count)
        share = min(800, 400 * live // self.rules.resting)  # of a thousand change orders, more in a full book
        changes = kinds < share
        found = np.zeros(count, REQUEST)
        found["symbol"] = self._symbol
        self._new(found)
        if changes.any():
            self._change(found, np.flatnonzero(changes))
        return found

    def _move(self, count: int) -> None:
        """Let the value move."""
        chance = self._chance
        step = int((chance.below(2 << 12, count) - (1 << 12)).sum())
        self._value += step - ((self._value - self._start) * count >> 17)
        if int(chance.below(1_000_000, 1)[0]) < self.rules.jumps * count:
            self._value += int(chance.below(2 * 40, 1)[0] - 40) << _BITS
        self._value = max(self._value, 1 << _BITS)
        if not self._busy:
            self._busy = int(chance.below(12, 1)[0] == 0) * 3
        else:
            self._busy -= 1

    def _new(self, found: Records) -> None:
        chance, count, tick = self._chance, len(found), self.rules.tick
        draw = chance.below(1000, count)
        if self._busy:
            draw = np.maximum(draw, chance.below(1000, count))  # more of those that trade at once, who come last
        side = chance.below(2, count)  # 0 buys
        near = 1 + chance.long_tailed(self.rules.spread, count)
        far = 1 + chance.below(self.rules.depth, count)
        value, centre = self._value >> _BITS, self._price
        kind = np.searchsorted(_BOUNDS, draw, side="right")
        for number, (name, _) in enumerate(_NEW):
            first, brokers = _BROKERS[name]
            chosen = kind == number
            found["broker"][chosen] = FIRST_BROKER + first + chance.below(brokers, int(chosen.sum()))
        side = np.where(kind == _INFORMED, int(value < centre), side)
        side = np.where(kind == _FOLLOWER, int(self._price < self._before), side)
        middle = np.where(kind == 0, value, centre)
        distance = np.where(kind == 0, near, np.where(kind == 1, far, -2))  # who trades at once gives two ticks
        price = np.maximum(1, np.where(side == 0, middle - distance, middle + distance))
        market = (kind >= _INFORMED) & (chance.below(4, count) == 0)
        found["letter"] = np.where(side == 0, ord("B"), ord("S"))
        found["type"] = np.where(kind < _INFORMED, LIMIT, np.where(market, MARKET, IMMEDIATE))
        found["price"] = np.where(market, 0, price * tick)
        found["volume"] = self._sizes(count) * self.rules.lot

    def _change(self, found: Records, rows: Ints) -> None:
        """Take orders back, most of them whole; some are reduced, some get another price."""
        chance, count = self._chance, len(rows)
        chosen = chance.below(len(self._orders), count).tolist()
        what = chance.below(20, count)
        orders = np.array([self._orders[place] for place in chosen], np.int64)
        found["id"][rows], found["broker"][rows], found["type"][rows] = orders[:, 0], orders[:, 1], LIMIT
        found["letter"][rows] = np.where(what == 0, ord("X"), np.where(what == 1, ord("R"), ord("D")))
        lots = np.where(what == 0, 50, np.where(what == 1, self._sizes(count), 0))
        found["volume"][rows] = lots * self.rules.lot
        moved = np.maximum(self.rules.tick, orders[:, 2] + (chance.below(5, count) - 2) * self.rules.tick)
        found["price"][rows] = np.where(what == 1, moved, 0)

    def _sizes(self, count: int) -> Ints:
        """Mostly round numbers of lots."""
        sizes = _SIZES[self._chance.below(len(_SIZES), count)]
        return np.where(self._chance.below(20, count) == 0, 1 + self._chance.below(99, count), sizes)

    def learn(self, messages: Records) -> None:
        """Take note of what the exchange says about this symbol."""
        mine = messages[messages["symbol"] == self._symbol]
        columns = (mine[name].tolist() for name in ("letter", "id", "broker", "price"))
        for letter, id_, broker, price in zip(*columns, strict=True):
            if letter in b"BS":
                if FIRST_BROKER <= broker < FIRST_BROKER + BROKERS:
                    self._places[id_] = len(self._orders)
                    self._orders.append((id_, broker, price))
            elif letter in b"FD":
                self._forget(id_)
        traded = mine["price"][(mine["letter"] == ord("E")) | (mine["letter"] == ord("F"))]
        if len(traded):
            self._before, self._price = self._price, int(traded[-1]) // self.rules.tick

    def _forget(self, id_: int) -> None:
        place = self._places.pop(id_, None)
        if place is not None:
            last = self._orders.pop()
            if place < len(self._orders):
                self._orders[place], self._places[last[0]] = last, place


class Session:
    """A market at an exchange of its own, as fast as that goes.

    Attributes
    ----------
    exchange : Exchange
    time : int
        Of the newest message, in ms since midnight: it begins at 9:30, and 100 requests take a second on average.
    """

    def __init__(self, seed: int = 0, rules: MarketRules | None = None, symbol: str = "ACME") -> None:
        self.market, self.time = Market(seed, rules), OPENING
        self._chance = Chance(seed + 1)
        self._micros = OPENING * 1000
        traded = Instrument(symbol, self.market.rules.tick, self.market.rules.lot)
        self.exchange = Exchange([traded], clock=lambda: self.time, keep=1 << 16)

    def step(self) -> Records:
        """The messages that the next requests have caused; rejections are left out."""
        self._micros += int(self._chance.long_tailed(10_000 * BATCH, 1)[0])
        self.time = self._micros // 1000
        messages = self.exchange.execute(self.market.requests()).messages
        self.market.learn(messages)
        return messages[messages["sequence"] > 0]


def write_trace(path: Path, messages: int, seed: int = 0, rules: MarketRules | None = None) -> None:
    """Write a trace of a market, one line ``t,id,action,volume,price`` for each message.

    Raises
    ------
    OSError
        The file cannot be written.
    """
    session, left = Session(seed, rules), messages
    with path.open("wb") as file:
        while left > 0:
            found = session.step()[:left]
            left -= len(found)
            file.write(trace_lines(found))
