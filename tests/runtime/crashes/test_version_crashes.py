"""Delta and Iceberg tables that change, with a mill that is killed at points of epochs: it has the newest version."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa
import pytest
from crash_story import LONG, SETTINGS, kill
from deltalake import DeltaTable, write_deltalake
from kill_points import KILL_POINTS
from pyiceberg.catalog import load_catalog
from pyiceberg.expressions import EqualTo, GreaterThanOrEqual
from pyspark.sql import SparkSession
from tests.connectors.test_delta_tables import FEED
from tests.local_jobs import all_local

from tidemill.config import Settings
from tidemill.mill import Mill


def some(chance: random.Random) -> pa.Table:
    rows = range(chance.randrange(20, 60))
    return pa.table({"k": [chance.randrange(100) for _ in rows], "p": [chance.choice("ab") for _ in rows]})


class Lake(Protocol):
    """A table that others write, and what its own library reads of it."""

    using: str

    def append(self, rows: pa.Table) -> None: ...

    def change(self, chance: random.Random) -> None:
        """One version more, most often one that takes rows back."""
        ...

    def rows(self) -> pa.Table: ...


class DeltaLake:
    configuration: dict[str, str | None] | None = None

    def __init__(self, place: Path, rows: pa.Table) -> None:
        self._path = place / "t"
        self.using = f"delta OPTIONS (path '{self._path}')"
        write_deltalake(self._path, rows, partition_by=["p"], configuration=self.configuration)

    def append(self, rows: pa.Table) -> None:
        write_deltalake(self._path, rows, mode="append")

    def change(self, chance: random.Random) -> None:
        table = DeltaTable(self._path)
        match chance.randrange(4):
            case 0:
                self.append(some(chance))
            case 1:
                table.delete(f"k % 3 = {chance.randrange(3)}")
            case 2:
                table.optimize.compact()
            case _:
                table.update({"k": "k + 1"}, predicate=f"k < {chance.randrange(100)}")

    def rows(self) -> pa.Table:
        return DeltaTable(self._path).to_pyarrow_table()


class DeltaWithFeed(DeltaLake):
    configuration = FEED


class IcebergLake:
    def __init__(self, place: Path, rows: pa.Table) -> None:
        uri = f"sqlite:///{place}/catalogue.db"
        self.using = f"iceberg OPTIONS (table 'n.t', 'catalog.uri' '{uri}')"
        catalogue = load_catalog("default", type="sql", uri=uri, warehouse=f"file://{place}/warehouse")
        catalogue.create_namespace("n")
        self._table = catalogue.create_table("n.t", rows.schema)
        self.append(rows)

    def append(self, rows: pa.Table) -> None:
        self._table.append(rows)

    def change(self, chance: random.Random) -> None:
        match chance.randrange(4):
            case 0:
                self.append(some(chance))
            case 1:
                self._table.delete(EqualTo("p", chance.choice("ab")))
            case 2:
                self._table.overwrite(some(chance), GreaterThanOrEqual("k", chance.randrange(100)))
            case _:
                self._table.overwrite(some(chance))

    def rows(self) -> pa.Table:
        return self._table.scan().to_arrow()


def counted(rows: pa.Table) -> Counter[tuple[Any, ...]]:
    return Counter(tuple(row.values()) for row in rows.to_pylist())


@pytest.mark.parametrize("kind", [DeltaLake, DeltaWithFeed, IcebergLake])
def test_killed_at_points_of_epochs(
    tmp_path: Path, spark: SparkSession, seed: int, kind: Callable[[Path, pa.Table], Lake]
) -> None:
    """At two of them; at all in the long form. The version changes again before the next start."""
    chance = random.Random(seed)
    lake = kind(tmp_path, some(chance))

    def opened() -> Mill:
        return all_local(Mill(tmp_path / "root", spark=spark, settings=Settings(**SETTINGS)))

    mill = opened()
    mill.sql(f"CREATE TABLE t USING {lake.using}")
    mill.sql("CREATE MATERIALIZED VIEW rows AS SELECT * FROM t")
    points = KILL_POINTS if LONG else chance.sample(KILL_POINTS, 2)
    print(points)
    for point in points:
        list(mill.drain())
        lake.append(some(chance))  # so that there is something to read
        lake.change(chance)
        kill(mill, point)
        mill._coordinator.close(checkpoint=False)
        mill._closed = True
        if chance.randrange(2):
            lake.change(chance)
        mill = opened()
        list(mill.drain())
        assert counted(mill.read("rows")) == counted(lake.rows()), point
    mill.close()
