"""``tidemill trade``: strategies over a trace."""

from __future__ import annotations

import tempfile
from pathlib import Path

import typer

from tidemill.algos.account import Account, Limits
from tidemill.algos.backtest import Backtest
from tidemill.algos.report import report_of
from tidemill.algos.strategies.registry import make_strategy
from tidemill.algos.strategy import Strategy
from tidemill.cli.running import open_mill
from tidemill.config import Settings
from tidemill.errors import TidemillError
from tidemill.exchange.replay import Policy


def strategies_of(names: list[str], options: list[str]) -> dict[str, Strategy]:
    """Strategies by the names that reports have; options are ``NAME=VALUE``, or ``STRATEGY.NAME=VALUE`` for one."""
    found: dict[str, Strategy] = {}
    for text in names:
        own: dict[str, str] = {}
        name = text.rpartition(":")[2].lower() if ":" in text else text
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
    if text not in list(Policy):
        raise TidemillError("TM7035", "there is no such policy", got=text, hint=", ".join(Policy))
    return Policy(text)


def back_test(
    names: list[str],
    options: list[str],
    trace: Path,
    step: int,
    policy: Policy,
    limits: Limits,
    fee: int,
    tick: int,
    out: Path | None,
    settings: Settings,
) -> None:
    """Run strategies over a trace, and print what has become of them."""
    if not trace.is_file():
        raise TidemillError(
            "TM7033", "there is no such trace", got=str(trace), hint="a file of lines t,id,action,volume,price"
        )
    test = Backtest(trace, strategies_of(names, options), step, policy, limits, Account.capital, fee, tick)
    with tempfile.TemporaryDirectory(prefix="tidemill-trade-") as place:
        feed = Path(place) / "feed"
        feed.mkdir()
        with open_mill(str(Path(place) / "root"), settings) as mill:
            runners = test.run(mill, feed)
            epochs = mill.epoch
    typer.echo(f"{epochs:,} epochs")
    for runner in runners:
        report = report_of(runner)
        typer.echo(report.text())
        if out is not None:
            report.write(out)
