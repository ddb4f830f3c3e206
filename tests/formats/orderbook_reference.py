"""An order book, or one side of it, message by message: the plain form of :mod:`.replay`, and its oracle in tests."""

from __future__ import annotations

from typing import NamedTuple

from tidemill.formats.orderbook.rules import BookRules


class Message(NamedTuple):
    """One line of a trace."""

    t: float
    id: int
    action: str
    volume: float
    price: float


class Order(NamedTuple):
    """One row of the table."""

    t: float
    id: int
    broker_id: int
    volume: float
    price: float
    side: str


class Book:
    """Live orders by id; :meth:`apply` tells what a message changes."""

    def __init__(self, rules: BookRules) -> None:
        self.rules = rules
        self.orders: dict[int, Order] = {}

    def apply(self, message: Message) -> list[tuple[int, Order]]:
        """Rows that go (-1) and come (+1), in order; what lies between them is never visible."""
        old = self.orders.get(message.id)
        events = []
        taking = "EFDC" if self.rules.partial_cancels else "EFD"
        if message.action in self.rules.inserts:
            events.append((1, self._booked(message)))
        elif message.action in taking and old is not None:
            del self.orders[message.id]
            if not self.rules.insert_only:
                events.append((-1, old))
            left = old.volume - message.volume
            if message.action in "EC" and not left <= 0:
                events.append((1, old._replace(volume=left)))
        for weight, order in events:
            if weight > 0:
                self.orders[order.id] = order
        return events

    def _booked(self, message: Message) -> Order:
        brokers = self.rules.brokers
        broker = abs(message.id) % brokers * (-1 if message.id < 0 else 1)
        if not self.rules.deterministic:
            broker = _mixed(message.id % 2**64) % brokers
        values = (message.volume + 0.0, message.price + 0.0)
        return Order(message.t + 0.0, message.id, broker, *values, message.action)


def _mixed(word: int) -> int:
    word = (word ^ (word >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
    word = (word ^ (word >> 27)) * 0x94D049BB133111EB % 2**64
    return word ^ (word >> 31)
