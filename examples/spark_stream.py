"""Spark both ways: files as a stream of Spark, and a stream of Spark as a table of a mill.

Readings come as CSV files with newlines in quotes. Spark reads each file once, with Tidemill's parser; whatever it does
with the rows, ``foreachBatch`` gives them to a mill, which keeps a view of all of them. Stop it anywhere, and start it
again with the same directory: every reading counts once.

Run:  python examples/spark_stream.py DIRECTORY
"""

from __future__ import annotations

import random
import sys
from collections import Counter
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

import tidemill as tm
from tidemill.config import Settings
from tidemill.runtime.spark.session import create_session

SCRIPT = """
CREATE TABLE readings (sensor INT, celsius DOUBLE, note STRING) USING arrow OPTIONS (path 'ingest://');
CREATE MATERIALIZED VIEW by_sensor AS
  SELECT sensor, COUNT(*) AS readings, MAX(celsius) AS hottest FROM readings GROUP BY sensor;
"""


def measure(directory: Path, batch: int) -> Counter[int]:
    """Write a file of readings; how many each sensor has. It has its name when it is whole."""
    chance = random.Random(batch)
    sensors = [chance.randrange(4) for _ in range(100)]
    rows = "".join(f'{s},{chance.gauss(20, 3):.2f},"number {i}\nof {batch}"\n' for i, s in enumerate(sensors))
    hidden = directory / f".{batch}.csv"
    hidden.write_text("sensor,celsius,note\n" + rows)
    hidden.replace(directory / f"{batch}.csv")
    return Counter(sensors)


def stream(spark: SparkSession, files: Path, state: Path) -> DataFrame:
    """The readings in all files, at most two files at a time."""
    tm.register(spark)
    return (
        spark.readStream.format("tidemill")
        .option("format", "csv")
        .option("header", True)
        .option("stateLocation", str(state))
        .option("maxFilesPerTrigger", 2)
        .schema("sensor INT, celsius DOUBLE, note STRING")
        .load(str(files))
    )


def follow(spark: SparkSession, mill: tm.Mill, directory: Path, batches: int) -> tuple[Counter[int], Counter[int]]:
    """Measure, stream and keep a view; how many readings there are of each sensor, and how many the view has."""
    mill.script(SCRIPT)
    files = directory / "files"
    files.mkdir(parents=True, exist_ok=True)
    given: Counter[int] = Counter()
    readings = stream(spark, files, directory / "state").where("celsius IS NOT NULL")
    for batch in range(batches):
        given += measure(files, batch)
        writer = readings.writeStream.option("checkpointLocation", str(directory / "checkpoint"))
        query = writer.foreachBatch(mill.ingest("readings")).trigger(availableNow=True).start()
        query.awaitTermination()
        for _ in mill.drain():
            pass
    return given, Counter({row["sensor"]: row["readings"] for row in mill.read("by_sensor").to_pylist()})


if __name__ == "__main__":
    session = create_session(Settings(master="local[2]"))
    place = Path(sys.argv[1])
    with tm.Mill(place / "root", spark=session) as opened:
        follow(session, opened, place, batches=5)
        opened.table("by_sensor").orderBy("sensor").show()
    session.stop()
