"""What a strategy has, what it may do, and what has become of it: whole numbers, in the units of the exchange."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Fill:
    """An execution of an order.

    Attributes
    ----------
    time : int
        In ms since midnight.
    order : int
        As :meth:`Desk.buy` gave it.
    side : str
        B or S.
    volume, price : int
    left : int
        What is left of the order.
    """

    time: int
    order: int
    side: str
    volume: int
    price: int
    left: int


@dataclass(frozen=True)
class Limits:
    """What a strategy may risk. An order beyond a limit is not sent.

    Attributes
    ----------
    position : int
        Most that it may hold, or owe, with all its orders executed.
    order : int
        Largest volume of an order.
    orders : int
        Most orders at a time.
    loss : int
        A greater loss stops the strategy.
    """

    position: int = 10_000
    order: int = 10_000
    orders: int = 100
    loss: int = 1 << 60


@dataclass(frozen=True)
class Point:
    """What an account was worth at a time, at the price of that time."""

    time: int
    price: int
    position: int
    cash: int
    equity: int


@dataclass
class Account:
    """Cash and position.

    Attributes
    ----------
    capital : int
        The cash at the beginning.
    fee : int
        Of a trade, in millionths of its value; rounded up.
    fees : int
        Paid so far.
    price : int
        The newest price that is known: what the position is valued at.
    fills : list of Fill
    curve : list of Point
        One for each time at which something was noted.
    """

    capital: int = 2_500_000 * 10_000
    fee: int = 0
    cash: int = field(init=False)
    position: int = 0
    fees: int = 0
    price: int = 0
    fills: list[Fill] = field(default_factory=list)
    curve: list[Point] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.cash = self.capital

    @property
    def equity(self) -> int:
        """Cash, and the position at the newest price."""
        return self.cash + self.position * self.price

    @property
    def profit(self) -> int:
        """What was gained since the beginning, fees taken off."""
        return self.equity - self.capital

    def book(self, fill: Fill) -> None:
        """Take an execution into the account."""
        sign = 1 if fill.side == "B" else -1
        value = fill.volume * fill.price
        fee = -(-value * self.fee // 1_000_000)
        self.position += sign * fill.volume
        self.cash -= sign * value + fee
        self.fees += fee
        self.fills.append(fill)

    def note(self, time: int) -> None:
        """Add a point to the curve; of a time the newest one is kept."""
        point = Point(time, self.price, self.position, self.cash, self.equity)
        if self.curve and self.curve[-1].time == time:
            self.curve[-1] = point
        elif not self.curve or self.curve[-1].equity != point.equity or self.curve[-1].position != point.position:
            self.curve.append(point)
