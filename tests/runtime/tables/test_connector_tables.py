"""Tables over connectors that packages offer, in mills and in Spark: every row once, across restarts and growth."""

from __future__ import annotations

import json
import random
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import tidemill as tm
from local_jobs import local
from mill_factory import MillFactory
from offered_connectors import installed, packaged
from tidemill.errors import TidemillError
from tidemill.mill import Mill

KEY = "k3y-that-nobody-sees"


@pytest.fixture
def offered(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with installed(monkeypatch):
        yield


def add(archive: Path, members: dict[str, str | bytes]) -> None:
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as opened:
        for name, data in members.items():
            opened.writestr(name, data)


def rows(mill: Mill, view: str = "v") -> list[tuple[Any, ...]]:
    return sorted(tuple(row.values()) for row in mill.read(view).to_pylist())


@pytest.mark.usefixtures("offered")
def test_archives_and_restarts_in_the_middle(tmp_path: Path, mill_factory: MillFactory, seed: int) -> None:
    rng = random.Random(seed)
    expected: list[tuple[int, int]] = []

    def numbers(count: int) -> list[tuple[int, int]]:
        made = [(len(expected) + i, rng.randrange(100)) for i in range(count)]
        expected.extend(made)
        return made

    def parquet(made: list[tuple[int, int]]) -> bytes:
        sink = pa.BufferOutputStream()
        pq.write_table(pa.table({"k": [k for k, _ in made], "n": [n for _, n in made]}), sink, row_group_size=50)
        return sink.getvalue().to_pybytes()

    def fill(name: str) -> None:
        add(
            tmp_path / name,
            {
                "a.csv": "k,n\n" + "".join(f'{k},"{n}"\n' for k, n in numbers(400)),
                "b.json": "".join(json.dumps({"k": k, "n": n}) + "\n" for k, n in numbers(300)),
                "c.parquet": parquet(numbers(300)),
            },
        )

    def read_some(epochs: int | None) -> list[tuple[Any, ...]]:
        mill = local(mill_factory(epoch_bytes=1500, split_bytes=400))
        mill.script(f"""
            CREATE TABLE c (k BIGINT, n INT) USING csv OPTIONS (path 'zip://{tmp_path}/*.zip!/*.csv', header true,
              bufferSize '99', zipPassword '{KEY}');
            CREATE TABLE j (k BIGINT, n INT) USING json OPTIONS (path 'zip://{tmp_path}/*.zip!/*.json');
            CREATE TABLE p USING parquet OPTIONS (path 'zip://{tmp_path}/*.zip!/*.parquet');
            CREATE MATERIALIZED VIEW v AS
              SELECT k, n FROM c UNION ALL SELECT k, n FROM j UNION ALL SELECT CAST(k AS BIGINT), CAST(n AS INT) FROM p;
        """)
        while epochs != 0 and mill.advance() is not None:
            epochs = None if epochs is None else epochs - 1
        found = rows(mill)
        mill.close()
        return found

    fill("1.zip")
    some = read_some(2)
    assert 0 < len(some) < len(expected)
    fill("2.zip")
    assert len(read_some(2)) > len(some)
    assert read_some(None) == expected
    kept = b"".join(p.read_bytes() for p in (tmp_path / "root").rglob("*") if p.is_file())
    assert KEY.encode() not in kept


@pytest.mark.usefixtures("offered")
def test_partitions_that_grow(tmp_path: Path, mill_factory: MillFactory, seed: int) -> None:
    """As of a log: what is appended is read from where it was left, by views of any age."""
    rng = random.Random(seed)
    (tmp_path / "in").mkdir()
    expected: list[tuple[int]] = []
    script = f"""
        CREATE TABLE t (k INT) USING csv OPTIONS (path 'drip://{tmp_path}/in', dripBytes '5', dripKey '{KEY}');
        CREATE MATERIALIZED VIEW v AS SELECT k FROM t;
    """
    mill = local(mill_factory(epoch_bytes=400))
    for turn in range(6):
        for partition in rng.sample(range(3), 2):
            with (tmp_path / f"in/{partition}.log").open("a") as file:
                for _ in range(rng.randrange(1, 80)):
                    expected.append((len(expected),))
                    file.write(f"{expected[-1][0]}\n")
        mill.script(script)
        for _ in mill.drain():
            pass
        assert rows(mill) == expected
        if turn == 2:
            mill.sql("CREATE MATERIALIZED VIEW late AS SELECT k + 0 AS k FROM t")
        if turn == 3:
            mill.close()
            mill = local(mill_factory(epoch_bytes=400))
    assert rows(mill, "late") == expected


@pytest.mark.usefixtures("offered")
def test_secrets_and_options(tmp_path: Path, mill_factory: MillFactory) -> None:
    (tmp_path / "in").mkdir()
    mill = local(mill_factory())
    table = f"CREATE TABLE t (k INT) USING csv OPTIONS (path 'drip://{tmp_path}/in', dripKey '{KEY}'"
    for more, number in (
        (", dripBites '5')", "TM4005"),
        (", region 'x')", "TM4005"),
        (", dripBytes 'x')", "TM5051"),
        (" garbage", "TM20"),
    ):
        with pytest.raises(TidemillError, match=number) as caught:
            mill.sql(table + more)
        assert KEY not in str(caught.value)
    mill.sql(table + ")")
    mill.sql("ALTER TABLE t SET OPTIONS (dripKey 'another')")
    with pytest.raises(TidemillError, match="TM2023"):
        mill.sql("ALTER TABLE t SET OPTIONS (dripBytes '9')")
    mill.script(table.replace(KEY, "a-third-one") + ")")
    assert mill._coordinator.catalog.tables["t"].options["dripkey"] == "a-third-one"


@pytest.mark.slow
def test_in_processes_of_spark(spark: SparkSession, tmp_path: Path, mill_factory: MillFactory) -> None:
    """The connector is in a package that Spark sends to its processes."""
    for number in range(3):
        members = {f"{m}.json": "".join(f'{{"k": {k}, "m": {m}}}\n' for k in range(200)) for m in range(2)}
        add(tmp_path / f"{number}.zip", {**members, "x.txt": "no"})
    spark.sparkContext.addPyFile(packaged(tmp_path))
    tm.register(spark)
    url = f"zip://{tmp_path}/*.zip!/*.json"
    read = spark.read.format("tidemill").option("format", "json")
    frame = read.option("maxPartitionBytes", "1k").option("zipPassword", KEY).load(url)
    found = sorted(tuple(r) for r in frame.select("k", "m").collect())
    assert found == sorted((k, m) for k in range(200) for m in range(2) for _ in range(3))
    with pytest.raises(Exception, match="TM4005"):
        read.option("zipPasswort", "x").load(url)
    mill = mill_factory()
    mill.sql(f"CREATE TABLE t USING json OPTIONS (path '{url}')")
    mill.sql("CREATE MATERIALIZED VIEW v AS SELECT k, COUNT(*) AS n FROM t GROUP BY k")
    for _ in mill.drain():
        pass
    assert rows(mill) == [(k, 6) for k in range(200)]
