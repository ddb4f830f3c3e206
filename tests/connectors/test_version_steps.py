"""Steps between versions: whatever commits say, the rows that are read and taken back are those that differ.

The oracle is a dictionary of the rows of each file; the mill is one of rows by the name that they are kept under.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import pytest

from tidemill.connectors.connector import FileInfo
from tidemill.connectors.versioned.data_file import Beside, Reading, etag_of, pool_of, pooled, reading_of
from tidemill.connectors.versioned.steps import step_to
from tidemill.connectors.versioned.versioned_table import Commit, Listed

POOL = "/t/"
SEED = int(os.environ.get("TIDEMILL_SEED", "20261128"))


def info(path: str) -> FileInfo:
    return FileInfo(path, 100, 1, etag_of(Beside({"p": path}), 5))


@dataclass
class Lake:
    """A table whose versions are made at random; ``rows`` of all files there ever were."""

    chance: random.Random
    feed: bool = True
    rows: dict[str, Counter[int]] = field(default_factory=dict)
    versions: list[frozenset[str]] = field(default_factory=lambda: [frozenset()])
    log: list[Commit] = field(default_factory=list)
    forgotten: int = 0

    def new(self, rows: Counter[int]) -> str:
        path = f"/t/{len(self.rows):04}"
        self.rows[path] = +rows
        return path

    def some(self) -> Counter[int]:
        return Counter(self.chance.randrange(6) for _ in range(self.chance.randrange(1, 5)))

    def commit(self, removed: set[str], added: set[str], changes: Counter[int] | None) -> None:
        said: list[FileInfo] | tuple[()] | None = None
        if changes is not None and not changes:
            said = ()
        elif changes is not None:
            name = self.new(Counter())
            self.rows[name] = changes
            said = [pooled(info(name), POOL, Reading.CHANGES)]
        self.versions.append((self.versions[-1] - removed) | added)
        self.log.append(Commit({path: info(path) for path in added}, frozenset(removed), said))

    def change(self) -> None:
        live = sorted(self.versions[-1])
        some = set(self.chance.sample(live, min(len(live), self.chance.randrange(1, 4))))
        before: Counter[int] = sum((self.rows[p] for p in some), Counter())
        match self.chance.randrange(8):
            case 0 | 1:
                self.commit(set(), {self.new(self.some())}, None)
            case 2 if some:  # files moved together
                self.commit(some, {self.new(before)}, Counter())
            case 3 if some:  # whole files are dropped
                self.commit(some, set(), None)
            case 4:  # an older version
                old = self.chance.choice(self.versions)
                self.commit(set(self.versions[-1] - old), set(old - self.versions[-1]), None)
            case 5:  # only new rows, with change data
                rows = self.some()
                self.commit(set(), {self.new(rows)}, rows if self.feed else None)
            case _ if some:  # rows within files are changed
                after = Counter({row: self.chance.randrange(count + 1) for row, count in before.items()}) + self.some()
                difference = Counter(after)
                difference.subtract(before)
                added = {self.new(after)} if +after else set()
                self.commit(some, added, Counter({r: n for r, n in difference.items() if n}) if self.feed else None)
            case _:
                self.commit(set(), {self.new(self.some())}, None)

    def listed(self) -> Listed:
        return Listed(len(self.versions), [info(p) for p in sorted(self.versions[-1])], POOL if self.feed else "")

    def commits(self) -> Iterator[Commit]:
        return iter(self.log[: self.forgotten : -1] if self.forgotten else self.log[::-1])

    def table(self) -> Counter[int]:
        return sum((self.rows[p] for p in self.versions[-1]), Counter())


@dataclass
class Kept:
    """What a mill keeps: rows by name, and the files that they are of."""

    lake: Lake
    rows: dict[str, Counter[int]] = field(default_factory=dict)
    held: dict[str, FileInfo] = field(default_factory=dict)
    data_files_read: int = 0

    def take(self, step: list[FileInfo], broken: Callable[[str], bool]) -> list[str]:
        """Carry out a step as a whole, where it can be read; else the files that cannot."""
        assert len({found.path for found in step}) == len(step), "a file twice in one step"
        failed = [f.path for f in step if f.size and reading_of(f.etag) is not Reading.NOTHING and broken(f.path)]
        if failed:
            return failed
        withdrawn = [f.path for f in step if f.path in self.held]
        for path in withdrawn:
            self.rows.pop(path, None)
            del self.held[path]
        for found in step:
            reading = reading_of(found.etag)
            if not found.size:
                continue
            if reading is not Reading.NOTHING:
                rows = self.rows.setdefault(pool_of(found.etag) or found.path, Counter())
                (rows.subtract if reading is Reading.REMOVED else rows.update)(self.lake.rows[found.path])
                self.data_files_read += reading is not Reading.CHANGES
            if not reading.passes:
                self.held[found.path] = found
        return []

    def table(self) -> Counter[int]:
        found: Counter[int] = Counter()
        for rows in self.rows.values():
            assert all(count >= 0 for count in rows.values()), "a row is taken out that was not there"
            found.update(rows)
        return +found


def follow(kept: Kept, broken: Callable[[str], bool]) -> None:
    """List until a step can be carried out."""
    avoided: set[str] = set()
    for _ in range(12):
        step = step_to(kept.lake.listed(), kept.held, set(), avoided, kept.lake.commits())
        failed = kept.take(step, broken)
        if not failed:
            return
        avoided.update(failed)
    raise AssertionError(f"{failed} are still asked for")


@pytest.mark.parametrize("seed", range(SEED, SEED + 300))
def test_steps_are_the_difference(seed: int) -> None:
    """Files that are not in the newest version may be gone; commits may be; the feed may be off for a while."""
    chance = random.Random(seed)
    lake = Lake(chance, feed=chance.random() < 0.8)
    kept = Kept(lake)
    for _ in range(25):
        for _ in range(chance.choice((1, 1, 1, 2, 5))):
            if chance.random() < 0.05:
                lake.feed = not lake.feed
            lake.change()
        if chance.random() < 0.1:
            lake.forgotten = chance.randrange(len(lake.log))
        gone = {p for p in lake.rows if p not in lake.versions[-1] and chance.random() < 0.2}
        follow(kept, gone.__contains__)
        assert kept.table() == lake.table(), f"seed {seed}"
        assert step_to(lake.listed(), kept.held, set(), set(), lake.commits()) == [], f"seed {seed}"


def test_change_data_is_all_that_is_read() -> None:
    """No data file is read when every commit says how rows change."""
    chance = random.Random(SEED)
    lake = Lake(chance)
    lake.commit(set(), {lake.new(Counter(range(100))) for _ in range(3)}, None)
    kept = Kept(lake)
    follow(kept, lambda _: False)
    assert kept.data_files_read == 3
    for number in range(20):
        one = chance.choice(sorted(lake.versions[-1]))
        after = lake.rows[one] + Counter([1000 + number]) - Counter([number])
        difference = Counter(after)
        difference.subtract(lake.rows[one])
        lake.commit({one}, {lake.new(after)}, difference)
        moved = set(chance.sample(sorted(lake.versions[-1]), 2))
        lake.commit(moved, {lake.new(sum((lake.rows[p] for p in moved), Counter()))}, Counter())
        lake.commit(set(), {lake.new(Counter())}, None)
        kept.data_files_read = 0
        follow(kept, lambda _: False)
        assert kept.table() == lake.table()
        assert kept.data_files_read == 1  # the one that was appended


def test_rows_of_some_files_are_taken_back() -> None:
    """A file of which some rows have been read, and which no version has any more."""
    lake = Lake(random.Random(SEED), feed=False)
    assert step_to(lake.listed(), {}, {"/t/half"}, set(), lake.commits()) == [FileInfo("/t/half", 0, 0)]
