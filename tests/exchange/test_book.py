"""The compiled book against one in plain Python, and what is always true of a book."""

from __future__ import annotations

import random
from collections import Counter

import numpy as np
import pytest
from plain_book import PlainBook

from tidemill.exchange import matching
from tidemill.exchange.book import Book, Message, Request
from tidemill.exchange.matching import ALL_OR_NOTHING, BOOKED, IMMEDIATE, LIMIT, MARKET, Requests


def letters(messages: list[Message]) -> str:
    return "".join(m.letter for m in messages)


def random_request(chance: random.Random, book: Book, ids: int, tick: int, lot: int) -> Request:
    """Mostly good ones, around a price, so that they trade."""
    owner, volume = chance.randrange(4), lot * chance.randrange(1, 9)
    price = tick * max(1, round(chance.gauss(50, 4)))
    if chance.random() < 0.08:
        volume, price = chance.choice((0, -lot, volume + 1, 1 << 41)), chance.choice((0, -tick, price + 1, 1 << 51))
    letter = chance.choices("BSDXRQEF", (30, 30, 14, 8, 12, 2, 2, 2))[0]
    if letter in "BS":
        type_ = chance.choices((LIMIT, MARKET, IMMEDIATE, ALL_OR_NOTHING, BOOKED, 9), (76, 6, 7, 6, 4, 1))[0]
        number = chance.randrange(1 << 40, (1 << 40) + 20) if chance.random() < 0.1 else 0
        return Request(letter, owner, number, volume, price, type_)
    id_ = chance.choice((chance.randrange(max(1, ids - 60), ids + 2), chance.randrange(1 << 40, (1 << 40) + 20)))
    resting = book.order(id_)
    if resting is not None and chance.random() < 0.9:
        owner = resting.owner
    return Request(letter, owner, id_, volume, price)


@pytest.mark.parametrize("round_", range(4))
def test_messages_and_orders_are_those_of_a_plain_book(seed: int, round_: int) -> None:
    chance = random.Random(f"{seed} {round_}")
    tick, lot = chance.choice(((1, 1), (5, 10), (25, 1)))
    book, plain = Book(tick, lot), PlainBook(tick, lot)
    for _ in range(250):
        requests = [random_request(chance, book, plain.next_id, tick, lot) for _ in range(chance.choice((0, 1, 3, 40)))]
        if chance.random() < 0.03:
            book.halted = plain.halted = not plain.halted
        assert book.execute(requests) == plain.execute(requests), f"seed {seed}"
        for side in "BS":
            expected = [(o.id, o.owner, o.price, o.left) for o in plain.side(side)]
            assert [(o.id, o.owner, o.price, o.volume) for o in book.orders(side)] == expected
            levels: Counter[int] = Counter()
            counts = Counter(o.price for o in plain.side(side))
            for order in plain.side(side):
                levels[order.price] += order.left
            assert [(level.price, level.volume, level.orders) for level in book.levels(side)] == [
                (price, volume, counts[price]) for price, volume in levels.items()
            ]
        assert len(book) == len(plain.orders)


def test_what_is_always_true(seed: int) -> None:
    """Never crossed; booked volume is executed, cancelled or rests; the same requests give the same book."""
    chance = random.Random(seed)
    book, again = Book(), Book()
    said: list[Message] = []
    batches = []
    for _ in range(60):
        requests = [random_request(chance, book, 1 + len(said) // 2, 1, 1) for _ in range(50)]
        requests = [r for r in requests if r.type != BOOKED and r.letter not in "EF"]  # as clients send them
        batches.append(requests)
        said += book.execute(requests)
        bids, asks = book.levels("B", 1), book.levels("S", 1)
        assert not bids or not asks or bids[0].price < asks[0].price
    booked, gone, rests = Counter[int](), Counter[int](), Counter[int]()
    for m in said:
        if m.letter in "BS":
            booked[m.id] += m.volume
        elif m.letter != "J":
            gone[m.id] += m.volume
    for side in "BS":
        for order in book.orders(side):
            rests[order.id] = order.volume
    assert booked == gone + rests
    traded = [m for m in said if m.letter in "EF"]
    assert all(a.other == b.id and b.other == a.id and a.volume == b.volume for a, b in zip(traded[::2], traded[1::2]))
    assert [m for requests in batches for m in again.execute(requests)] == said
    assert list(again.orders("B")) == list(book.orders("B")) and list(again.orders("S")) == list(book.orders("S"))


def test_the_older_order_of_a_price_trades_first_at_its_price() -> None:
    book = Book()
    said = book.execute([Request("S", 1, volume=5, price=10), Request("S", 2, volume=5, price=10)])
    assert letters(said) == "SS"
    said = book.execute([Request("B", 3, volume=7, price=12)])
    assert [(m.letter, m.id, m.volume, m.price, m.left) for m in said] == [
        ("B", 3, 7, 12, 7),
        ("F", 1, 5, 10, 0),
        ("E", 3, 5, 10, 2),
        ("E", 2, 2, 10, 3),
        ("F", 3, 2, 10, 0),
    ]


def test_an_order_keeps_its_place_only_when_it_becomes_smaller() -> None:
    for volume, first in ((3, 1), (5, 1), (6, 2)):
        book = Book()
        book.execute([Request("B", 1, volume=5, price=10), Request("B", 1, volume=5, price=10)])
        book.execute([Request("R", 1, 1, volume, 10)])
        assert next(book.orders("B")).id == first


def test_what_a_halt_forbids() -> None:
    book = Book()
    book.execute([Request("B", 1, volume=5, price=10)])
    book.halted = True
    forbidden = [Request("S", 1, volume=5, price=10), Request("R", 1, 1, 4, 10)]
    said = book.execute([*forbidden, Request("X", 1, 1, 1), Request("D", 1, 1)])
    assert [(m.letter, m.left if m.letter == "J" else 0) for m in said] == [
        ("J", matching.HALTED),
        ("J", matching.HALTED),
        ("C", 0),
        ("D", 0),
    ]


def test_a_book_grows(seed: int) -> None:
    """More levels, orders and messages than a new one has room for, and one order that meets them all."""
    chance = random.Random(seed)
    prices = list(range(1, 6_001))
    chance.shuffle(prices)
    book = Book()
    book.execute([Request("S", 1, volume=2, price=price) for price in prices])
    assert [level.price for level in book.levels("S")] == sorted(prices)
    assert book.levels("S", 3) == book.levels("S")[:3]
    said = book.execute([Request("B", 2, volume=11_999, price=6_000)])
    assert letters(said) == "B" + "FE" * 5_999 + "EF"
    assert [(o.price, o.volume) for o in book.orders("S")] == [(6_000, 1)] and len(book) == 1


def test_columns_in_columns_out() -> None:
    count = 5_000
    requests = Requests(
        np.where(np.arange(count) % 2 == 0, ord("B"), ord("S")).astype(np.uint8),
        np.zeros(count, np.int8),
        np.zeros(count, np.int64),
        np.arange(count),
        np.full(count, 3),
        np.full(count, 7),
    )
    found = list(Book().execute_batch(requests))
    assert sum(len(part.letter) for part in found) <= 2 * count
    book = Book()
    executed = [ord("E"), ord("F")]
    traded = sum(int(part.volume[np.isin(part.letter, executed)].sum()) for part in book.execute_batch(requests))
    assert traded == 2 * 3 * count // 2 and len(book) == 0


@pytest.mark.parametrize(("tick", "lot"), [(0, 1), (1, 0), (-1, 1)])
def test_units_are_positive(tick: int, lot: int) -> None:
    with pytest.raises(ValueError, match="must be positive"):
        Book(tick, lot)
