"""Sinks into Iceberg tables: pyiceberg reads what a dictionary says, and each epoch is committed once."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from pyiceberg.catalog import Catalog, load_catalog
from sinking import Counted, plain, wait_until, weighted

from tidemill.errors import TidemillError


@pytest.fixture
def catalogue(tmp_path: Path) -> Catalog:
    return load_catalog("default", type="sql", uri=f"sqlite:///{tmp_path}/c.db", warehouse=f"file://{tmp_path}/lake")


def options(place: Path, table: str, more: str = "") -> str:
    uri, lake = f"sqlite:///{place}/c.db", f"file://{place}/lake"
    return f"table '{table}', 'catalog.uri' '{uri}', 'catalog.warehouse' '{lake}'{more}"


def epochs(catalogue: Catalog, table: str) -> list[int]:
    """The epochs of all snapshots of a table that have rows added, in order."""
    snapshots = catalogue.load_table(table).metadata.snapshots
    found = [s.summary.additional_properties["tidemill.epoch"] for s in snapshots if s.summary is not None]
    return [int(epoch) for epoch in found]


def test_changes_and_snapshots(counted: Counted, catalogue: Catalog, seed: int, tmp_path: Path) -> None:
    """Sums of weights are the view after every epoch; also when the mill was killed after a commit."""
    chance = random.Random(seed)
    counted.write([("a", 1)])
    counted.advance()
    counted.mill.sql(f"CREATE SINK c FROM v INTO iceberg OPTIONS ({options(tmp_path, 's.c')})")
    more = ", mode 'snapshot'"
    counted.mill.sql(f"CREATE SINK w FROM n INTO iceberg OPTIONS ({options(tmp_path, 's.w', more)})")
    for turn in range(4):
        counted.change(chance)
        counted.advance()
        if turn == 2:
            before = epochs(catalogue, "s.c")
            counted.kill()
            counted.open()
            counted.advance()
            assert epochs(catalogue, "s.c") == before
        assert weighted(catalogue.load_table("s.c").scan().to_arrow().to_pylist()) == counted.rows
        assert plain(catalogue.load_table("s.w").scan().to_arrow().to_pylist()) == counted.sums
    assert epochs(catalogue, "s.c") == sorted(set(epochs(catalogue, "s.c")))


def test_what_is_refused(counted: Counted, catalogue: Catalog, tmp_path: Path) -> None:
    for given, number in (
        (options(tmp_path, "nothing"), "TM8207"),
        (options(tmp_path, "s.t", ", mode 'merge'"), "TM4003"),
        ("table 's.t'", "TM4003"),
        (options(tmp_path, "s.t", ", keyColumns 'k'"), "TM8201"),
    ):
        with pytest.raises(TidemillError) as raised:
            counted.mill.sql(f"CREATE SINK x FROM v INTO iceberg OPTIONS ({given})")
        assert raised.value.number == number, raised.value
    catalogue.create_namespace("s")
    catalogue.create_table("s.t", counted.mill.read("v").schema)
    counted.mill.sql(f"CREATE SINK x FROM v INTO iceberg OPTIONS ({options(tmp_path, 's.t')})")
    counted.write([("a", 1)])
    while counted.mill.advance() is not None:
        pass
    counted.mill.checkpoint()
    wait_until(lambda: "TM8213" in str(counted.mill.sql("SHOW SINKS").collect()))
    assert catalogue.load_table("s.t").scan().to_arrow().num_rows == 0
