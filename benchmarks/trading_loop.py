"""From an order to the next one, by way of a view: an order is sent, a view changes, the strategy that follows it acts.

The exchange is a process of its own, and the mill with its server another one; the strategy runs in this one, as
``tidemill trade`` runs it. It bids far below the market; the view tells its newest bid, and when the view has it, it
takes that back and bids again. The time is from sending an order to sending the next. Beside it simulated traders send
requests at a rate, which the same views have to take in. There is no peer: no other system here has an exchange.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import ClassVar

from benchmarks.exchange_feed import served
from benchmarks.measuring import heading, table
from benchmarks.server_process import ServerProcess
from tidemill.algos import Strategy, ViewChange
from tidemill.algos.live import Live
from tidemill.serve.client.client import connect

_MOST = 1000
"""Bids are below this; the market is at 275,000."""
_WARM_UP = 20


class Prober(Strategy):
    """Bids, waits for the view, and bids again."""

    views: ClassVar[Mapping[str, str]] = {"probe": f"SELECT MAX(price) AS price FROM bids WHERE price < {_MOST}"}

    def __init__(self, count: int, done: threading.Event) -> None:
        self.taken: list[float] = []
        self._count, self._done = count, done
        self._price, self._sent, self._order = 0, 0.0, 0

    def on_start(self) -> None:
        """The first order."""
        self._bid()

    def on_view(self, change: ViewChange) -> None:
        """Act once the view has the newest bid."""
        if change.row.get("price") != self._price:
            return
        before, order = self._sent, self._order
        self._bid()
        self.taken.append(self._sent - before)
        self.desk.cancel(order)
        if len(self.taken) >= self._count:
            self._done.set()

    def _bid(self) -> None:
        self._price = self._price % (_MOST - 2) + 1
        self._sent = time.perf_counter()
        self._order = self.desk.buy(1, self._price) or 0


@contextmanager
def running(rate: int) -> Iterator[tuple[tuple[str, int], str]]:
    """Addresses of an exchange with a market and of a server."""
    with served("--market", str(rate)) as address, tempfile.TemporaryDirectory() as place:
        server = ServerProcess(Path(place), settings=("partitions=2", "idle_seconds=0.002"))
        server.start()
        try:
            yield address, server.url
        finally:
            server.kill()


def measured(rate: int, count: int) -> list[float]:
    """Seconds from each order to the next."""
    with running(rate) as (address, url), connect(url) as client:
        done = threading.Event()
        prober = Prober(count + _WARM_UP, done)
        (runner,) = Live(client, address, {"prober": prober}).run(done, 600)
        if runner.error or len(prober.taken) < count + _WARM_UP:
            raise RuntimeError(f"{len(prober.taken)} of {count} orders came back: {runner.error}")
        return prober.taken[_WARM_UP:]


def main() -> None:
    """Measure and print."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--small", action="store_true", help="fewer orders and rates")
    given = options.parse_args()
    count = 50 if given.small else 1000
    heading(f"trading_loop: {count:,} orders, each after the view has the one before")
    rows = []
    for rate in (100,) if given.small else (0, 100, 500):
        taken = sorted(1000 * each for each in measured(rate, count))
        rows.append((f"{rate} requests/s beside it", statistics.median(taken), taken[int(len(taken) * 0.99)]))
    table(("", "p50 ms", "p99 ms"), rows)


if __name__ == "__main__":
    main()
