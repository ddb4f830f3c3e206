"""The book of one symbol: orders that rest, by price and time, and what becomes of requests."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from tidemill.exchange import matching
from tidemill.exchange.matching import FREE, HALT, LOT, NEXT_ID, RESTING, TICK, Messages, Requests, State

_ORDERS, _LEVELS, _MESSAGES = 1 << 10, 1 << 8, 1 << 12
"""What a new book has room for; it grows."""

_ORDER_COLUMNS = [name for name in State._fields if name.startswith("order_")]
_LEVEL_COLUMNS = [name for name in State._fields if name.startswith("level_")]

SIDES = "BS"
"""Letters of the sides."""


@dataclass(frozen=True)
class Request:
    """What a client asks for.

    Attributes
    ----------
    letter : str
        B and S: a new order. D: delete one. X: cancel ``volume`` of one. R: give one another volume and price.
    owner : int
        Who asks; only the owner of an order changes it.
    id : int
        The order, for D, X and R.
    type : int
        Of a new order: ``matching.LIMIT``, ``MARKET``, ``IMMEDIATE`` or ``ALL_OR_NOTHING``.
    """

    letter: str
    owner: int
    id: int = 0
    volume: int = 0
    price: int = 0
    type: int = matching.LIMIT


@dataclass(frozen=True)
class Message:
    """What happened.

    Attributes
    ----------
    letter : str
        B, S: an order was accepted, with ``volume``. E, F: it was executed, in part or in full. C: a part was
        cancelled. D: the rest was deleted. J: the request was rejected.
    request : int
        The place of the request among those that were given together.
    other : int
        The order that it traded with, 0 else.
    volume : int
        Asked for, traded or taken away.
    price : int
        Of the trade for E and F, else of the order; 0 for a market order.
    left : int
        What is left of the order; the reason of a rejection.
    """

    letter: str
    request: int
    id: int
    owner: int
    other: int
    volume: int
    price: int
    left: int


@dataclass(frozen=True)
class Resting:
    """An order that rests."""

    id: int
    side: str
    owner: int
    price: int
    volume: int


@dataclass(frozen=True)
class Level:
    """All orders of one side and price."""

    price: int
    volume: int
    orders: int


class Book:
    """Orders of one symbol. Not for several threads at a time.

    Parameters
    ----------
    tick, lot : int
        The units of prices and volumes: others are rejected.
    next_id : int
        The number of the first order.
    """

    def __init__(self, tick: int = 1, lot: int = 1, next_id: int = 1) -> None:
        if tick < 1 or lot < 1:
            raise ValueError(f"tick {tick} and lot {lot} must be positive")
        self._state = _empty(_ORDERS, _LEVELS)
        numbers = self._state.numbers
        numbers[TICK], numbers[LOT], numbers[NEXT_ID] = tick, lot, next_id
        self._out = _messages(_MESSAGES)

    @property
    def halted(self) -> bool:
        """Whether new orders and replacements are rejected; orders can be deleted meanwhile."""
        return bool(self._state.numbers[HALT])

    @halted.setter
    def halted(self, value: bool) -> None:
        self._state.numbers[HALT] = value

    def __len__(self) -> int:
        """How many orders rest."""
        return int(self._state.numbers[RESTING])

    def execute(self, requests: Sequence[Request]) -> list[Message]:
        """Carry out requests, one after the other; all messages, in order."""
        if not requests:
            return []
        columns = zip(*((ord(r.letter), r.type, r.id, r.owner, r.volume, r.price) for r in requests), strict=True)
        types = (np.uint8, np.int8, np.int64, np.int64, np.int64, np.int64)
        batch = Requests(*(np.array(column, type_) for column, type_ in zip(columns, types, strict=True)))
        return [
            Message(chr(letter), *rest)
            for part in self.execute_batch(batch)
            for letter, *rest in zip(*(column.tolist() for column in part), strict=True)
        ]

    def execute_batch(self, requests: Requests) -> Iterator[Messages]:
        """Carry out requests as columns; messages as columns, which are valid until the next ones are taken."""
        done = 0
        while done < len(requests.letter):
            before = done
            done, used = matching.execute(self._state, requests, done, self._out)
            if used:
                yield Messages(self._out.letter[:used], *(column[:used] for column in self._out[1:]))
            if done == before:
                self._grow()

    def _grow(self) -> None:
        """Double whatever is full."""
        state = self._state
        if state.numbers[FREE] < 0 or 2 * (len(self) + 1) > len(state.hash_id):
            state = _with_orders(state)
        if max(state.level_count) >= state.level_key.shape[1]:
            state = _with_levels(state)
        if state is self._state:
            self._out = _messages(2 * len(self._out.letter))
        self._state = state

    def levels(self, side: str, most: int | None = None) -> list[Level]:
        """The levels of a side (B or S), best price first."""
        state, row = self._state, SIDES.index(side)
        count = int(state.level_count[row])
        part = slice(0 if most is None else max(0, count - most), count)
        columns = (state.level_key[row, part], state.level_volume[row, part], state.level_orders[row, part])
        return [Level(abs(key), volume, orders) for key, volume, orders in zip(*(c[::-1].tolist() for c in columns))]

    def orders(self, side: str) -> Iterator[Resting]:
        """The orders of a side (B or S) in the order in which they trade."""
        state, row = self._state, SIDES.index(side)
        for level in range(int(state.level_count[row]) - 1, -1, -1):
            at = int(state.level_first[row, level])
            while at >= 0:
                price, left = abs(int(state.order_key[at])), int(state.order_left[at])
                yield Resting(int(state.order_id[at]), side, int(state.order_owner[at]), price, left)
                at = int(state.order_next[at])

    def order(self, id_: int) -> Resting | None:
        """An order that rests, by its number."""
        state, at = self._state, matching._find(self._state, id_)
        if at < 0:
            return None
        side, price = SIDES[state.order_side[at]], abs(int(state.order_key[at]))
        return Resting(id_, side, int(state.order_owner[at]), price, int(state.order_left[at]))


def _empty(orders: int, levels: int) -> State:
    order_next = np.arange(1, orders + 1, dtype=np.int32)
    order_next[-1] = -1
    return State(
        numbers=np.zeros(6, np.int64),
        order_id=np.zeros(orders, np.int64),
        order_key=np.zeros(orders, np.int64),
        order_left=np.zeros(orders, np.int64),
        order_owner=np.zeros(orders, np.int64),
        order_side=np.zeros(orders, np.int8),
        order_next=order_next,
        order_before=np.full(orders, -1, np.int32),
        level_count=np.zeros(2, np.int64),
        level_key=np.zeros((2, levels), np.int64),
        level_volume=np.zeros((2, levels), np.int64),
        level_orders=np.zeros((2, levels), np.int64),
        level_first=np.zeros((2, levels), np.int32),
        level_last=np.zeros((2, levels), np.int32),
        hash_id=np.zeros(4 * orders, np.int64),
        hash_order=np.full(4 * orders, -1, np.int32),
    )


def _with_orders(state: State) -> State:
    """The same book with room for twice as many orders."""
    count = len(state.order_id)
    new = _empty(2 * count, 1)
    for name in _ORDER_COLUMNS:
        getattr(new, name)[:count] = getattr(state, name)
    new.order_next[2 * count - 1] = state.numbers[FREE]  # what was free before comes behind what is new
    state.numbers[FREE] = count
    grown = new._replace(numbers=state.numbers, **{name: getattr(state, name) for name in _LEVEL_COLUMNS})
    matching.fill_hash(grown)
    return grown


def _with_levels(state: State) -> State:
    """The same book with room for twice as many levels."""
    columns = {name: getattr(state, name) for name in _LEVEL_COLUMNS if name != "level_count"}
    return state._replace(**{name: np.concatenate([column, column], axis=1) for name, column in columns.items()})


def _messages(room: int) -> Messages:
    numbers = [np.zeros(room, np.int64) for _ in Messages._fields[1:]]
    return Messages(np.zeros(room, np.uint8), *numbers)
