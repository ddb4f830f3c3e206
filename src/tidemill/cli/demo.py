"""``tidemill demo``: the trading application in one command."""

from __future__ import annotations

import signal
import tempfile
import threading
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from tidemill.config import Settings
from tidemill.errors import TidemillError


def demo(
    seconds: Annotated[
        float | None, typer.Option("--seconds", min=0, help="How long; until SIGINT by default.")
    ] = None,
    headless: Annotated[
        bool, typer.Option("--headless", help="Print lines in place of the picture, also on a terminal.")
    ] = False,
    rate: Annotated[
        float, typer.Option("--rate", min=1, max=100_000, help="Requests of the market in a second.")
    ] = 200,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Another seed gives another market.")] = 0,
    strategies: Annotated[
        list[str] | None,
        typer.Option("--strategy", help="sobi and maker by default; momentum, random, or file.py:Class; repeatable."),
    ] = None,
    options: Annotated[
        list[str] | None,
        typer.Option("--option", metavar="[STRATEGY.]NAME=VALUE", help="An option of a strategy; repeatable."),
    ] = None,
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="Of the dashboard; 0 for any free one.")] = 0,
    root: Annotated[
        Path | None, typer.Option("--root", help="A new directory that keeps the mill's state; else it is removed.")
    ] = None,
) -> None:
    """Show all of it at once: an exchange, its market, views of the book, a server with a dashboard, and strategies.

    Ends with a summary, and the check that the views were the books of the exchange at every epoch.
    """
    from tidemill.cli.progress_display import Display
    from tidemill.cli.running import open_mill
    from tidemill.cli.trade import strategies_of
    from tidemill.demo.running import Demo
    from tidemill.demo.screen import Lines, Screen, summary

    chosen = strategies_of(strategies or ["sobi", "maker"], options or [])
    stopped = threading.Event()
    console = Console()
    with tempfile.TemporaryDirectory(prefix="tidemill-demo-") as place:
        where = root or Path(place) / "root"
        if where.exists() and any(where.iterdir()):
            raise TidemillError("TM7041", "the demo needs a new directory", got=str(where), hint="one that is empty")
        display = Display(log=False)
        with display.reporting():
            display.working("starting Spark")
            mill = open_mill(str(where), Settings(partitions=1))
        for number in (signal.SIGINT, signal.SIGTERM):  # Spark sets its own when it starts
            signal.signal(number, lambda *_: stopped.set())
        with mill:
            screen = Screen(console) if console.is_terminal and not headless else Lines(console)
            with screen:
                state = Demo(mill, chosen, rate, seed, port).run(stopped, seconds, screen.show)
    typer.echo(summary(state))
