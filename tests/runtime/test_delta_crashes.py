"""A Delta table that changes, with a mill that is killed at points of epochs: it holds the newest version."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
from crash_story import LONG, SETTINGS, kill
from deltalake import DeltaTable, write_deltalake
from kill_points import KILL_POINTS
from pyspark.sql import SparkSession
from tests.local_jobs import all_local

from tidemill.config import Settings
from tidemill.mill import Mill


def some(chance: random.Random) -> pa.Table:
    rows = range(chance.randrange(20, 60))
    return pa.table({"k": [chance.randrange(100) for _ in rows], "p": [chance.choice("ab") for _ in rows]})


def change(path: Path, chance: random.Random) -> None:
    """One version more, most often one that takes rows back."""
    table = DeltaTable(path)
    match chance.randrange(4):
        case 0:
            write_deltalake(path, some(chance), mode="append")
        case 1:
            table.delete(f"k % 3 = {chance.randrange(3)}")
        case 2:
            table.optimize.compact()
        case _:
            table.update({"k": "k + 1"}, predicate=f"k < {chance.randrange(100)}")


def counted(rows: pa.Table) -> Counter[tuple[Any, ...]]:
    return Counter(tuple(row.values()) for row in rows.to_pylist())


def test_killed_at_points_of_epochs(tmp_path: Path, spark: SparkSession, seed: int) -> None:
    """At three of them; at all in the long form. The version changes again before the next start."""
    chance = random.Random(seed)
    path = tmp_path / "t"

    def opened() -> Mill:
        return all_local(Mill(tmp_path / "root", spark=spark, settings=Settings(**SETTINGS)))

    write_deltalake(path, some(chance), partition_by=["p"])
    mill = opened()
    mill.sql(f"CREATE TABLE t USING delta OPTIONS (path '{path}')")
    mill.sql("CREATE MATERIALIZED VIEW rows AS SELECT * FROM t")
    points = KILL_POINTS if LONG else chance.sample(KILL_POINTS, 3)
    print(points)
    for point in points:
        list(mill.drain())
        write_deltalake(path, some(chance), mode="append")  # so that there is something to read
        change(path, chance)
        kill(mill, point)
        mill._coordinator.close(checkpoint=False)
        mill._closed = True
        if chance.randrange(2):
            change(path, chance)
        mill = opened()
        list(mill.drain())
        assert counted(mill.read("rows")) == counted(DeltaTable(path).to_pyarrow_table()), point
    mill.close()
