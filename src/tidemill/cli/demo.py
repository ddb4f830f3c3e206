"""``tidemill demo``: the trading application in one command."""

from __future__ import annotations

import signal
import sys
import tempfile
import threading
from pathlib import Path
from types import FrameType
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
        Path | None, typer.Option("--root", help="An empty directory that keeps the mill's state; else it is removed.")
    ] = None,
) -> None:
    """Run a simulated exchange, views of its book, a server with a dashboard and strategies, and show them.

    Ends with a summary, and the check that the views were the books of the exchange at every epoch.
    """
    from tidemill.cli.run.java_start import begin_java
    from tidemill.cli.run.progress_display import Display
    from tidemill.cli.run.running import open_mill
    from tidemill.cli.trade import strategies_of
    from tidemill.demo.running import Demo
    from tidemill.demo.screen import Lines, Screen, summary

    chosen = strategies_of(strategies or ["sobi", "maker"], options or [])
    stopped = threading.Event()
    console = Console()
    with tempfile.TemporaryDirectory(prefix="tidemill-demo-") as place:
        where = root or Path(place) / "root"
        if where.exists() and (not where.is_dir() or any(where.iterdir())):
            raise TidemillError("TM7041", "the demo needs an empty directory", got=str(where), hint="another one")
        display = Display(log=False)
        _stop_at_signals(stopped)
        with display.reporting():
            display.working("starting Spark")
            mill = open_mill(str(where), begin_java(Settings(partitions=1)))
        _stop_at_signals(stopped)  # Spark has set its own when it started
        with mill:
            screen = Screen(console) if console.is_terminal and not headless else Lines(console)
            with screen:
                state = Demo(mill, chosen, rate, seed, port).run(stopped, seconds, screen.show)
    typer.echo(summary(state))


def _stop_at_signals(stopped: threading.Event) -> None:
    """Set the event when SIGINT or SIGTERM comes, and say so."""

    def stop(_signal: int, _frame: FrameType | None) -> None:
        if not stopped.is_set():
            sys.stderr.write("stopping\n")
        stopped.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, stop)
