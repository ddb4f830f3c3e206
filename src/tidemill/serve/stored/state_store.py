"""What a server remembers of its clients across restarts: generations of epochs and cursors, in SQLite."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tidemill.errors import TidemillError

_SCHEMA = """
CREATE TABLE IF NOT EXISTS generations (
  number INTEGER PRIMARY KEY, base INTEGER NOT NULL, durable INTEGER NOT NULL
);
CREATE TABLE IF NOT EXISTS cursors (
  id TEXT PRIMARY KEY, asked TEXT NOT NULL, position TEXT NOT NULL, created REAL NOT NULL, used REAL NOT NULL,
  owner TEXT
);
"""


@dataclass(frozen=True)
class CursorRecord:
    """A cursor as it is stored: what was asked for, as JSON, its position, and when it was made and used (seconds).

    ``owner`` says who may use it; None for one of an older server, which may be used by whoever knows the id.
    """

    id: str
    asked: str
    position: str
    created: float
    used: float
    owner: str | None = None


class StateStore:
    """A SQLite database in the root's directory; it survives a kill of the process.

    Parameters
    ----------
    directory : Path or None
        Where the database lies; None keeps it in memory, and cursors end with the server.

    Raises
    ------
    TidemillError
        TM8020 when the database cannot be opened.
    """

    def __init__(self, directory: Path | None) -> None:
        self._lock = threading.Lock()
        try:
            if directory is not None:
                directory.mkdir(parents=True, exist_ok=True)
            path = ":memory:" if directory is None else str(directory / "clients.db")
            self._database = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
            self._database.execute("PRAGMA journal_mode=WAL")
            self._database.execute("PRAGMA synchronous=NORMAL")
            self._database.executescript(_SCHEMA)
            if "owner" not in [row[1] for row in self._database.execute("PRAGMA table_info(cursors)")]:
                self._database.execute("ALTER TABLE cursors ADD COLUMN owner TEXT")
        except (OSError, sqlite3.Error) as error:
            raise _unusable(str(directory), error) from error

    def close(self) -> None:
        """Close the database; nothing can be asked of it afterwards."""
        with self._lock:
            self._database.close()

    def generations(self) -> list[int]:
        """The base of each generation: the last epoch that it has in common with the one before."""
        return [base for (base,) in self._run("SELECT base FROM generations ORDER BY number")]

    def add_generation(self, base: int, durable: int) -> None:
        """Begin a generation after an epoch; ``durable`` is the newest epoch that is known to be durable."""
        self._run("INSERT INTO generations (base, durable) VALUES (?, ?)", (base, durable))

    def durable(self) -> int | None:
        """The newest epoch that the newest generation has noted as durable; None when there was none."""
        found = self._run("SELECT durable FROM generations ORDER BY number DESC LIMIT 1")
        return int(found[0][0]) if found else None

    def note_durable(self, epoch: int) -> None:
        """Note that an epoch of the newest generation is durable."""
        self._run("UPDATE generations SET durable = ? WHERE number = (SELECT max(number) FROM generations)", (epoch,))

    def add_cursor(self, id_: str, asked: str, position: str, owner: str) -> None:
        """Store a new cursor."""
        now = time.time()
        self._run("INSERT INTO cursors VALUES (?, ?, ?, ?, ?, ?)", (id_, asked, position, now, now, owner))

    def move_cursor(self, id_: str, position: str) -> None:
        """Store the position of a cursor, durably when this returns."""
        self._run("UPDATE cursors SET position = ?, used = ? WHERE id = ?", (position, time.time(), id_))

    def drop_cursor(self, id_: str) -> bool:
        """Remove a cursor; False when there is none."""
        with self._lock:
            return self._database.execute("DELETE FROM cursors WHERE id = ?", (id_,)).rowcount > 0

    def cursor(self, id_: str) -> CursorRecord | None:
        """A cursor by its id."""
        return next(self._cursors("WHERE id = ?", (id_,)), None)

    def cursors(self) -> list[CursorRecord]:
        """All cursors, the oldest first."""
        return list(self._cursors("ORDER BY created"))

    def count_cursors(self) -> int:
        """How many cursors there are."""
        return int(self._run("SELECT count(*) FROM cursors")[0][0])

    def _cursors(self, rest: str, values: Sequence[object] = ()) -> Iterator[CursorRecord]:
        rows = self._run(f"SELECT id, asked, position, created, used, owner FROM cursors {rest}", values)
        return (CursorRecord(*row) for row in rows)

    def _run(self, statement: str, values: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        try:
            with self._lock:
                return self._database.execute(statement, values).fetchall()
        except sqlite3.Error as error:
            raise _unusable("clients.db", error) from error


def _unusable(what: str, error: Exception) -> TidemillError:
    return TidemillError(
        "TM8020",
        "the server cannot store what it knows of its clients",
        got=f"{what}: {error}",
        hint="make room on the disk, or mend its permissions; views are not affected",
    )
