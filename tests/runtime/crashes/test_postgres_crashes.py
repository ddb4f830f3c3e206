"""A table of PostgreSQL that changes, with a mill that is killed: each transaction is there once."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from crash_story import KILLS, LONG, SETTINGS, kill
from kill_points import KILL_POINTS
from pyspark.sql import SparkSession
from tests.debian_postgres import PostgresServer
from tests.local_jobs import all_local

from tidemill.config import Settings
from tidemill.mill import Mill


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    started = PostgresServer()
    with started.connect() as connection:
        for name in ("one", "two"):
            connection.execute(f"CREATE TABLE {name} (k int, s text)".encode())
            connection.execute(f"ALTER TABLE {name} REPLICA IDENTITY FULL".encode())
    yield started
    started.close()


def statements(server: PostgresServer, table: str) -> list[str]:
    return [
        f"CREATE TABLE t USING postgres OPTIONS ({server.options(table, maxBytesPerTrigger='5000')})",
        "CREATE MATERIALIZED VIEW rows AS SELECT * FROM t",
    ]


def change(connection: psycopg.Connection[Any], table: str, chance: random.Random) -> None:
    """A few transactions; the first one adds rows."""
    for number in range(chance.randrange(2, 5)):
        with connection.transaction():
            if number and chance.randrange(2):
                connection.execute(f"DELETE FROM {table} WHERE k % 7 = {chance.randrange(7)}".encode())
            elif number:
                connection.execute(f"UPDATE {table} SET k = k + 1 WHERE k % 3 = 0".encode())
            rows = [(chance.randrange(99), chance.choice(("a", 'b"\n#', None))) for _ in range(chance.randrange(5, 50))]
            with connection.cursor() as cursor:
                cursor.executemany(f"INSERT INTO {table} VALUES (%s, %s)".encode(), rows)


def check(mill: Mill, connection: psycopg.Connection[Any], table: str) -> None:
    """Read all there is, and compare."""
    list(mill.drain())
    found = Counter(tuple(r.values()) for r in mill.read("rows").to_pylist())
    assert found == Counter(connection.execute(f"SELECT * FROM {table}".encode()).fetchall())


def test_killed_at_points_of_epochs(server: PostgresServer, tmp_path: Path, spark: SparkSession, seed: int) -> None:
    """At three of them; at all in the long form."""
    chance = random.Random(seed)

    def opened() -> Mill:
        return all_local(Mill(tmp_path / "root", spark=spark, settings=Settings(**SETTINGS)))

    with server.connect() as connection:
        change(connection, "one", chance)
        mill = opened()
        for statement in statements(server, "one"):
            mill.sql(statement)
        points = KILL_POINTS if LONG else chance.sample(KILL_POINTS, 3)
        print(points)
        for point in points:
            check(mill, connection, "one")
            change(connection, "one", chance)
            mill._coordinator.backlog()  # so that the next epoch has something to admit
            kill(mill, point)
            mill._coordinator.close(checkpoint=False)
            mill._closed = True
            change(connection, "one", chance)
            mill = opened()
        check(mill, connection, "one")
        mill.close()


@pytest.mark.slow
@pytest.mark.timeout(100 + 60 * KILLS)
def test_killed_with_signal_9(server: PostgresServer, tmp_path: Path, spark: SparkSession, seed: int) -> None:
    """Whole processes, with Spark jobs and the thread that receives."""
    chance = random.Random(seed)
    script = tmp_path / "script.sql"
    script.write_text(";\n".join(statements(server, "two")))
    with server.connect() as connection:
        for number in range(KILLS if LONG else 1):
            change(connection, "two", chance)
            point = chance.choice([p for p in KILL_POINTS if p != "within fetch"])
            arguments = [str(tmp_path / "root"), str(script), point, str(chance.randrange(1, 3)), str(number % 2)]
            command = [sys.executable, str(Path(__file__).with_name("crash_process.py")), *arguments]
            print(arguments[2:])
            with (tmp_path / "log").open("wb") as log:
                process = subprocess.Popen(command, start_new_session=True, stdout=log, stderr=log)
                while process.poll() is None:
                    change(connection, "two", chance)
                    try:
                        process.wait(1.0)
                    except subprocess.TimeoutExpired:
                        continue
            assert process.returncode == -signal.SIGKILL, (tmp_path / "log").read_text()[-2000:]
        mill = Mill(tmp_path / "root", spark=spark, settings=Settings(**SETTINGS))
        for statement in statements(server, "two"):
            mill.sql(
                statement.replace("CREATE TABLE", "CREATE TABLE IF NOT EXISTS").replace(
                    "VIEW rows", "VIEW IF NOT EXISTS rows"
                )
            )
        check(mill, connection, "two")
        mill.close()
