"""A whole mill on a root in S3, over HTTP: a server that implements S3's API runs on loopback."""

from __future__ import annotations

import os
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import boto3
import pytest
from pyspark.sql import SparkSession

from python_workers import kill_workers
from tidemill.config import Settings
from tidemill.errors import TidemillError
from tidemill.mill import Mill
from tidemill.runtime.read.snapshot import Snapshot
from tidemill.state.store import store as run_store

ROOT = "s3://mills/flights"


@pytest.fixture
def s3(spark: SparkSession, endpoint: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A client of an empty bucket that this process and Spark's workers can reach."""
    for name in ("AWS_ENDPOINT_URL", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_REGION"):
        monkeypatch.setitem(spark.sparkContext.environment, name, os.environ[name])
    client = boto3.client("s3", endpoint_url=endpoint, region_name=os.environ["AWS_REGION"])
    client.create_bucket(Bucket="mills")
    return client


def test_mill_on_s3(spark: SparkSession, s3: Any, tmp_path: Path) -> None:
    data, buffer = tmp_path / "data", tmp_path / "buffer"
    data.mkdir()
    settings = Settings(
        master="local[2]",
        partitions=2,
        listing_seconds=0.0,
        small_epoch_bytes=0,
        checkpoint_seconds=1e9,
        compact_after=3,
        buffer_directory=str(buffer),
    )
    expected: Counter[int] = Counter()
    number = 0

    def grow(mill: Mill) -> None:
        nonlocal number
        keys = [(number * 7 + i) % 11 for i in range(50)]
        expected.update(keys)
        (data / f"{number}.csv").write_text("".join(f"{k}\n" for k in keys))
        number += 1
        mill.advance()

    def found(source: Mill | Snapshot) -> dict[int, int]:
        return {r["k"]: r["n"] for r in source.read("counts").to_pylist()}

    with Mill(ROOT, spark=spark, settings=settings) as mill:
        mill.sql(f"CREATE TABLE t (k INT) USING csv OPTIONS (path '{data}')")
        mill.sql("CREATE MATERIALIZED VIEW counts AS SELECT k, COUNT(*) AS n FROM t GROUP BY k")
        mill.sql("CREATE MATERIALIZED VIEW sizes AS SELECT n, COUNT(*) AS keys FROM counts GROUP BY n")
        for _ in range(5):
            grow(mill)
        mill.checkpoint()
        assert found(mill) == expected
    names = [o["Key"] for o in s3.list_objects_v2(Bucket="mills", Prefix="flights/")["Contents"]]
    assert {name.split("/")[1] for name in names} == {"manifest", "sst"}
    shutil.rmtree(buffer)
    run_store._open.clear()
    kill_workers(spark)
    assert found(Snapshot.open(ROOT)) == expected
    with Mill(ROOT, spark=spark, settings=settings) as mill:
        assert (mill.epoch, found(mill)) == (5, expected)
        grow(mill)
        assert found(mill) == expected
        assert {r["n"]: r["keys"] for r in mill.read("sizes").to_pylist()} == Counter(expected.values())
        second = Mill(ROOT, spark=spark, settings=settings)
        second.checkpoint()
        with pytest.raises(TidemillError, match="TM1003"):
            mill.checkpoint()
        second.close()
        mill._coordinator.close(checkpoint=False)
        mill._closed = True
