"""A mill over many tables that is killed at points of its epochs: what it has to hold afterwards."""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol
from unittest import mock

from kill_points import DURABLE, Killed, killed_at
from pyspark.sql import SparkSession
from tests.local_jobs import all_local

from tidemill.config import Settings
from tidemill.errors import TidemillError
from tidemill.mill import Mill
from tidemill.plan.catalyst.analyser import Catalyst

Row = tuple[Any, ...]

SETTINGS: dict[str, Any] = {
    "master": "local[2]",
    "partitions": 2,
    "listing_seconds": 0.0,
    "small_epoch_bytes": 0,
    "checkpoint_seconds": 1e9,
    "split_bytes": 600,
    "broadcast_bytes": 0,
}

LONG = "TIDEMILL_CHAOS" in os.environ
KILLS = int(os.environ.get("TIDEMILL_CHAOS", "1"))
"""``make chaos`` sets a larger number."""


class TableToKill(Protocol):
    """A table with a view, whose rows are known."""

    @property
    def name(self) -> str: ...

    @property
    def view(self) -> str: ...

    def statements(self, path: str, more: str = "") -> list[str]:
        """What creates the table and its view."""
        ...

    def file(self, chance: random.Random, rows: int) -> bytes:
        """A file of so many rows."""
        ...

    def file_name(self, number: int) -> str:
        """Names are in the order of numbers."""
        ...

    def expected(self, files: Sequence[bytes]) -> Counter[Row]:
        """What the view of a table of these files holds, one count a row."""
        ...


class Place(Protocol):
    """Where files lie.

    Attributes
    ----------
    options : str
        What tables need to read them.
    """

    options: str

    def path(self, table: Any) -> str:
        """The option of a table."""
        ...

    def put(self, table: Any, name: str, data: bytes) -> None:
        """Add a file."""
        ...


@dataclass
class Story:
    """A mill over many tables, which dies and is opened again, and what its tables hold."""

    root: Path
    place: Place
    tables: Sequence[TableToKill]
    spark: SparkSession
    chance: random.Random
    settings: dict[str, Any] = field(default_factory=dict)
    files: dict[str, list[bytes]] = field(default_factory=dict)
    mill: Mill | None = None

    def add_files(self, rows: int) -> None:
        """One more file of so many rows for each table."""
        for table in self.tables:
            files = self.files.setdefault(table.name, [])
            files.append(table.file(self.chance, rows))
            self.place.put(table, table.file_name(len(files)), files[-1])

    def open(self) -> Mill:
        """A new mill on the root, whose jobs run in this process; Spark will not be asked about its tables."""
        with mock.patch.object(Catalyst, "register"):
            self.mill = all_local(Mill(self.root, spark=self.spark, settings=Settings(**{**SETTINGS, **self.settings})))
        return self.mill

    def create(self) -> Mill:
        """A new root with all tables and views."""
        mill = self.open()
        for table in self.tables:
            for statement in table.statements(self.place.path(table), self.place.options):
                mill.sql(statement)
        return mill

    def die(self) -> None:
        """The process has gone: nothing is written any more, and its lock is free."""
        assert self.mill is not None
        self.mill._coordinator.close(checkpoint=False)
        self.mill._closed = True

    def contents(self) -> dict[str, Counter[Row]]:
        """Each view as a multiset of rows of its table."""
        assert self.mill is not None
        found = {}
        for table in self.tables:
            counts: Counter[Row] = Counter()
            for *row, n in (tuple(r.values()) for r in self.mill.read(table.view).to_pylist()):
                counts[tuple(row)] += n
            found[table.name] = counts
        return found

    def expected(self) -> dict[str, Counter[Row]]:
        """What each view has to be when all files are read."""
        return {t.name: t.expected(self.files[t.name]) for t in self.tables}

    def check(self) -> None:
        """All rows of all files, each once; says which tables are wrong, and the first rows that are."""
        found, expected = self.contents(), self.expected()
        wrong = {
            name: {"missing": list((rows - found[name]).items())[:3], "twice": list((found[name] - rows).items())[:3]}
            for name, rows in expected.items()
            if found[name] != rows
        }
        assert not wrong
        assert all(expected.values()), "a table without rows shows nothing"


def kill(mill: Mill, point: str, calls: int = 1) -> None:
    """Go on with a mill until it dies at a point of the next epoch."""
    with killed_at(point, calls) as met:
        try:
            mill.advance()
            mill.checkpoint()
        except (Killed, TidemillError):
            assert met, "it ended by itself"
    assert met, "it was not killed"


def survive(story: Story, points: Sequence[str], calls: Callable[[str], int]) -> None:
    """For each point an epoch that is made durable, one that is not, and a kill in the next; then all that is left.

    Parameters
    ----------
    calls : callable
        When a point is met how often the mill dies there.
    """
    mill = story.open()
    for number, point in enumerate(points):
        for _ in range(0 if number and points[number - 1] != DURABLE else 2):
            story.add_files(story.chance.randrange(70, 110))  # an epoch admits one file of a table, or a part of one
        mill.advance()
        mill.checkpoint()
        durable, before = mill.epoch, story.contents()
        mill.advance()
        story.add_files(story.chance.randrange(70, 110))
        lost = story.contents()
        same = [name for name, rows in before.items() if lost[name] == rows]  # their file had no rows, by chance
        assert len(same) <= len(before) // 10, "nearly each table has rows to lose"
        kill(mill, point, calls(point))
        story.die()
        mill = story.open()
        if point == DURABLE:
            assert mill.epoch == durable + 2
            assert story.contents() not in (before, lost)
        else:
            assert mill.epoch == durable
            assert story.contents() == before
    while mill.advance() is not None:
        pass
    story.check()


def in_the_middle(point: str) -> int:
    """Of the buffers of an epoch; the other points are met once."""
    return 60 if point == "within fetch" else 1
