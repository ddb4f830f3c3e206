"""Small tables: what makes one, what is kept of that, whose turn it is, and what is said when one grows."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from local_jobs import LocalJobs
from tidemill.errors import TidemillError
from tidemill.mill import Mill
from tidemill.runtime.epoch.report import EpochReport

Opener = Callable[..., Mill]
JOIN = "SELECT t.k, u.name FROM t JOIN u ON t.k = u.k"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    for name in ("t", "u"):
        (tmp_path / name).mkdir()
    return tmp_path


def put(data: Path, name: str, *lines: str) -> None:
    (data / name).write_text("".join(f"{line}\n" for line in lines))


def opened(mill: Mill) -> Mill:
    mill._coordinator._jobs = LocalJobs()
    return mill


def create(mill: Mill, data: Path, options: str = "", view: str = JOIN) -> Mill:
    opened(mill).script(
        f"CREATE TABLE t (k INT) USING csv OPTIONS (path '{data / 't'}');"
        f"CREATE TABLE u (k INT, name STRING) USING csv OPTIONS (path '{data / 'u'}'{options});"
        f"CREATE MATERIALIZED VIEW v AS {view}"
    )
    return mill


def smalls(mill: Mill) -> set[str]:
    return set(mill._coordinator._programs().small)


def read(report: EpochReport | None) -> list[str]:
    assert report is not None
    return sorted(f"{table}/{Path(path).name}" for table, path, _, _ in report.read)


def rows(mill: Mill, view: str = "v") -> list[tuple[object, ...]]:
    return sorted(tuple(r.values()) for r in mill.read(view).to_pylist())


MANY = tuple(f"{i:04}" for i in range(40))
"""200 bytes."""


def test_a_tenth_of_the_other_side_is_small(mill_factory: Opener, data: Path) -> None:
    put(data, "t/1.csv", *MANY)
    put(data, "u/1.csv", "1,abcdefg", "2,abcdefg")
    assert smalls(create(mill_factory(), data)) == {"u"}
    put(data, "u/2.csv", "3,a")
    assert not smalls(create(mill_factory(name="more than a tenth"), data))
    assert smalls(create(mill_factory(name="told"), data, ", broadcast 'true'")) == {"u"}


def test_what_is_no_small_side(mill_factory: Opener, data: Path) -> None:
    assert not smalls(create(mill_factory(name="empty"), data))
    put(data, "u/1.csv", "1,a")
    assert smalls(create(mill_factory(name="t unknown"), data)) == {"u"}
    assert not smalls(create(mill_factory(name="told"), data, ", broadcast 'FALSE'"))
    put(data, "t/1.csv", *MANY)
    assert not smalls(create(mill_factory(name="beyond", broadcast_bytes=3), data))
    assert smalls(create(mill_factory(name="just", broadcast_bytes=4), data)) == {"u"}
    assert not smalls(create(mill_factory(name="never", broadcast_bytes=0), data))
    with pytest.raises(TidemillError, match="TM4003"):
        create(mill_factory(name="bad"), data, ", broadcast 'maybe'")


def test_the_decision_is_kept_until_a_view_is_created_anew(mill_factory: Opener, data: Path) -> None:
    put(data, "t/1.csv", *MANY)
    put(data, "u/1.csv", "1,a")
    mill = create(mill_factory(), data)
    list(mill.drain())
    mill.close()
    put(data, "u/2.csv", *(f"{i},b" for i in range(2, 40)))
    mill = opened(mill_factory(broadcast_bytes=50))
    assert smalls(mill) == {"u"}
    warned = [w for r in mill.drain() for w in r.warnings]
    assert len(warned) == 1 and warned[0].startswith("TM5009") and "u: " in warned[0]
    put(data, "u/3.csv", "40,c")
    assert [r.warnings for r in mill.drain()] == [()]
    assert len(rows(mill)) == 39
    ((_, text),) = mill.explain_views()
    assert "small: u; when changed supersteps: 2" in text
    mill.sql("DROP VIEW v")
    mill.sql(f"CREATE MATERIALIZED VIEW v AS {JOIN}")
    assert not smalls(mill)
    list(mill.drain())
    assert len(rows(mill)) == 39


def test_views_of_one_birth_agree(mill_factory: Opener, data: Path) -> None:
    mill = create(mill_factory(), data)
    assert not smalls(mill)
    put(data, "t/1.csv", *MANY)
    put(data, "u/1.csv", "1,a")
    mill.sql(f"CREATE MATERIALIZED VIEW w AS {JOIN.replace('u.name', 'u.name AS n')}")
    assert not smalls(mill), "both were empty for the first view, and both views share their state"
    list(mill.drain())
    mill.sql(f"CREATE MATERIALIZED VIEW x AS {JOIN.replace('u.name', 'u.name AS m')}")
    assert smalls(mill) == {"u"}
    put(data, "t/2.csv", "1", "1")
    list(mill.drain())
    assert rows(mill) == rows(mill, "w") == rows(mill, "x") == [(1, "a")] * 3


def test_small_tables_and_others_take_turns(mill_factory: Opener, data: Path) -> None:
    mill = create(mill_factory(epoch_bytes=4), data, ", broadcast 'true'")
    assert mill.advance() is None
    for i in range(4):
        put(data, f"t/{i}.csv", "1", "2")
    for i in range(3):
        put(data, f"u/{i}.csv", f"{i},x")
    found = [read(r)[0].split("/")[0] for r in mill.drain()]
    assert found == ["u", "t", "u", "t", "u", "t", "t"]
    assert rows(mill) == [(1, "x")] * 4 + [(2, "x")] * 4


def test_few_bytes_are_admitted_together(mill_factory: Opener, data: Path) -> None:
    put(data, "t/1.csv", "1", "2")
    put(data, "u/1.csv", "1,x")
    mill = create(mill_factory(small_epoch_bytes=100), data, ", broadcast 'true'")
    assert [read(r) for r in mill.drain()] == [["t/1.csv", "u/1.csv"]]
    assert rows(mill) == [(1, "x")]


def test_a_lookup_takes_one_superstep(mill_factory: Opener, data: Path) -> None:
    mill = create(mill_factory(), data, ", broadcast 'true'")
    assert mill.advance() is None
    put(data, "t/1.csv", "1", "2")
    put(data, "u/1.csv", "1,x")
    depths = [{o.depth for o in r.operators} for r in mill.drain()]
    assert depths == [{0, 1}, {0}]
    assert rows(mill) == [(1, "x")]
