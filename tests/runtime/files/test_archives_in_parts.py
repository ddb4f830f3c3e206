"""Compressed files larger than an epoch: read part by part, exact at every epoch, whole or not at all."""

from __future__ import annotations

import csv
import gzip
import io
import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tidemill.mill import Mill
from tidemill.runtime.files import progress

Opener = Callable[..., Mill]
TABLE = "CREATE TABLE t (k BIGINT, s STRING) USING csv OPTIONS (path '{}', header 'true', maxBytesPerTrigger '4000'{})"
VIEW = "CREATE MATERIALIZED VIEW {} AS SELECT k % 7 AS g, s, COUNT(*) AS n, SUM(k) AS total FROM t GROUP BY g, s"


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """No part is larger than the limits of the epoch, but for what must be decoded again."""
    monkeypatch.setattr(progress, "SPLITS_OF_PART", 1)


@pytest.fixture
def opened(mill_factory: Opener) -> Callable[[], Mill]:
    """Opens the same mill, again and again."""
    return lambda: mill_factory(split_bytes=1000)


def text(chance: random.Random, count: int) -> bytes:
    """Rows of which many span lines, with a header."""
    sink = io.StringIO()
    texts = ["plain", "two\nlines", 'x\n1,"2"\n', "a,b"]
    rows = [("k", "s"), *((chance.randrange(10**6), chance.choice(texts)) for _ in range(count))]
    csv.writer(sink, lineterminator="\n").writerows(rows)
    return sink.getvalue().encode()


def expected(spark: SparkSession, path: Path) -> Counter[Any]:
    frame = spark.read.csv(str(path), "k BIGINT, s STRING", header=True, multiLine=True, escape='"')
    frame.createOrReplaceTempView("t_expected")
    query = VIEW.partition(" AS ")[2].replace("FROM t ", "FROM t_expected ")
    return Counter(map(tuple, spark.sql(query).collect()))


def mill_over(opened: Callable[[], Mill], path: Path, data: bytes, options: str = "") -> Mill:
    """A mill with the table and the view ``v`` over a file of these bytes."""
    path.write_bytes(data)
    mill = opened()
    mill.sql(TABLE.format(path, options))
    mill.sql(VIEW.format("v"))
    return mill


def contents(mill: Mill, view: str) -> Counter[Any]:
    return Counter(tuple(r.values()) for r in mill.read(view).to_pylist())


def state(mill: Mill) -> dict[str, Any]:
    (row,) = mill.read("t__files").to_pylist()
    return {name: row[name] for name in ("state", "bytes", "rows", "size", "error")}


def test_parts_are_epochs_and_go_on_after_a_restart(
    opened: Callable[[], Mill], spark: SparkSession, tmp_path: Path, seed: int
) -> None:
    path = tmp_path / "a.csv.gz"
    mill = mill_over(opened, path, gzip.compress(text(random.Random(seed), 2000)))
    found, rows = [], 0
    while (report := mill.advance()) is not None:
        found.append(report.rows_in)
        rows += report.rows_in
        assert sum(n for *_, n, _ in contents(mill, "v")) == state(mill)["rows"] == rows
        if len(found) % 3 == 0:
            mill.close()
            mill = opened()
        if state(mill)["state"] != "done":
            assert state(mill)["state"] == "reading"
            assert 0 < state(mill)["bytes"] < state(mill)["size"]
    # Parts of 4,000 bytes, and larger ones once a quarter of what is before them is more than that.
    assert 6 < len(found) < 12 and rows == 2000 and all(found)
    assert found[-2] > 1.5 * found[0]
    assert state(mill) == {
        "state": "done", "bytes": path.stat().st_size, "rows": 2000, "size": path.stat().st_size, "error": None,
    }  # fmt: skip
    assert contents(mill, "v") == expected(spark, path)


def test_a_view_that_comes_while_a_file_is_being_read(
    opened: Callable[[], Mill], spark: SparkSession, tmp_path: Path, seed: int
) -> None:
    path = tmp_path / "a.csv.gz"
    mill = mill_over(opened, path, gzip.compress(text(random.Random(seed), 1500)))
    for _ in range(3):
        mill.advance()
    mill.sql(VIEW.format("later"))
    mill.advance()
    mill.close()
    mill = opened()
    list(mill.drain())
    assert contents(mill, "later") == contents(mill, "v") == expected(spark, path)
    mill.sql(VIEW.format("last"))
    list(mill.drain())
    assert contents(mill, "last") == contents(mill, "v")


def test_rows_that_were_late_are_late_for_later_views(opened: Callable[[], Mill], tmp_path: Path, seed: int) -> None:
    """Each part has a watermark of its own, which is that of its rows when they are read again."""
    chance = random.Random(seed)
    lines = (f"{i % 3},2026-01-01 {(i // 60 + chance.randrange(-3, 1)) % 24:02}:{i % 60:02}:00" for i in range(1400))
    path = tmp_path / "a.csv.gz"
    path.write_bytes(gzip.compress("\n".join(lines).encode()))
    mill = opened()
    options = f"path '{path}', maxBytesPerTrigger '3000', watermark 'at', watermarkDelay '30 minutes'"
    mill.sql(f"CREATE TABLE t (k BIGINT, at TIMESTAMP) USING csv OPTIONS ({options})")
    view = "CREATE MATERIALIZED VIEW {} AS SELECT k, hour(at) AS h, COUNT(*) AS n FROM t GROUP BY ALL"
    mill.sql(view.format("v"))
    for _ in range(4):
        mill.advance()
    mill.sql(view.format("later"))
    list(mill.drain())
    mill.sql(view.format("last"))
    list(mill.drain())
    late = mill.read("t__errors")["reason"].to_pylist().count("late")
    assert 0 < late < 1400 and sum(n for *_, n in contents(mill, "v")) == 1400 - late
    assert contents(mill, "later") == contents(mill, "last") == contents(mill, "v")


def test_a_file_that_is_damaged_behind_its_first_part_has_no_rows_until_it_is_whole(
    opened: Callable[[], Mill], spark: SparkSession, tmp_path: Path, seed: int
) -> None:
    path = tmp_path / "a.csv.gz"
    data = gzip.compress(text(random.Random(seed), 2000))
    mill = mill_over(opened, path, data[:-4])
    list(mill.drain())
    assert not contents(mill, "v")
    assert state(mill)["state"] == "failed" and "TM4045" in state(mill)["error"] and state(mill)["rows"] == 0
    path.write_bytes(data)
    assert len(list(mill.drain())) > 5
    assert contents(mill, "v") == expected(spark, path)


def test_a_file_that_is_overwritten_while_it_is_read(
    opened: Callable[[], Mill], spark: SparkSession, tmp_path: Path, seed: int
) -> None:
    """Rows of the old version go in the epoch in which all of the new one come."""
    chance = random.Random(seed)
    path = tmp_path / "a.csv.gz"
    mill = mill_over(opened, path, gzip.compress(text(chance, 1500)), ", allowOverwrites 'true'")
    for _ in range(3):
        mill.advance()
    assert contents(mill, "v") and state(mill)["state"] == "reading"
    path.write_bytes(gzip.compress(text(chance, 1700)))
    seen = [contents(mill, "v")]
    while mill.advance() is not None:
        seen.append(contents(mill, "v"))
    assert seen[-1] == expected(spark, path)
    assert len({frozenset(s.items()) for s in seen}) == 2


def test_errors_of_later_parts_tell_line_and_position(opened: Callable[[], Mill], tmp_path: Path, seed: int) -> None:
    data = text(random.Random(seed), 1000)
    path = tmp_path / "a.csv.gz"
    mill = mill_over(opened, path, gzip.compress(data + b"wrong,here\n"))
    list(mill.drain())
    ((position, line),) = [(r["position"], r["line"]) for r in mill.read("t__errors").to_pylist()]
    assert (position, line) == (len(data), data.count(b"\n") + 1)


def test_a_table_with_a_key_takes_files_in_their_order(opened: Callable[[], Mill], tmp_path: Path, seed: int) -> None:
    """Of each key the last row counts, in the order of files and rows."""
    chance = random.Random(seed)
    last: dict[int, str] = {}
    for name, count in (("a", 40), ("b", 1500), ("c", 30), ("d", 700)):
        rows = [(chance.randrange(300), f"{name} {i} {chance.random()}") for i in range(count)]
        last |= dict(rows)
        (tmp_path / f"{name}.csv.gz").write_bytes(gzip.compress("".join(f"{k},{s}\n" for k, s in rows).encode()))
    mill = opened()
    options = f"path '{tmp_path}/*.csv.gz', maxBytesPerTrigger '4000'"
    mill.sql(f"CREATE TABLE t (k BIGINT PRIMARY KEY, s STRING) USING csv OPTIONS ({options})")
    mill.sql("CREATE MATERIALIZED VIEW v AS SELECT k, s FROM t")
    reports = list(mill.drain())
    assert contents(mill, "v") == Counter(last.items())
    assert len(reports) > 8
    of_epochs = [sorted({Path(path).name[0] for _, path, _, _ in r.read}) for r in reports if r.read]
    assert of_epochs == sorted(of_epochs)
