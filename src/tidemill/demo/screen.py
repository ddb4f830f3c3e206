"""What the demo prints: a picture that changes on a terminal, lines elsewhere, and a summary at the end."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any

from rich.align import Align
from rich.columns import Columns
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from tidemill.algos.report import Report
from tidemill.demo.running import State

UNIT = 10_000
"""Prices of the exchange are in hundredths of a cent."""
_LEVELS, _BAR, _BROKERS = 8, 16, 3
_LINE_SECONDS = 5.0


class Lines:
    """A line now and then."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._next = 0.0

    def __enter__(self) -> Lines:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Nothing is to be ended."""

    def show(self, state: State) -> None:
        """Print a line, unless there was one a moment ago."""
        if not self._next:
            self._console.print(f"dashboard: {state.dashboard}", highlight=False, soft_wrap=True)
        if time.monotonic() < self._next:
            return
        self._next = time.monotonic() + _LINE_SECONDS
        parts = [f"{state.seconds:4.0f} s: {state.messages:,} messages", f"epoch {state.epochs:,}"]
        if state.freshness[0]:
            parts.append(f"freshness p50 {state.freshness[0]:.0f} ms")
        parts += [f"{r.name} {_money(r.profit)}" for r in state.strategies]
        self._console.print(", ".join(parts), highlight=False, soft_wrap=True)


class Screen:
    """A picture on a terminal."""

    def __init__(self, console: Console) -> None:
        self._live = Live(console=console, auto_refresh=False, screen=False)

    def __enter__(self) -> Screen:
        self._live.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._live.stop()

    def show(self, state: State) -> None:
        """Draw it anew."""
        self._live.update(picture(state), refresh=True)


def picture(state: State) -> RenderableType:
    """All of a state."""
    title = f"[bold]tidemill demo[/]  {state.seconds:.0f} s   dashboard {state.dashboard}   Ctrl-C ends it"
    check = (
        Text(f"differs: {state.difference}", style="bold red")
        if state.difference
        else Text(f"views = books at all {state.epochs_compared:,} epochs", style="green")
    )
    counts = Text.assemble(
        (f"{state.messages:,}", "bold"),
        " messages   ",
        (f"{state.epochs:,}", "bold"),
        " epochs   freshness p50 ",
        (f"{state.freshness[0]:.0f} ms", "bold"),
        ", p99 ",
        (f"{state.freshness[1]:.0f} ms", "bold"),
        "   ",
        check,
    )
    parts = Columns([Panel(_book(state.levels), title="book (view depth)"), Panel(_views(state.views), title="views")])
    return Group(Text.from_markup(title), counts, parts, Panel(_strategies(state.strategies), title="strategies"))


def _book(levels: Mapping[tuple[str, int], tuple[int, int]]) -> RenderableType:
    table = Table(box=None, padding=(0, 1))
    for name in ("price", "volume", "orders"):
        table.add_column(name, justify="right")
    table.add_column("", width=_BAR)
    asks = sorted((price, *values) for (side, price), values in levels.items() if side == "S" and price)[:_LEVELS]
    bids = sorted(((price, *values) for (side, price), values in levels.items() if side == "B"), reverse=True)[:_LEVELS]
    most = max((volume for _, volume, _ in (*asks, *bids)), default=1)
    for rows, style in ((asks[::-1], "red"), (bids, "green")):
        for price, volume, orders in rows:
            bar = "█" * max(1, volume * _BAR // most)
            table.add_row(f"{price / UNIT:.2f}", f"{volume:,}", str(orders), Text(bar, style=style))
    return table if asks or bids else Align.center("the market begins")


def _views(views: Mapping[str, list[dict[str, Any]] | str]) -> RenderableType:
    table = Table(box=None, padding=(0, 1))
    for name in ("view", "rows", "values"):
        table.add_column(name, justify="right" if name == "rows" else "left")
    for name, rows in views.items():
        if isinstance(rows, str):
            table.add_row(name, "", "not yet" if rows == "TM1030" else rows)
        else:
            table.add_row(name, str(len(rows)), _values(rows))
    return table


def _values(rows: Sequence[Mapping[str, Any]]) -> str:
    """The value of a view of one row; those of the first brokers of others."""
    if len(rows) == 1 and len(rows[0]) == 1:
        return _number(next(iter(rows[0].values())))
    shown = sorted(tuple(row.values()) for row in rows)[:_BROKERS]
    return "  ".join(f"{broker}: {_number(value)}" for broker, value in shown) + (" …" if len(rows) > _BROKERS else "")


def _number(value: float | None) -> str:
    return "NULL" if value is None else f"{value:.4g}" if abs(value) >= 1e6 else f"{value:,.0f}"


def _strategies(reports: Sequence[Report]) -> RenderableType:
    table = Table(box=None, padding=(0, 1))
    for name in ("strategy", "P&L", "position", "orders", "trades", ""):
        table.add_column(name, justify="right" if name not in ("strategy", "") else "left")
    for report in reports:
        profit = Text(_money(report.profit), style="green" if report.profit >= 0 else "red")
        said = f"stopped: {_one_line(report.error)}" if report.error else ""
        row = f"{report.position:,}", f"{report.orders:,}", f"{len(report.trades):,}", said
        table.add_row(report.name, profit, *row)
    return table


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _money(value: int) -> str:
    return f"{value / UNIT:+,.2f}"


def summary(state: State) -> str:
    """What has become of a demo, a line for each thing."""
    orders = sum(report.orders for report in state.strategies)
    trades = sum(len(report.trades) for report in state.strategies)
    profits = ", ".join(
        f"{report.name} {_money(report.profit)}{f' (stopped: {_one_line(report.error)})' if report.error else ''}"
        for report in state.strategies
    )
    lines = {
        "messages": f"{state.messages:,} in {state.seconds:.1f} s",
        "epochs": f"{state.epochs:,}",
        "freshness": f"p50 {state.freshness[0]:.1f} ms, p99 {state.freshness[1]:.1f} ms",
        "orders": f"{orders:,}, {trades:,} trades",
        "P&L": profits,
        "books": f"equal to the views at all {state.epochs_compared:,} epochs that changed them, "
        f"and to all orders of the exchange at {state.orders_compared} times",
    }
    return "\n".join(f"{name + ':':11}{text}" for name, text in lines.items())
