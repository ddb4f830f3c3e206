"""Tidemill's formats in any Spark session, without a mill.

Run:  python examples/spark_source.py FILE.csv
"""

from __future__ import annotations

import sys
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

import tidemill as tm


def notes(spark: SparkSession, path: Path, errors: Path) -> DataFrame:
    """How many words notes have; they may hold newlines, and still the file is read in parts."""
    tm.register(spark)
    rows = (
        spark.read.format("tidemill")
        .option("format", "csv")
        .option("header", True)
        .option("maxPartitionBytes", "16m")
        .option("errorsPath", str(errors))
        .schema("id BIGINT, note STRING")
        .load(str(path))
    )
    return rows.selectExpr("id", "size(split(note, '[ \n]+')) AS words")


if __name__ == "__main__":
    session = SparkSession.builder.master("local[2]").getOrCreate()
    notes(session, Path(sys.argv[1]), Path(sys.argv[1] + ".errors")).show()
