"""The check of the whole system: views over the feed of an exchange are its book, whatever is killed.

``make feed`` runs it over two million messages.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from exchange_thread import ExchangeThread
from feed_mill import digest

from mill_factory import MillFactory
from tidemill.exchange.exchange import Exchange, Instrument
from tidemill.exchange.market import Market, MarketRules
from tidemill.exchange.wire import Records

MESSAGES = int(os.environ.get("TIDEMILL_FEED", "20000"))
KILLS = max(2, MESSAGES // 200_000)


class Model:
    """The book behind each message, in dictionaries; digests are kept message by message."""

    def __init__(self) -> None:
        self.orders: dict[int, tuple[str, int, int]] = {}
        self.levels: dict[tuple[str, int], tuple[int, int]] = {}
        self.sum = 0

    def apply(self, letter: str, id_: int, volume: int, price: int) -> None:
        """Follow a message."""
        if letter in "BS":
            self.orders[id_] = letter, price, volume
            self._change(letter, price, volume, 1)
            return
        side, price, left = self.orders.pop(id_)
        taken = volume if letter in "EC" else left
        if letter in "EC" and left > volume:
            self.orders[id_] = side, price, left - volume
        self._change(side, price, -taken, 0 if id_ in self.orders else -1)

    def _change(self, side: str, price: int, volume: int, orders: int) -> None:
        before = self.levels.pop((side, price), None)
        if before is not None:
            self.sum -= digest([(side, price, *before)])
        after = (before[0] + volume, before[1] + orders) if before is not None else (volume, orders)
        if after[1]:
            self.levels[side, price] = after
            self.sum += digest([(side, price, *after)])


def states(messages: Records) -> Iterator[int]:
    """The digest of the book before the first message, and behind each."""
    model = Model()
    yield 0
    columns = (messages[name].tolist() for name in ("letter", "id", "volume", "price"))
    for letter, id_, volume, price in zip(*columns, strict=True):
        model.apply(chr(letter), id_, volume, price)
        yield model.sum & (1 << 64) - 1


@pytest.mark.slow
@pytest.mark.timeout(300 + 60 * KILLS + MESSAGES // 1000)
def test_views_are_the_book_at_every_epoch(mill_factory: MillFactory, tmp_path: Path, seed: int) -> None:
    """The mill is killed again and again while the market goes on; connections are cut meanwhile."""
    chance = random.Random(seed)
    exchange = Exchange([Instrument("ACME", 100)], keep=2 * MESSAGES)
    market, sealed = Market(seed, MarketRules(resting=400)), list[list[int]]()
    with ExchangeThread(exchange) as thread:
        thread.server.heard.append(market.learn)

        def trade() -> int:
            for _ in range(max(1, MESSAGES // 20_000)):
                thread.server.execute(market.requests())
            return exchange.sequence(0)

        command = [sys.executable, str(Path(__file__).with_name("feed_mill.py")), str(tmp_path / "root"), thread.url]
        for number in range(KILLS):
            until = MESSAGES * (number + 1) // KILLS
            with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True) as process:
                assert process.stdout is not None
                epochs = chance.randrange(3, 12)
                while exchange.sequence(0) < until or epochs > 0:
                    if thread.call(trade) > 2 * MESSAGES - 5000:
                        break
                    if epochs <= 0:
                        continue
                    sealed.append(json.loads(process.stdout.readline()))
                    epochs -= 1
                    if chance.random() < 0.1:
                        thread.call(lambda: [client.transport.abort() for client in list(thread.server._clients)])
                time.sleep(chance.random() * 0.2)
                os.killpg(process.pid, signal.SIGKILL)
                sealed += [json.loads(line) for line in process.stdout if line.endswith("\n")]
        places: dict[int, list[int]] = {}
        for place, found in enumerate(states(exchange.since(0, 0))):
            places.setdefault(found, []).append(place)
        at, epoch = 0, 0
        for number, found, levels in sealed:
            assert found in places, f"epoch {number} of {levels} levels is no book of the exchange, seed {seed}"
            at = at if number < epoch else min((p for p in places[found] if p >= at), default=-1)
            assert at >= 0, f"epoch {number} is older than the one before, seed {seed}"
            epoch = number
        mill = mill_factory(small_epoch_bytes=1 << 20)
        expected = {
            (side, level.price): (level.volume, level.orders)
            for side in "BS"
            for level in exchange.books[0].levels(side)
        }
        end = time.monotonic() + 120
        while True:
            mill.advance()
            rows = mill.read("book").to_pylist()
            if {(r["side"], r["price"]): (r["volume"], r["orders"]) for r in rows} == expected:
                break
            assert time.monotonic() < end, f"the view never becomes the book, seed {seed}"
        assert mill.read("acme__errors").num_rows == 0
    assert len(sealed) > 3 * KILLS and len(expected) > 20
