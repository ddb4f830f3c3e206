"""What the soak knows of its server: tables with their senders, views, followers and cursors; and how it asks."""

from __future__ import annotations

import json
import random
import re
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pyarrow.flight as flight

import tidemill as tm
from benchmarks.server_process import ServerProcess
from benchmarks.soak.cursor_ledger import CursorLedger
from benchmarks.soak.error import SoakError
from benchmarks.soak.feeds import FileFeed, SocketFeed, random_feed
from benchmarks.soak.followers import Follower
from benchmarks.soak.model import Model
from benchmarks.soak.queries import COLUMNS, COPY, View
from tidemill.errors import TidemillError

_FATAL = ("TM8099", "TM8030", "TM8031", "TM8249", "TM7013", "TM7012")
"""Numbers of bugs, and of a server that does not answer."""

PATIENCE = 240.0
"""Seconds for everything that was sent to be in the views."""


class World:
    """All that there is.

    Parameters
    ----------
    place : Path
        Directory for the root, input files and logs.
    more : sequence of str
        Settings of the server.
    """

    def __init__(self, place: Path, seed: int, master: str, more: Sequence[str] = ()) -> None:
        self.chance = random.Random(seed)
        self.seed = seed
        # Caches that are full after some minutes, so that they do not hide what grows
        settings = ("history_epochs=500", "cache_bytes=16m", "spark_conf.spark.driver.memory=1g", *more)
        self.server = ServerProcess(place, master, settings)
        self.client = tm.Client(self.server.url, timeout=PATIENCE)
        self.model = Model()
        self.feeds: dict[str, FileFeed | SocketFeed] = {}
        self.paused_tables: set[str] = set()
        self.unsettled: set[str] = set()
        self.followers: list[Follower] = []
        self.cursors: list[CursorLedger] = []
        self.silent: list[Any] = []
        self.counts: Counter[str] = Counter()
        self.numbers: Counter[str] = Counter()
        self.newest: deque[str] = deque(maxlen=40)
        self._place, self._names = place, 0
        self._began = time.monotonic()

    def note(self, text: str) -> None:
        """One of the newest actions, which are shown when something fails."""
        self.newest.append(f"{time.monotonic() - self._began:7.1f} s  {text}")

    def new_name(self, kind: str) -> str:
        """A name that was never used."""
        self._names += 1
        return f"{kind}{self._names}"

    # -- asking -------------------------------------------------------------------------------------

    @contextmanager
    def numbered(self, what: str, expected: Callable[[str], bool] = lambda _: True) -> Iterator[list[str]]:
        """Notes an action and how it ended; the number of its error is appended to what is given.

        SoakError for an error without a number, for one of a bug, and for one that cannot be.
        """
        found: list[str] = []
        try:
            yield found
        except (TidemillError, psycopg.Error, flight.FlightError) as error:
            number = _number_of(error)
            if number is None or number in _FATAL or not expected(number):
                raise SoakError(f"{what}: {type(error).__name__}: {error}") from error
            found.append(number)
            self.numbers[number] += 1
        self.note(f"{what}{f': {found[0]}' if found else ''}")

    def execute(self, statement: str) -> str | None:
        """A statement over any of the protocols; the number of its error."""
        way = self.chance.choice(("http", "http", "flight", "postgres"))
        with self.numbered(f"{way}: {statement}") as found:
            if way == "http":
                self.client.sql(statement)
            elif way == "flight":
                with flight.FlightClient(self.server.flight) as client:
                    list(client.do_action(flight.Action("sql", statement.encode())))
            else:
                with psycopg.connect(self.server.postgres, autocommit=True, connect_timeout=30) as connection:
                    connection.execute(statement)
        return found[0] if found else None

    def must(self, statement: str) -> None:
        """A statement that must succeed."""
        number = self.execute(statement)
        if number is not None:
            raise SoakError(f"{statement}: {number}")

    def must_drop(self, kind: str, name: str) -> None:
        """Drop what nothing reads any more; TM2013 until a reader that is being replaced has been replaced."""
        deadline = time.monotonic() + PATIENCE
        while (number := self.execute(f"DROP {kind} {name}")) is not None:
            if number != "TM2013" or not self.unsettled or time.monotonic() > deadline:
                raise SoakError(f"DROP {kind} {name}: {number}")
            time.sleep(0.5)

    # -- tables and views ---------------------------------------------------------------------------

    def create_reader(self, feed: FileFeed | SocketFeed | None = None) -> None:
        """A table, with rows or without any, and a view with a copy of its rows."""
        name = self.new_name("t")
        if feed is None:
            feed = random_feed(self.chance, self._names, self._place / name)
        self.model.create_table(name)
        if isinstance(feed, FileFeed) and self.chance.random() < 0.5:
            self.model.add(name, feed.kind, feed.push(self.chance.randrange(1, 300)))
        if self.chance.random() < 0.5:
            options = ", ".join(f"{k} '{v}'" for k, v in feed.options().items())
            self.must(f"CREATE TABLE {name} ({COLUMNS}) USING {feed.kind} OPTIONS ({options})")
        else:
            self.note(f"client.add_reader {name} {feed.kind} {feed.options()}")
            self.client.add_reader(name, feed.kind, columns=COLUMNS, **feed.options())  # type: ignore[arg-type]
        self.feeds[name] = feed
        self.create(View(f"copy_{name}", COPY, (name,)))

    def create(self, view: View) -> None:
        """A view that must be possible."""
        self.must(view.statement())
        self.model.views[view.name] = view

    def drop_reader(self, name: str) -> None:
        """A table, and before it all views that read it."""
        while (readers := self.model.readers(name)) != []:
            self.drop_view(readers[0])
        self.must_drop("TABLE", name)
        self.model.drop_table(name)
        self.feeds.pop(name).close()
        self.paused_tables.discard(name)

    def drop_view(self, name: str) -> None:
        """A view, and before it all views that read it."""
        for reader in self.model.readers(name):
            if reader in self.model.views:
                self.drop_view(reader)
        self.must_drop("VIEW", name)
        del self.model.views[name]
        self.unsettled.discard(name)

    def queries(self) -> list[str]:
        """Views other than copies."""
        return [name for name in self.model.views if not name.startswith("copy_")]

    def copied(self, table: str) -> int:
        """How many rows of a table have been admitted, by its copy."""
        return self.client.table(f"copy_{table}", columns="n").to_arrow().num_rows

    def resume_table(self, name: str) -> None:
        """Admit rows of a table again, if it is paused."""
        if name in self.paused_tables:
            self.must(f"ALTER TABLE {name} RESUME")
            self.paused_tables.discard(name)

    def settle(self, table: str) -> None:
        """Wait until all rows that were sent to a table have been admitted. SoakError when there are more or fewer."""
        self.resume_table(table)
        self.client.wait_until_fresh(f"copy_{table}", timeout=PATIENCE)
        expected, deadline = self.model.lines(table), time.monotonic() + PATIENCE
        while (found := self.copied(table)) != expected:
            if found > expected or time.monotonic() > deadline:
                raise SoakError(
                    f"table {table} ({self.feeds[table].options()}): {found:,} rows, {expected:,} were sent"
                )
            time.sleep(0.05)

    def close(self) -> None:
        """End all connections, and the server."""
        for follower in self.followers:
            follower.close()
        for connection in self.silent:
            connection.close()
        for feed in self.feeds.values():
            feed.close()
        self.client.close()
        self.server.end()


def _number_of(error: Exception) -> str | None:
    if isinstance(error, TidemillError):
        return error.number
    if isinstance(error, flight.FlightServerError) and error.extra_info:
        return str(json.loads(error.extra_info)["number"])
    found = re.search(r"\bTM\d{4}\b", str(error))
    return found[0] if found else None
