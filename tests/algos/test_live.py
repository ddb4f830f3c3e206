"""Strategies at an exchange over TCP, with the views of a server."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import ClassVar

import pytest
from tests.exchange.exchange_thread import ExchangeThread
from typer.testing import CliRunner

from mill_factory import MillFactory
from tidemill.algos import Strategy, ViewChange
from tidemill.algos.live import Live
from tidemill.algos.strategies.registry import make_strategy
from tidemill.cli.commands import app
from tidemill.cli.trade import address_of
from tidemill.errors import TidemillError
from tidemill.exchange.exchange import Exchange, Instrument
from tidemill.exchange.market import Market, MarketRules
from tidemill.serve.access.settings import ServerSettings
from tidemill.serve.client.client import Client, connect
from tidemill.serve.running import Server
from tidemill.serve.service.service import Service


@contextmanager
def trading_place(mill_factory: MillFactory, seed: int) -> Iterator[tuple[ExchangeThread, Client, threading.Event]]:
    """An exchange with a market, and a client of a server; the market goes on until the event is set."""
    exchange = Exchange([Instrument("ACME", 100)])
    market, stopped = Market(seed, MarketRules(resting=300)), threading.Event()
    mill = mill_factory(small_epoch_bytes=1 << 20)
    with ExchangeThread(exchange) as thread, Server(Service(mill, ServerSettings(port=0))) as server:
        thread.server.heard.append(market.learn)

        def trade() -> None:
            while not stopped.wait(0.02):
                thread.call(lambda: thread.server.execute(market.requests(20)))

        trader = threading.Thread(target=trade)
        trader.start()
        mill.start(0.02)
        try:
            with connect(server.addresses["http"]) as client:
                yield thread, client, stopped
        finally:
            stopped.set()
            trader.join()
            mill.stop()


class Watching(Strategy):
    """Buys the first ask that it sees, and sells what it got."""

    views: ClassVar[Mapping[str, str]] = {"best_asks": "SELECT MIN(price) AS ask FROM asks WHERE price > 0"}

    def __init__(self) -> None:
        self.seen: list[float] = []

    def on_view(self, change: ViewChange) -> None:
        ask = change.row.get("ask")
        if ask:
            self.seen.append(ask)
            if len(self.seen) == 3:
                self.desk.buy(10, int(ask) + 10_000)
                self.desk.sell(10, int(ask) + 1_000_000)


class Failing(Strategy):
    timer: ClassVar[int] = 100

    def on_start(self) -> None:
        self.desk.buy(10, 100)

    def on_timer(self) -> None:
        raise LookupError("nothing")


@pytest.mark.timeout(240)
def test_accounts_are_what_the_exchange_says(mill_factory: MillFactory, seed: int) -> None:
    with trading_place(mill_factory, seed) as (thread, client, _):
        host, _, port = thread.url.removeprefix("tcp://").rpartition(":")
        watching = Watching()
        strategies = {"watching": watching, "random": make_strategy("random", {}), "failing": Failing()}
        live = Live(client, (host, int(port)), strategies)
        found, stopped = [], threading.Event()
        running = threading.Thread(target=lambda: found.extend(live.run(stopped)))
        running.start()
        end = time.monotonic() + 150
        while not watching.desk.position if hasattr(watching, "desk") else True:
            assert time.monotonic() < end and running.is_alive()
            time.sleep(0.1)
        time.sleep(3)
        stopped.set()
        running.join(30)
        messages = thread.call(lambda: thread.server.exchange.since(0, 0))
        resting = thread.call(lambda: [o for o in thread.server.exchange.orders(0) if 100 < o.owner < 200])
        assert resting == [] and all(not runner.desk.orders for runner in found), "all orders were taken back"
        assert [runner.error[:11] for runner in found] == ["", "", "LookupError"]
        sides = {int(m["id"]): chr(m["letter"]) for m in messages if m["letter"] in b"BS"}
        for at, runner in enumerate(found):
            position, cash = 0, 2_500_000 * 10_000
            for m in messages[(messages["broker"] == 101 + at)]:
                if m["letter"] in b"EF":
                    sign = 1 if sides[int(m["id"])] == "B" else -1
                    position += sign * int(m["volume"])
                    cash -= sign * int(m["volume"]) * int(m["price"])
            assert (runner.account.position, runner.account.cash) == (position, cash), f"seed {seed}"
        assert found[0].account.position == 10
        assert found[1].account.fills, "the random one has traded"
        assert found[0].account.curve


@pytest.mark.slow
def test_an_exchange_that_ends_stops_the_strategies(mill_factory: MillFactory, seed: int) -> None:
    with trading_place(mill_factory, seed) as (thread, client, market_ends):
        host, _, port = thread.url.removeprefix("tcp://").rpartition(":")
        live = Live(client, (host, int(port)), {"random": make_strategy("random", {})})

        def cut() -> None:
            while not (live.runners and live.runners[0].desk.sent):
                time.sleep(0.05)
            thread.call(lambda: [client.transport.abort() for client in list(thread.server._clients)])

        threading.Thread(target=cut, daemon=True).start()
        (runner,) = live.run(threading.Event(), 8.0)
        assert "the exchange has ended the connection" in runner.error
        market_ends.set()
        with pytest.raises(TidemillError, match="TM9606"):
            Live(client, ("127.0.0.1", 1), {}).run(threading.Event(), 1.0)


@pytest.mark.parametrize(
    ("arguments", "number"),
    [
        ([], "TM7036"),
        (["--exchange", "h:1"], "TM7036"),
        (["--trace", "x", "--exchange", "h:1", "--server", "http://h:1"], "TM7036"),
        (["--trace", "x", "--server", "http://h:1"], "TM7036"),
        (["--exchange", "127.0.0.1:1", "--server", "http://127.0.0.1:1"], "TM8031"),
    ],
)
def test_where_to_trade(arguments: list[str], number: str, tmp_path: Path) -> None:
    found = CliRunner().invoke(app, ["trade", "random", *arguments]).exception
    assert isinstance(found, TidemillError) and found.number == number


@pytest.mark.parametrize("text", ["somewhere", "h:0", "tcp+listen://h:1", "unix:///x", "h:1:2", ""])
def test_what_is_no_address(text: str) -> None:
    assert address_of("tcp://h:1") == address_of("h:1") == ("h", 1)
    with pytest.raises(TidemillError, match="TM7038"):
        address_of(text)


def test_a_view_of_another_query_is_not_taken_for_the_strategys(mill_factory: MillFactory, seed: int) -> None:
    """The same strategy may come again; a view with its name and another query is an error, as is one that is wrong."""

    class Counting(Strategy):
        views: ClassVar[Mapping[str, str]] = {"Counted": "SELECT COUNT(*) AS n\n  FROM orders"}

    class Summing(Strategy):
        views: ClassVar[Mapping[str, str]] = {"counted": "SELECT SUM(volume) AS n FROM orders"}

    class Wrong(Strategy):
        views: ClassVar[Mapping[str, str]] = {"wrong": "SELECT nothing FROM orders"}

    with trading_place(mill_factory, seed) as (thread, client, _):
        for _ in range(2):
            assert Live(client, thread.server.address, {"counting": Counting()}).prepare() == ["Counted"]
        with pytest.raises(TidemillError, match=r"TM9604: a view of this name has another query\n.*counted"):
            Live(client, thread.server.address, {"summing": Summing()}).prepare()
        with pytest.raises(TidemillError, match=r"TM2004.*\n.*view wrong of a strategy: "):
            Live(client, thread.server.address, {"wrong": Wrong()}).prepare()
