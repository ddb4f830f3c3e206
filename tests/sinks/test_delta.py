"""Sinks into Delta tables: deltalake reads what a dictionary says, and each epoch is committed once."""

from __future__ import annotations

import json
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
from sinking import Counted, plain, weighted

from tidemill.errors import TidemillError
from tidemill.runtime.catalog.sinks import Sink
from tidemill.sinks.keyed_rows import newest_rows
from tidemill.sinks.target import Changes
from waiting import wait_until


def transactions(path: Path) -> list[tuple[str, int]]:
    """Application and version of the transactions in the log of a table, oldest first."""
    lines = [line for p in sorted((path / "_delta_log").glob("*.json")) for line in p.read_text().splitlines()]
    found = [json.loads(line)["txn"] for line in lines if '"txn"' in line]
    return [(t["appId"], t["version"]) for t in found]


def check_epochs(path: Path) -> None:
    """One sink, and each epoch once."""
    done = transactions(path)
    assert len({app for app, _ in done}) == 1
    assert [epoch for _, epoch in done] == sorted({epoch for _, epoch in done})


def test_changes_and_snapshots(counted: Counted, seed: int, tmp_path: Path) -> None:
    """Sums of weights are the view after every epoch."""
    chance = random.Random(seed)
    counted.write([("a", 1)])
    counted.advance()
    counted.mill.sql(f"CREATE SINK d FROM v INTO delta OPTIONS (path '{tmp_path}/d')")
    counted.mill.sql(f"CREATE SINK s FROM n INTO delta OPTIONS (path '{tmp_path}/s', mode 'snapshot')")
    for _ in range(3):
        counted.change(chance)
        counted.advance()
        assert weighted(DeltaTable(tmp_path / "d").to_pyarrow_table().to_pylist()) == counted.rows
        assert plain(DeltaTable(tmp_path / "s").to_pyarrow_table().to_pylist()) == counted.sums
    check_epochs(tmp_path / "d")
    check_epochs(tmp_path / "s")


def test_killed_after_a_commit(counted: Counted, seed: int, tmp_path: Path) -> None:
    """What was committed and not noted in a manifest is not committed again; nor by another writer."""
    chance = random.Random(seed)
    counted.mill.sql(f"CREATE SINK d FROM v INTO delta OPTIONS (path '{tmp_path}/d')")
    for _ in range(3):
        counted.change(chance)
        stale = DeltaTable(tmp_path / "d") if DeltaTable.is_deltatable(str(tmp_path / "d")) else None
        counted.advance()
        counted.kill()
        counted.open()
        counted.mill.checkpoint()
        assert counted.mill.wait_for_sinks(30)
        assert weighted(DeltaTable(tmp_path / "d").to_pyarrow_table().to_pylist()) == counted.rows
    check_epochs(tmp_path / "d")
    assert stale is not None
    properties = CommitProperties(app_transactions=[Transaction(*transactions(tmp_path / "d")[-1])])
    with pytest.raises(Exception, match="Concurrent transaction"):
        write_deltalake(stale, stale.to_pyarrow_table(), mode="append", commit_properties=properties)


def test_a_table_of_somebody_else_and_a_failing_commit(
    counted: Counted, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file is in the place of the second directory."""
    counted.write([("a", 1)])
    counted.advance()
    write_deltalake(tmp_path / "d", counted.mill.read("v"))
    (tmp_path / "f").write_text("")
    with pytest.raises(TidemillError, match="TM8213"):
        counted.mill.sql(f"CREATE SINK d FROM v INTO delta OPTIONS (path '{tmp_path}/d')")
    monkeypatch.setattr(Sink, "check_free", lambda _: None)  # as if the table had been made after the look
    counted.mill.sql(f"CREATE SINK d FROM v INTO delta OPTIONS (path '{tmp_path}/d')")
    counted.mill.sql(f"CREATE SINK f FROM v INTO delta OPTIONS (path '{tmp_path}/f', maxBackoff '50 ms')")
    wait_until(lambda: counted.sink("d")["state"] == "failed" and counted.sink("f")["state"] == "retrying")
    assert counted.sink("d")["error"].startswith("TM8213")
    assert DeltaTable(tmp_path / "d").version() == 0
    assert counted.sink("f")["error"].startswith("TM8214")
    (tmp_path / "f").unlink()
    wait_until(lambda: counted.sink("f")["state"] == "running" and counted.sink("f")["lag"] == 0)
    assert weighted(DeltaTable(tmp_path / "f").to_pyarrow_table().to_pylist()) == counted.rows


@pytest.mark.parametrize("other", [{"k": [1], "x": [1]}, {"k": ["a"]}], ids=["type", "number"])
def test_another_program_gave_the_table_other_columns(counted: Counted, tmp_path: Path, other: dict[str, Any]) -> None:
    """The sink fails until it is altered, and is not tried again and again; with its columns it goes on."""
    place = tmp_path / "d"
    counted.mill.sql(f"CREATE SINK d FROM v INTO delta OPTIONS (path '{place}', maxBackoff '50 ms')")
    counted.write([("a", 1)])
    counted.advance()
    before = DeltaTable(place).to_pyarrow_table()
    columns = {**other, "__weight": [1], "__epoch": [0]}
    write_deltalake(place, pa.table(columns), mode="overwrite", schema_mode="overwrite")
    counted.write([("b", 2)])
    counted.mill.advance()
    counted.mill.checkpoint()
    wait_until(lambda: counted.sink("d")["state"] == "failed")
    assert counted.sink("d")["error"].startswith("TM8213")
    assert "other columns" in counted.sink("d")["error"]
    write_deltalake(place, before, mode="overwrite", schema_mode="overwrite")
    counted.mill.sql("ALTER SINK d RESUME")
    wait_until(lambda: counted.sink("d")["lag"] == 0)
    assert weighted(DeltaTable(place).to_pyarrow_table().to_pylist()) == counted.rows


def test_columns_that_delta_does_not_have(counted: Counted, tmp_path: Path) -> None:
    counted.mill.sql("CREATE MATERIALIZED VIEW i AS SELECT k, make_dt_interval(x) AS d FROM t")
    with pytest.raises(TidemillError) as caught:
        counted.mill.sql(f"CREATE SINK d FROM i INTO delta OPTIONS (path '{tmp_path}/d')")
    assert (caught.value.number, caught.value.got) == ("TM8209", "d interval day to second")


@pytest.mark.parametrize("name", ["a%20b", "a\\b", "a\tb"])
def test_paths_that_the_library_changes(counted: Counted, tmp_path: Path, name: str) -> None:
    """They are refused, else the table would be in another directory."""
    with pytest.raises(TidemillError) as caught:
        counted.mill.sql(f"CREATE SINK d FROM v INTO delta OPTIONS (path r'{tmp_path}/{name}')")
    assert caught.value.number == "TM8207"
    counted.mill.sql(f"CREATE SINK d FROM v INTO delta OPTIONS (path '{tmp_path}/a b é%')")
    counted.write([("a", 1)])
    counted.advance()
    assert DeltaTable(str(tmp_path / "a b é%")).to_pyarrow_table().num_rows == 1


def test_a_table_kept_equal_to_a_view(counted: Counted, seed: int, tmp_path: Path) -> None:
    """By key: rows come, change and go, and the mill is killed after commits."""
    chance = random.Random(seed)
    counted.write([("a", 1), ("b", 2)])
    counted.advance()
    given = f"path '{tmp_path}/m', mode 'merge', keyColumns 'k'"
    counted.mill.sql(f"CREATE SINK m FROM n INTO delta OPTIONS ({given})")
    for turn in range(6):
        counted.change(chance)
        if turn == 3:
            counted.write([], list(counted.rows.elements()))
        counted.advance()
        if turn in (1, 4):
            counted.kill()
            counted.open()
            counted.mill.checkpoint()
            assert counted.mill.wait_for_sinks(30)
        assert plain(DeltaTable(tmp_path / "m").to_pyarrow_table().to_pylist()) == counted.sums
    check_epochs(tmp_path / "m")
    assert Counter(c["operation"] for c in DeltaTable(tmp_path / "m").history())["MERGE"] >= 3


def test_small_files_are_put_together(counted: Counted, seed: int, tmp_path: Path) -> None:
    """After every third commit; the rows are the same, and each epoch is there once."""
    chance = random.Random(seed)
    counted.mill.sql(f"CREATE SINK d FROM v INTO delta OPTIONS (path '{tmp_path}/d', compactEvery '3')")
    for _ in range(7):
        counted.change(chance)
        counted.advance()
        assert weighted(DeltaTable(tmp_path / "d").to_pyarrow_table().to_pylist()) == counted.rows
    table = DeltaTable(tmp_path / "d")
    assert Counter(c["operation"] for c in table.history())["OPTIMIZE"] == 2
    assert len(table.file_uris()) <= 3
    check_epochs(tmp_path / "d")


def test_newest_rows_of_keys(seed: int) -> None:
    """Against a dictionary, over several epochs at a time, with NULL among the keys."""
    chance = random.Random(seed)
    for _ in range(50):
        state: dict[Any, int] = {key: 0 for key in ("a", None) if chance.random() < 0.5}
        first, changes = dict(state), []
        for epoch in range(1, chance.randrange(2, 5)):
            rows = []
            for key in ("a", "b", None):
                before, after = state.get(key), chance.choice([None, chance.randrange(3)])
                if before != after:
                    rows += [] if before is None else [(key, before, -1)]
                    rows += [] if after is None else [(key, after, 1)]
                    state.pop(key, None)
                    state |= {} if after is None else {key: after}
            chance.shuffle(rows)
            if rows:
                columns = list(zip(*rows, strict=True))
                names, types = ("k", "v", "__weight"), (pa.string(), pa.int64(), pa.int64())
                arrays = [pa.array(c, t) for c, t in zip(columns, types, strict=True)]
                changes.append(Changes(epoch, pa.table(arrays, names=names)))
        if changes:
            for row in newest_rows(changes, ["k"]).to_pylist():
                first.pop(row["k"], None)
                first |= {} if row["__deleted"] else {row["k"]: row["v"]}
            assert first == state
    twice = pa.table({"k": ["a", "a"], "v": [1, 2], "__weight": [1, 1]})
    for table in (twice, twice.slice(0, 1).set_column(2, "__weight", [[2]])):
        with pytest.raises(TidemillError, match="TM8221"):
            newest_rows([Changes(1, table)], ["k"])


def test_keys_of_a_merge(counted: Counted, tmp_path: Path) -> None:
    for view, more, number in (
        ("n", "mode 'merge'", "TM4003"),
        ("n", "keyColumns 'k'", "TM4003"),
        ("n", "mode 'merge', keyColumns 'no'", "TM4003"),
        ("n", "mode 'merge', keyColumns 'k', initialSnapshot 'false'", "TM4003"),
    ):
        with pytest.raises(TidemillError, match=number):
            counted.mill.sql(f"CREATE SINK m FROM {view} INTO delta OPTIONS (path '{tmp_path}/m', {more})")
    with pytest.raises(TidemillError, match="TM4003"):
        counted.mill.sql(f"CREATE SINK m FROM n INTO parquet OPTIONS (path '{tmp_path}/m', mode 'merge')")
    counted.write([("a", 1)])
    counted.advance()
    counted.mill.sql(f"CREATE SINK m FROM v INTO delta OPTIONS (path '{tmp_path}/m', mode 'merge', keyColumns 'k')")
    counted.advance()
    counted.write([("a", 2), ("a", 3)])
    while counted.mill.advance() is not None:
        pass
    counted.mill.checkpoint()
    wait_until(lambda: counted.sink("m")["error"].startswith("TM8221"))
