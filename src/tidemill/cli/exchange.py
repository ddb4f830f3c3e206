"""``tidemill exchange``: a simulated exchange that clients trade at over TCP."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Coroutine
from pathlib import Path
from typing import Annotated, Any

import typer

from tidemill.errors import TidemillError
from tidemill.exchange.exchange import Exchange, Instrument
from tidemill.exchange.feeds import run_market, run_replay
from tidemill.exchange.market import Market, MarketRules, write_trace
from tidemill.exchange.replay import Policy, Replay, TraceReader
from tidemill.exchange.server import ExchangeServer

exchange = typer.Typer(no_args_is_help=True, help="A simulated exchange that clients trade at over TCP.")


@exchange.callback()
def _exchange() -> None:
    """A simulated exchange that clients trade at over TCP."""


Symbols = Annotated[
    list[str] | None,
    typer.Option("--symbol", metavar="SYMBOL[:TICK[:LOT]]", help="What is traded, ACME by default; repeatable."),
]
Host = Annotated[str, typer.Option("--host", help="Address to listen at. Whoever reaches it can trade.")]
Port = Annotated[int, typer.Option("--port", min=0, max=65535, help="0 for any free one.")]
CancelOnDisconnect = Annotated[
    bool, typer.Option("--cancel-on-disconnect", help="Delete a broker's orders when its last client has gone.")
]
Keep = Annotated[
    int, typer.Option("--keep", min=1, help="Messages of a symbol kept for listeners that have missed some.")
]
Seed = Annotated[int, typer.Option("--seed", min=0, help="Another seed gives another market.")]
_KEEP = 1 << 20


@exchange.command()
def serve(
    symbols: Symbols = None,
    host: Host = "127.0.0.1",
    port: Port = 5501,
    cancel_on_disconnect: CancelOnDisconnect = False,
    keep: Keep = _KEEP,
    market: Annotated[
        float,
        typer.Option(
            "--market", min=0, max=1_000_000, help="Requests a second of simulated traders, at the first symbol."
        ),
    ] = 0.0,
    seed: Seed = 0,
) -> None:
    """Serve an exchange until SIGTERM or SIGINT."""
    server = _server(symbols, host, port, cancel_on_disconnect, keep)
    tick = server.exchange.instruments[0].tick
    tick = MarketRules.tick if tick == 1 else tick
    rules = MarketRules(price=2_750 * tick, tick=tick, lot=server.exchange.instruments[0].lot)
    feed = run_market(server, Market(seed, rules), market) if market else None
    asyncio.run(_serve(server, feed))


@exchange.command()
def replay(
    trace: Annotated[Path, typer.Argument(help="File of lines t,id,action,volume,price; may be compressed.")],
    speed: Annotated[
        float,
        typer.Option(
            "--speed", min=0, max=1_000_000, help="1 for the times of the trace, 10 for ten times as fast, 0 for all."
        ),
    ] = 1.0,
    policy: Annotated[
        Policy,
        typer.Option("--policy", help="Orders of clients trade with nobody (replay), all, or each other only (live)."),
    ] = Policy.ALL,
    trace_mode: Annotated[
        str, typer.Option("--trace-mode", help="Malformed rows: PERMISSIVE or DROPMALFORMED leaves them out, FAILFAST.")
    ] = "PERMISSIVE",
    symbols: Symbols = None,
    host: Host = "127.0.0.1",
    port: Port = 5501,
    cancel_on_disconnect: CancelOnDisconnect = False,
    keep: Keep = _KEEP,
    once: Annotated[bool, typer.Option("--once", help="End when the trace is at its end.")] = False,
) -> None:
    """Serve an exchange that replays a trace at its first symbol, until SIGTERM or SIGINT."""
    if not trace.is_file():
        raise TidemillError(
            "TM7033", "there is no such trace", got=str(trace), hint="a file of lines t,id,action,volume,price"
        )
    reader = TraceReader(trace, trace_mode)
    server = _server(symbols, host, port, cancel_on_disconnect, keep)
    asyncio.run(_serve(server, _replay(server, reader, policy, speed), once))


async def _replay(server: ExchangeServer, reader: TraceReader, policy: Policy, speed: float) -> None:
    replay = Replay(server.exchange, 0, policy)
    await run_replay(server, replay, reader, speed)
    left_out = f", {reader.malformed:,} malformed rows left out" if reader.malformed else ""
    typer.echo(f"the trace is at its end: {replay.requests:,} requests, {replay.rejected:,} rejected{left_out}")


@exchange.command()
def generate(
    out: Annotated[Path, typer.Argument(help="File to write.")],
    messages: Annotated[int, typer.Option("--messages", min=1, help="How many lines.")] = 100_000,
    seed: Seed = 0,
    resting: Annotated[int, typer.Option("--resting", min=1, help="About how many orders rest in the book.")] = 10_000,
) -> None:
    """Write a trace of simulated traders: lines t,id,action,volume,price."""
    try:
        write_trace(out, messages, seed, MarketRules(resting=resting))
    except OSError as error:
        raise TidemillError(
            "TM7034", "the trace cannot be written", got=f"{out}: {error.strerror}", hint="another file"
        ) from error


def _server(symbols: list[str] | None, host: str, port: int, cancel_on_disconnect: bool, keep: int) -> ExchangeServer:
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
