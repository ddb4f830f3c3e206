"""Messages of MQTT, with a mill that is killed: each of QoS 1 is there at least once, and with a key exactly once."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest
from crash_story import KILLS, LONG, SETTINGS, kill
from kill_points import KILL_POINTS
from pyspark.sql import SparkSession
from tests.local_jobs import all_local
from tests.mosquitto_broker import MqttBroker

from tidemill.config import Settings
from tidemill.mill import Mill


@pytest.fixture
def broker() -> Iterator[MqttBroker]:
    started = MqttBroker()
    yield started
    started.close()


class Publisher:
    """Publishes numbered messages, and knows what was published."""

    def __init__(self, broker: MqttBroker, chance: random.Random) -> None:
        self._broker, self._chance = broker, chance
        self._numbers = count()
        self.published: set[int] = set()

    def publish(self) -> None:
        """Some more, with QoS 1 and 2."""
        numbers = [next(self._numbers) for _ in range(self._chance.randrange(20, 90))]
        sent = [("a/b", json.dumps({"n": n}).encode(), self._chance.randrange(1, 3)) for n in numbers]
        self._broker.publish(sent)
        self.published.update(numbers)

    def check(self, mill: Mill) -> None:
        """Read all there is, and compare."""
        list(mill.drain())
        found = {r["n"]: r["c"] for r in mill.read("rows").to_pylist()}
        assert found.keys() == self.published
        assert sorted(mill.read("keyed").column("n").to_pylist()) == sorted(self.published)


def statements(broker: MqttBroker) -> list[str]:
    options = broker.options("a/+", value__format="json", maxBytesPerTrigger="1000")
    return [
        f"CREATE TABLE IF NOT EXISTS t (n INT) USING mqtt OPTIONS ({options})",
        f"CREATE TABLE IF NOT EXISTS k (n INT, PRIMARY KEY (n)) USING mqtt OPTIONS ({options})",
        "CREATE MATERIALIZED VIEW IF NOT EXISTS rows AS SELECT n, COUNT(*) AS c FROM t GROUP BY n",
        "CREATE MATERIALIZED VIEW IF NOT EXISTS keyed AS SELECT n FROM k",
    ]


def test_killed_at_points_of_epochs(broker: MqttBroker, tmp_path: Path, spark: SparkSession, seed: int) -> None:
    """At three of them; at all in the long form."""
    chance = random.Random(seed)

    def opened() -> Mill:
        return all_local(Mill(tmp_path / "root", spark=spark, settings=Settings(**SETTINGS)))

    published = Publisher(broker, chance)
    mill = opened()
    for statement in statements(broker):
        mill.sql(statement)
    published.publish()
    points = KILL_POINTS if LONG else chance.sample(KILL_POINTS, 3)
    print(points)
    for point in points:
        published.check(mill)
        published.publish()
        mill._coordinator.backlog()  # so that the next epoch has something to admit
        kill(mill, point)
        mill._coordinator.close(checkpoint=False)
        mill._closed = True
        published.publish()
        mill = opened()
    published.check(mill)
    mill.close()


@pytest.mark.slow
@pytest.mark.timeout(100 + 60 * KILLS)
def test_killed_with_signal_9(broker: MqttBroker, tmp_path: Path, spark: SparkSession, seed: int) -> None:
    """Whole processes, with Spark jobs and the thread that receives."""
    chance = random.Random(seed)
    published = Publisher(broker, chance)
    mill = Mill(tmp_path / "root", spark=spark, settings=Settings(**SETTINGS))
    for statement in statements(broker):
        mill.sql(statement)
    mill.close()
    script = tmp_path / "script.sql"
    script.write_text(";\n".join(statements(broker)))
    for number in range(KILLS if LONG else 1):
        published.publish()
        point = chance.choice([p for p in KILL_POINTS if p != "within fetch"])
        arguments = [str(tmp_path / "root"), str(script), point, str(chance.randrange(1, 3)), str(number % 2)]
        command = [sys.executable, str(Path(__file__).with_name("crash_process.py")), *arguments]
        print(arguments[2:])
        with (tmp_path / "log").open("wb") as log:
            process = subprocess.Popen(command, start_new_session=True, stdout=log, stderr=log)
            while process.poll() is None:
                published.publish()
                try:
                    process.wait(0.3)
                except subprocess.TimeoutExpired:
                    continue
        assert process.returncode == -signal.SIGKILL, (tmp_path / "log").read_text()[-2000:]
    mill = Mill(tmp_path / "root", spark=spark, settings=Settings(**SETTINGS))
    published.check(mill)
    mill.close()
