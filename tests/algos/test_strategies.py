"""What strategies do on changes of their views, and how they are found and stopped."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tidemill.algos.account import Account, Limits
from tidemill.algos.runner import Runner
from tidemill.algos.strategies import views
from tidemill.algos.strategies.registry import STRATEGIES, make_strategy
from tidemill.algos.strategy import Strategy, ViewChange
from tidemill.errors import TidemillError
from tidemill.exchange.matching import EXECUTED
from tidemill.exchange.wire import MESSAGE, Records


def begun(strategy: Strategy, limits: Limits | None = None) -> tuple[Runner, list[Records]]:
    sent: list[Records] = []
    runner = Runner("one", strategy, 101, sent.append, Account(), limits)
    runner.start(0)
    return runner, sent


def tell(runner: Runner, view: str, now: int, weight: int = 1, **row: Any) -> None:
    """An epoch adds a row, or takes it away."""
    runner.view(view, now, pa.table({**{n: [v] for n, v in row.items()}, "__weight": [weight]}), now)
    runner.epoch(now)


def asked(sent: list[Records]) -> list[tuple[str, int, int]]:
    found = [(chr(r["letter"]), int(r["volume"]), int(r["price"])) for records in sent for r in records]
    sent.clear()
    return found


def test_sobi_trades_on_an_imbalance() -> None:
    runner, sent = begun(make_strategy("sobi", {"volume": "7"}))
    tell(runner, views.TOP, 1, bid=990.0, ask=1010.0)
    tell(runner, views.VWAP_BIDS, 1, value=900.0 * 10, volume=10.0)
    assert asked(sent) == [], "the other side is not known"
    tell(runner, views.VWAP_ASKS, 1, value=1020.0 * 5, volume=5.0)
    assert asked(sent) == [("S", 7, 0)], "100 to the bids, 20 to the asks"
    tell(runner, views.VWAP_ASKS, 500, -1, value=1020.0 * 5, volume=5.0)
    tell(runner, views.VWAP_ASKS, 500, value=1500.0 * 5, volume=5.0)
    assert asked(sent) == [], "not within a second"
    tell(runner, views.TOP, 1500, -1, bid=990.0, ask=1010.0)
    tell(runner, views.TOP, 1500, bid=930.0, ask=950.0)
    assert asked(sent) == [("B", 7, 0)], "40 to the bids, 560 to the asks"
    tell(runner, views.TOP, 9000, -1, bid=930.0, ask=950.0)
    tell(runner, views.TOP, 9000, bid=1190.0, ask=1210.0)
    assert asked(sent) == []


def test_a_market_maker_quotes_both_sides_and_leans_away_from_its_position() -> None:
    runner, sent = begun(make_strategy("maker", {"spread": "400", "most": "200"}))
    tell(runner, views.TOP, 1, bid=9_900.0, ask=10_100.0)
    runner.time(1000)
    assert asked(sent) == [("B", 100, 9_800), ("S", 100, 10_200)]
    runner.account.position = 200
    tell(runner, views.TOP, 1500, -1, bid=9_900.0, ask=10_100.0)
    tell(runner, views.TOP, 1500, bid=9_940.0, ask=10_140.0)
    runner.time(2500)
    assert asked(sent) == [("S", 100, 10_200)], "it holds as much as it may, and sells at 10,140 or more"


def test_momentum_follows_a_move() -> None:
    runner, sent = begun(make_strategy("momentum", {"window": "2", "move": "100"}))
    for second, middle in enumerate((1000, 1000, 1050, 1150, 1400)):
        tell(runner, views.TOP, 1000 * second, bid=middle - 1.0, ask=middle + 1.0)
        tell(runner, views.TOP, 1000 * second, -1, bid=middle - 1.0, ask=middle + 1.0)
        tell(runner, views.TOP, 1000 * second, bid=middle - 1.0, ask=middle + 1.0)
        runner.time(1000 * second + 1000)
        tell(runner, views.TOP, 1000 * second, -1, bid=middle - 1.0, ask=middle + 1.0)
    assert asked(sent) == [("B", 200, 0)]


def test_a_random_trader_is_decided_by_its_seed() -> None:
    def trades(seed: str) -> list[tuple[str, int, int]]:
        runner, sent = begun(make_strategy("random", {"seed": seed}))
        for second in range(1, 60):
            runner.time(1000 * second)
        return asked(sent)

    assert trades("1") == trades("1") != trades("2")
    assert {letter for letter, *_ in trades("1")} == {"B", "S"}


@dataclass
class Failing(Strategy):
    """Fails at the second change."""

    changes: int = 0

    def on_start(self) -> None:
        self.desk.buy(10, 100)

    def on_view(self, change: ViewChange) -> None:
        self.changes += 1
        if self.changes == 2:
            raise ZeroDivisionError("of mine")


Failing.views = {"v": ""}


def test_a_strategy_that_fails_is_stopped_and_its_orders_are_taken_back() -> None:
    runner, sent = begun(Failing())
    accepted = np.zeros(1, MESSAGE)
    accepted["letter"], accepted["id"], accepted["broker"], accepted["volume"] = ord("B"), 5, 101, 10
    runner.messages(accepted, 1, [1])
    sent.clear()
    for epoch in range(4):
        tell(runner, "v", epoch, a=epoch)
    assert runner.error.startswith("ZeroDivisionError: of mine (on_view, line ")
    assert [(chr(r["letter"]), int(r["id"])) for records in sent for r in records] == [("D", 5)]
    assert isinstance(runner.strategy, Failing) and runner.strategy.changes == 2
    assert runner.desk.buy(1, 1) is None


def test_a_loss_that_is_too_great_stops_a_strategy() -> None:
    runner, _ = begun(Failing(), Limits(loss=100))
    bought = np.zeros(2, MESSAGE)
    bought["letter"], bought["id"], bought["broker"] = [ord("B"), EXECUTED], 5, 101
    bought["volume"], bought["price"], bought["left"] = [10, 4], 100, [10, 6]
    runner.messages(bought, 1, [1, 0])
    runner.price(80, 2)
    assert not runner.error
    runner.price(70, 3)
    assert "loss is greater than 100" in runner.error
    assert [(p.time, p.equity - runner.account.capital) for p in runner.account.curve] == [(2, -80), (3, -120)]


@pytest.mark.parametrize(
    ("text", "options", "number"),
    [
        ("sobbi", {}, "TM9601.*\n.*sobbi\n.*'sobi'"),
        ("none.py:A", {}, "TM9601"),
        ("{file}:Nothing", {}, "TM9601"),
        ("{file}:x", {}, "TM9601"),
        ("{bad}:A", {}, "TM9602.*\n.*NameError"),
        ("sobi", {"size": "1"}, "TM9603.*\n.*size=1"),
        ("sobi", {"volume": "many"}, "TM9603.*\n.*volume=many"),
        ("{file}:Mine", {"a": "1"}, "TM9603"),
    ],
)
def test_what_is_no_strategy(text: str, options: dict[str, str], number: str, tmp_path: Path) -> None:
    file, bad = tmp_path / "mine.py", tmp_path / "bad.py"
    file.write_text("from tidemill.algos import Strategy\nx = 1\nclass Mine(Strategy):\n    pass\n")
    bad.write_text("nothing\n")
    with pytest.raises(TidemillError, match=number):
        make_strategy(text.format(file=file, bad=bad), options)
    assert type(make_strategy(f"{file}:Mine", {})).__name__ == "Mine"


def test_every_strategy_can_be_made() -> None:
    for name in STRATEGIES:
        assert isinstance(make_strategy(name, {}), STRATEGIES[name])
