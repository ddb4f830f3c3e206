"""What trades at an exchange beside its clients: tasks of its event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from tidemill.exchange.market import BATCH, Market
from tidemill.exchange.replay import Replay, TraceRows
from tidemill.exchange.server import ExchangeServer

_PAUSE = 0.002
"""Seconds between two batches, at least, so that clients have their turn."""


async def run_market(server: ExchangeServer, market: Market, rate: float) -> None:
    """Have a market trade until the task is cancelled, at so many requests a second; as fast as possible for 0."""
    server.heard.append(market.learn)
    loop = asyncio.get_running_loop()
    begin, sent = loop.time(), 0
    try:
        while True:
            due = BATCH if rate <= 0 else min(BATCH, int((loop.time() - begin) * rate) - sent)
            if due > 0:
                server.execute(market.requests(due))
                sent += due
            behind = rate <= 0 or int((loop.time() - begin) * rate) - sent >= BATCH
            await asyncio.sleep(0 if behind else _PAUSE)
    finally:
        server.heard.remove(market.learn)


async def run_replay(server: ExchangeServer, replay: Replay, trace: Iterable[TraceRows], speed: float) -> None:
    """Replay a trace to its end.

    Parameters
    ----------
    speed : float
        1 for the times of the trace, 10 for ten times as fast; 0 for as fast as possible.
    """
    loop = asyncio.get_running_loop()
    begin, first = loop.time(), None
    for rows in trace:
        at = 0
        while at < len(rows):
            end = min(len(rows), at + BATCH)
            if speed > 0:
                first = int(rows.t[at]) if first is None else first
                now = first + (loop.time() - begin) * 1000 * speed
                due = int((rows.t[at:end] <= now).argmin()) if (rows.t[at:end] > now).any() else end - at
                if due == 0:
                    await asyncio.sleep(max(_PAUSE, min(1.0, (int(rows.t[at]) - now) / 1000 / speed)))
                    continue
                end = at + due
            requests = replay.made(rows.part(at, end))
            replay.learn(server.replay(requests, replay.apart).messages, len(requests))
            at = end
            await asyncio.sleep(0)
