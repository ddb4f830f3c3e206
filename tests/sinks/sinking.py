"""A mill whose sinks are tested, and a dictionary that says what its views are."""

from __future__ import annotations

import csv
import random
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from mill_factory import MillFactory
from tidemill.mill import Mill

Row = tuple[Any, ...]


class Counted:
    """A table of ``(k, x)`` with deletions, a view ``v`` of its rows and a view ``n`` of counts and sums.

    Attributes
    ----------
    rows : Counter
        The oracle: the rows of the table that were written so far.
    """

    def __init__(self, factory: MillFactory, place: Path, **settings: Any) -> None:
        self._factory, self.place, self._settings = factory, place, settings
        self.input = place / "in"
        self.input.mkdir()
        self.rows: Counter[Row] = Counter()
        self._files = 0
        self.mill: Mill = self.open()
        self.mill.script(self.script)

    @property
    def script(self) -> str:
        """The declarations of the table and the views."""
        return f"""
            CREATE TABLE t (k STRING, x INT) USING csv OPTIONS (path '{self.input}', opColumn 'op');
            CREATE MATERIALIZED VIEW v AS SELECT k, x FROM t;
            CREATE MATERIALIZED VIEW n AS SELECT k, count(*) AS c, sum(x) AS s FROM t GROUP BY k;
        """

    def open(self) -> Mill:
        """Open the mill (again)."""
        self.mill = self._factory("root", **{"checkpoint_seconds": 0.0, **self._settings})
        return self.mill

    def write(self, inserted: Iterable[Row] = (), deleted: Iterable[Row] = ()) -> None:
        """Put a file with changes into the directory of the table."""
        inserted, deleted = list(inserted), list(deleted)
        self._files += 1
        with (self.input / f"{self._files:06d}.csv").open("w", newline="") as file:
            rows = csv.writer(file, lineterminator="\n")
            rows.writerows([*((*row, "I") for row in inserted), *((*row, "D") for row in deleted)])
        self.rows.update(inserted)
        self.rows.subtract(deleted)
        self.rows = +self.rows

    def advance(self) -> int:
        """Run epochs over what was written, make them durable, and wait for the sinks; the newest epoch."""
        while self.mill.advance() is not None:
            pass
        self.mill.checkpoint()
        assert self.mill.wait_for_sinks(30), self.sinks()
        return self.mill.epoch

    def change(self, chance: random.Random) -> None:
        """Some insertions and deletions."""
        inserted = [(chance.choice("abcdé"), chance.randrange(5)) for _ in range(chance.randrange(1, 8))]
        present = sorted(self.rows.elements())
        self.write(inserted, chance.sample(present, min(len(present), chance.randrange(3))))

    @property
    def sums(self) -> Counter[Row]:
        """The oracle of ``n``."""
        found: dict[str, tuple[int, int]] = {}
        for (k, x), times in self.rows.items():
            count, total = found.get(k, (0, 0))
            found[k] = count + times, total + x * times
        return Counter((k, *of_key) for k, of_key in found.items())

    def sinks(self) -> dict[str, dict[str, Any]]:
        """The answer of SHOW SINKS, by name."""
        return {r["name"]: r for r in self.mill.snapshot().show("sinks").to_pylist()}

    def sink(self, name: str) -> dict[str, Any]:
        """One row of SHOW SINKS."""
        return self.sinks()[name]

    def kill(self) -> None:
        """End without delivering or noting anything more, as ``kill -9`` would."""
        coordinator = self.mill._coordinator
        coordinator.deliveries.close(finish=False)
        coordinator.close(checkpoint=False)
        self.mill._closed = True


def weighted(rows: Iterable[dict[str, Any]]) -> Counter[Row]:
    """Rows with weights added up; columns of sinks are left out."""
    found: Counter[Row] = Counter()
    for row in rows:
        found[tuple(v for k, v in row.items() if not k.startswith("__"))] += row["__weight"]
    assert all(n >= 0 for n in found.values()), found
    return +found


def plain(rows: Iterable[dict[str, Any]]) -> Counter[Row]:
    """Rows without weights."""
    return Counter(tuple(row.values()) for row in rows)
