"""What trades at an exchange beside its clients: tasks of its event loop."""

from __future__ import annotations

import asyncio

from tidemill.exchange.market import BATCH, Market
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
