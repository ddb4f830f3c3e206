"""Static tables: read before all others, listed once, and what is said of files that come too late."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from local_jobs import LocalJobs
from tidemill.errors import TidemillError
from tidemill.mill import Mill
from tidemill.runtime.epoch.report import EpochReport
from tidemill.state.versions.manifest import ManifestLog

Opener = Callable[..., Mill]
JOIN = "SELECT t.k, s.name FROM t LEFT JOIN s ON t.k = s.k"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    for name in ("t", "s"):
        (tmp_path / name).mkdir()
    return tmp_path


def put(data: Path, name: str, *lines: str) -> None:
    (data / name).write_text("".join(f"{line}\n" for line in lines))


def create(mill: Mill, data: Path, view: str = JOIN) -> Mill:
    mill._coordinator._jobs = LocalJobs()
    mill.script(
        f"CREATE TABLE t (k INT) USING csv OPTIONS (path '{data / 't'}');"
        f"CREATE STATIC TABLE s (k INT, name STRING) USING csv OPTIONS (path '{data / 's'}');"
        f"CREATE MATERIALIZED VIEW v AS {view}"
    )
    return mill


def read(report: EpochReport | None) -> list[str]:
    assert report is not None
    return sorted(f"{table}/{Path(path).name}" for table, path, _, _ in report.read)


def rows(mill: Mill, view: str = "v") -> list[tuple[object, ...]]:
    return sorted(mill.read(view).to_pylist() and [tuple(r.values()) for r in mill.read(view).to_pylist()], key=str)


def test_static_tables_come_first(mill_factory: Opener, data: Path) -> None:
    put(data, "t/1.csv", "1", "2", "1")
    put(data, "s/1.csv", "1,a", "1,b")
    put(data, "s/2.csv", "3,c")
    mill = create(mill_factory(epoch_bytes=4), data)
    reports = [read(r) for r in mill.drain()]
    assert reports == [["s/1.csv"], ["s/1.csv"], ["s/2.csv"], ["t/1.csv"], ["t/1.csv"]]
    assert rows(mill) == [(1, "a"), (1, "a"), (1, "b"), (1, "b"), (2, None)]


def test_nothing_is_listed_before_the_first_use(mill_factory: Opener, data: Path) -> None:
    mill = create(mill_factory(), data, "SELECT k FROM t")
    assert mill.advance() is None
    put(data, "s/1.csv", "1,a")
    mill.sql(f"CREATE MATERIALIZED VIEW w AS {JOIN}")
    put(data, "t/1.csv", "1")
    assert [read(r) for r in mill.drain()] == [["s/1.csv"], ["t/1.csv"]]
    assert rows(mill, "w") == [(1, "a")]


def test_a_first_use_without_files(mill_factory: Opener, data: Path) -> None:
    (data / "s/empty.csv").touch()
    with pytest.raises(TidemillError, match="TM5008") as caught:
        create(mill_factory(), data)
    assert str(data / "s") in caught.value.got
    mill = create(mill_factory(name="other"), data, "SELECT k FROM t")
    with pytest.raises(TidemillError, match="TM5008"):
        mill.sql(f"CREATE MATERIALIZED VIEW w AS {JOIN}")
    assert [name for name, *_ in mill.status()] == ["v"]
    put(data, "s/1.csv", "1,a")
    mill.sql(f"CREATE MATERIALIZED VIEW w AS {JOIN}")


def test_a_first_use_that_failed(mill_factory: Opener, data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its files are listed when it is used indeed."""
    mill = create(mill_factory(), data, "SELECT k FROM t")
    put(data, "s/1.csv", "1,a")
    publish = ManifestLog.publish

    def full(*_: Any) -> Any:
        raise TidemillError("TM1012", "a state file could not be written", got="No space left on device")

    monkeypatch.setattr(ManifestLog, "publish", full)
    with pytest.raises(TidemillError, match="TM1012"):
        mill.sql(f"CREATE MATERIALIZED VIEW w AS {JOIN}")
    monkeypatch.setattr(ManifestLog, "publish", publish)
    put(data, "s/2.csv", "2,b")
    put(data, "t/1.csv", "1", "2")
    mill.sql(f"CREATE MATERIALIZED VIEW w AS {JOIN}")
    assert [read(r) for r in mill.drain()] == [["s/1.csv", "s/2.csv"], ["t/1.csv"]]
    assert rows(mill, "w") == [(1, "a"), (2, "b")]


def test_files_that_appear_later_are_noted_once(mill_factory: Opener, data: Path) -> None:
    put(data, "t/1.csv", "1", "2")
    put(data, "s/1.csv", "1,a")
    mill = create(mill_factory(), data)
    assert read(mill.advance()) == ["s/1.csv"]
    put(data, "s/2.csv", "2,b")
    noted = mill.advance()
    assert read(noted) == ["t/1.csv"] and noted is not None
    assert [w.splitlines()[0].split(":")[0] for w in noted.warnings] == ["TM5007"]
    assert str(data / "s/2.csv") in noted.warnings[0]
    assert rows(mill) == [(1, "a"), (2, None)]
    assert mill.read("s__errors").column("file").to_pylist() == [str(data / "s/2.csv")]
    assert mill.advance() is None
    mill.close()
    mill = create(mill_factory(), data)
    assert mill.advance() is None
    put(data, "s/3.csv", "2,b")
    alone = mill.advance()
    assert alone is not None and not alone.read and len(alone.warnings) == 1
    assert mill.advance() is None
    assert mill.read("s__errors").num_rows == 2


def test_the_listing_outlives_a_restart(mill_factory: Opener, data: Path) -> None:
    put(data, "t/1.csv", "1", "2", "3")
    put(data, "s/1.csv", "1,a")
    put(data, "s/2.csv", "2,b")
    mill = create(mill_factory(epoch_bytes=4), data)
    assert read(mill.advance()) == ["s/1.csv"]
    mill.close()
    put(data, "s/3.csv", "3,c")
    mill = create(mill_factory(epoch_bytes=100), data)
    reports = list(mill.drain())
    assert [read(r) for r in reports] == [["s/2.csv"], ["t/1.csv"]]
    assert [len(r.warnings) for r in reports] == [1, 0]
    assert rows(mill) == [(1, "a"), (2, "b"), (3, None)]


def test_a_listed_file_that_goes_away_or_changes(mill_factory: Opener, data: Path) -> None:
    put(data, "t/1.csv", "1")
    put(data, "s/1.csv", "1,a")
    mill = create(mill_factory(), data)
    (data / "s/1.csv").rename(data / "away")
    with pytest.raises(TidemillError, match="TM5001"):
        mill.advance()
    put(data, "s/1.csv", "1,abc")
    with pytest.raises(TidemillError, match="TM5003"):
        mill.advance()
    (data / "away").rename(data / "s/1.csv")
    assert [read(r) for r in mill.drain()] == [["s/1.csv"], ["t/1.csv"]]


def test_other_views_wait_while_history_of_a_static_table_is_read_again(mill_factory: Opener, data: Path) -> None:
    put(data, "t/1.csv", "1", "2")
    put(data, "s/1.csv", "1,a", "2,b")
    mill = create(mill_factory(epoch_bytes=4), data)
    list(mill.drain())
    put(data, "t/2.csv", "2")
    mill.sql("CREATE MATERIALIZED VIEW w AS SELECT s.name, count(*) AS n FROM t JOIN s ON t.k = s.k GROUP BY s.name")
    waiting = [r.rows_in for r in (mill.advance(), mill.advance()) if r is not None]
    assert waiting == [0, 0] and len(rows(mill)) == 2
    list(mill.drain())
    assert rows(mill) == [(1, "a"), (2, "b"), (2, "b")]
    assert rows(mill, "w") == [("a", 1), ("b", 2)]


def test_dropped_and_created_again(mill_factory: Opener, data: Path) -> None:
    put(data, "t/1.csv", "1")
    put(data, "s/1.csv", "1,a")
    mill = create(mill_factory(), data)
    list(mill.drain())
    mill.sql("DROP VIEW v")
    put(data, "s/2.csv", "1,b")
    mill.sql(f"CREATE MATERIALIZED VIEW v AS {JOIN}")
    list(mill.drain())
    assert rows(mill) == [(1, "a")]
    mill.script("DROP VIEW v; DROP TABLE s")
    create(mill, data)
    list(mill.drain())
    assert rows(mill) == [(1, "a"), (1, "b")]


@pytest.mark.parametrize(
    ("columns", "options", "number"),
    [
        ("k INT", "static 'maybe'", "TM4003"),
        ("k INT, PRIMARY KEY (k)", "static 'true'", "TM2035"),
        ("k INT, at TIMESTAMP", "static 'true', watermark 'at'", "TM2035"),
    ],
)
def test_what_a_static_table_cannot_be(
    mill_factory: Opener, data: Path, columns: str, options: str, number: str
) -> None:
    with pytest.raises(TidemillError, match=number):
        mill_factory().sql(f"CREATE TABLE s ({columns}) USING csv OPTIONS (path '{data / 's'}', {options})")


def test_the_word_static_is_the_option(mill_factory: Opener, data: Path) -> None:
    mill = create(mill_factory(), data, "SELECT k FROM t")
    options = f"path '{data / 's'}'"
    mill.script(f"CREATE TABLE s (k INT, name STRING) USING csv OPTIONS ({options}, static true)")
    mill.sql(f"create  static\ntable if not exists z (k INT) USING csv OPTIONS ({options}, Static 'true')")
    assert mill._coordinator.catalog.tables["z"].static
    mill.sql(f"CREATE TABLE y (k INT) USING csv OPTIONS ({options}, static 'false')")
    assert not mill._coordinator.catalog.tables["y"].static
