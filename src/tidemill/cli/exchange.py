"""``tidemill exchange``: a simulated exchange that clients trade at over TCP."""

from __future__ import annotations

import asyncio
import signal
from typing import Annotated

import typer

from tidemill.errors import TidemillError
from tidemill.exchange.exchange import Exchange, Instrument
from tidemill.exchange.server import ExchangeServer

exchange = typer.Typer(no_args_is_help=True, help="A simulated exchange that clients trade at over TCP.")


@exchange.callback()
def _exchange() -> None:
    """A simulated exchange that clients trade at over TCP."""


@exchange.command()
def serve(
    symbols: Annotated[
        list[str] | None,
        typer.Option("--symbol", metavar="SYMBOL[:TICK[:LOT]]", help="What is traded, ACME by default; repeatable."),
    ] = None,
    host: Annotated[
        str, typer.Option("--host", help="Address to listen at. Whoever reaches it can trade.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="0 for any free one.")] = 5501,
    cancel_on_disconnect: Annotated[
        bool, typer.Option("--cancel-on-disconnect", help="Delete a broker's orders when its last client has gone.")
    ] = False,
    keep: Annotated[
        int, typer.Option("--keep", min=1, help="Messages of a symbol kept for listeners that have missed some.")
    ] = 1 << 20,
) -> None:
    """Serve an exchange until SIGTERM or SIGINT."""
    instruments = [_instrument(text) for text in symbols or ["ACME"]]
    if len({one.symbol for one in instruments}) < len(instruments):
        raise _bad_symbol(", ".join(symbols or ()), "give each symbol once")
    asyncio.run(_serve(ExchangeServer(Exchange(instruments, keep=keep), host, port, cancel_on_disconnect)))


async def _serve(server: ExchangeServer) -> None:
    ended = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, ended.set)
    try:
        await server.start()
    except OSError as error:
        raise TidemillError(
            "TM7031", "the exchange cannot listen", got=error.strerror or str(error), hint="another --port or --host"
        ) from error
    async with server:
        names = ", ".join(one.symbol for one in server.exchange.instruments)
        host, port = server.address
        shown = f"[{host}]" if ":" in host else host
        typer.echo(f"serving {names} at tcp://{shown}:{port}")
        await ended.wait()


def _instrument(text: str) -> Instrument:
    symbol, *units = text.split(":")
    good = symbol.isascii() and symbol.isalnum() and len(symbol) <= 16
    if not good or len(units) > 2 or not all(unit.isdecimal() and 0 < int(unit) < 1 << 31 for unit in units):
        raise _bad_symbol(text, "letters and digits, then whole numbers above 0, such as ACME:5:100")
    return Instrument(symbol, *map(int, units))


def _bad_symbol(got: str, hint: str) -> TidemillError:
    return TidemillError("TM7032", "this is no symbol to trade", got=got, hint=hint)
