"""A bar for people who watch a pass of the loader."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from tidemill.loader.state import Position


class Shown(Protocol):
    """Takes what has been given."""

    def given(self, end: Position, rows: int) -> None:
        """A batch of so many rows of this rank, which ends at a position."""


class _Nothing:
    def given(self, end: Position, rows: int) -> None:
        """Nobody watches."""


class _Bar:
    def __init__(self, progress: Progress, pass_: int, splits: int) -> None:
        self._progress, self._rows = progress, 0
        self._task = progress.add_task(f"pass {pass_ + 1}", total=splits, rows=0)

    def given(self, end: Position, rows: int) -> None:
        self._rows += rows
        self._progress.update(self._task, completed=end.place, rows=self._rows)

    def finish(self, splits: int) -> None:
        """The whole pass has been given."""
        self._progress.update(self._task, completed=splits)


@contextmanager
def progress_of(wanted: bool, pass_: int, splits: int) -> Iterator[Shown]:
    """A bar on standard error for a pass over a number of splits, with the rows that were given.

    It is at the end when the block ends without an error. Where standard error is no terminal it is one line then.
    """
    if not wanted:
        yield _Nothing()
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("splits, {task.fields[rows]:,} rows"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=Console(stderr=True)) as progress:
        bar = _Bar(progress, pass_, splits)
        yield bar
        bar.finish(splits)
