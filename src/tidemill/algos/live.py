"""Strategies at an exchange over TCP, with the views of a server: the code that a back-test runs, in real time.

A thread reads each connection and puts what comes into one queue; the strategies are called by whoever takes from that,
so one at a time.
"""

from __future__ import annotations

import copy
import queue
import socket
import struct
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from tidemill.algos.account import Account, Limits
from tidemill.algos.runner import Runner
from tidemill.algos.strategy import Strategy
from tidemill.algos.tables import create_views, orders_over, views_of
from tidemill.errors import TidemillError
from tidemill.exchange.exchange import since_midnight
from tidemill.exchange.matching import EXECUTED, FILLED
from tidemill.exchange.wire import MESSAGE, Records, Role
from tidemill.serve.client.protocol import path_of

if TYPE_CHECKING:
    from tidemill.serve.client.client import Client

_INITIALISING, _INITIALISING_SECONDS = "TM1030", 0.1
"""The error of a view that is new, and how long to wait then."""
_WAIT = 0.02
"""Seconds between two looks at the time."""


class ExchangeLine:
    """A connection to an exchange, in records.

    Parameters
    ----------
    address : tuple of str and int
    role : Role
    hear : callable
        Called by the reading thread with the messages of one read, and with None at the end.

    Raises
    ------
    TidemillError
        TM9606 when the exchange does not answer.
    """

    def __init__(self, address: tuple[str, int], role: Role, hear: Callable[[Records | None], None]) -> None:
        try:
            self._socket = socket.create_connection(address, timeout=10)
            self._socket.sendall(struct.pack("<i", role))
        except OSError as error:
            raise TidemillError(
                "TM9606",
                "the exchange does not answer",
                got=f"{address[0]}:{address[1]}: {error.strerror or error}",
                hint="tidemill exchange serve says where it listens",
            ) from error
        self._socket.settimeout(None)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._hear = hear
        threading.Thread(target=self._read, daemon=True, name="exchange").start()

    def send(self, requests: Records) -> None:
        """Send requests; nothing when the connection has ended, which is told by itself."""
        self._send(requests.tobytes())

    def ask(self, line: str) -> None:
        """Send a listener's question, such as ``snapshot ACME``."""
        self._send(line.encode() + b"\n")

    def _send(self, data: bytes) -> None:
        try:
            self._socket.sendall(data)
        except OSError:
            self.close()

    def _read(self) -> None:
        left = b""
        while True:
            try:
                data = self._socket.recv(1 << 16)
            except OSError:
                data = b""
            if not data:
                self._hear(None)
                return
            left += data
            whole = len(left) // MESSAGE.itemsize * MESSAGE.itemsize
            if whole:
                self._hear(np.frombuffer(left[:whole], MESSAGE))
                left = left[whole:]

    def close(self) -> None:
        """End the connection."""
        try:
            self._socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            return
        finally:
            self._socket.close()


@dataclass
class Live:
    """Strategies at an exchange.

    Attributes
    ----------
    client : Client
        Of the server whose mill keeps the views. Its table ``orders`` follows the exchange, and is created if there is
        none.
    exchange : tuple of str and int
    strategies : dict
        By name.
    symbol, place : str, int
        What is traded, and its place in the exchange's list.
    broker : int
        That of the first strategy; the others' follow.
    runners : list of Runner
        The strategies once they trade.
    """

    client: Client
    exchange: tuple[str, int]
    strategies: Mapping[str, Strategy]
    symbol: str = "ACME"
    place: int = 0
    limits: Limits = field(default_factory=Limits)
    capital: int = Account.capital
    fee: int = 0
    broker: int = 101
    runners: list[Runner] = field(default_factory=list, init=False)

    def prepare(self) -> list[str]:
        """Create what the strategies' views read, and the views, unless they exist; their names.

        Raises
        ------
        TidemillError
            TM9604 and those of statements for views, TM8031 when the server does not answer.
        """
        views = views_of(strategy.views for strategy in self.strategies.values())
        host, port = self.exchange
        for statement in orders_over(f"tcp://{host}:{port}", self.symbol):
            self.client.sql(statement)
        create_views(self.client.sql, views, self._query_of)
        return list(views)

    def _query_of(self, view: str) -> str | None:
        try:
            found: str | None = self.client.request("GET", path_of("views", view.lower(), "description"))["query"]
        except TidemillError as error:
            if error.number != "TM2012":
                raise
            return None
        return found

    def run(self, stopped: threading.Event, seconds: float | None = None) -> list[Runner]:
        """Trade until the event is set, or for some seconds; then take all orders back.

        Raises
        ------
        TidemillError
            TM9606 for the exchange; as :meth:`prepare`, which is done first.
        """
        return _Trading(self, self.prepare()).run(stopped, seconds)


class _Trading:
    def __init__(self, live: Live, views: list[str]) -> None:
        self._live, self._views = live, views
        self._events: queue.SimpleQueue[tuple[str, Any]] = queue.SimpleQueue()
        self._price = 0
        self._lines: list[ExchangeLine] = []
        self._runners = live.runners
        self._failure: TidemillError | None = None
        self._client = copy.copy(live.client)  # to be closed, which ends the thread that reads changes
        self._ended = False

    def run(self, stopped: threading.Event, seconds: float | None) -> list[Runner]:
        live = self._live
        try:
            self._lines.append(ExchangeLine(live.exchange, Role.BINARY_LISTENER, self._heard))
            for at, (name, strategy) in enumerate(live.strategies.items()):
                line = ExchangeLine(live.exchange, Role.BINARY_INTERACTIVE, self._told(at))
                self._lines.append(line)
                account = Account(live.capital, live.fee)
                broker = live.broker + at
                self._runners.append(Runner(name, strategy, broker, line.send, account, live.limits, live.place))
            for runner in self._runners:
                runner.start(since_midnight())
            if self._views:
                threading.Thread(target=self._follow, daemon=True, name="views").start()
            self._trade(stopped, None if seconds is None else time.monotonic() + seconds)
        finally:
            self._ended = True
            self._client.close()
            for line in self._lines:
                line.close()
        if self._failure is not None:
            raise self._failure
        return self._runners

    def _trade(self, stopped: threading.Event, end: float | None) -> None:
        while not stopped.is_set() and self._failure is None and (end is None or time.monotonic() < end):
            self._take(_WAIT)
            now = since_midnight()
            for runner in self._runners:
                if self._price:
                    runner.price(self._price, now)
                runner.time(now)
        for runner in self._runners:
            runner.desk.closed = True
            runner.desk.cancel_all()
        ends = time.monotonic() + 5
        while any(runner.desk.orders for runner in self._runners) and time.monotonic() < ends:
            self._take(_WAIT)

    def _take(self, seconds: float) -> None:
        """Carry out the events that wait, or come within some seconds."""
        while True:
            try:
                kind, what = self._events.get(timeout=seconds)
            except queue.Empty:
                return
            seconds = 0.0
            now = since_midnight()
            if kind == "change":
                for runner in self._runners:
                    if what.kind == "reset":
                        runner.forget(what.view)
                    elif what.view in runner.strategy.views:
                        runner.view(what.view, what.epoch, what.table, now)
            elif kind == "epoch":
                for runner in self._runners:
                    runner.epoch(now)
            elif kind == "messages":
                at, messages = what
                self._runners[at].messages(messages, now, messages["time"].tolist())
            elif kind == "lost":
                self._runners[what].stop("the exchange has ended the connection")
            else:
                self._failure = what

    def _told(self, at: int) -> Callable[[Records | None], None]:
        def told(messages: Records | None) -> None:
            self._events.put(("lost", at) if messages is None else ("messages", (at, messages)))

        return told

    def _heard(self, messages: Records | None) -> None:
        if messages is not None:
            mine = messages[messages["symbol"] == self._live.place]
            trades = mine["price"][(mine["letter"] == EXECUTED) | (mine["letter"] == FILLED)]
            if len(trades):
                self._price = int(trades[-1])

    def _follow(self) -> None:
        """Read the views' changes, once all of them have their history."""
        while True:
            try:
                self._read_changes()
            except TidemillError as error:
                if error.number == _INITIALISING and not self._ended:
                    time.sleep(_INITIALISING_SECONDS)
                    continue
                self._events.put(("failure", error))
            except RuntimeError:  # it was closed between two requests
                if not self._ended:
                    raise
            return

    def _read_changes(self) -> None:
        epoch = None
        for change in self._client.subscribe(self._views, reset=True, progress=True):
            if epoch is not None and change.epoch != epoch:
                self._events.put(("epoch", epoch))
            epoch = change.epoch
            if change.kind != "progress":
                self._events.put(("change", change))
