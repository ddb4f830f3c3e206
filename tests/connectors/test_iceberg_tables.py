"""Tables USING iceberg: after each epoch a view has the rows that pyiceberg reads of the newest snapshot."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.expressions import EqualTo, LessThan
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema as IcebergSchema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import IntegerType, LongType, NestedField, StringType
from tests.mill_factory import MillFactory

from tidemill.errors import TidemillError
from tidemill.mill import Mill

SCHEMA = IcebergSchema(
    NestedField(1, "k", LongType(), required=False),
    NestedField(2, "v", IntegerType(), required=False),
    NestedField(3, "p", StringType(), required=False),
)


@pytest.fixture
def catalogue(tmp_path: Path) -> Catalog:
    """A catalogue in SQLite, whose warehouse is a directory."""
    made = load_catalog("default", type="sql", uri=uri(tmp_path), warehouse=f"file://{tmp_path}/warehouse")
    made.create_namespace("ns")
    return made


def uri(place: Path) -> str:
    return f"sqlite:///{place}/catalogue.db"


def batch(rows: Sequence[tuple[int, int | None, str | None]], names: Sequence[str] = ("k", "v", "p")) -> pa.Table:
    columns = list(zip(*rows, strict=True)) if rows else [(), (), ()]
    arrays = [pa.array(c, t) for c, t in zip(columns, (pa.int64(), pa.int32(), pa.string()), strict=True)]
    return pa.table(arrays, names=list(names))


def some(chance: random.Random, count: int) -> list[tuple[int, int | None, str | None]]:
    return [
        (chance.randrange(100), chance.choice((None, chance.randrange(-9, 9))), chance.choice(("a", "b c/ü", None)))
        for _ in range(count)
    ]


def follow(mill: Mill, place: Path, columns: str = "", options: str = "") -> None:
    mill.sql(f"CREATE TABLE t {columns} USING iceberg OPTIONS (table 'ns.t', 'catalog.uri' '{uri(place)}'{options})")
    mill.sql("CREATE MATERIALIZED VIEW rows AS SELECT * FROM t")


def drain(mill: Mill) -> list[str]:
    return [warning for report in mill.drain() for warning in report.warnings]


def counted(table: pa.Table) -> Counter[tuple[Any, ...]]:
    return Counter(tuple(row.values()) for row in table.to_pylist())


def refused(mill: Mill, statement: str) -> TidemillError:
    with pytest.raises(TidemillError) as raised:
        mill.sql(statement)
    return raised.value


@pytest.mark.parametrize("partitioned", [False, True])
def test_snapshots(catalogue: Catalog, mill_factory: MillFactory, seed: int, tmp_path: Path, partitioned: bool) -> None:
    """Appends, deletions, overwrites and snapshots without rows; restarts."""
    chance = random.Random(seed)
    spec = PartitionSpec(PartitionField(3, 1000, IdentityTransform(), "p"))
    table = (
        catalogue.create_table("ns.t", SCHEMA, partition_spec=spec)
        if partitioned
        else catalogue.create_table("ns.t", SCHEMA)
    )
    mill = mill_factory()
    follow(mill, tmp_path)
    for turn in range(9):
        for _ in range(chance.choice((1, 1, 3))):
            match chance.randrange(5):
                case 0:
                    table.delete(LessThan("k", chance.randrange(60)))
                case 1:
                    table.delete(EqualTo("p", chance.choice(("a", "b c/ü"))))
                case 2:
                    table.overwrite(batch(some(chance, 9)))
                case _:
                    table.append(batch(some(chance, chance.randrange(1, 30))))
        if turn in (3, 6):
            mill.close()
            mill = mill_factory()
        assert drain(mill) == []
        assert counted(mill.read("rows")) == counted(table.scan().to_arrow()), f"turn {turn}"


def test_columns_that_change(catalogue: Catalog, mill_factory: MillFactory, tmp_path: Path) -> None:
    """Found by their identifiers: one that was renamed before is that of old files, too; a new one is not the old."""
    table = catalogue.create_table("ns.t", SCHEMA)
    table.append(batch([(1, 10, "a")]))
    with table.update_schema() as change:
        change.rename_column("v", "w")
    with table.update_schema() as change:
        change.add_column("v", IntegerType())
    table.append(pa.table({"k": [2], "w": pa.array([20], pa.int32()), "p": ["b"], "v": pa.array([7], pa.int32())}))
    mill = mill_factory()
    follow(mill, tmp_path)
    drain(mill)
    assert mill.read("rows").schema.names == ["k", "w", "p", "v"]
    assert counted(mill.read("rows")) == Counter([(1, 10, "a", None), (2, 20, "b", 7)])
    with table.update_schema() as change:
        change.delete_column("w")
    with pytest.raises(TidemillError) as raised:
        drain(mill)
    assert (raised.value.number, "w" in raised.value.got) == ("TM5104", True)
    assert mill.read("rows").num_rows == 2


def test_what_is_refused(catalogue: Catalog, mill_factory: MillFactory, tmp_path: Path) -> None:
    mill = mill_factory()
    catalogue.create_table("ns.t", SCHEMA).append(batch([(1, 1, "a")]))
    place = f"'catalog.uri' '{uri(tmp_path)}'"
    for columns, options, number in (
        ("", f"table 'ns.no', {place}", "TM5100"),
        ("", f"table 'no.t', {place}", "TM5100"),
        ("", "table 'ns.t', 'catalog.uri' 'sqlite:////no/such/place.db'", "TM5102"),
        ("", "table 'ns.t', 'catalog.uri' 'mysql://h/d'", "TM4003"),
        ("", "table 'ns.t'", "TM4003"),
        ("", f"table 't', {place}", "TM4003"),
        ("", f"table 'ns.t', {place}, path 'x'", "TM4003"),
        ("", f"table 'ns.t', {place}, 'py-io-impl' 'x'", "TM4005"),
        ("(k INT)", f"table 'ns.t', {place}", "TM4042"),
        ("(no INT)", f"table 'ns.t', {place}", "TM5104"),
    ):
        error = refused(mill, f"CREATE TABLE t {columns} USING iceberg OPTIONS ({options})")
        assert error.number == number, error
    limited = mill_factory("limited", allowed_paths=str(tmp_path / "elsewhere"))
    assert refused(limited, f"CREATE TABLE t USING iceberg OPTIONS (table 'ns.t', {place})").number == "TM5045"


def test_the_catalogue_goes_away(catalogue: Catalog, mill_factory: MillFactory, tmp_path: Path) -> None:
    """An error at the end of a drain, and nothing is lost."""
    table = catalogue.create_table("ns.t", SCHEMA)
    table.append(batch([(1, 1, "a")]))
    mill = mill_factory()
    follow(mill, tmp_path)
    drain(mill)
    catalogue.rename_table("ns.t", "ns.other")
    with pytest.raises(TidemillError) as raised:
        drain(mill)
    assert raised.value.number == "TM5100"
    assert counted(mill.read("rows")) == Counter([(1, 1, "a")])
    catalogue.rename_table("ns.other", "ns.t")
    catalogue.load_table("ns.t").append(batch([(2, 2, "b")]))
    drain(mill)
    assert counted(mill.read("rows")) == Counter([(1, 1, "a"), (2, 2, "b")])
