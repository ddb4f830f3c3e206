"""Every format, killed at every point of an epoch: after a restart each row is there once.

Each format is there as it is and in one of its codecs, in the long form (``make chaos``) in all of them.

All tables are tables of one mill, each with a view that counts equal rows, so a kill point costs one run. Epochs admit
a part of each table, so that they end within files, quoted fields, row groups and decoded bytes are behind positions.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol
from unittest import mock

import boto3
import pytest
from crash_formats import Row, TableUnderTest, tables_under_test
from kill_points import DURABLE, KILL_POINTS, Killed, killed_at
from pyspark.sql import SparkSession
from tests.local_jobs import all_local

from tidemill.config import Settings
from tidemill.errors import TidemillError
from tidemill.mill import Mill
from tidemill.plan.catalyst.analyser import Catalyst
from tidemill.runtime.files import progress
from tidemill.runtime.read.snapshot import Snapshot

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


class Place(Protocol):
    """Where files lie.

    Attributes
    ----------
    options : str
        What tables need to read them.
    """

    options: str

    def path(self, table: TableUnderTest) -> str:
        """The option of a table."""
        ...

    def put(self, table: TableUnderTest, name: str, data: bytes) -> None:
        """Add a file."""
        ...


@dataclass(frozen=True)
class Directory:
    """A directory for each table."""

    at: Path
    options = ""

    def path(self, table: TableUnderTest) -> str:
        """See :class:`Place`."""
        (self.at / table.name).mkdir(parents=True, exist_ok=True)
        return str(self.at / table.name)

    def put(self, table: TableUnderTest, name: str, data: bytes) -> None:
        """See :class:`Place`."""
        (self.at / table.name / name).write_bytes(data)


@dataclass(frozen=True)
class Bucket:
    """A prefix for each table in a bucket."""

    client: Any
    name: str
    options = ", allowHttp 'true'"

    def path(self, table: TableUnderTest) -> str:
        """See :class:`Place`."""
        return f"s3://{self.name}/{table.name}/"

    def put(self, table: TableUnderTest, name: str, data: bytes) -> None:
        """See :class:`Place`."""
        self.client.put_object(Bucket=self.name, Key=f"{table.name}/{name}", Body=data)


@dataclass
class Story:
    """A mill over many tables, which dies and is opened again, and what its tables hold."""

    root: Path
    place: Place
    tables: Sequence[TableUnderTest]
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


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compressed files are cut into parts as small as splits."""
    monkeypatch.setattr(progress, "SPLITS_OF_PART", 1)


@pytest.fixture(scope="module")
def created(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with a root that has the tables, which read directories there."""
    at = tmp_path_factory.mktemp("created")
    story = Story(at / "root", Directory(at / "data"), _one_codec_each(random.Random(0)), spark, random.Random(0))
    story.create()
    story.die()
    return at


@pytest.fixture
def directories(created: Path, spark: SparkSession, seed: int) -> Iterator[Story]:
    """All tables over empty directories."""
    kept = created.with_name("kept")
    shutil.copytree(created, kept)
    tables = _one_codec_each(random.Random(0))
    story = Story(created / "root", Directory(created / "data"), tables, spark, random.Random(seed))
    yield story
    story.die()
    shutil.rmtree(created)
    kept.rename(created)


@pytest.mark.parametrize("point", KILL_POINTS)
def test_killed_over_files(directories: Story, point: str) -> None:
    survive(directories, [point], in_the_middle)


@pytest.mark.timeout(900)
def test_killed_over_objects(spark: SparkSession, endpoint: str, tmp_path: Path, seed: int) -> None:
    """At several points, one after the other; at all of them, with each codec of a format, in the long form."""
    client = boto3.client("s3", endpoint_url=endpoint, region_name="us-east-1")
    client.create_bucket(Bucket="crashes")
    chance = random.Random(seed)
    story = Story(tmp_path / "root", Bucket(client, "crashes"), _one_codec_each(chance), spark, chance)
    story.create()
    story.die()
    survive(story, chance.sample(KILL_POINTS, len(KILL_POINTS) if LONG else 2), in_the_middle)
    story.die()


def _one_codec_each(chance: random.Random) -> list[TableUnderTest]:
    """Every format as it is, and in one of its codecs; all of them for ``make chaos``."""
    tables = tables_under_test()
    if LONG:
        return tables
    compressed: dict[str, list[TableUnderTest]] = {}
    for table in tables:
        if table.codec != "plain":
            compressed.setdefault(table.name.removesuffix(table.codec), []).append(table)
    codecs = chance.sample(range(4), 4)
    chosen = [found[codecs[number % 4]] for number, found in enumerate(compressed.values())]
    return [t for t in tables if t.codec == "plain" or t in chosen]


@pytest.mark.timeout(120 + 60 * KILLS)
def test_killed_at_random(directories: Story) -> None:
    """Splits, partitions and merges of another kind after each kill, and epochs that end anywhere."""
    chance, story = directories.chance, directories
    for _ in range(KILLS):
        story.settings = {
            "partitions": chance.choice((1, 2, 3)),
            "split_bytes": chance.choice((100, 333, 600, 5000)),
            "compact_after": chance.choice((2, 12)),
            "buffer_epochs": chance.choice((0, 2)),
        }
        mill = story.open()
        for _ in range(chance.randrange(3)):
            story.add_files(chance.randrange(2, 120))
            mill.advance()
            mill._coordinator._compactor.wait()
            if chance.random() < 0.5:
                mill.checkpoint()
        durable, before = mill.durable_epoch, None
        if durable == mill.epoch:
            before = story.contents()
        story.add_files(chance.randrange(2, 120))
        point = chance.choice(KILL_POINTS)
        print(f"{point}, {story.settings}")
        kill(mill, point, chance.randrange(1, 60) if point == "within fetch" else 1)
        story.die()
        if chance.random() < 0.3:
            shutil.rmtree(story.root / "buffer")  # a host that comes back without its disk
        mill = story.open()
        assert mill.epoch == durable or point == DURABLE
        assert before is None or point == DURABLE or story.contents() == before
        story.die()
    mill = story.open()
    while mill.advance() is not None:
        pass
    story.check()


@pytest.mark.timeout(100 + 60 * KILLS)
def test_killed_with_signal_9(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    """Whole processes, with Spark jobs; some leave their Java behind. What they left is finished by this process."""
    chance = random.Random(seed)
    formats = ("csv", "csv_keyed", "json", "json_array", "debezium", "native", "parquet_snappy", "arrow_lz4")
    tables = chance.sample([t for t in tables_under_test(formats) if t.codec in ("plain", "zstd")], 6)
    story = Story(tmp_path / "root", Directory(tmp_path / "data"), tables, spark, chance)
    script = tmp_path / "script.sql"
    script.write_text(";\n".join(s for t in tables for s in t.statements(story.place.path(t))))
    points = [p for p in KILL_POINTS if p != "within fetch"]  # workers that die are in test_worker_loss.py
    durable = 0
    for number in range(KILLS if LONG else 1):
        story.add_files(90)
        story.add_files(60)
        arguments = [str(story.root), str(script), chance.choice(points), str(chance.randrange(2, 4)), str(number % 2)]
        command = [sys.executable, str(Path(__file__).with_name("crash_process.py")), *arguments]
        print(arguments[2:])
        with (tmp_path / "log").open("wb") as log:  # a pipe would stay open as long as there are workers
            ended = subprocess.run(command, start_new_session=True, stdout=log, stderr=log, timeout=100, check=False)
        assert ended.returncode == -signal.SIGKILL, (tmp_path / "log").read_text()[-2000:]
        reached = Snapshot.open(story.root).version.epoch
        assert reached >= durable
        durable = reached
    mill = story.open()
    assert mill.epoch == durable
    while mill.advance() is not None:
        pass
    story.check()
    story.die()
