"""A mill that a Spark stream is written into, to be killed: ``ingest_mill.py ROOT CHECKPOINT``.

After each epoch it prints how many rows there are.
"""

from __future__ import annotations

import sys
import time

from tidemill.config import Settings
from tidemill.mill import Mill
from tidemill.runtime.spark.session import create_session

ROWS = 50
"""Rows of a batch, whose values go on from those of the batch before."""


def main() -> None:
    """Run epochs beside the query until killed."""
    root, checkpoint = sys.argv[1], sys.argv[2]
    settings = Settings(master="local[2]", partitions=2, checkpoint_seconds=0.2)
    spark = create_session(settings)
    mill = Mill(root, spark=spark, settings=settings)
    mill.script("""
        CREATE TABLE t (value BIGINT) USING parquet OPTIONS (path 'ingest://', retainBytes '0');
        CREATE MATERIALIZED VIEW v AS SELECT value FROM t;
    """)
    rate = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", ROWS).option("numPartitions", 2).load()
    sink = rate.select("value").writeStream.option("checkpointLocation", checkpoint)
    query = sink.foreachBatch(mill.ingest("t")).start()
    while query.isActive:
        if mill.advance() is None:
            time.sleep(0.01)
        else:
            print(mill.count("v"), flush=True)


if __name__ == "__main__":
    main()
