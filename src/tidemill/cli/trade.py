"""``tidemill trade``: strategies over a trace, or live."""

from __future__ import annotations

import signal
import tempfile
import threading
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

import typer

from tidemill.algos.account import Account, Limits
from tidemill.algos.backtest import Backtest
from tidemill.algos.live import Live
from tidemill.algos.report import report_of
from tidemill.algos.runner import Runner
from tidemill.algos.strategies.registry import make_strategy
from tidemill.algos.strategy import Strategy
from tidemill.cli.run.java_start import begin_java
from tidemill.cli.run.running import open_mill
from tidemill.config import Settings
from tidemill.errors import TidemillError
from tidemill.exchange.policy import Policy
from tidemill.exchange.replay import TraceReader
from tidemill.sources.sockets.endpoints import parse_endpoints

if TYPE_CHECKING:
    from tidemill.serve.client.client import Client


def strategies_of(names: list[str], options: list[str]) -> dict[str, Strategy]:
    """Strategies by the names that reports have; options are ``NAME=VALUE``, or ``STRATEGY.NAME=VALUE`` for one."""
    found: dict[str, Strategy] = {}
    short = [text.rpartition(":")[2].lower() if ":" in text else text for text in names]
    for option in options:
        if "=" not in option:
            hint = "NAME=VALUE, or STRATEGY.NAME=VALUE"
            raise TidemillError("TM9603", "an option of a strategy cannot have this value", got=option, hint=hint)
        strategy, _, _ = option.partition("=")[0].rpartition(".")
        if strategy not in ("", *short):
            raise TidemillError("TM9603", "the strategy has no such option", got=option, hint=f"of {', '.join(short)}")
    for text, name in zip(names, short):
        own: dict[str, str] = {}
        for option in options:
            key, _, value = option.partition("=")
            strategy, _, field = key.rpartition(".")
            if strategy in ("", name):
                own[field] = value
        if name in found:
            raise TidemillError("TM9605", "a strategy is given twice", got=name, hint="give each once")
        found[name] = make_strategy(text, own)
    return found


def policy_of(text: str) -> Policy:
    """A policy by its name. TM7035 for another text."""
    possible = [Policy.ALL.value, Policy.LIVE.value]
    if text not in possible:
        raise TidemillError("TM7035", "there is no such policy", got=text, hint=", ".join(possible))
    return Policy(text)


def check_place(trace: Path | None, exchange: str | None, server: str | None) -> None:
    """TM7036 unless there is a trace, or an exchange and a server."""
    if (trace is None) == (exchange is None) or (exchange is None) != (server is None):
        given = [name for name, one in (("--trace", trace), ("--exchange", exchange), ("--server", server)) if one]
        raise TidemillError(
            "TM7036",
            "strategies trade over a trace, or at an exchange with the views of a server",
            got=", ".join(given) or "neither",
            hint="--trace FILE, or --exchange HOST:PORT and --server URL",
        )


def address_of(text: str) -> tuple[str, int]:
    """An address ``HOST:PORT``. TM7038 for another text."""
    try:
        endpoint = parse_endpoints(text if "://" in text else f"tcp://{text}")[0]
    except TidemillError as error:
        raise _no_address(text) from error
    if endpoint.listens or isinstance(endpoint.address, str):
        raise _no_address(text)
    return endpoint.address


def _no_address(got: str) -> TidemillError:
    return TidemillError("TM7038", "this is no address of an exchange", got=got, hint="HOST:PORT")


def trade_live(
    client: Client,
    exchange: str,
    names: list[str],
    options: list[str],
    symbol: str,
    seconds: float | None,
    limits: Limits,
    fee: int,
    out: Path | None,
) -> None:
    """Trade until a signal comes or the time is over, and print what has become of the strategies."""
    stopped = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stopped.set())
    _make(out)
    live = Live(client, address_of(exchange), strategies_of(names, options), symbol, limits=limits, fee=fee)
    _tell(live.run(stopped, seconds), out)


def _make(out: Path | None) -> None:
    if out is not None:
        try:
            out.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise TidemillError(
                "TM7037", "the report cannot be written", got=f"{out}: {error.strerror}", hint="another directory"
            ) from error


def _tell(runners: list[Runner], out: Path | None) -> None:
    for runner in runners:
        report = report_of(runner)
        typer.echo(report.text())
        if out is not None:
            report.write(out)


def _end(_signal: int, _frame: FrameType | None) -> None:
    raise SystemExit(128 + signal.SIGTERM)  # what is temporary is removed


def back_test(
    names: list[str],
    options: list[str],
    trace: Path,
    step: int,
    policy: Policy,
    limits: Limits,
    fee: int,
    tick: int,
    trace_mode: str,
    out: Path | None,
    settings: Settings,
) -> None:
    """Run strategies over a trace, and print what has become of them."""
    if not trace.is_file():
        raise TidemillError(
            "TM7033", "there is no such trace", got=str(trace), hint="a file of lines t,id,action,volume,price"
        )
    given = strategies_of(names, options)
    if next(iter(TraceReader(trace, trace_mode)), None) is None:
        raise TidemillError(
            "TM7042", "the trace has no request", got=str(trace), hint="a file of lines t,id,action,volume,price"
        )
    signal.signal(signal.SIGTERM, _end)
    test = Backtest(trace, given, step, policy, limits, Account.capital, fee, tick, trace_mode)
    _make(out)
    with tempfile.TemporaryDirectory(prefix="tidemill-trade-") as place:
        feed = Path(place) / "feed"
        feed.mkdir()
        with open_mill(str(Path(place) / "root"), begin_java(settings)) as mill:
            runners = test.run(mill, feed)
            epochs = mill.epoch
    typer.echo(f"{epochs:,} epochs; of the trace {test.left_out:,} rows left out, {test.rejected:,} requests rejected")
    _tell(runners, out)
