"""Matching by price and time, compiled: a batch of requests changes the book of one symbol and gives messages.

The book is a :class:`State` of arrays. Each side has its price levels in an array that is sorted so that the best one
is last, where most of them come and go; a level is a list of orders, oldest first, linked through the array of orders.
Orders are found by their number through a hash table with linear probing (Knuth, The Art of Computer Programming 3,
6.4, algorithms L and R).

Buyers' levels have their price as key and sellers' its negative, so that a larger key is always a better price.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tidemill.kernels.kernel import njit

Ints = npt.NDArray[np.int64]
Slots = npt.NDArray[np.int32]
Letters = npt.NDArray[np.uint8]

BUY, SELL, DELETE, CANCEL, REPLACE = (ord(c) for c in "BSDXR")
"""Letters of requests."""
EXECUTED, FILLED, REDUCED, REJECTED = (ord(c) for c in "EFCJ")
"""Letters of messages beside those of requests: executed in part, in full, partly cancelled, rejected."""

LIMIT, MARKET, IMMEDIATE, ALL_OR_NOTHING, BOOKED = range(5)
"""What an order does with the part that meets no other: it rests; it is deleted (twice, a market order has no price);
the whole order is rejected unless all of it is executed at once. One that is booked meets none, and rests also while
trading is halted: it comes from a trace, as do requests E and F, which execute a part or all of an order. An E, X or D
that is booked has what is to be left of the order as its price, and says nothing where there is no more than that."""

MOST_VOLUME = 1 << 40
MOST_PRICE = 1 << 50
_NONE = -1
_ANY_PRICE = -(1 << 62)

UNKNOWN_REQUEST, UNKNOWN_ORDER, NOT_OWNER, BAD_VOLUME, BAD_LOT = range(1, 6)
BAD_PRICE, BAD_TICK, BAD_TYPE, HALTED, NOT_FILLED = range(6, 11)
DUPLICATE = 15
"""Reasons of a rejection."""

FREE, NEXT_ID, HALT, LOT, TICK, RESTING = range(6)
"""Places in ``State.numbers``: the first unused order, the number of the next order, whether trading is halted, the
unit of volumes and of prices, how many orders rest."""


class State(NamedTuple):
    """The book of one symbol.

    Orders are rows of ``order_*``; unused ones are linked through ``order_next``. Levels are ``[side, place]`` of
    ``level_*``, of which ``level_count[side]`` are used; buyers are side 0.
    """

    numbers: Ints
    order_id: Ints
    order_key: Ints
    order_left: Ints
    order_owner: Ints
    order_side: npt.NDArray[np.int8]
    order_next: Slots
    order_before: Slots
    level_count: Ints
    level_key: Ints
    level_volume: Ints
    level_orders: Ints
    level_first: npt.NDArray[np.int32]
    level_last: npt.NDArray[np.int32]
    hash_id: Ints
    hash_order: Slots


class Requests(NamedTuple):
    """A batch.

    ``id`` is that of an order that exists, for D, X, R, E and F; for a new order its number, or 0 for the next one.
    ``type`` is that of a new order.
    """

    letter: Letters
    type: npt.NDArray[np.int8]
    id: Ints
    owner: Ints
    volume: Ints
    price: Ints


class Messages(NamedTuple):
    """What happened, in order.

    ``request`` is the place of the request in its batch. ``volume`` is what was asked for (B, S, R), traded (E, F) or
    taken away (C, D); ``left`` is what is left of the order, for a rejection the reason. ``other`` is the order that
    one traded with.
    """

    letter: Letters
    request: Ints
    id: Ints
    owner: Ints
    other: Ints
    volume: Ints
    price: Ints
    left: Ints


@njit(nogil=True)
def execute(book: State, requests: Requests, begin: int, out: Messages) -> tuple[int, int]:
    """Carry out requests from ``begin`` on.

    Returns
    -------
    done : int
        The first request that is not carried out: there is no room left for its messages, for an order or for a level.
    messages : int
    """
    used = 0
    room = len(out.letter)
    for at in range(begin, len(requests.letter)):
        if used + _most_messages(book, requests, at) > room or not _has_room(book):
            return at, used
        letter = requests.letter[at]
        if letter in (BUY, SELL):
            used = _new(book, requests, at, out, used)
        elif letter in (DELETE, CANCEL):
            used = _cancel(book, requests, at, out, used)
        elif letter == REPLACE:
            used = _replace(book, requests, at, out, used)
        elif letter in (EXECUTED, FILLED):
            used = _executed(book, requests, at, out, used)
        else:
            used = _say(out, used, REJECTED, at, requests.id[at], requests.owner[at], 0, 0, 0, UNKNOWN_REQUEST)
    return len(requests.letter), used


@njit(nogil=True)
def _say(
    out: Messages,
    used: int,
    letter: int,
    request: int,
    id_: int,
    owner: int,
    other: int,
    volume: int,
    price: int,
    left: int,
) -> int:
    out.letter[used] = letter
    out.request[used] = request
    out.id[used] = id_
    out.owner[used] = owner
    out.other[used] = other
    out.volume[used] = volume
    out.price[used] = price
    out.left[used] = left
    return used + 1


@njit(nogil=True)
def _has_room(book: State) -> bool:
    """Whether one more order and one more level fit, and the hash table is at most half full."""
    levels = book.level_key.shape[1]
    return bool(
        book.numbers[FREE] != _NONE
        and book.level_count[0] < levels
        and book.level_count[1] < levels
        and 2 * (book.numbers[RESTING] + 1) <= len(book.hash_id)
    )


@njit(nogil=True)
def _most_messages(book: State, requests: Requests, at: int) -> int:
    """A bound: two for each resting order that a request may meet, and three of its own."""
    letter = requests.letter[at]
    if letter in (BUY, SELL):
        side, volume, price = int(letter == SELL), requests.volume[at], requests.price[at]
        least = _ANY_PRICE if requests.type[at] == MARKET else (price if side else -price)
    elif letter == REPLACE:
        order = _find(book, requests.id[at])
        if order == _NONE:
            return 3
        side, volume, price = book.order_side[order], requests.volume[at], requests.price[at]
        least = price if side else -price
    else:
        return 3
    other = 1 - side
    met = 0
    for level in range(book.level_count[other] - 1, -1, -1):
        if volume <= 0 or book.level_key[other, level] < least:
            break
        met += book.level_orders[other, level]
        volume -= book.level_volume[other, level]
    return 2 * met + 3


@njit(nogil=True)
def _fault(book: State, type_: int, volume: int, price: int) -> int:
    """Why an order with these numbers is rejected, or 0."""
    if book.numbers[HALT] and type_ != BOOKED:
        return HALTED
    if volume <= 0 or volume > MOST_VOLUME:
        return BAD_VOLUME
    if volume % book.numbers[LOT]:
        return BAD_LOT
    if type_ < LIMIT or type_ > BOOKED:
        return BAD_TYPE
    if type_ == MARKET:
        return 0
    if price < int(type_ != BOOKED) or price > MOST_PRICE:  # a market order of a trace has none
        return BAD_PRICE
    return BAD_TICK if price % book.numbers[TICK] else 0


@njit(nogil=True)
def _new(book: State, requests: Requests, at: int, out: Messages, used: int) -> int:
    letter, type_, owner = requests.letter[at], requests.type[at], requests.owner[at]
    volume, price = requests.volume[at], requests.price[at]
    side = int(letter == SELL)
    fault = _fault(book, type_, volume, price)
    least = _ANY_PRICE if type_ == MARKET else (price if side else -price)
    if not fault and type_ == ALL_OR_NOTHING and _available(book, 1 - side, least, volume) < volume:
        fault = NOT_FILLED
    id_ = requests.id[at]
    if not fault and id_ and _find(book, id_) != _NONE:
        fault = DUPLICATE
    if fault:
        return int(_say(out, used, REJECTED, at, id_, owner, 0, volume, price, fault))
    if not id_:
        id_ = book.numbers[NEXT_ID]
        book.numbers[NEXT_ID] += 1
    used = _say(out, used, letter, at, id_, owner, 0, volume, 0 if type_ == MARKET else price, volume)
    left = volume
    if type_ != BOOKED:
        left, used = _match(book, at, id_, owner, side, least, volume, out, used)
    if left and type_ in (LIMIT, BOOKED):
        _rest(book, id_, owner, side, -price if side else price, left)
    elif left:
        used = _say(out, used, DELETE, at, id_, owner, 0, left, 0, 0)
    return used


@njit(nogil=True)
def _available(book: State, side: int, least: int, enough: int) -> int:
    """The volume that rests at prices that are good enough, until it is enough."""
    found = 0
    for level in range(book.level_count[side] - 1, -1, -1):
        if found >= enough or book.level_key[side, level] < least:
            break
        found += book.level_volume[side, level]
    return found


@njit(nogil=True)
def _match(
    book: State, at: int, id_: int, owner: int, side: int, least: int, volume: int, out: Messages, used: int
) -> tuple[int, int]:
    """Trade with the other side while its best price is good enough; what is left, and the number of messages.

    A trade is at the price of the order that rests, and gives a message for that and then one for the other.
    """
    other, left = 1 - side, volume
    while left and book.level_count[other]:
        level = book.level_count[other] - 1
        key = book.level_key[other, level]
        if key < least:
            break
        price = abs(key)
        order = book.level_first[other, level]
        traded = min(left, book.order_left[order])
        left -= traded
        book.order_left[order] -= traded
        book.level_volume[other, level] -= traded
        rest = book.order_left[order]
        their_id, their_owner = book.order_id[order], book.order_owner[order]
        if rest == 0:
            _unlink(book, order, level)
        letter = FILLED if rest == 0 else EXECUTED
        used = _say(out, used, letter, at, their_id, their_owner, id_, traded, price, rest)
        letter = FILLED if left == 0 else EXECUTED
        used = _say(out, used, letter, at, id_, owner, their_id, traded, price, left)
    return left, used


@njit(nogil=True)
def _cancel(book: State, requests: Requests, at: int, out: Messages, used: int) -> int:
    """Take away an order (D), or so much of it (X)."""
    id_, owner, volume = requests.id[at], requests.owner[at], requests.volume[at]
    order = _find(book, id_)
    if requests.type[at] == BOOKED:
        volume = _above(book, order, requests.price[at])
        if volume <= 0:
            return used
    fault = 0
    if order == _NONE:
        fault = UNKNOWN_ORDER
    elif book.order_owner[order] != owner:
        fault = NOT_OWNER
    elif requests.letter[at] == CANCEL and volume <= 0:
        fault = BAD_VOLUME
    elif requests.letter[at] == CANCEL and volume < book.order_left[order] and volume % book.numbers[LOT]:
        fault = BAD_LOT
    if fault:
        return int(_say(out, used, REJECTED, at, id_, owner, 0, volume, 0, fault))
    price = abs(book.order_key[order])
    if requests.letter[at] == CANCEL and volume < book.order_left[order]:
        _reduce(book, order, volume)
        return int(_say(out, used, REDUCED, at, id_, owner, 0, volume, price, book.order_left[order]))
    left = book.order_left[order]
    _remove(book, order)
    return int(_say(out, used, DELETE, at, id_, owner, 0, left, price, 0))


@njit(nogil=True)
def _above(book: State, order: int, left: int) -> int:
    """How much more there is of an order than is to be left of it."""
    return 0 if order == _NONE else int(book.order_left[order] - left)


@njit(nogil=True)
def _executed(book: State, requests: Requests, at: int, out: Messages, used: int) -> int:
    """Execute a part of an order (E), or all of it (F), with nobody that is known, at a price if it has one."""
    id_, owner, volume = requests.id[at], requests.owner[at], requests.volume[at]
    order = _find(book, id_)
    if requests.type[at] == BOOKED:
        volume = _above(book, order, requests.price[at])
        if volume <= 0:
            return used
    if order == _NONE:
        return int(_say(out, used, REJECTED, at, id_, owner, 0, volume, 0, UNKNOWN_ORDER))
    if requests.letter[at] == EXECUTED and volume <= 0:
        return int(_say(out, used, REJECTED, at, id_, owner, 0, volume, 0, BAD_VOLUME))
    before, price, owner = book.order_left[order], abs(book.order_key[order]), book.order_owner[order]
    if requests.type[at] != BOOKED and requests.price[at] > 0:
        price = requests.price[at]  # of the trade
    if requests.letter[at] == EXECUTED and volume < before:
        _reduce(book, order, volume)
        return int(_say(out, used, EXECUTED, at, id_, owner, 0, volume, price, before - volume))
    _remove(book, order)
    return int(_say(out, used, FILLED, at, id_, owner, 0, before, price, 0))


@njit(nogil=True)
def _replace(book: State, requests: Requests, at: int, out: Messages, used: int) -> int:
    """Give an order another volume and price.

    It keeps its place among orders of its price when only its volume becomes smaller. Otherwise it is as one that comes
    now, and may trade.
    """
    id_, owner = requests.id[at], requests.owner[at]
    volume, price = requests.volume[at], requests.price[at]
    order = _find(book, id_)
    if order == _NONE:
        fault = UNKNOWN_ORDER
    elif book.order_owner[order] != owner:
        fault = NOT_OWNER
    else:
        fault = _fault(book, LIMIT, volume, price)
    if fault:
        return int(_say(out, used, REJECTED, at, id_, owner, 0, volume, price, fault))
    side, before = int(book.order_side[order]), book.order_left[order]
    if price == abs(book.order_key[order]) and volume <= before:
        _reduce(book, order, before - volume)
        return int(_say(out, used, REDUCED, at, id_, owner, 0, before - volume, price, volume))
    used = _say(out, used, DELETE, at, id_, owner, 0, before, abs(book.order_key[order]), 0)
    _remove(book, order)
    used = _say(out, used, SELL if side else BUY, at, id_, owner, 0, volume, price, volume)
    left, used = _match(book, at, id_, owner, side, price if side else -price, volume, out, used)
    if left:
        _rest(book, id_, owner, side, -price if side else price, left)
    return used


# -- orders and levels ------------------------------------------------------------------------------------


@njit(nogil=True)
def _level(book: State, side: int, key: int) -> int:
    """The place of the first level whose key is not smaller."""
    low, high = 0, book.level_count[side]
    while low < high:
        middle = (low + high) // 2
        if book.level_key[side, middle] < key:
            low = middle + 1
        else:
            high = middle
    return low


@njit(nogil=True)
def _rest(book: State, id_: int, owner: int, side: int, key: int, volume: int) -> None:
    """Add an order behind all others of its price."""
    order = book.numbers[FREE]
    book.numbers[FREE] = book.order_next[order]
    book.numbers[RESTING] += 1
    book.order_id[order], book.order_key[order] = id_, key
    book.order_left[order], book.order_owner[order] = volume, owner
    book.order_side[order], book.order_next[order] = side, _NONE
    level, count = _level(book, side, key), book.level_count[side]
    if level == count or book.level_key[side, level] != key:
        for at in range(count, level, -1):
            book.level_key[side, at] = book.level_key[side, at - 1]
            book.level_volume[side, at] = book.level_volume[side, at - 1]
            book.level_orders[side, at] = book.level_orders[side, at - 1]
            book.level_first[side, at] = book.level_first[side, at - 1]
            book.level_last[side, at] = book.level_last[side, at - 1]
        book.level_count[side] = count + 1
        book.level_key[side, level], book.level_volume[side, level] = key, 0
        book.level_orders[side, level] = 0
        book.level_first[side, level] = order
        book.order_before[order] = _NONE
    else:
        last = book.level_last[side, level]
        book.order_next[last] = order
        book.order_before[order] = last
    book.level_last[side, level] = order
    book.level_volume[side, level] += volume
    book.level_orders[side, level] += 1
    _enter(book, order)


@njit(nogil=True)
def fill_hash(book: State) -> None:
    """Enter all orders that rest into an empty hash table."""
    for side in range(2):
        for level in range(book.level_count[side]):
            order = book.level_first[side, level]
            while order != _NONE:
                _enter(book, order)
                order = book.order_next[order]


@njit(nogil=True)
def _enter(book: State, order: int) -> None:
    place = _home(book, book.order_id[order])
    while book.hash_order[place] != _NONE:
        place = (place + 1) & (len(book.hash_id) - 1)
    book.hash_id[place], book.hash_order[place] = book.order_id[order], order


@njit(nogil=True)
def _reduce(book: State, order: int, volume: int) -> None:
    side = int(book.order_side[order])
    book.order_left[order] -= volume
    book.level_volume[side, _level(book, side, book.order_key[order])] -= volume


@njit(nogil=True)
def _remove(book: State, order: int) -> None:
    """Take an order with all that is left of it out of the book."""
    side = int(book.order_side[order])
    level = _level(book, side, book.order_key[order])
    book.level_volume[side, level] -= book.order_left[order]
    _unlink(book, order, level)


@njit(nogil=True)
def _unlink(book: State, order: int, level: int) -> None:
    """Take an order out of its level, and the level away if it was its last one."""
    side = int(book.order_side[order])
    before, after = book.order_before[order], book.order_next[order]
    if before == _NONE:
        book.level_first[side, level] = after
    else:
        book.order_next[before] = after
    if after == _NONE:
        book.level_last[side, level] = before
    else:
        book.order_before[after] = before
    book.level_orders[side, level] -= 1
    if book.level_orders[side, level] == 0:
        book.level_count[side] -= 1
        for at in range(level, book.level_count[side]):
            book.level_key[side, at] = book.level_key[side, at + 1]
            book.level_volume[side, at] = book.level_volume[side, at + 1]
            book.level_orders[side, at] = book.level_orders[side, at + 1]
            book.level_first[side, at] = book.level_first[side, at + 1]
            book.level_last[side, at] = book.level_last[side, at + 1]
    _forget(book, book.order_id[order])
    book.order_next[order] = book.numbers[FREE]
    book.numbers[FREE] = order
    book.numbers[RESTING] -= 1


# -- the hash table of numbers ----------------------------------------------------------------------------


@njit(nogil=True)
def _home(book: State, id_: int) -> int:
    return int((np.uint64(id_) * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(20)) & (len(book.hash_id) - 1)


@njit(nogil=True)
def _place(book: State, id_: int) -> int:
    """The place of an order in the table, or the empty one where its search ends."""
    place = _home(book, id_)
    while book.hash_order[place] != _NONE and book.hash_id[place] != id_:
        place = (place + 1) & (len(book.hash_id) - 1)
    return int(place)


@njit(nogil=True)
def _find(book: State, id_: int) -> int:
    """The row of an order, or -1."""
    return int(book.hash_order[_place(book, id_)])


@njit(nogil=True)
def _forget(book: State, id_: int) -> None:
    """Remove an order from the table, and close the gap."""
    mask = len(book.hash_id) - 1
    gap = _place(book, id_)
    at = gap
    while True:
        book.hash_order[gap] = _NONE
        while True:
            at = (at + 1) & mask
            if book.hash_order[at] == _NONE:
                return
            home = _home(book, book.hash_id[at])
            if ((at - home) & mask) >= ((at - gap) & mask):  # its search passes the gap
                break
        book.hash_id[gap], book.hash_order[gap] = book.hash_id[at], book.hash_order[at]
        gap = at
