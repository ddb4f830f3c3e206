"""The setting ``allowed_paths``: statements, roots that are opened again, and links among files."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from local_jobs import LocalJobs
from tidemill.errors import TidemillError
from tidemill.mill import Mill
from tidemill.runtime.files import file_progress

Opener = Callable[..., Mill]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    for name in ("in", "out"):
        (tmp_path / name).mkdir()
    (tmp_path / "in" / "a.csv").write_text("1\n")
    (tmp_path / "out" / "b.csv").write_text("2\n")
    (tmp_path / "in" / "b.csv").symlink_to(tmp_path / "out" / "b.csv")
    return tmp_path


@pytest.mark.parametrize("static", ["", "STATIC "])
def test_links_that_lead_out_are_not_followed(mill_factory: Opener, data: Path, static: str) -> None:
    mill = mill_factory(allowed_paths=str(data / "in"))
    mill._coordinator._jobs = LocalJobs()
    mill.sql(f"CREATE {static}TABLE t (k INT) USING csv OPTIONS (path '{data}/in')")
    mill.sql("CREATE MATERIALIZED VIEW v AS SELECT k FROM t")
    said = [*(w for r in mill.drain() for w in r.warnings), *mill.warnings()]
    assert mill.read("v").column("k").to_pylist() == [1]
    if not static:
        assert [w[:6] for w in said] == ["TM5045"] and f"{data}/out/b.csv" in said[0]
    list(mill.drain())
    assert not mill.warnings(), "told once"


def test_statements_and_roots(mill_factory: Opener, data: Path) -> None:
    mill = mill_factory(allowed_paths=str(data / "in"))
    archive = f"cleanSource 'archive', sourceArchiveDir '{data}/o'"
    outside = (
        f"CREATE TABLE t (k INT) USING csv OPTIONS (path '{data}/out')",
        f"CREATE TABLE t USING csv OPTIONS (path '{data}/o*/*.csv')",
        f"CREATE TABLE t (k INT) USING csv OPTIONS (path '{data}/in', {archive})",
    )
    for statement in outside:
        with pytest.raises(TidemillError, match="TM5045"):
            mill.sql(statement)
    mill.sql(f"CREATE TABLE t (k INT) USING csv OPTIONS (path '{data}/in')")
    with pytest.raises(TidemillError, match="TM5045"):
        mill.sql(f"ALTER TABLE t SET OPTIONS ({archive})")
    mill.close()
    with pytest.raises(TidemillError, match="TM5045"):
        mill_factory(allowed_paths=str(data / "out"))
    again = mill_factory(allowed_paths=f"{data}/out,{data}/in")
    assert list(again._coordinator.catalog.tables) == ["t"]


def test_columns_are_not_inferred_through_links(mill_factory: Opener, data: Path) -> None:
    mill = mill_factory(allowed_paths=str(data / "in"))
    with pytest.raises(TidemillError, match="TM5045") as caught:
        mill.sql(f"CREATE TABLE t USING csv OPTIONS (path '{data}/in', header true)")
    assert str(data / "out" / "b.csv") in caught.value.got
    (data / "in" / "b.csv").unlink()
    mill.sql(f"CREATE TABLE t USING csv OPTIONS (path '{data}/in', header true)")


def test_a_script_that_runs_again(mill_factory: Opener, data: Path) -> None:
    script = f"CREATE TABLE t (k INT) USING csv OPTIONS (path '{data}/in'%s)"
    mill = mill_factory(allowed_paths=str(data / "in"))
    mill.script(script % "")
    with pytest.raises(TidemillError, match="TM5045"):
        mill.script(script % f", cleanSource 'archive', sourceArchiveDir '{data}/out/old'")
    mill.close()
    mill_factory(allowed_paths=str(data / "in"))


def test_files_that_were_listed_under_other_settings(
    mill_factory: Opener, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor is history read of files that may not be read any more."""
    monkeypatch.setattr(file_progress, "FIRST_RETRY", 0)
    mill = mill_factory(epoch_bytes=2)
    mill._coordinator._jobs = LocalJobs()
    mill.sql(f"CREATE TABLE t (k INT) USING csv OPTIONS (path '{data}/in')")
    mill.sql("CREATE MATERIALIZED VIEW v AS SELECT k FROM t")
    assert mill.advance() is not None
    mill.close()
    mill = mill_factory(allowed_paths=str(data / "in"))
    mill._coordinator._jobs = LocalJobs()
    list(mill.drain())
    assert mill.read("v").column("k").to_pylist() == [1]
    errors = {Path(r["path"]).name: r["error"] for r in mill.read("t__files").to_pylist()}
    assert errors["a.csv"] is None and errors["b.csv"].startswith("TM5045")


def test_what_comes_by_itself_is_within(mill_factory: Opener, data: Path, tmp_path: Path) -> None:
    """Spools and batches lie below the root, wherever that is, and are no table's files."""
    mill = mill_factory(allowed_paths=f"{data}/in,unix+listen://")
    place = tmp_path / "s"
    mill.sql(f"CREATE TABLE s (k INT) USING csv OPTIONS (path 'unix+listen://{place}')")
    mill.sql("CREATE TABLE i (k INT) USING arrow OPTIONS (path 'ingest://')")
    mill.sql("CREATE MATERIALIZED VIEW v AS SELECT k FROM s UNION ALL SELECT k FROM i")
    assert mill.advance() is None
    with socket.socket(socket.AF_UNIX) as peer:
        peer.connect(str(place))
        peer.sendall(b"1\n2\n")
    mill.ingest("i", query="q")(mill.spark.createDataFrame([(3,)], "k INT"), 1)
    end = time.monotonic() + 120
    while sorted(mill.read("v").column("k").to_pylist()) != [1, 2, 3]:
        assert time.monotonic() < end
        mill.advance()
        time.sleep(0.02)
    mill.sql("CREATE MATERIALIZED VIEW later AS SELECT k FROM s UNION ALL SELECT k FROM i")
    list(mill.drain())
    assert sorted(mill.read("later").column("k").to_pylist()) == [1, 2, 3]
