"""Spark Structured Streaming: queries in the session that other benchmarks tune for it, with the default state store.

``groups`` and ``windows`` are in update mode without a watermark; what a batch changes is kept by key on the driver.
Streams have no ROW_NUMBER, so ``top`` is a join of two streams of which each batch's new sums are kept, and the first
of each region are found at the end.
"""

from __future__ import annotations

import time
from typing import Any

import pyspark

from benchmarks import streaming_peer as peer
from benchmarks.peers.jobs import PLACES
from benchmarks.peers.side import Side, run

_SUMS = (
    "SELECT c.region, c.customer, SUM(o.amount) AS total FROM orders o JOIN customers c ON o.customer = c.customer "
    "GROUP BY c.region, c.customer"
)
_POLL_SECONDS = 0.02


def updates(side: Side) -> None:
    """The query in update mode."""
    kept = _follow(side, side.job.query, 2 if side.job.arriving else 1)
    side.answer(((*key, *values) for key, values in kept.items()), pyspark.__version__)


def top(side: Side) -> None:
    """Sums in update mode, and their first places at the end."""
    regions: dict[str, list[tuple[int, int]]] = {}
    for (region, customer), (total,) in _follow(side, _SUMS, 2).items():
        regions.setdefault(region, []).append((-total, customer))
    rows = [(region, c, -t) for region, found in regions.items() for t, c in sorted(found)[:PLACES]]
    side.answer(rows, pyspark.__version__)


def _follow(side: Side, query: str, keys: int) -> dict[tuple[Any, ...], tuple[Any, ...]]:
    """The last values of each key, which is as many columns as ``keys``, when all rows have been read."""
    spark = peer.session("default")
    if not side.job.arriving:
        side.ready()
    for table, columns in side.job.tables.items():
        reader = spark.readStream.schema(columns).option("header", "true").format(side.job.format)
        reader.load(side.directory(table)).createOrReplaceTempView(table)
    kept: dict[tuple[Any, ...], tuple[Any, ...]] = {}

    def keep(frame: Any, _: int) -> None:
        kept.update({tuple(row[:keys]): tuple(row[keys:]) for row in frame.collect()})

    writer = spark.sql(query).writeStream.outputMode("update").foreachBatch(keep)
    writer = writer.option("checkpointLocation", str(side.work / "checkpoint"))
    if not side.job.arriving:
        writer.trigger(availableNow=True).start().awaitTermination()
        return kept
    running = writer.trigger(processingTime="0 seconds").start()
    side.ready()
    while sum(progress.numInputRows for progress in running.recentProgress) < side.rows:
        if running.exception() is not None:
            raise SystemExit(str(running.exception()))
        time.sleep(_POLL_SECONDS)
    running.stop()
    return kept


if __name__ == "__main__":
    run({"groups": updates, "top": top, "windows": updates})
