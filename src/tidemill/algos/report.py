"""What has become of a strategy: a text, a page with its equity curve, and tables."""

from __future__ import annotations

import csv
import html
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from tidemill.algos.account import Fill, Point
from tidemill.algos.runner import Runner

_WIDTH, _HEIGHT = 900, 260
_SHOWN_TRADES = 1000


@dataclass(frozen=True)
class Report:
    """Numbers are in the units of the exchange.

    Attributes
    ----------
    name, error : str
        ``error`` says why the strategy was stopped; empty when it was not.
    orders, refused, rejected : int
        Sent; beyond a limit, and so not sent; not taken by the exchange.
    trades : sequence of Fill
    curve : sequence of Point
    position, cash, fees, profit : int
    """

    name: str
    error: str
    orders: int
    refused: int
    rejected: int
    trades: Sequence[Fill]
    curve: Sequence[Point]
    position: int
    cash: int
    fees: int
    profit: int

    @property
    def drawdown(self) -> int:
        """The greatest loss after a maximum of the equity."""
        top, found = -(1 << 62), 0
        for point in self.curve:
            top = max(top, point.equity)
            found = max(found, top - point.equity)
        return found

    def text(self) -> str:
        """One line, or two with an error."""
        volume = sum(trade.volume for trade in self.trades)
        found = (
            f"{self.name}: profit {self.profit:,}, {self.orders:,} orders, {len(self.trades):,} trades of {volume:,}, "
            f"position {self.position:,}, fees {self.fees:,}, drawdown {self.drawdown:,}"
        )
        return f"{found}\n  stopped: {self.error}" if self.error else found

    def write(self, directory: Path) -> list[Path]:
        """Write ``NAME.html``, ``NAME-trades.csv`` and ``NAME-equity.csv``; OSError when that is not possible."""
        directory.mkdir(parents=True, exist_ok=True)
        paths = [directory / f"{self.name}{end}" for end in (".html", "-trades.csv", "-equity.csv")]
        paths[0].write_text(self._page())
        _write_csv(paths[1], Fill, self.trades)
        _write_csv(paths[2], Point, self.curve)
        return paths

    def _page(self) -> str:
        trades = "".join(
            f"<tr><td>{t.time}</td><td>{t.order}</td><td>{t.side}</td><td>{t.volume}</td><td>{t.price}</td></tr>"
            for t in self.trades[-_SHOWN_TRADES:]
        )
        more = len(self.trades) - _SHOWN_TRADES
        note = f"<p>The newest {_SHOWN_TRADES:,} of {len(self.trades):,}.</p>" if more > 0 else ""
        name = html.escape(self.name)
        return (
            f"<!doctype html><html lang='en'><meta charset='utf-8'><title>{name}</title>"
            "<style>body{font:15px sans-serif;margin:2em;max-width:60em}td,th{padding:.1em .8em;text-align:right}"
            "svg{border:1px solid #ccc}</style>"
            f"<h1>{name}</h1><p>{html.escape(self.text())}</p><h2>Equity</h2>{_curve(self.curve)}"
            "<h2>Trades</h2>"
            f"{note}<table><tr><th>time</th><th>order</th><th>side</th><th>volume</th><th>price</th></tr>{trades}</table>"
        )


def report_of(runner: Runner) -> Report:
    """What has become of a strategy so far."""
    desk, account = runner.desk, runner.account
    return Report(
        runner.name,
        runner.error,
        desk.sent,
        desk.refused,
        desk.rejected,
        tuple(account.fills),
        tuple(account.curve),
        account.position,
        account.cash,
        account.fees,
        account.profit,
    )


def _write_csv(path: Path, kind: type[Fill] | type[Point], rows: Iterable[Fill | Point]) -> None:
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(kind.__dataclass_fields__), lineterminator="\n")
        writer.writeheader()
        writer.writerows(asdict(row) for row in rows)


def _curve(points: Sequence[Point]) -> str:
    """The equity over time, as SVG."""
    if not points:
        return "<p>Nothing was valued.</p>"
    first, last = points[0].time, points[-1].time
    low, high = min(p.equity for p in points), max(p.equity for p in points)
    wide, tall = max(1, last - first), max(1, high - low)
    places = " ".join(
        f"{(p.time - first) / wide * _WIDTH:.1f},{_HEIGHT - (p.equity - low) / tall * _HEIGHT:.1f}" for p in points
    )
    return (
        f"<svg viewBox='-4 -4 {_WIDTH + 8} {_HEIGHT + 8}' role='img' aria-label='equity from {low:,} to {high:,}'>"
        f"<polyline fill='none' stroke='#06c' stroke-width='1.5' points='{places}'/></svg>"
        f"<p>{low:,} to {high:,}</p>"
    )
