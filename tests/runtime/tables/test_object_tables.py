"""Tables over objects, through whole mills: formats, faults, restarts, and secrets that stay secret."""

from __future__ import annotations

import gzip
import logging
import os
import random
import runpy
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import boto3
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import tidemill as tm
from s3_proxy import Answer, Request, S3Proxy, s3_error
from tidemill.config import Settings
from tidemill.errors import TidemillError
from tidemill.mill import Mill

SECRET = "wJalrXUtnFEMI/K7MDENG"
TABLES = """
CREATE TABLE lines (id BIGINT, note STRING)
  USING csv OPTIONS (path 's3://tables/csv/**/*.{csv,csv.gz}', header 'true', %s);
CREATE TABLE marks USING json OPTIONS (path 's3://tables/json/', readMode 'async', bufferSize '1000', %s);
CREATE STATIC TABLE names (id BIGINT, name STRING) USING parquet OPTIONS (path 's3://tables/names', %s);
CREATE MATERIALIZED VIEW sums AS SELECT n.name, COUNT(*) AS n, SUM(l.id) AS id, SUM(m.v) AS v
  FROM lines l JOIN names n ON l.id %% 7 = n.id LEFT JOIN marks m ON l.id = m.id GROUP BY n.name;
"""


@pytest.fixture
def proxy(endpoint: str) -> Iterator[S3Proxy]:
    """In front of the endpoint; who does not know the key is refused."""
    made = S3Proxy(endpoint)
    chance = random.Random(5)

    def rule(request: Request, forward: Callable[[], Answer]) -> Answer:
        if "Credential=AKIDEXAMPLE/" not in request.headers.get("authorization", ""):
            return s3_error(403, "InvalidAccessKeyId")
        if chance.random() < 0.06:
            return s3_error(503, "SlowDown")
        answer = forward()
        return replace(answer, cut=len(answer.body) // 2) if chance.random() < 0.06 else answer

    made.rule = rule
    yield made
    made.close()


@pytest.fixture
def s3(endpoint: str) -> Any:
    """A client, and an empty bucket ``tables``."""
    client = boto3.client("s3", endpoint_url=endpoint, region_name="us-east-1")
    client.create_bucket(Bucket="tables")
    yield client
    for found in client.list_objects_v2(Bucket="tables").get("Contents", ()):
        client.delete_object(Bucket="tables", Key=found["Key"])
    client.delete_bucket(Bucket="tables")


def options(proxy: S3Proxy) -> str:
    return f"endpoint '{proxy.url}', allowHttp 'true', awsAccessKey 'AKIDEXAMPLE', awsSecretKey '{SECRET}'"


def everything_below(root: Path) -> bytes:
    return b"".join(p.read_bytes() for p in root.rglob("*") if p.is_file())


def test_tables_of_a_mill(
    spark: SparkSession, s3: Any, proxy: S3Proxy, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Every row of several formats once, under faults; a mill that is started again has its secrets from the script."""
    caplog.set_level(logging.DEBUG, "tidemill")
    expected: dict[str, list[int]] = {}

    def put(number: int, rows: int) -> None:
        ids = range(number * 10_000, number * 10_000 + rows)
        text = "id,note\n" + "".join(f'{i},"a, ""quoted""\nnote"\n' for i in ids)
        key = f"csv/day={number}/part {number}.csv"
        s3.put_object(Bucket="tables", Key=key, Body=text.encode())
        s3.put_object(Bucket="tables", Key=f"{key}.gz", Body=gzip.compress(text.encode()))
        marks = "".join(f'{{"id": {i}, "v": {i % 5}}}\n' for i in ids if i % 3 == 0)
        s3.put_object(Bucket="tables", Key=f"json/{number}", Body=marks.encode())
        for i in ids:
            found = expected.setdefault(f"n{i % 7}", [0, 0, 0])
            for k, more in enumerate((2, 2 * i, 2 * (i % 5) * (i % 3 == 0))):
                found[k] += more

    def rows(mill: Mill) -> dict[str, list[int]]:
        return {r["name"]: [r["n"], r["id"], r["v"]] for r in mill.read("sums").to_pylist()}

    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"id": list(range(7)), "name": [f"n{i}" for i in range(7)]}), sink)
    s3.put_object(Bucket="tables", Key="names/a.parquet", Body=sink.getvalue().to_pybytes())
    put(1, 1200)
    settings = Settings(master="local[2]", partitions=2, listing_seconds=0.0, split_bytes=30_000)
    script = TABLES % ((options(proxy),) * 3)
    root = tmp_path / "root"
    with Mill(root, spark=spark, settings=settings) as mill:
        mill.script(script)
        for _ in mill.drain():
            pass
        assert rows(mill) == expected
        put(2, 300)
        for _ in mill.drain():
            pass
        assert rows(mill) == expected
        shown = [mill.sql(f"SHOW {kind}").collect() for kind in ("TABLES", "VIEWS")]
        shown += [mill.sql("DESCRIBE marks").collect(), mill.explain_views(), mill.status(), mill.warnings()]
        with pytest.raises(TidemillError) as caught:
            mill.script(f"CREATE TABLE lines (id BIGINT) USING csv OPTIONS (path 'x', awsSecretKey '{SECRET}')")
        shown.append(str(caught.value))
        with pytest.raises(TidemillError) as caught:
            mill.sql(f"CREATE TABLE x (id BIGINT USING csv OPTIONS (awsSecretKey '{SECRET}')")
        shown.append(str(caught.value))
        assert SECRET not in str(shown) and SECRET not in caplog.text
    assert SECRET.encode() not in everything_below(root) and b"AKIDEXAMPLE" not in everything_below(root)
    put(3, 100)
    with Mill(root, spark=spark, settings=settings) as mill:
        with pytest.raises(TidemillError, match="TM5030") as caught:
            mill.advance()
        assert "AKIDEXAMPLE" not in str(caught.value) and "AWS" not in caught.value.got
        mill.sql(f"ALTER TABLE lines SET OPTIONS (awsAccessKey 'other', awsSecretKey '{SECRET}')")
        with pytest.raises(TidemillError, match="TM5030"):
            mill.advance()
        mill.script(script)
        for _ in mill.drain():
            pass
        assert rows(mill) == expected
        s3.put_object(Bucket="tables", Key="csv/x/new.csv", Body=b"id,note\n1,x\n")
        behind = proxy.rule

        def replacing(request: Request, forward: Callable[[], Answer]) -> Answer:
            if request.method == "GET" and "new.csv" in request.path:
                s3.put_object(Bucket="tables", Key="csv/x/new.csv", Body=b"id,note\n2,x\n")
            return behind(request, forward)

        proxy.rule = replacing
        epoch = mill.epoch
        assert mill.advance() is None
        proxy.rule = behind
        assert (mill.epoch, rows(mill)) == (epoch, expected), "nothing of it was sealed"
        for _ in mill.drain():
            pass
        expected["n2"] = [expected["n2"][0] + 1, expected["n2"][1] + 2, expected["n2"][2]]
        assert rows(mill) == expected, "it is read as it is now"


def test_objects_without_a_mill(spark: SparkSession, s3: Any, proxy: S3Proxy) -> None:
    """Columns are inferred, parts of files know where quotes are, and the plan tells no secret."""
    text = "id,note\n" + "".join(f'{i},"line\n{i % 3}, more"\n' for i in range(3000))
    s3.put_object(Bucket="tables", Key="csv/a.csv", Body=text.encode())
    s3.put_object(Bucket="tables", Key="csv/b.txt", Body=b"no,csv,at,all\n")
    tm.register(spark)
    reader = spark.read.format("tidemill").option("format", "csv").option("header", "true")
    given = {"endpoint": proxy.url, "allowHttp": "true", "awsAccessKey": "AKIDEXAMPLE", "awsSecretKey": SECRET}
    frame = reader.options(**given, maxPartitionBytes="20k", pathGlobFilter="*.csv").load("s3://tables/csv/")
    assert frame.selectExpr("count(*)", "sum(id)", "count(distinct note)").first() == (3000, 4498500, 3)
    assert SECRET not in frame._jdf.queryExecution().toString() and os.environ["AWS_ENDPOINT_URL"] != proxy.url


def test_the_example(mill_factory: Callable[..., Mill], endpoint: str) -> None:
    """Three batches of 200 readings of six sensors, two in each room, one batch an object."""
    example = runpy.run_path(str(Path(__file__).parents[3] / "examples" / "s3" / "run.py"))
    found = example["rooms"](endpoint, 3, mill_factory())
    readings = [(("kitchen", "cellar", "attic")[i % 6 % 3], i % 30) for _ in range(3) for i in range(200)]
    expected = {}
    for room in ("attic", "cellar", "kitchen"):
        values = [celsius for where, celsius in readings if where == room]
        expected[room] = (len(values), pytest.approx(sum(values) / len(values)))
    assert {row["room"]: (row["readings"], row["celsius"]) for row in found} == expected
