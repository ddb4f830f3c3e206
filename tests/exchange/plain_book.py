"""A book as the rules say it, in plain Python: one list of orders, searched from its beginning for each trade."""

from __future__ import annotations

from dataclasses import dataclass

from tidemill.exchange import matching
from tidemill.exchange.book import Message, Request


@dataclass
class Order:
    """One that rests; ``came`` orders those of a price."""

    id: int
    side: str
    owner: int
    price: int
    left: int
    came: int


class PlainBook:
    """The oracle of :class:`tidemill.exchange.book.Book`."""

    def __init__(self, tick: int, lot: int) -> None:
        self.tick, self.lot = tick, lot
        self.orders: list[Order] = []
        self.halted = False
        self.next_id = 1
        self.came = 0

    def side(self, side: str) -> list[Order]:
        """Orders of a side as they trade."""
        sign = -1 if side == "B" else 1
        return sorted((o for o in self.orders if o.side == side), key=lambda o: (sign * o.price, o.came))

    def execute(self, requests: list[Request]) -> list[Message]:
        """All messages."""
        self.out: list[Message] = []
        for at, request in enumerate(requests):
            self.at = at
            self._one(request)
        return self.out

    def _say(self, letter: str, id_: int, owner: int, other: int, volume: int, price: int, left: int) -> None:
        self.out.append(Message(letter, self.at, id_, owner, other, volume, price, left))

    def _one(self, r: Request) -> None:
        if r.letter in "BS":
            fault = self._fault(r.type, r.volume, r.price)
            price = None if r.type == matching.MARKET else r.price
            available = sum(o.left for o in self._good(r.letter, price))
            if not fault and r.type == matching.ALL_OR_NOTHING and available < r.volume:
                fault = matching.NOT_FILLED
            if not fault and any(o.id == r.id for o in self.orders):
                fault = matching.DUPLICATE
            if fault:
                self._say("J", r.id, r.owner, 0, r.volume, r.price, fault)
                return
            id_, self.next_id = r.id or self.next_id, self.next_id + (not r.id)
            self._say(r.letter, id_, r.owner, 0, r.volume, price or 0, r.volume)
            booked = r.type == matching.BOOKED
            left = r.volume if booked else self._match(id_, r.owner, r.letter, price, r.volume)
            if left and (booked or r.type == matching.LIMIT):
                self._rest(id_, r.letter, r.owner, r.price, left)
            elif left:
                self._say("D", id_, r.owner, 0, left, 0, 0)
            return
        order = next((o for o in self.orders if o.id == r.id), None)
        if r.letter in "EF":
            self._executed(r, order)
        elif r.letter not in "DXR":
            self._say("J", r.id, r.owner, 0, 0, 0, matching.UNKNOWN_REQUEST)
        elif order is None or order.owner != r.owner:
            reason = matching.UNKNOWN_ORDER if order is None else matching.NOT_OWNER
            self._say("J", r.id, r.owner, 0, r.volume, r.price if r.letter == "R" else 0, reason)
        elif r.letter == "R":
            self._replace(r, order)
        elif r.letter == "D" or r.volume >= order.left:
            self.orders.remove(order)
            self._say("D", r.id, r.owner, 0, order.left, order.price, 0)
        elif r.volume <= 0 or r.volume % self.lot:
            reason = matching.BAD_VOLUME if r.volume <= 0 else matching.BAD_LOT
            self._say("J", r.id, r.owner, 0, r.volume, 0, reason)
        else:
            order.left -= r.volume
            self._say("C", r.id, r.owner, 0, r.volume, order.price, order.left)

    def _executed(self, r: Request, order: Order | None) -> None:
        if order is None or (r.letter == "E" and r.volume <= 0):
            reason = matching.UNKNOWN_ORDER if order is None else matching.BAD_VOLUME
            self._say("J", r.id, r.owner, 0, r.volume, 0, reason)
            return
        taken = order.left if r.letter == "F" else min(order.left, r.volume)
        order.left -= taken
        price = r.price if r.price > 0 else order.price
        self._say("E" if order.left else "F", r.id, order.owner, 0, taken, price, order.left)
        if not order.left:
            self.orders.remove(order)

    def _replace(self, r: Request, order: Order) -> None:
        fault = self._fault(matching.LIMIT, r.volume, r.price)
        if fault:
            self._say("J", r.id, r.owner, 0, r.volume, r.price, fault)
        elif r.price == order.price and r.volume <= order.left:
            self._say("C", r.id, r.owner, 0, order.left - r.volume, r.price, r.volume)
            order.left = r.volume
        else:
            self.orders.remove(order)
            self._say("D", r.id, r.owner, 0, order.left, order.price, 0)
            self._say(order.side, r.id, r.owner, 0, r.volume, r.price, r.volume)
            left = self._match(r.id, r.owner, order.side, r.price, r.volume)
            if left:
                self._rest(r.id, order.side, r.owner, r.price, left)

    def _fault(self, type_: int, volume: int, price: int) -> int:
        if self.halted and type_ != matching.BOOKED:
            return matching.HALTED
        if not 0 < volume <= matching.MOST_VOLUME:
            return matching.BAD_VOLUME
        if volume % self.lot:
            return matching.BAD_LOT
        if type_ not in range(5):
            return matching.BAD_TYPE
        if type_ != matching.MARKET and not int(type_ != matching.BOOKED) <= price <= matching.MOST_PRICE:
            return matching.BAD_PRICE
        return matching.BAD_TICK if type_ != matching.MARKET and price % self.tick else 0

    def _good(self, side: str, price: int | None) -> list[Order]:
        other = self.side("S" if side == "B" else "B")
        return [o for o in other if price is None or (o.price <= price if side == "B" else o.price >= price)]

    def _match(self, id_: int, owner: int, side: str, price: int | None, left: int) -> int:
        for order in self._good(side, price):
            if not left:
                break
            traded = min(left, order.left)
            left, order.left = left - traded, order.left - traded
            self._say("E" if order.left else "F", order.id, order.owner, id_, traded, order.price, order.left)
            self._say("E" if left else "F", id_, owner, order.id, traded, order.price, left)
            if not order.left:
                self.orders.remove(order)
        return left

    def _rest(self, id_: int, side: str, owner: int, price: int, left: int) -> None:
        self.came += 1
        self.orders.append(Order(id_, side, owner, price, left, self.came))
