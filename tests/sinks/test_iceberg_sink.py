"""Sinks into Iceberg tables: pyiceberg reads what a dictionary says, and each epoch is committed once."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import Transaction
from sinking import Counted, plain, weighted
from tests.mill_factory import MillFactory

from tidemill.errors import TidemillError
from waiting import wait_until


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


def delivered(counted: Counted) -> bool:
    """Whether all sinks have delivered the newest epoch."""
    return all(s["state"] == "running" and s["epoch"] == counted.mill.epoch for s in counted.sinks().values())


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
        wait_until(lambda: delivered(counted))  # two sinks commit to one SQLite database: one may have to try again
        if turn == 2:
            before = epochs(catalogue, "s.c")
            counted.kill()
            counted.open()
            counted.advance()
            wait_until(lambda: delivered(counted))
            assert epochs(catalogue, "s.c") == before
        assert weighted(catalogue.load_table("s.c").scan().to_arrow().to_pylist()) == counted.rows
        assert plain(catalogue.load_table("s.w").scan().to_arrow().to_pylist()) == counted.sums
    assert epochs(catalogue, "s.c") == sorted(set(epochs(catalogue, "s.c")))


def test_two_sinks_create_one_namespace(
    counted: Counted, catalogue: Catalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The catalogue's own check and its INSERT are two steps: here the other sink's namespace comes between them."""
    raised = []

    def late(self: SqlCatalog, namespace: Any, properties: Any = None) -> None:
        create(self, namespace)
        try:
            with monkeypatch.context() as blind:
                blind.setattr(SqlCatalog, "namespace_exists", lambda *_: False)
                create(self, namespace)
        except Exception as error:
            raised.append(error)
            raise

    create = SqlCatalog.create_namespace
    monkeypatch.setattr(SqlCatalog, "create_namespace", late)
    counted.write([("a", 1)])
    counted.advance()
    more = ", mode 'snapshot'"
    counted.mill.sql(f"CREATE SINK w FROM v INTO iceberg OPTIONS ({options(tmp_path, 's.w', more)})")
    counted.write([("b", 2)])
    counted.advance()
    assert "UNIQUE constraint failed" in str(raised[0]), raised
    assert plain(catalogue.load_table("s.w").scan().to_arrow().to_pylist()) == counted.rows


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


def test_the_process_ends_before_the_first_commit(
    counted: Counted, catalogue: Catalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The table that was made, without a snapshot, is the sink's."""
    counted.write([("a", 1)])
    counted.advance()

    def fails(*_: Any, **__: Any) -> None:
        raise OSError("it ends here")

    with monkeypatch.context() as patched:
        patched.setattr(Transaction, "append", fails)
        counted.mill.sql(f"CREATE SINK c FROM v INTO iceberg OPTIONS ({options(tmp_path, 's.c')})")
        wait_until(lambda: counted.sink("c")["error"].startswith("TM8223"))
    assert catalogue.load_table("s.c").current_snapshot() is None
    counted.kill()
    counted.open()
    counted.advance()
    assert weighted(catalogue.load_table("s.c").scan().to_arrow().to_pylist()) == counted.rows


@pytest.mark.parametrize("mode", ["changes", "snapshot"])
def test_a_view_with_other_columns(counted: Counted, catalogue: Catalog, tmp_path: Path, mode: str) -> None:
    """The table gets the columns of the view that replaces, and its rows."""
    counted.write([("a", 1), ("b", 2)])
    counted.advance()
    given = options(tmp_path, "s.c", f", mode '{mode}'")
    counted.mill.sql(f"CREATE SINK c FROM v INTO iceberg OPTIONS ({given})")
    counted.advance()
    counted.mill.sql("CREATE OR REPLACE MATERIALIZED VIEW v AS SELECT CAST(x AS STRING) AS x, x * 2 AS z FROM t")
    counted.write([("c", 3)])
    counted.advance()
    rows = catalogue.load_table("s.c").scan().to_arrow()
    assert rows.schema.names[:2] == ["x", "z"]
    assert sorted(zip(rows["x"].to_pylist(), rows["z"].to_pylist(), strict=True)) == [("1", 2), ("2", 4), ("3", 6)]


@pytest.mark.parametrize("change", ["rolled back", "made anew", "dropped", "other columns"])
def test_others_change_the_table(counted: Counted, catalogue: Catalog, tmp_path: Path, change: str) -> None:
    """Changes alone would not add up to the view: the sink says so, and adds nothing."""
    counted.write([("a", 1)])
    counted.advance()
    counted.mill.sql(f"CREATE SINK c FROM v INTO iceberg OPTIONS ({options(tmp_path, 's.c')})")
    counted.write([("b", 2)])
    counted.advance()
    table = catalogue.load_table("s.c")
    number = "TM8218"
    if change == "rolled back":
        table.manage_snapshots().rollback_to_snapshot(table.metadata.snapshots[0].snapshot_id).commit()
    elif change == "other columns":
        number = "TM8213"
        with table.update_schema() as update:
            update.delete_column("k")
    else:
        catalogue.drop_table("s.c")
        if change == "made anew":
            catalogue.create_table("s.c", table.schema())
    counted.write([("c", 3)])
    while counted.mill.advance() is not None:
        pass
    counted.mill.checkpoint()
    wait_until(lambda: counted.sink("c")["error"].startswith(number))
    if change != "dropped":
        held = catalogue.load_table("s.c").scan().to_arrow().to_pylist()
        assert "c" not in {row.get("k") for row in held}
        assert len(held) == {"rolled back": 1, "made anew": 0, "other columns": 2}[change]


def test_two_sinks_and_places(counted: Counted, tmp_path: Path, mill_factory: MillFactory) -> None:
    """One table belongs to one sink; a warehouse must be allowed."""
    counted.mill.sql(f"CREATE SINK a FROM v INTO iceberg OPTIONS ({options(tmp_path, 's.c')})")
    with pytest.raises(TidemillError, match="TM8205"):
        counted.mill.sql(f"CREATE SINK b FROM v INTO iceberg OPTIONS ({options(tmp_path, 's.c')})")
    mill = mill_factory("limited", allowed_paths=f"{tmp_path}/c.db,{counted.input}")
    mill.sql(f"CREATE TABLE t (k STRING, x INT) USING csv OPTIONS (path '{counted.input}')")
    mill.sql("CREATE MATERIALIZED VIEW v AS SELECT * FROM t")
    with pytest.raises(TidemillError, match="TM5045"):
        mill.sql(f"CREATE SINK b FROM v INTO iceberg OPTIONS ({options(tmp_path, 's.d')})")
