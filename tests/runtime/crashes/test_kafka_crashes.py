"""Topics of Kafka, with a mill that is killed at every point of an epoch: each message is there once."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from crash_story import KILLS, LONG, Row, Story, kill, survive
from kill_points import KILL_POINTS
from pyspark.sql import SparkSession
from tests.kafka_broker import Broker

from tidemill.runtime.read.snapshot import Snapshot

_PARTITIONS = 2


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    started = Broker()
    yield started
    started.close()


@dataclass(frozen=True)
class TopicUnderTest:
    """A topic of JSON, in two partitions; a "file" is what is sent at a time."""

    name: str
    broker: Broker

    @property
    def view(self) -> str:
        return f"{self.name}_rows"

    def statements(self, path: str, more: str = "") -> list[str]:
        options = self.broker.options(
            subscribe=path, startingOffsets="earliest", maxOffsetsPerTrigger="60", **{"value.format": "json"}
        )
        return [
            f"CREATE TABLE {self.name} (k BIGINT, s STRING) USING kafka OPTIONS ({options}{more})",
            f"CREATE MATERIALIZED VIEW {self.view} AS SELECT *, COUNT(*) AS n FROM {self.name} GROUP BY ALL",
        ]

    def file(self, chance: random.Random, rows: int) -> bytes:
        found = [
            {"k": chance.randrange(10**6), "s": chance.choice(("", "a,b", 'say "so"', "naïve ↯"))} for _ in range(rows)
        ]
        return b"\n".join(json.dumps(row).encode() for row in found)

    def file_name(self, number: int) -> str:
        return str(number % _PARTITIONS)

    def expected(self, files: Sequence[bytes]) -> Counter[Row]:
        return Counter(tuple(json.loads(line).values()) for data in files for line in data.splitlines())


@dataclass(frozen=True)
class Topics:
    """Topics of a broker, one for each table."""

    broker: Broker
    test: str
    options = ""

    def path(self, table: TopicUnderTest) -> str:
        return f"{self.test}-{table.name}"

    def put(self, table: TopicUnderTest, name: str, data: bytes) -> None:
        self.broker.send(self.path(table), data.splitlines(), int(name))


@pytest.fixture
def story(broker: Broker, request: pytest.FixtureRequest, tmp_path: Path, spark: SparkSession, seed: int) -> Story:
    """Two topics, without messages."""
    name = "".join(c if c.isalnum() else "-" for c in request.node.name)
    tables = [TopicUnderTest(table, broker) for table in ("one", "two")]
    place = Topics(broker, name)
    for table in tables:
        broker.create(place.path(table), _PARTITIONS)
    return Story(tmp_path / "root", place, tables, spark, random.Random(seed))


def test_killed_at_points_of_epochs(story: Story) -> None:
    """At two of them; at all in the long form."""
    story.create()
    story.die()
    points = KILL_POINTS if LONG else story.chance.sample(KILL_POINTS, 2)
    print(points)
    survive(story, points, lambda _: 1)
    story.die()


def test_killed_before_the_first_epoch(story: Story) -> None:
    """What was written while the mill was dead is read after what had been written before."""
    mill = story.create()
    story.add_files(80)
    kill(mill, "after fetch")
    story.die()
    story.add_files(80)
    mill = story.open()
    while mill.advance() is not None:
        pass
    story.check()
    story.die()


@pytest.mark.slow
@pytest.mark.timeout(100 + 60 * KILLS)
def test_killed_with_signal_9(story: Story, tmp_path: Path) -> None:
    """Whole processes, with Spark jobs."""
    script = tmp_path / "script.sql"
    script.write_text(";\n".join(s for t in story.tables for s in t.statements(story.place.path(t))))
    durable = 0
    for number in range(KILLS if LONG else 1):
        for _ in range(4):  # enough epochs though the broker tells the end of a partition late
            story.add_files(90)
        point = story.chance.choice([p for p in KILL_POINTS if p != "within fetch"])
        arguments = [str(story.root), str(script), point, str(story.chance.randrange(2, 4)), str(number % 2)]
        command = [sys.executable, str(Path(__file__).with_name("crash_process.py")), *arguments]
        print(arguments[2:])
        with (tmp_path / "log").open("wb") as log:
            ended = subprocess.run(command, start_new_session=True, stdout=log, stderr=log, timeout=100, check=False)
        assert ended.returncode == -signal.SIGKILL, (tmp_path / "log").read_text()[-2000:]
        reached = Snapshot.open(story.root).version.epoch
        assert reached >= durable
        durable = reached
    mill = story.open()
    while mill.advance() is not None:
        pass
    story.check()
    story.die()
