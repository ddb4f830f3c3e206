"""Back-tests: the same trades every time, those of a model in plain Python, and reports."""

from __future__ import annotations

import csv
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

import pytest
from typer.testing import CliRunner

from mill_factory import MillFactory
from tidemill.algos import Strategy, ViewChange
from tidemill.algos.backtest import Backtest
from tidemill.algos.report import report_of
from tidemill.algos.runner import Runner
from tidemill.algos.strategies.registry import make_strategy
from tidemill.cli.commands import app
from tidemill.errors import TidemillError
from tidemill.exchange.market import MarketRules, write_trace

SECONDS = {"small_epoch_bytes": 1 << 20}


def trace_in(directory: Path, messages: int = 1500, seed: int = 5) -> Path:
    path = directory / "trace.csv"
    write_trace(path, messages, seed, MarketRules(resting=200))
    return path


def ran(mill_factory: MillFactory, place: Path, trace: Path, **strategies: Strategy) -> list[Runner]:
    feed = place.with_name(f"{place.name}-feed")
    feed.mkdir()
    mill = mill_factory(place.name, **SECONDS)
    return Backtest(trace, strategies, step=2000, tick=100).run(mill, feed)


class Watching(Strategy):
    """Notes what it is told; buys when the best bid rises."""

    views: ClassVar[Mapping[str, str]] = {
        "levels": "SELECT side, price, SUM(volume) AS v FROM orders GROUP BY side, price"
    }

    def __init__(self) -> None:
        self.seen: list[tuple[int, dict[tuple[str, int], int]]] = []

    def on_view(self, change: ViewChange) -> None:
        book = {(row["side"], int(row["price"])): int(row["v"]) for row in change.rows}
        self.seen.append((self.now, book))
        if len(self.seen) == 4:
            self.desk.buy(150, max(price for side, price in book if side == "B"))


def test_views_are_the_book_of_the_trace(mill_factory: MillFactory, tmp_path: Path) -> None:
    """Until the strategy trades, against the trace's lines in plain Python."""
    trace, watching = trace_in(tmp_path, 3000), Watching()
    (runner,) = ran(mill_factory, tmp_path / "a", trace, watching=watching)
    orders: dict[int, list[object]] = {}
    lines = [line.split(",") for line in trace.read_text().splitlines()]
    checked = 0
    assert len(watching.seen) > 5
    for now, book in watching.seen[:4]:
        while lines and int(lines[0][0]) < now:
            _, id_, action, volume, price = lines.pop(0)
            if action in "BS":
                orders[int(id_)] = [action, int(price), int(volume)]
            elif action in "EC" and orders[int(id_)][2] != int(volume):
                orders[int(id_)][2] -= int(volume)  # type: ignore[operator]
            else:
                del orders[int(id_)]
        levels: dict[tuple[object, object], int] = {}
        for side, price, left in orders.values():
            levels[side, price] = levels.get((side, price), 0) + left  # type: ignore[operator]
        checked += levels == book
    assert checked == 4
    assert runner.error == ""


def test_the_same_trace_gives_the_same_trades(mill_factory: MillFactory, tmp_path: Path) -> None:
    trace = trace_in(tmp_path, 2500)
    found = []
    for name in ("one", "two"):
        strategies = {each: make_strategy(each, {}) for each in ("sobi", "maker", "random")}
        runners = ran(mill_factory, tmp_path / name, trace, **strategies)
        found.append([(r.account.fills, r.account.curve, r.error) for r in runners])
    assert found[0] == found[1]
    assert sum(len(fills) for fills, *_ in found[0]) > 10
    for fills, curve, error in found[0]:
        assert error == ""
        position, cash = 0, 2_500_000 * 10_000
        for fill in fills:
            sign = 1 if fill.side == "B" else -1
            position, cash = position + sign * fill.volume, cash - sign * fill.volume * fill.price
        if curve:
            assert (curve[-1].position, curve[-1].cash) == (position, cash)
            assert curve[-1].equity == cash + position * curve[-1].price
        assert [p.time for p in curve] == sorted(p.time for p in curve)


def test_one_that_fails_does_not_end_the_others(mill_factory: MillFactory, tmp_path: Path) -> None:
    class Failing(Strategy):
        timer: ClassVar[int] = 1000

        def on_timer(self) -> None:
            raise RuntimeError("no idea")

    trace = trace_in(tmp_path)
    failing, trading = ran(
        mill_factory, tmp_path / "root", trace, failing=Failing(), random=make_strategy("random", {})
    )
    assert "RuntimeError: no idea" in failing.error and not trading.error
    assert trading.account.fills
    assert "stopped: RuntimeError" in report_of(failing).text()


def test_the_example_of_the_page(mill_factory: MillFactory, tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "trading.md").read_text()
    (code,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    (tmp_path / "mine.py").write_text(code)
    strategy = make_strategy(f"{tmp_path / 'mine.py'}:Bouncer", {"enough": "1500"})
    (runner,) = ran(mill_factory, tmp_path / "root", trace_in(tmp_path, 3000), mine=strategy)
    assert not runner.error and runner.account.fills


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_the_command_and_its_reports(tmp_path: Path) -> None:
    trace = trace_in(tmp_path, 1000)
    options = ["--trace", str(trace), "--tick", "100", "--step", "4000", "--report", str(tmp_path / "out")]
    command = [sys.executable, "-m", "tidemill", "trade", "random", "--option", "volume=50", *options]
    done = subprocess.run([*command, "--master", "local[2]"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "random: profit " in done.stdout
    with (tmp_path / "out" / "random-trades.csv").open() as file:
        trades = list(csv.DictReader(file))
    assert trades and all(0 < int(row["volume"]) <= 50 for row in trades)
    page = (tmp_path / "out" / "random.html").read_text()
    assert "<polyline" in page and page.count("<tr>") == 1 + len(trades)


@pytest.mark.parametrize(
    ("arguments", "number"),
    [
        (["sobi", "--trace", "none.csv"], "TM7033"),
        (["sobi", "sobi", "--trace", "{trace}"], "TM9605"),
        (["nothing", "--trace", "{trace}"], "TM9601"),
        (["sobi", "--trace", "{trace}", "--policy", "some"], "TM7035"),
        (["sobi", "--trace", "{trace}", "--option", "x=1"], "TM9603"),
        (["sobi", "--trace", "{trace}", "--option", "volume"], "TM9603"),
        (["sobi", "--trace", "{other}"], "TM7042"),
    ],
)
def test_what_is_refused(arguments: list[str], number: str, tmp_path: Path) -> None:
    trace = trace_in(tmp_path, 10)
    other = tmp_path / "other.sql"
    other.write_text("SELECT 1,\n  2 FROM t;\n")
    given = [argument.replace("{trace}", str(trace)).replace("{other}", str(other)) for argument in arguments]
    found = CliRunner().invoke(app, ["trade", *given]).exception
    assert isinstance(found, TidemillError) and found.number == number
