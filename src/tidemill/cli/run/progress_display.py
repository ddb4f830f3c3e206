"""Progress of a run: a bar on a terminal, elsewhere a line now and then, or JSON."""

from __future__ import annotations

import datetime
import json
import logging
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeElapsedColumn

from tidemill.runtime.epoch.report import EpochReport

EVERY = 10.0
"""Seconds between progress lines."""

_STARTING = "starting Spark; the first run on a machine also compiles kernels, which takes about half a minute"


class Display:
    """Follows the epochs of a run. A progress bar is drawn only on a terminal.

    Parameters
    ----------
    log : bool
        Epochs are lines of JSON with the time, and other lines begin with it.
    every : float, optional
        Seconds between progress lines, where there is no progress bar.
    """

    def __init__(self, log: bool, every: float | None = None) -> None:
        self.stopped = False
        self._every = EVERY if every is None else every
        self._doing = ""
        self._epoch = self._total = self._reported = 0
        self._log = log
        self._console = Console(stderr=True)
        self._started = time.perf_counter()
        self._reports = 0
        self._rows = self._bytes = self._malformed = self._dropped = 0
        self._milliseconds: dict[str, float] = {}
        self._operators: dict[str, float] = {}
        self._bar: Progress | None = None

    def stop(self, _signal: int, _frame: FrameType | None) -> None:
        """Signal handler: finish the epoch in progress, then stop."""
        self.stopped = True

    @contextmanager
    def reporting(self) -> Iterator[None]:
        """Report the start of Spark, and progress, until the block ends."""
        logger, handler = logging.getLogger("tidemill"), _Starting(self)
        logger.addHandler(handler)
        logger.setLevel(logging.INFO)
        over = threading.Event()
        thread = threading.Thread(target=self._report, args=(over,), name="display", daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()
            logger.removeHandler(handler)

    def working(self, on: str) -> None:
        """Set the current activity; empty when idle."""
        self._doing = on

    def _report(self, over: threading.Event) -> None:
        while not over.wait(self._every):
            sealed, self._reported = self._reports - self._reported, self._reports
            if self._bar is None and ((self._doing and not sealed) if self._log else (self._doing or sealed)):
                seconds = time.perf_counter() - self._started
                self.say(f"{seconds:.0f} s: {self._doing or 'waiting for input'}{self._progress()}")

    def _progress(self) -> str:
        if not self._reports:
            return ""
        of = f" of {self._total / 1e6:,.1f}" if self._total > self._bytes else ""
        return f"; epoch {self._epoch} is sealed: {self._rows:,} rows, {self._bytes / 1e6:,.1f}{of} MB"

    def say(self, text: str) -> None:
        """One line on standard error, above the progress bar if there is one."""
        if self._log:
            self._write(f"{_now()} {text}")
        else:
            self._console.print(text, markup=False, highlight=False, soft_wrap=True)

    def begin(self, total: int) -> None:
        """Start with this many bytes to read."""
        self._started = time.perf_counter()
        self._total = total
        if self._console.is_terminal and not self._log:
            self._bar = Progress(
                TextColumn("epoch {task.fields[epoch]}"),
                BarColumn(),
                DownloadColumn(),
                TextColumn("{task.fields[rows]} rows"),
                TimeElapsedColumn(),
                console=self._console,
            )
            self._bar.add_task("", total=total or None, epoch=0, rows="0")
            self._bar.start()

    def add(self, report: EpochReport) -> None:
        """Count a sealed epoch, and print it with ``log``."""
        self._reports += 1
        self._epoch = report.epoch
        self._rows += report.rows_in
        self._bytes += report.bytes_in
        self._malformed += report.malformed
        self._dropped += report.dropped
        for phase, value in report.milliseconds.items():
            self._milliseconds[phase] = self._milliseconds.get(phase, 0.0) + value
        for operator in report.operators:
            self._operators[operator.operation] = self._operators.get(operator.operation, 0.0) + operator.milliseconds
        if self._log:
            self._write_json(report.shown())
        else:
            self.warn(report.warnings)
        if self._bar is not None:
            self._bar.update(self._bar.tasks[0].id, advance=report.bytes_in, epoch=report.epoch, rows=f"{self._rows:,}")

    def warn(self, warnings: Sequence[str]) -> None:
        """Print warnings: one line of JSON, or a line each above the progress bar."""
        if not warnings:
            return
        if self._log:
            self._write_json({"warnings": list(warnings)})
            return
        for text in warnings:
            self.say(f"warning: {text}")

    def _write_json(self, values: dict[str, Any]) -> None:
        self._write(json.dumps({**values, "time": _now()}, separators=(",", ":")))

    def _write(self, line: str) -> None:
        sys.stderr.write(line + "\n")
        sys.stderr.flush()

    def end(self) -> None:
        """Remove the progress bar."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None

    def summary(self, epoch: int, durable: int, views: list[tuple[str, str]]) -> str:
        """A few lines: epochs, rows, rows per second, view sizes, where the time went."""
        seconds = time.perf_counter() - self._started
        rate = self._rows / seconds if seconds else 0.0
        lines = [
            f"sealed epoch {epoch} (durable: {durable}): {self._reports} epochs, {self._rows:,} rows, "
            f"{self._bytes / 1e6:,.1f} MB in {seconds:.1f} s = {rate:,.0f} rows/s"
        ]
        if self._malformed:
            lines.append(f"malformed: {self._malformed:,}, rows dropped: {self._dropped:,}; see <table>__errors")
        total = self._milliseconds.get("total", 0.0)
        if total:
            phases = ", ".join(f"{k} {100 * v / total:.0f} %" for k, v in self._milliseconds.items() if k != "total")
            work = sum(self._operators.values()) or 1.0
            top = sorted(self._operators.items(), key=lambda kv: -kv[1])[:4]
            shares = ", ".join(f"{k} {100 * v / work:.0f} %" for k, v in top)
            lines.append(f"time: {phases}; in tasks: {shares}")
        width = max((len(n) for n, _ in views), default=0)
        lines += [f"  {name.ljust(width)}  {size}" for name, size in views]
        return "\n".join(lines)


class _Starting(logging.Handler):
    """Passes on the log record that Spark is being started."""

    def __init__(self, display: Display) -> None:
        super().__init__(logging.INFO)
        self._display = display

    def emit(self, record: logging.LogRecord) -> None:
        if record.getMessage() == "starting Spark":
            self._display.say(_STARTING)


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
