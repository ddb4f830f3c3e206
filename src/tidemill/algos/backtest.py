"""Strategies over a trace, with a clock that is the trace's own: the same trace and seed give the same trades.

Time goes in steps. In each the exchange gets the trace's messages of that time, then the orders that strategies have
sent in the step before; what it says is a file for the mill, whose epoch brings the views up to it; then strategies are
told what was executed, what has changed, and the time. So an order is as late as a step is long.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from tidemill.algos.account import Account, Limits
from tidemill.algos.runner import Runner
from tidemill.algos.strategy import Strategy
from tidemill.algos.tables import ORDERS, SIDES, create_views, orders_over, views_of
from tidemill.exchange.exchange import Exchange, Instrument
from tidemill.exchange.matching import EXECUTED, FILLED, REJECTED
from tidemill.exchange.policy import Policy
from tidemill.exchange.replay import Replay, TraceReader, TraceRows
from tidemill.exchange.wire import REQUEST, Records, trace_lines

if TYPE_CHECKING:
    from tidemill.mill import Mill

FIRST_BROKER = 101
"""The broker of the first strategy; the others' follow."""


@dataclass
class Backtest:
    """Strategies over a trace.

    Attributes
    ----------
    trace : Path
        Lines ``t,id,action,volume,price``; may be compressed.
    strategies : dict
        By name.
    step : int
        Milliseconds.
    policy : Policy
        Whether orders of strategies trade with those of the trace.
    capital, fee : int
        As of :class:`Account`.
    tick : int
        Unit of prices, of strategies' orders and of the trace's.
    left_out, rejected : int
        After a run: malformed rows of the trace, and requests of it that the exchange did not take.
    """

    trace: Path
    strategies: Mapping[str, Strategy]
    step: int = 1000
    policy: Policy = Policy.ALL
    limits: Limits = field(default_factory=Limits)
    capital: int = Account.capital
    fee: int = 0
    tick: int = 1
    trace_mode: str = "PERMISSIVE"
    left_out: int = 0
    rejected: int = 0

    def run(self, mill: Mill, feed: Path) -> list[Runner]:
        """Run it to the end of the trace.

        Parameters
        ----------
        mill : Mill
            A new one.
        feed : Path
            An empty directory, for the files of what the exchange says.

        Raises
        ------
        TidemillError
            TM4020 for a malformed line in mode FAILFAST, TM9604 for views; as statements and epochs. An
            error in a strategy stops that alone: :attr:`Runner.error`.
        """
        views = views_of(strategy.views for strategy in self.strategies.values())
        for statement in orders_over(str(feed)):
            mill.sql(statement)
        made = {view.lower(): "" for view in (ORDERS, *SIDES)}
        create_views(mill.sql, views, lambda name: made.get(name.lower()))
        return _Session(self, mill, feed, list(views)).run()


class _Session:
    def __init__(self, test: Backtest, mill: Mill, feed: Path, views: Sequence[str]) -> None:
        self._test, self._mill, self._feed, self._views = test, mill, feed, views
        self._now = self._files = 0
        self._epoch = mill.epoch
        self._exchange = Exchange([Instrument("TRACE", test.tick)], clock=lambda: self._now, keep=1)
        self._replay = Replay(self._exchange, 0, test.policy)
        self._sent: list[Records] = []
        self._runners = [
            Runner(name, strategy, FIRST_BROKER + at, self._sent.append, Account(test.capital, test.fee), test.limits)
            for at, (name, strategy) in enumerate(test.strategies.items())
        ]

    def run(self) -> list[Runner]:
        """All steps."""
        begun = False
        trace = TraceReader(self._test.trace, self._test.trace_mode)
        for end, rows in _steps(trace, self._test.step):
            self._now = end
            if not begun:
                begun = True
                for runner in self._runners:
                    runner.start(end - self._test.step)
            self._step(rows)
        for runner in self._runners:
            runner.account.note(self._now)
        self._test.left_out, self._test.rejected = trace.malformed, self._replay.rejected
        return self._runners

    def _step(self, rows: TraceRows) -> None:
        replayed = self._exchange.replay(self._replay.made(rows), self._replay.apart).messages
        self._replay.learn(replayed, len(rows))
        requests = np.concatenate(self._sent) if self._sent else np.zeros(0, REQUEST)
        self._sent.clear()
        answered = self._exchange.execute(requests)
        tags = [*([0] * len(replayed)), *requests["time"][answered.request].tolist()]
        messages = np.concatenate([replayed, answered.messages])
        changes = self._changes(messages[messages["letter"] != REJECTED])
        trades = messages["price"][(messages["letter"] == EXECUTED) | (messages["letter"] == FILLED)]
        trades = trades[trades > 0]  # a market order of a trace that does not tell the price of its trade has none
        for runner in self._runners:
            runner.messages(messages, self._now, tags)
            if len(trades):
                runner.price(int(trades[-1]), self._now)
        for _, of_epoch in groupby(changes, key=lambda change: change[1]):
            for view, epoch, table in of_epoch:
                for runner in self._runners:
                    if view in runner.strategy.views:
                        runner.view(view, epoch, table, self._now)
            for runner in self._runners:
                runner.epoch(self._now)
        for runner in self._runners:
            runner.time(self._now)

    def _changes(self, messages: Records) -> list[tuple[str, int, pa.Table]]:
        """What messages change in the views."""
        if not len(messages):
            return []
        waiting = self._feed / f".{self._files}"
        waiting.write_bytes(trace_lines(messages))
        waiting.rename(self._feed / f"{self._files:09d}.csv")
        self._files += 1
        while self._mill.advance() is not None:
            pass
        found = [
            (view, epoch, table)
            for view in self._views
            for epoch, table in self._mill.subscribe(view, self._epoch, timeout=0)
        ]
        self._epoch = self._mill.epoch
        return sorted(found, key=lambda change: change[1])


def _steps(trace: TraceReader, step: int) -> Iterator[tuple[int, TraceRows]]:
    """The rows of each step, and its end; steps begin at multiples of their length, the first with the first row."""
    waiting: list[TraceRows] = []
    end = 0
    for rows in trace:
        times = np.maximum.accumulate(rows.t)  # a trace whose clock goes back goes on in the same step
        at = 0
        while at < len(rows):
            if times[at] >= end:
                if waiting:
                    yield end, _joined(waiting)
                    waiting = []
                    end += step
                begin = int(times[at]) // step * step
                for empty in range(end, begin + 1, step) if end else ():
                    yield empty, _NO_ROWS
                end = begin + step
            stop = int(np.searchsorted(times, end))
            waiting.append(rows.part(at, stop))
            at = stop
    if waiting:
        yield end, _joined(waiting)


_NO_ROWS = TraceRows(*(np.zeros(0, np.int64) for _ in range(5)))


def _joined(parts: Sequence[TraceRows]) -> TraceRows:
    names = ("t", "letter", "id", "volume", "price")
    return TraceRows(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))
