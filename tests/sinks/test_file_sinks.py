"""Sinks into directories: DuckDB and pyarrow read back what a dictionary says."""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pyarrow.parquet as pq
import pytest
from sinking import Counted, plain, weighted

from full_disk import Disk
from tidemill.cli.run.running import create_from
from tidemill.errors import TidemillError
from tidemill.runtime.catalog.sinks import Sink
from waiting import wait_until


def parquet_rows(directory: Path) -> list[dict[str, Any]]:
    """All rows of the Parquet files of a directory, read by DuckDB."""
    found = duckdb.sql(f"SELECT * FROM read_parquet('{directory}/*.parquet') ORDER BY __epoch")
    return [dict(zip(found.columns, row, strict=True)) for row in found.fetchall()]


def json_rows(directory: Path) -> Iterator[dict[str, Any]]:
    """All rows of the JSON lines of a directory."""
    for path in sorted(directory.glob("*.jsonl*")):
        text = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
        yield from map(json.loads, text.splitlines())


def test_changes(counted: Counted, seed: int, tmp_path: Path) -> None:
    chance = random.Random(seed)
    counted.write([("a", 1), ("a", 1), ("b", 2)])
    counted.advance()
    counted.mill.sql(f"CREATE SINK p FROM v INTO parquet OPTIONS (path '{tmp_path}/p')")
    counted.mill.sql(f"CREATE SINK j FROM n INTO json OPTIONS (path '{tmp_path}/j', compression 'gzip')")
    counted.mill.sql(f"CREATE SINK late FROM n INTO json OPTIONS (path '{tmp_path}/late', initialSnapshot 'false')")
    begun = counted.sums
    for _ in range(4):
        counted.change(chance)
        epoch = counted.advance()
        assert weighted(parquet_rows(tmp_path / "p")) == counted.rows
        assert weighted(json_rows(tmp_path / "j")) == counted.sums
        late = [*({"__weight": 1, "k": k, "c": c, "s": s} for k, c, s in begun), *json_rows(tmp_path / "late")]
        assert weighted(late) == counted.sums
    shown = counted.sink("p")
    assert (shown["state"], shown["epoch"], shown["lag"], shown["error"]) == ("running", epoch, 0, "")
    assert (shown["guarantee"], shown["location"], shown["view"]) == ("exactly once", f"{tmp_path}/p", "v")
    names = sorted(path.name for path in (tmp_path / "p").iterdir())
    assert names[0] == f"{1:020d}-snapshot.parquet"
    assert names[-1] == "_tidemill_sink.json"
    epochs = {row["__epoch"] for row in parquet_rows(tmp_path / "p")}
    assert {int(name[:20]) for name in names[:-1]} == epochs


@pytest.mark.parametrize("target", ["parquet", "json"])
def test_snapshots(counted: Counted, seed: int, tmp_path: Path, target: str) -> None:
    """The directory has one file, which is the view; it is not written while nothing changes."""
    chance = random.Random(seed)
    counted.mill.sql(f"CREATE SINK s FROM n INTO {target} OPTIONS (path '{tmp_path}/s', mode 'snapshot')")
    file = tmp_path / "s" / f"snapshot.{'jsonl' if target == 'json' else target}"
    for _ in range(3):
        counted.change(chance)
        counted.advance()
        rows = json_rows(file.parent) if target == "json" else pq.read_table(file).to_pylist()
        assert plain(rows) == counted.sums
        assert len(list(file.parent.glob("[!_]*"))) == 1
    written = file.stat().st_mtime_ns
    counted.write([("zero", 0)], [("zero", 0)])
    assert counted.advance() == counted.sink("s")["epoch"]
    assert file.stat().st_mtime_ns == written


def test_killed_at_each_step(counted: Counted, seed: int, tmp_path: Path) -> None:
    """A process that ends in a file, before its name, after its name: afterwards every change is there once."""
    chance = random.Random(seed)
    counted.mill.sql(f"CREATE SINK p FROM v INTO parquet OPTIONS (path '{tmp_path}/p')")
    counted.mill.sql(f"CREATE SINK c FROM n INTO json OPTIONS (path '{tmp_path}/c', minInterval '1 ms')")
    for step in ("begun", "staged", "renamed", "noted"):
        counted.change(chance)
        while counted.mill.advance() is not None:
            pass
        before = {path: path.read_bytes() for path in tmp_path.glob("[pc]/0*")}
        counted.mill.checkpoint()
        assert counted.mill.wait_for_sinks(30)
        if step == "noted":
            counted.mill.checkpoint()
        counted.kill()
        new = [path for path in tmp_path.glob("[pc]/0*") if path not in before]
        if step in ("begun", "staged"):
            for path in new:
                staged = path.with_name(f".{path.name}.tmp")
                staged.write_bytes(path.read_bytes()[: 10 if step == "begun" else None])
                path.unlink()
        counted.open()
        counted.mill.checkpoint()
        assert counted.mill.wait_for_sinks(30)
        assert weighted(parquet_rows(tmp_path / "p")) == counted.rows, step
        assert weighted(json_rows(tmp_path / "c")) == counted.sums, step
        assert not list(tmp_path.glob("[pc]/.*.tmp"))
        assert {path: path.read_bytes() for path in before} == before, "what was written is written once"


def test_a_full_disk(counted: Counted, tmp_path: Path) -> None:
    disk = Disk(tmp_path / "disk")
    try:
        counted.mill.sql(f"CREATE SINK p FROM v INTO parquet OPTIONS (path '{disk.path}/p', maxBackoff '50 ms')")
        counted.write([("a", 1)])
        counted.advance()
        with disk.full():
            counted.write([("b", 2), ("c", 3)])
            counted.advance()
            wait_until(lambda: counted.sink("p")["state"] == "retrying")
            error = counted.sink("p")["error"]
            counted.write([("d", 4)])
            counted.advance()
            assert counted.mill.read("v").num_rows == 4, "epochs go on"
        assert error.startswith("TM8210")
        assert "free space" in error
        wait_until(lambda: counted.sink("p")["lag"] == 0)
        assert counted.sink("p")["error"] == ""
        assert weighted(parquet_rows(disk.path / "p")) == counted.rows
    finally:
        disk.close()


@pytest.mark.parametrize(
    ("there", "text"), [("a.parquet", ""), ("_tidemill_sink.json", '{"sink": "another"}'), ("_tidemill_sink.json", "[")]
)
def test_a_directory_of_somebody_else(
    counted: Counted, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, there: str, text: str
) -> None:
    """It is seen when the sink is created, or else by the delivery; and another path that is no directory."""
    (tmp_path / "p").mkdir()
    (tmp_path / "p" / there).write_text(text)
    (tmp_path / "f").write_text("a file")
    counted.write([("a", 1)])
    counted.advance()
    for target in ("parquet", "json"):
        with pytest.raises(TidemillError, match="TM8213"):
            counted.mill.sql(f"CREATE SINK p FROM v INTO {target} OPTIONS (path '{tmp_path}/p')")
        script = tmp_path / "script.sql"
        script.write_text(f"CREATE SINK p FROM v INTO {target} OPTIONS (path '{tmp_path}/p')")
        with pytest.raises(TidemillError, match="TM8213"):
            create_from(counted.mill, script)
    assert not counted.sinks()
    monkeypatch.setattr(Sink, "check_free", lambda _: None)  # as if the file had come after the look
    counted.mill.sql(f"CREATE SINK p FROM v INTO parquet OPTIONS (path '{tmp_path}/p')")
    counted.mill.sql(f"CREATE SINK f FROM v INTO parquet OPTIONS (path '{tmp_path}/f', maxBackoff '50 ms')")
    wait_until(lambda: counted.sink("p")["state"] == "failed" and counted.sink("f")["state"] == "retrying")
    assert counted.sink("p")["error"].startswith("TM8213")
    assert counted.sink("f")["error"].startswith("TM8210")
    assert counted.sink("f")["epoch"] is None
    assert [path.name for path in (tmp_path / "p").iterdir()] == [there]
    (tmp_path / "p" / there).unlink()
    (tmp_path / "f").unlink()
    counted.mill.sql("ALTER SINK p RESUME")
    wait_until(lambda: all(s["state"] == "running" and s["lag"] == 0 for s in counted.sinks().values()))
    assert weighted(parquet_rows(tmp_path / "p")) == counted.rows == weighted(parquet_rows(tmp_path / "f"))
