"""``tidemill exchange``: a simulated exchange that clients trade at over TCP."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tidemill.errors import TidemillError
from tidemill.exchange.policy import Policy

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
    from tidemill.cli.exchanging import listener, serve_market

    serve_market(listener(symbols, host, port, cancel_on_disconnect, keep), market, seed)


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
    from tidemill.cli.exchanging import listener, serve_replay

    serve_replay(listener(symbols, host, port, cancel_on_disconnect, keep), trace, trace_mode, policy, speed, once)


@exchange.command()
def generate(
    out: Annotated[Path, typer.Argument(help="File to write.")],
    messages: Annotated[int, typer.Option("--messages", min=1, help="How many lines.")] = 100_000,
    seed: Seed = 0,
    resting: Annotated[int, typer.Option("--resting", min=1, help="About how many orders rest in the book.")] = 10_000,
) -> None:
    """Write a trace of simulated traders: lines t,id,action,volume,price."""
    from tidemill.exchange.market import MarketRules, write_trace

    try:
        write_trace(out, messages, seed, MarketRules(resting=resting))
    except OSError as error:
        raise TidemillError(
            "TM7034", "the trace cannot be written", got=f"{out}: {error.strerror}", hint="another file"
        ) from error
