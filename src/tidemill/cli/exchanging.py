"""Runs the exchanges of ``tidemill exchange``."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import typer

from tidemill.errors import TidemillError
from tidemill.exchange.exchange import Exchange, Instrument
from tidemill.exchange.feeds import run_market, run_replay
from tidemill.exchange.market import Market, MarketRules
from tidemill.exchange.policy import Policy
from tidemill.exchange.replay import Replay, TraceReader
from tidemill.exchange.server import ExchangeServer


def serve_market(server: ExchangeServer, requests: float, seed: int) -> None:
    """Serve until a signal comes; simulated traders send so many requests a second at the first symbol, or none."""
    tick = server.exchange.instruments[0].tick
    tick = MarketRules.tick if tick == 1 else tick
    rules = MarketRules(price=2_750 * tick, tick=tick, lot=server.exchange.instruments[0].lot)
    feed = run_market(server, Market(seed, rules), requests) if requests else None
    asyncio.run(_serve(server, feed))


def serve_replay(
    server: ExchangeServer, trace: Path, trace_mode: str, policy: Policy, speed: float, once: bool
) -> None:
    """Serve a trace at the first symbol until a signal comes, or with ``once`` until its end."""
    reader = TraceReader(trace, trace_mode)
    asyncio.run(_serve(server, _replay(server, reader, policy, speed), once))


async def _replay(server: ExchangeServer, reader: TraceReader, policy: Policy, speed: float) -> None:
    replay = Replay(server.exchange, 0, policy)
    await run_replay(server, replay, reader, speed)
    left_out = f", {reader.malformed:,} malformed rows left out" if reader.malformed else ""
    typer.echo(f"the trace is at its end: {replay.requests:,} requests, {replay.rejected:,} rejected{left_out}")


def listener(symbols: list[str] | None, host: str, port: int, cancel_on_disconnect: bool, keep: int) -> ExchangeServer:
    """An exchange that is not listening yet. TM7032 for a symbol that is none, or is given twice."""
    instruments = [_instrument(text) for text in symbols or ["ACME"]]
    if len({one.symbol for one in instruments}) < len(instruments):
        raise _bad_symbol(", ".join(symbols or ()), "give each symbol once")
    return ExchangeServer(Exchange(instruments, keep=keep), host, port, cancel_on_disconnect)


async def _serve(server: ExchangeServer, feed: Coroutine[Any, Any, None] | None = None, once: bool = False) -> None:
    """Serve until a signal comes, or with ``once`` until the feed ends; a feed that fails ends the exchange."""
    ended = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, ended.set)
    try:
        await server.start()
    except OSError as error:
        if feed is not None:
            feed.close()
        raise TidemillError(
            "TM7031", "the exchange cannot listen", got=error.strerror or str(error), hint="another --port or --host"
        ) from error
    async with server:
        names = ", ".join(one.symbol for one in server.exchange.instruments)
        host, port = server.address
        shown = f"[{host}]" if ":" in host else host
        typer.echo(f"serving {names} at tcp://{shown}:{port}")
        waiting: list[asyncio.Task[Any]] = [asyncio.create_task(ended.wait(), name="signal")]
        if feed is not None:
            waiting.append(asyncio.create_task(feed, name="feed"))
        while not ended.is_set():
            done, _ = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
                waiting.remove(task)
            if once and len(waiting) == 1:
                return
        for task in waiting:
            task.cancel()


def _instrument(text: str) -> Instrument:
    symbol, *units = text.split(":")
    good = symbol.isascii() and symbol.isalnum() and len(symbol) <= 16
    if not good or len(units) > 2 or not all(unit.isdecimal() and 0 < int(unit) < 1 << 31 for unit in units):
        raise _bad_symbol(text, "letters and digits, then whole numbers above 0, such as ACME:5:100")
    return Instrument(symbol, *map(int, units))


def _bad_symbol(got: str, hint: str) -> TidemillError:
    return TidemillError("TM7032", "this is no symbol to trade", got=got, hint=hint)
