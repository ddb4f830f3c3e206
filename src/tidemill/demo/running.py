"""Starts the parts of the demo, lets them run, and ends them in order."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidemill.algos.live import ExchangeLine, Live
from tidemill.algos.report import Report, report_of
from tidemill.algos.strategy import Strategy
from tidemill.demo.book_check import BookCheck
from tidemill.demo.exchange_process import SYMBOL, ExchangeProcess
from tidemill.errors import TidemillError
from tidemill.exchange.wire import Role
from tidemill.serve.access.settings import ServerSettings
from tidemill.serve.client.client import Client, connect
from tidemill.serve.running import serving
from tidemill.serve.service.service import Service

if TYPE_CHECKING:
    from tidemill.mill import Mill

FINANCE_VIEWS = ("vwap", "axfinder", "brokerspread", "brokervariance", "pricespread", "missedtrades")
"""What the demo shows of the views in ``views.sql``."""
_TABLE, _DEPTH = "orders", "depth"
_INITIALISING = "TM1030"
_LOOK_SECONDS = 0.25
_COMPARE_SECONDS = 5.0
"""Between two questions to the exchange for all of its orders."""
_ALL_ORDERS = f"snapshot {SYMBOL}\nend"
"""What the exchange is asked: all orders, and something that it rejects, which marks their end."""
_END_SECONDS = 60.0
"""For the views to reach the end of the feed, and for strategies to take their orders back."""


@dataclass(frozen=True)
class State:
    """What there is to see at a moment.

    Attributes
    ----------
    seconds : float
        Since the market began.
    dashboard : str
        Address.
    freshness : tuple of float
        Milliseconds within which half of the messages, and 99 of 100, came from the exchange into the views.
    levels : dict
        (side, price) to volume and number of orders, as of the view ``depth``.
    views : dict
        The rows of each finance view, or why there are none.
    strategies : list of Report
    difference : str
        The first difference between books and views; empty while there is none.
    orders_compared : int
        How often the exchange told all of its orders, and they were what the views were compared with.
    """

    seconds: float
    dashboard: str
    messages: int
    epochs: int
    epochs_compared: int
    orders_compared: int
    difference: str
    freshness: tuple[float, float]
    levels: Mapping[tuple[str, int], tuple[int, int]]
    views: Mapping[str, list[dict[str, Any]] | str]
    strategies: list[Report]


@dataclass
class Demo:
    """An exchange with a market, a mill with views of it, a server, and strategies.

    Attributes
    ----------
    mill : Mill
        On a new root.
    strategies : dict
        By name.
    rate : float
        Requests of the market in a second.
    seed : int
        Of the market.
    port : int
        Of the server; 0 for any free one.
    """

    mill: Mill
    strategies: Mapping[str, Strategy]
    rate: float
    seed: int = 0
    port: int = 0
    check: BookCheck = field(default_factory=lambda: BookCheck(_TABLE), init=False)
    _failures: list[TidemillError] = field(default_factory=list, init=False)

    def run(self, stopped: threading.Event, seconds: float | None, show: Callable[[State], None]) -> State:
        """Run until the event is set, or for some seconds from when the market began; then bring it to its end.

        Parameters
        ----------
        show : callable
            Is given the state now and then.

        Returns
        -------
        State
            At the end: nobody trades any more, and the views have all that was traded.

        Raises
        ------
        TidemillError
            TM7039 when the exchange ended, TM7040 when the views are not the books at the end; errors of statements,
            epochs and the server.
        """
        self.mill.on_epoch(self.check.sealed)
        with ExitStack() as stack:
            exchange = stack.enter_context(ExchangeProcess(self.seed))
            host, port = exchange.address
            text = Path(__file__).with_name("views.sql").read_text()
            self.mill.script(text.format(url=f"tcp://{host}:{port}", symbol=SYMBOL))
            server = stack.enter_context(serving(Service(self.mill, ServerSettings(port=self.port))))
            address = server.addresses["http"]
            client = connect(address)
            stack.callback(client.close)
            line = ExchangeLine(exchange.address, Role.BINARY_LISTENER, self.check.heard)
            stack.callback(line.close)
            live = Live(client, exchange.address, self.strategies, SYMBOL)
            live.prepare()
            trading_ends = threading.Event()
            threads = [
                self._started("strategies", lambda: live.run(trading_ends)),
                self._started("book check", lambda: self._follow(connect(address))),
            ]
            stack.callback(trading_ends.set)
            if not stopped.is_set():
                exchange.trade(self.rate)
            begin = asked = time.monotonic()
            while not stopped.is_set() and (seconds is None or time.monotonic() - begin < seconds):
                show(self._state(begin, address, live))
                self._look(exchange)
                if time.monotonic() - asked > _COMPARE_SECONDS:
                    asked = time.monotonic()
                    line.ask(_ALL_ORDERS)
                stopped.wait(_LOOK_SECONDS)
            exchange.halt()
            trading_ends.set()
            threads[0].join(_END_SECONDS)
            compared = self.check.orders_compared
            line.ask(_ALL_ORDERS)
            reached = self.check.wait(compared + 1, _END_SECONDS)
            self._look(exchange)
            state = self._state(begin, address, live)
        if state.difference or not reached:
            raise TidemillError(
                "TM7040",
                "the views are not the books of the exchange",
                got=state.difference or f"they have {self.check.read:,} of {state.messages:,} messages",
                hint="this is an error of Tidemill: please report it with the seed and the rate",
            )
        return state

    def _started(self, name: str, work: Callable[[], object]) -> threading.Thread:
        def run() -> None:
            try:
                work()
            except TidemillError as error:
                self._failures.append(error)

        thread = threading.Thread(target=run, daemon=True, name=name)
        thread.start()
        return thread

    def _look(self, exchange: ExchangeProcess) -> None:
        """Raise what has failed, in whatever part."""
        exchange.check()
        if isinstance(failure := self.mill.failure, TidemillError):
            raise failure
        if self._failures:
            raise self._failures[0]

    def _follow(self, client: Client) -> None:
        """Compare the book with each epoch."""
        while True:
            try:
                for change in client.subscribe(_DEPTH, reset=True, reconnect=0):
                    if change.kind == "reset":
                        self.check.reset()
                    else:
                        self.check.changed(change.epoch, change.table)
            except TidemillError as error:
                if error.number != _INITIALISING:
                    raise
                time.sleep(_LOOK_SECONDS)

    def _state(self, begin: float, address: str, live: Live) -> State:
        check, views = self.check, dict[str, list[dict[str, Any]] | str]()
        for name in FINANCE_VIEWS:
            try:
                views[name] = self.mill.read(name).to_pylist()
            except TidemillError as error:
                views[name] = error.number
        return State(
            time.monotonic() - begin,
            f"{address}/dashboard/",
            check.messages,
            self.mill.epoch,
            check.epochs,
            check.orders_compared,
            check.difference,
            (check.freshness.quantile(0.5), check.freshness.quantile(0.99)),
            check.levels,
            views,
            [report_of(runner) for runner in live.runners],
        )
