"""``cleanSource`` through whole mills: what was read goes once that is durable, and no row is lost or counted twice."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import boto3
import pytest
from clean_mill import SETTINGS, script
from pyspark.sql import SparkSession

from s3_proxy import Answer, Request, S3Proxy, s3_error
from tidemill.errors import TidemillError
from tidemill.mill import Mill
from tidemill.runtime.intake import source_cleaning

Opener = Callable[..., Mill]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    directory = tmp_path / "data"
    directory.mkdir()
    return directory


def create(mill: Mill, data: Path, options: str = "cleanSource 'delete'", name: str = "t") -> Mill:
    mill.sql(f"CREATE TABLE {name} (k INT) USING csv OPTIONS (path '{data}', {options})")
    mill.sql(f"CREATE MATERIALIZED VIEW {name}v AS SELECT k FROM {name}")
    return mill


def put(data: Path, name: str, *rows: int) -> Path:
    path = data / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{r:07d}\n" for r in rows))
    return path


def rows(mill: Mill, view: str = "tv") -> list[int]:
    return sorted(mill.read(view).column("k").to_pylist())


def names(directory: Path) -> list[str]:
    return sorted(str(p.relative_to(directory)) for p in directory.rglob("*") if p.is_file())


def settle(mill: Mill, until: Callable[[], bool], seconds: float = 120.0) -> list[str]:
    """Let the mill go on until something is so; what it said."""
    said: list[str] = []
    end = time.monotonic() + seconds
    while not until():
        assert time.monotonic() < end, said
        report = mill.advance()
        said += mill.warnings() if report is None else report.warnings
        time.sleep(0.02)
    return said


def numbers(said: list[str]) -> list[str]:
    return [text[:6] for text in said]


def test_read_files_are_deleted(mill_factory: Opener, data: Path) -> None:
    mill = create(mill_factory(checkpoint_seconds=10_000.0), data)
    for number in range(5):
        put(data, f"{number}.csv", number)
    assert mill.advance() is not None
    for _ in range(3):
        mill.advance()
    assert len(names(data)) == 5, "a crash could take it back"
    mill.checkpoint()
    assert settle(mill, lambda: not names(data)) == []
    put(data, "9.csv", 9)
    list(mill.drain())
    assert rows(mill) == [0, 1, 2, 3, 4, 9]
    mill.close()
    assert not names(data), "what was read last goes when the mill stops"
    mill = mill_factory()
    assert mill.advance() is None and rows(mill) == [0, 1, 2, 3, 4, 9]
    states = {(Path(r["path"]).name, r["state"]) for r in mill.read("t__files").to_pylist()}
    assert states == {(f"{n}.csv", "cleaned") for n in (0, 1, 2, 3, 4, 9)}


def test_views_that_are_created_later(mill_factory: Opener, data: Path) -> None:
    """Without retention they begin without what was read, and are told; with retention, or kept rows, they have it."""
    mill = mill_factory()
    day = "cleanSource 'delete', cleanSource.retentionDuration '1 day'"
    for name, options in (
        ("t", "cleanSource 'delete'"),
        ("d", day),
        ("o", "cleanSource 'delete', allowOverwrites true"),
    ):
        put(data / name, "a.csv", 1, 2)
        create(mill, data / name, options, name)
    list(mill.drain())
    mill.checkpoint()
    settle(mill, lambda: names(data) == ["d/a.csv"])
    for name in ("t", "d", "o"):
        put(data / name, "b.csv", 3)
        mill.sql(f"CREATE MATERIALIZED VIEW {name}later AS SELECT k FROM {name}")
    said = mill.warnings()
    assert numbers(list(said)) == ["TM5085"] and "t: 1 file\n" in said[0]
    list(mill.drain())
    assert [rows(mill, f"{name}later") for name in ("t", "d", "o")] == [[3], [1, 2, 3], [1, 2, 3]]
    assert [rows(mill, f"{name}v") for name in ("t", "d", "o")] == [[1, 2, 3]] * 3


def test_a_view_that_waits_for_history(mill_factory: Opener, data: Path) -> None:
    """What it waits for stays, over restarts; a mill goes on cleaning when it has it."""
    path = put(data, "a.csv", *range(40))
    mill = create(mill_factory(epoch_bytes=64), data)
    assert [mill.advance() is not None for _ in range(2)] == [True, True]
    mill.sql("CREATE MATERIALIZED VIEW later AS SELECT k FROM t")
    for _ in range(20):
        mill.close()
        mill = mill_factory(epoch_bytes=64)
        if mill.advance() is None:
            break
    assert not path.exists() or settle(mill, lambda: not path.exists()) == []
    assert rows(mill) == rows(mill, "later") == list(range(40))


def test_overwritten_files(mill_factory: Opener, data: Path) -> None:
    mill = create(mill_factory(), data, "cleanSource 'delete', allowOverwrites 'true'")
    put(data, "a.csv", 1, 2)
    settle(mill, lambda: mill.epoch > 0)
    settle(mill, lambda: not names(data))
    put(data, "a.csv", 2, 3)
    settle(mill, lambda: rows(mill) == [2, 3])
    settle(mill, lambda: not names(data))
    mill.close()
    assert rows(mill_factory()) == [2, 3]


def test_options_of_a_table_that_exists(mill_factory: Opener, data: Path, tmp_path: Path) -> None:
    """Cleaning is switched on for what is read from then on, and refused where it cannot be."""
    mill = create(mill_factory(), data, "header false")
    put(data, "a.csv", 1)
    list(mill.drain())
    mill.sql(f"ALTER TABLE t SET OPTIONS (cleanSource 'archive', sourceArchiveDir '{tmp_path}/old')")
    put(data, "b.csv", 2)
    settle(mill, lambda: names(data) == ["a.csv"])
    assert names(tmp_path / "old") == ["b.csv"] and rows(mill) == [1, 2]
    for options, number in (
        ("cleanSource 'perhaps'", "TM4003"),
        (f"sourceArchiveDir '{data}'", "TM5081"),
        ("sourceArchiveDir 's3://bucket/old'", "TM5080"),
    ):
        with pytest.raises(TidemillError, match=number):
            mill.sql(f"ALTER TABLE t SET OPTIONS ({options})")
    mill.sql("CREATE TABLE s (k INT) USING csv OPTIONS (path 'tcp+listen://127.0.0.1:0')")
    with pytest.raises(TidemillError, match="TM2023"):
        mill.sql("ALTER TABLE s SET OPTIONS (cleanSource 'delete')")
    for more in ("static true", "allowAppends true"):
        with pytest.raises(TidemillError, match="TM5080"):
            create(mill, data, f"cleanSource 'delete', {more}", "x")
    mill.sql("ALTER TABLE t SET OPTIONS (cleanSource 'off')")
    put(data, "c.csv", 3)
    list(mill.drain())
    mill.checkpoint()
    mill.close()
    assert names(data) == ["a.csv", "c.csv"]


def test_an_epoch_that_only_notes(mill_factory: Opener, data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """When retention is over and nothing else happens, an epoch says so, and the files go."""
    mill = create(
        mill_factory(checkpoint_seconds=0.1), data, "cleanSource 'delete', cleanSource.retentionDuration '1s'"
    )
    put(data, "a.csv", 1)
    settle(mill, lambda: mill.epoch == 1)
    assert names(data) == ["a.csv"]
    settle(mill, lambda: not names(data))
    assert (mill.epoch, rows(mill)) == (2, [1])
    assert mill.advance() is None, "what has gone is noted with an epoch that comes anyway"


def test_many_files_stay_few(mill_factory: Opener, data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files come and go for long: a listing never has more than those of some epochs."""
    monkeypatch.setattr(source_cleaning, "_FIRST_PAUSE", 0.0)
    mill = create(mill_factory(checkpoint_seconds=0.0), data)
    most = 0
    for number in range(30):
        for n in range(10):
            put(data, f"{number:03d}-{n}.csv", number * 10 + n)
        most = max(most, len(names(data)))
        assert mill.advance() is not None
        mill.checkpoint()
    list(mill.drain())
    assert rows(mill) == list(range(300)) and most <= 40
    settle(mill, lambda: not names(data))


POINTS = ("sealed", "before durable", "between files", "within a file", "cleaned")


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_killed_at_any_point(tmp_path: Path, spark: SparkSession, seed: int) -> None:
    """One after the other, with files that come in between: every row once, every file in the archive once."""
    points = POINTS if "TIDEMILL_CHAOS" in os.environ else (*random.Random(seed).sample(POINTS[:-1], 2), POINTS[-1])
    data, archive, root = tmp_path / "data", tmp_path / "old", tmp_path / "root"
    expected: list[int] = []
    for number, point in enumerate(points):
        for n in range(8):
            rows_ = range(len(expected), len(expected) + 5)
            put(data, f"{n % 3}/{number}-{n}.csv", *rows_)
            expected += rows_
        command = [sys.executable, str(Path(__file__).with_name("clean_mill.py"))]
        done = subprocess.run(
            [*command, str(root), str(data), str(archive), point], capture_output=True, timeout=120, check=False
        )
        assert done.returncode == -9, done.stderr[-2000:]
    before = {name: path for path in (data, archive) for name in names(path)}
    assert set(before.values()) == {data, archive}, "some were cleaned, others were not"
    with Mill(root, spark=spark, settings=SETTINGS) as mill:
        mill.script(script(str(data), str(archive)))
        list(mill.drain())
        assert rows(mill) == expected
        mill.checkpoint()
        settle(mill, lambda: not names(data))
    assert Counter(names(archive)) == Counter(f"{n % 3}/{k}-{n}.csv" for k in range(len(points)) for n in range(8))
    assert sorted(int(line) for name in names(archive) for line in (archive / name).read_text().split()) == expected


@pytest.fixture
def s3(endpoint: str) -> Iterator[Any]:
    client = boto3.client("s3", endpoint_url=endpoint, region_name="us-east-1")
    client.create_bucket(Bucket="incoming")
    yield client
    for found in client.list_objects_v2(Bucket="incoming").get("Contents", ()):
        client.delete_object(Bucket="incoming", Key=found["Key"])
    client.delete_bucket(Bucket="incoming")


def test_objects_under_faults(
    mill_factory: Opener, s3: Any, endpoint: str, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Requests fail at random and mills are closed without a checkpoint: each row once, each object archived once."""
    monkeypatch.setattr(source_cleaning, "_LONGEST_PAUSE", 1.0)
    proxy, chance = S3Proxy(endpoint), random.Random(seed)

    def rule(request: Request, forward: Callable[[], Answer]) -> Answer:
        if chance.random() < 0.04:
            return s3_error(403, "AccessDenied") if request.method in ("POST", "PUT") else s3_error(503, "SlowDown")
        answer = forward()
        if request.method in ("POST", "PUT") and chance.random() < 0.03:
            return s3_error(403, "AccessDenied")
        return replace(answer, cut=len(answer.body) // 2) if chance.random() < 0.02 else answer

    proxy.rule = rule
    options = f"endpoint '{proxy.url}', allowHttp 'true', awsAccessKey 'k', awsSecretKey 's', region 'us-east-1', "
    options += "cleanSource 'archive', sourceArchiveDir 's3://incoming/old'"
    text = f"""
        CREATE TABLE t (k INT) USING csv OPTIONS (path 's3://incoming/in/**/*.csv', {options});
        CREATE MATERIALIZED VIEW tv AS SELECT k FROM t;
    """

    def keys(prefix: str) -> list[str]:
        listed = s3.list_objects_v2(Bucket="incoming", Prefix=prefix).get("Contents", ())
        return [o["Key"].removeprefix(prefix) for o in listed]

    put_: list[str] = []
    said: list[str] = []
    for number in range(2):
        mill = mill_factory(checkpoint_seconds=0.1)
        mill.script(text)
        for n in range(8):
            put_.append(f"{n % 2}/{number}-{n}.csv")
            s3.put_object(Bucket="incoming", Key=f"in/{put_[-1]}", Body=f"{len(put_)}\n".encode())
        settle(mill, lambda mill=mill: mill.epoch > 0)
        said += settle(mill, lambda number=number: len(keys("old/")) > 4 * number)
        mill._coordinator.close(checkpoint=False)
    mill = mill_factory(checkpoint_seconds=0.1)
    mill.script(text)
    said += settle(mill, lambda: not keys("in/"), 60)
    settle(mill, lambda: len(rows(mill)) >= len(put_))
    assert rows(mill) == list(range(1, len(put_) + 1))
    assert sorted(keys("old/")) == sorted(put_)
    assert set(numbers(said)) <= {"TM5082", "TM5033", "TM5040"}
    proxy.close()
