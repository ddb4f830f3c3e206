"""Views over compressed CSV, Parquet and Arrow files equal what Spark itself reads from the same files."""

from __future__ import annotations

import gzip
import random
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from local_jobs import local
from tidemill.mill import Mill
from tidemill.testing import assert_same_rows

Opener = Callable[..., Mill]

CSV_COLUMNS = "id BIGINT, name STRING, price DOUBLE, day DATE"
PARQUET_COLUMNS = "NAME STRING, region STRING, since TIMESTAMP, amount DECIMAL(20,4), tags ARRAY<STRING>, n BIGINT"
VIEWS = {
    "joined": "SELECT region, count(*) AS c, sum(price) AS s, max(since) AS m FROM sales JOIN shops USING (name) "
    "GROUP BY region",
    "rows": "SELECT id, name, price, day FROM sales WHERE price > 20",
    "shop_rows": "SELECT name, region, since, amount, n, size(tags) AS t FROM shops",
    "shop_count": "SELECT count(*) AS c FROM shops",
}


def write_sales(rng: random.Random, path: Path, start: int) -> None:
    lines = [
        f'{i},"shop {rng.randrange(9)}",{rng.randrange(4000) / 100},2024-0{rng.randrange(1, 10)}-15'
        for i in range(start, start + 400)
    ]
    members = [("\n".join(lines[a : a + 150]) + "\n").encode() for a in range(0, 400, 150)]
    path.write_bytes(b"".join(gzip.compress(m) for m in members))


def write_shops(spark: SparkSession, rng: random.Random, directory: Path, start: int) -> None:
    rows = [(f"shop {i}", rng.choice(["n", "s", None]), i, i * 3, i) for i in range(start, start + 5)]
    frame = spark.createDataFrame(rows, "name STRING, region STRING, s LONG, a LONG, n INT")
    frame = frame.selectExpr(
        "name", "region", "timestamp_micros(s * 86399999999) AS since", "cast(a AS DECIMAL(10,2)) AS amount",
        "split(name, ' ') AS tags", "n", "'not declared' AS extra",
    )  # fmt: skip
    frame.coalesce(1).write.mode("append").option("parquet.block.size", 1).parquet(str(directory))


@pytest.mark.parametrize("cluster", [False, True])
def test_views_equal_spark(spark: SparkSession, mill_factory: Opener, tmp_path: Path, seed: int, cluster: bool) -> None:
    rng = random.Random(f"files {seed}")
    sales, shops = tmp_path / "sales", tmp_path / "shops"
    sales.mkdir()
    write_sales(rng, sales / "1.csv.gz", 0)
    write_shops(spark, rng, shops, 0)
    mill = mill_factory(epoch_bytes=3000, split_bytes=500)
    if not cluster:
        local(mill)
    mill.sql(f"CREATE TABLE sales ({CSV_COLUMNS}) USING csv OPTIONS (path '{sales}')")
    mill.sql(f"CREATE TABLE shops ({PARQUET_COLUMNS}) USING parquet OPTIONS (path '{shops}')")
    for name, query in list(VIEWS.items())[:2]:
        mill.sql(f"CREATE MATERIALIZED VIEW {name} AS {query}")
    while mill.advance() is not None:
        pass
    for name, query in list(VIEWS.items())[2:]:  # these read history
        mill.sql(f"CREATE MATERIALIZED VIEW {name} AS {query}")
    write_sales(rng, sales / "2.csv.gz", 400)
    write_shops(spark, rng, shops, 5)
    while mill.advance() is not None:
        pass
    oracle = spark.newSession()
    oracle.conf.set("spark.sql.session.timeZone", "UTC")
    oracle.read.schema(CSV_COLUMNS).csv(str(sales)).createOrReplaceTempView("sales")
    oracle.read.schema(PARQUET_COLUMNS.replace("20,4", "10,2")).parquet(str(shops)).createOrReplaceTempView("shops")
    for name, query in VIEWS.items():
        expected = oracle.sql(query).toArrow()
        assert expected.num_rows
        found = mill.table(name).toArrow()
        if name == "shop_rows":
            place = found.column_names.index("amount")
            assert found.schema.field(place).type == pa.decimal128(20, 4)
            found = found.set_column(place, "amount", found["amount"].cast(pa.decimal128(10, 2)))
        assert_same_rows(found, expected)
    assert mill.table("sales__errors").count() == 0
