"""Several symbols, numbered messages, and listeners that keep a copy of a book."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from plain_book import PlainBook

from tidemill.exchange import matching, rejections
from tidemill.exchange.book import Request
from tidemill.exchange.exchange import Exchange, GapError, Instrument
from tidemill.exchange.matching import REJECTED
from tidemill.exchange.wire import MESSAGE, REQUEST, Records


def records(requests: list[tuple[int, Request]]) -> Records:
    """Requests with the places of their symbols."""
    rows = [(ord(r.letter), r.type, symbol, r.owner, 0, r.id, r.volume, r.price) for symbol, r in requests]
    return np.array(rows, REQUEST)


def random_requests(chance: random.Random, count: int, symbols: int, ids: int) -> list[tuple[int, Request]]:
    """Requests for some symbols, in runs."""
    found = []
    symbol = 0
    for _ in range(count):
        symbol = chance.randrange(symbols) if chance.random() < 0.3 else symbol
        letter = chance.choices("BSDXRQ", (30, 30, 20, 8, 10, 2))[0]
        id_ = 0 if letter in "BS" else chance.randrange(1, ids + 2)
        price = max(1, round(chance.gauss(50, 4)))
        found.append((symbol, Request(letter, chance.randrange(3), id_, chance.randrange(0, 9), price)))
    return found


class Copy:
    """What a listener knows of a book: orders in the order in which they came to their prices."""

    def __init__(self) -> None:
        self.orders: dict[int, list[Any]] = {}
        self.sequence = 0

    def take(self, messages: Records) -> None:
        """Follow messages."""
        for m in messages:
            letter, id_ = chr(m["letter"]), int(m["id"])
            if letter in "BS":
                self.orders[id_] = [letter, int(m["broker"]), int(m["price"]), int(m["volume"])]
            elif letter in "EC":
                self.orders[id_][3] -= int(m["volume"])
            else:
                del self.orders[id_]
            self.sequence = int(m["sequence"])


def test_symbols_have_books_of_their_own(seed: int) -> None:
    chance = random.Random(seed)
    exchange = Exchange([Instrument("A"), Instrument("B", tick=2), Instrument("C", lot=3)], clock=lambda: 7, keep=64)
    plain = [PlainBook(1, 1), PlainBook(2, 1), PlainBook(1, 3)]
    copies, numbers = [Copy() for _ in plain], [0] * len(plain)
    for _ in range(60):
        requests = random_requests(chance, chance.choice((0, 1, 30)), 4, max(p.next_id for p in plain))
        answered = exchange.execute(records(requests))
        expected = []
        for at, (symbol, request) in enumerate(requests):
            if symbol == 3:
                expected.append((at, "J", symbol, request.id, request.volume, 0))
                continue
            for m in plain[symbol].execute([request]):
                numbers[symbol] += m.letter != "J"
                number = 0 if m.letter == "J" else numbers[symbol]
                expected.append((at, m.letter, symbol, m.id, m.volume, number))
        found = [
            (at, chr(m["letter"]), int(m["symbol"]), int(m["id"]), int(m["volume"]), int(m["sequence"]))
            for at, m in zip(answered.request.tolist(), answered.messages)
        ]
        assert found == expected, f"seed {seed}"
        assert set(answered.messages["time"].tolist()) <= {7}
        for symbol, copy in enumerate(copies):
            if chance.random() < 0.5:
                continue  # it lags
            try:
                missed = exchange.since(symbol, copy.sequence)
            except GapError as gap:
                assert gap.first > copy.sequence + 1
                copy.orders.clear()
                missed = exchange.snapshot(symbol)
                copy.sequence = exchange.sequence(symbol)
            copy.take(missed)
            assert copy.sequence == exchange.sequence(symbol) == numbers[symbol]
            for side in "BS":
                mine = [(i, *o[1:]) for i, o in copy.orders.items() if o[0] == side]
                mine.sort(key=lambda o: o[2] if side == "S" else -o[2])  # those of a price as they came
                assert mine == [(o.id, o.owner, o.price, o.left) for o in plain[symbol].side(side)]


def test_reasons_are_numbered() -> None:
    exchange = Exchange([Instrument("A")])
    wrong = [(0, Request("D", 1, 5)), (1, Request("B", 1, 0, 1, 1)), (0, Request("B", 1, 0, 0, 1))]
    said = exchange.execute(records(wrong)).messages
    assert said["letter"].tolist() == [REJECTED] * 3 and said["sequence"].tolist() == [0] * 3
    reasons = [matching.UNKNOWN_ORDER, rejections.UNKNOWN_SYMBOL, matching.BAD_VOLUME]
    assert said["rejected"].tolist() == reasons
    assert [rejections.rejection(reason).number for reason in reasons] == ["TM9502", "TM9512", "TM9504"]
    assert exchange.sequence(0) == 0 and len(exchange.since(0, 0)) == 0


def test_the_orders_of_one_who_leaves_are_deleted() -> None:
    exchange = Exchange([Instrument("A"), Instrument("B")])
    sent = [(at % 2, Request("B", at % 3, 0, 1, 10 + at)) for at in range(12)]
    exchange.execute(records(sent))
    said = exchange.leave(2).messages
    assert said["letter"].tolist() == [ord("D")] * 4 and set(said["broker"].tolist()) == {2}
    left = [order.owner for book in exchange.books for order in book.orders("B")]
    assert sorted(left) == [0] * 4 + [1] * 4
    assert len(exchange.leave(2).messages) == 0


def test_a_halt_is_of_one_symbol() -> None:
    exchange = Exchange([Instrument("A"), Instrument("B")])
    exchange.halt(1)
    said = exchange.execute(records([(0, Request("B", 1, 0, 1, 1)), (1, Request("B", 1, 0, 1, 1))])).messages
    assert (said["letter"].tolist(), said["rejected"].tolist()) == ([ord("B"), REJECTED], [0, matching.HALTED])
    exchange.halt(1, False)
    assert exchange.execute(records([(1, Request("B", 1, 0, 1, 1))])).messages["letter"].tolist() == [ord("B")]


@pytest.mark.parametrize("batch", [1, 7, 1000])
def test_a_journal_keeps_the_newest_messages(batch: int) -> None:
    exchange = Exchange([Instrument("A")], keep=100)
    for begin in range(0, 1000, batch):
        exchange.execute(records([(0, Request("B", 1, 0, 1, 1)) for _ in range(begin, min(1000, begin + batch))]))
    assert exchange.since(0, 900)["sequence"].tolist() == list(range(901, 1001))
    assert len(exchange.since(0, 1000)) == len(exchange.since(0, 2000)) == 0
    with pytest.raises(GapError) as gap:
        exchange.since(0, 0)
    assert 700 < gap.value.first <= 901
    assert exchange.since(0, gap.value.first - 1)["sequence"][0] == gap.value.first


@pytest.mark.parametrize("symbols", [[], ["A", "A"]])
def test_each_symbol_is_there_once(symbols: list[str]) -> None:
    with pytest.raises(ValueError, match="each once"):
        Exchange([Instrument(symbol) for symbol in symbols])


def test_records_have_no_padding() -> None:
    assert (REQUEST.itemsize, MESSAGE.itemsize) == (40, 64)
