"""The simulated market: the same messages every time, and a book like one of an exchange."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from tidemill.exchange.exchange import Exchange, Instrument
from tidemill.exchange.market import BATCH, FIRST_BROKER, Market, MarketRules, Session, write_trace
from tidemill.exchange.matching import REJECTED, UNKNOWN_ORDER
from tidemill.exchange.wire import REQUEST


def test_a_seed_decides_the_trace(tmp_path: Path) -> None:
    for name, seed in (("a", 3), ("b", 3), ("c", 4)):
        write_trace(tmp_path / name, 20_000, seed)
    a, b, c = ((tmp_path / name).read_bytes() for name in "abc")
    assert a == b != c
    lines = [line.split(",") for line in a.decode().splitlines()]
    assert len(lines) == 20_000
    times = [int(t) for t, *_ in lines]
    assert times == sorted(times) and times[0] >= 34_200_000
    gaps = [b - a for a, b in pairwise(times)]
    assert max(gaps) > 2000 and times.count(times[100]) > 10, "there are bursts"


def test_the_book_is_deep_and_its_price_moves(seed: int) -> None:
    session, letters, spreads, prices = Session(seed), Counter[str](), list[int](), set[int]()
    for number in range(1200):
        letters.update(map(chr, session.step()["letter"].tolist()))
        book = session.exchange.books[0]
        bids, asks = book.levels("B", 1), book.levels("S", 1)
        if number > 200:
            assert bids and asks, f"seed {seed}"
            assert bids[0].price < asks[0].price
            spreads.append(asks[0].price - bids[0].price)
            prices.add(bids[0].price)
    total = letters.total()
    assert {letter: letters[letter] / total > 0.05 for letter in "BSDEFC"} == dict.fromkeys("BSDEF", True) | {
        "C": False
    }
    assert letters["C"] > 0
    assert len(book.levels("B")) > 600 < len(book.levels("S")), "some thousand levels"
    assert 4000 < len(book) < 16_000
    assert sorted(spreads)[len(spreads) // 2] <= 500 and max(spreads) > 100
    assert len(prices) > 8


def test_a_market_changes_its_own_orders_only(seed: int) -> None:
    """Beside another trader: nothing is rejected but changes of orders that the same batch had taken away."""
    exchange, market = Exchange([Instrument("ACME", 100)]), Market(seed, MarketRules(resting=300))
    stranger = np.zeros(1, REQUEST)
    stranger["broker"], stranger["volume"], stranger["price"] = 7, 150, market.rules.price
    rejected = 0
    for number in range(300):
        stranger["letter"] = ord("BS"[number % 2])
        market.learn(exchange.execute(stranger).messages)
        resting = {order.id for side in "BS" for order in exchange.books[0].orders(side)}
        messages = exchange.execute(market.requests()).messages
        market.learn(messages)
        for message in messages[messages["letter"] == REJECTED]:
            rejected += 1
            assert (message["rejected"], int(message["id"]) in resting) == (UNKNOWN_ORDER, True), f"seed {seed}"
    mine = {o.id for side in "BS" for o in exchange.books[0].orders(side) if o.owner >= FIRST_BROKER}
    assert mine == {id_ for id_, *_ in market._orders}
    assert rejected < 300 * BATCH // 10


@pytest.mark.parametrize("count", [0, 1, 777])
def test_a_trace_has_as_many_messages_as_wanted(tmp_path: Path, count: int) -> None:
    write_trace(tmp_path / "trace.csv", count)
    assert len((tmp_path / "trace.csv").read_text().splitlines()) == count
