"""The peer: Spark Structured Streaming, in a plain session tuned for it.

What was tuned, because it helps Spark here: shuffle partitions equal to the cores, no batches without
data, memory to spare, no user interface, and the state store that is faster (measured: the default one,
which keeps state on the heap, or RocksDB with changelog checkpoints).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from benchmarks.number_files import DDL

GROUPED = "SELECT k, COUNT(*) AS n, SUM(b) AS s, AVG(a) AS x FROM t GROUP BY k"
"""The query of several benchmarks, whose answer :func:`grouped` reads."""

_ROCKSDB = {
    "spark.sql.streaming.stateStore.providerClass": "org.apache.spark.sql.execution.streaming.state."
    "RocksDBStateStoreProvider",
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
}
STORES: dict[str, dict[str, str]] = {"default": {}, "rocksdb": _ROCKSDB}


def session(store: str) -> SparkSession:
    """A session of ``local[2]`` with a state store of :data:`STORES`."""
    builder = SparkSession.builder.master("local[2]").appName("peer")
    options = {
        "spark.ui.enabled": "false",
        "spark.driver.memory": "6g",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.streaming.noDataMicroBatches.enabled": "false",
        "spark.sql.streaming.numRecentProgressUpdates": "1000",
        "spark.sql.session.timeZone": "UTC",
        **STORES[store],
    }
    for key, value in options.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def read_files(spark: SparkSession, directory: str) -> DataFrame:
    """The files of a directory as a stream, one file a batch."""
    reader = spark.readStream.schema(DDL).option("header", "true").option("maxFilesPerTrigger", "1")
    return reader.csv(directory)


def start(frame: DataFrame, checkpoint: Path, available_now: bool) -> Any:
    """Start a query in update mode into a sink that takes everything and keeps nothing."""
    writer = frame.writeStream.format("noop").outputMode("update").option("checkpointLocation", str(checkpoint))
    trigger = {"availableNow": True} if available_now else {"processingTime": "0 seconds"}
    return writer.trigger(**trigger).start()


def batch_seconds(query: Any) -> list[float]:
    """Duration of every batch that had rows, in order, as Spark reports it (``triggerExecution``)."""
    return [p.durationMs["triggerExecution"] / 1e3 for p in query.recentProgress if p.numInputRows > 0]


def grouped(spark: SparkSession, checkpoint: Path) -> pa.Table:
    """The answer of :data:`GROUPED` that a query which has ended has in its state: of the average its sum and count."""
    named = "CAST(value AS STRUCT<n: BIGINT, s: DOUBLE, total: DOUBLE, count: BIGINT>) AS v"  # two fields are `sum`
    state = spark.read.format("statestore").load(str(checkpoint)).selectExpr("key.k", named)
    return state.selectExpr("k", "v.n", "v.s", "v.total / v.count AS x").toArrow()
