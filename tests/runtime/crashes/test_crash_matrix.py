"""Every format, killed at every point of an epoch: after a restart each row is there once.

Each format is there as it is and in one of its codecs, in the long form (``make chaos``) in all of them.

All tables are tables of one mill, each with a view that counts equal rows, so a kill point costs one run. Epochs admit
a part of each table, so that they end within files, quoted fields, row groups and decoded bytes are behind positions.
"""

from __future__ import annotations

import random
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import boto3
import pytest
from crash_formats import TableUnderTest, tables_under_test
from crash_story import KILLS, LONG, Story, in_the_middle, kill, survive
from kill_points import DURABLE, KILL_POINTS
from pyspark.sql import SparkSession

from tidemill.runtime.files import progress
from tidemill.runtime.read.snapshot import Snapshot


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


_AFTER_ANOTHER = [[point] for point in KILL_POINTS] if LONG else [KILL_POINTS[:4], KILL_POINTS[4:]]


@pytest.mark.slow
@pytest.mark.parametrize("points", _AFTER_ANOTHER, ids=", ".join)
def test_killed_over_files(directories: Story, points: Sequence[str]) -> None:
    """At all points, some of them one after the other; in the long form each over a root of its own."""
    survive(directories, points, in_the_middle)


@pytest.mark.slow
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


@pytest.mark.slow
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
