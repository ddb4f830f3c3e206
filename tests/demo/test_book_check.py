"""The check of the demo finds what differs, and nothing else. The book is the exchange's own, asked level by level."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pytest

from tidemill.demo.book_check import BookCheck, Freshness, Levels
from tidemill.exchange.market import MarketRules, Session
from tidemill.exchange.matching import REJECTED
from tidemill.exchange.wire import MESSAGE, Records
from tidemill.runtime.epoch.report import EpochReport

END = np.zeros(1, MESSAGE)
END["letter"] = REJECTED
"""What an exchange says to something that is no question."""


def report(epoch: int, rows: int) -> EpochReport:
    return EpochReport(epoch, rows, 0, 0, 0, 0, 0, 0, 0, {}, tables={"orders": rows, "others": 7})


def book(session: Session) -> Levels:
    found = session.exchange.books[0]
    return {(side, one.price): (one.volume, one.orders) for side in "BS" for one in found.levels(side)}


def change(before: Levels, after: Levels) -> pa.Table:
    """What leads from one view to the other, in an order of its own."""
    gone = [(*level, *before[level], -1) for level in before if before[level] != after.get(level)]
    come = [(*level, *after[level], 1) for level in after if after[level] != before.get(level)]
    columns = list(zip(*come, *gone)) or [[]] * 5
    names = ("side", "price", "volume", "orders", "__weight")
    types = (pa.string(), pa.float64(), pa.float64(), pa.int64(), pa.int64())
    return pa.table({name: pa.array(column, kind) for name, column, kind in zip(names, columns, types)})


class Watched:
    """A market whose messages, epochs and changes a check is given; its orders are told now and then."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.session = Session(seed, MarketRules(resting=100))
        self.check = BookCheck("orders")
        self.seen: Levels = {}
        self.ahead: list[Records] = []
        self.epoch = self.told = 0

    def hear(self, messages: Records) -> None:
        """In parts of any size, behind each other."""
        at = 0
        while at < len(messages):
            end = at + self.chance.randrange(1, 40)
            self.check.heard(messages[at:end])
            at = end

    def run(self, epochs: int) -> None:
        for _ in range(epochs):
            rows = [self.session.step() for _ in range(self.chance.randrange(1, 4))]
            parts = [*rows]
            if self.chance.random() < 0.3:
                parts += [self.session.exchange.snapshot(0), END]
                self.told += 1
            after = book(self.session)
            parts.append(self.session.step())  # what the next epoch reads is heard already
            self.hear(np.concatenate(parts))
            self.epoch += 1
            self.check.sealed(report(self.epoch, sum(map(len, rows)) + sum(map(len, self.ahead))))
            self.ahead = parts[-1:]
            self.check.changed(self.epoch, change(self.seen, after))
            self.seen = after


def test_views_that_are_the_book(seed: int) -> None:
    watched = Watched(seed)
    watched.run(40)
    check = watched.check
    assert check.difference == "", f"seed {seed}"
    assert (check.epochs, check.levels) == (40, watched.seen)
    assert check.orders_compared == watched.told > 3
    assert check.read == check.messages - len(watched.ahead[0])
    assert not check.wait(0, 0.0)
    check.sealed(report(41, len(watched.ahead[0])))
    check.changed(41, change(watched.seen, book(watched.session)))
    assert check.wait(watched.told, 0.0) and not check.wait(watched.told + 1, 0.0)
    check.heard(watched.session.exchange.snapshot(0))
    assert not check.wait(watched.told + 1, 0.0), "more orders may come"
    check.heard(END)
    assert check.wait(watched.told + 1, 0.0) and check.difference == "", f"seed {seed}"


@pytest.mark.parametrize("fault", ["volume", "lost level", "old level", "epoch"])
def test_a_difference_is_found_and_named(seed: int, fault: str) -> None:
    watched = Watched(seed)
    watched.run(10)
    level = watched.chance.choice(sorted(watched.seen))
    wrong = dict(watched.seen)
    if fault == "volume":
        wrong[level] = wrong[level][0] + 1, wrong[level][1]
    elif fault == "lost level":
        del wrong[level]
    elif fault == "old level":
        level = "B", 1
        wrong[level] = 100, 1
    watched.epoch += 1
    watched.check.sealed(report(watched.epoch, len(watched.ahead[0]) if fault == "epoch" else 0))
    watched.check.changed(watched.epoch, change(watched.seen, wrong))
    assert watched.check.difference.startswith(f"epoch {watched.epoch}, message "), f"seed {seed}"
    if fault != "epoch":
        assert f"{level[0]} at {level[1]}: view {wrong.get(level)}, book {watched.seen.get(level)}" in (
            watched.check.difference
        )


def test_orders_that_are_not_the_exchanges(seed: int) -> None:
    """The exchange tells another volume than the copy has."""
    watched = Watched(seed)
    watched.run(5)
    told = watched.session.exchange.snapshot(0)
    row = watched.chance.randrange(len(told))
    told["volume"][row] += 1
    watched.check.heard(told)
    watched.check.heard(END)
    watched.run(1)
    assert f"order {told['id'][row]}: copy " in watched.check.difference, f"seed {seed}"


def test_a_message_about_an_order_that_is_not_there(seed: int) -> None:
    watched = Watched(seed)
    watched.run(5)
    lost = watched.session.step()[:1].copy()
    lost["letter"], lost["id"] = ord("D"), 1 << 50
    watched.check.heard(lost)
    watched.check.sealed(report(6, len(watched.ahead[0]) + 1))
    watched.check.changed(6, change(watched.seen, {}))
    assert f"D of order {1 << 50}, which is not there" in watched.check.difference


def test_freshness_has_quantiles_as_sorted_numbers_have(seed: int) -> None:
    chance = random.Random(seed)
    taken = [chance.lognormvariate(-3, 1) for _ in range(5000)]
    found = Freshness()
    assert found.quantile(0.99) == 0.0
    for at in range(0, 5000, 100):
        found.add(np.array(taken[at : at + 100]))
    for share in (0.5, 0.9, 0.99):
        exact = sorted(taken)[int(share * 5000) - 1] * 1000
        assert abs(found.quantile(share) - exact) <= 0.2, f"seed {seed}"
