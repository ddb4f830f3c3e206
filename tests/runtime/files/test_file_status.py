"""``<table>__files``: what has become of each file, as sealed, here, at an older epoch and for another process."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tidemill.mill import Mill
from tidemill.runtime.files import file_progress
from tidemill.runtime.read.snapshot import Snapshot
from tidemill.runtime.read.view_frame import query_views

Opener = Callable[..., Mill]


def states(rows: list[dict[str, Any]]) -> dict[str, tuple[Any, ...]]:
    names = ("state", "size", "bytes", "rows", "epoch", "attempts")
    return {Path(r["path"]).name: tuple(r[n] for n in names) for r in rows}


def test_what_has_become_of_files(mill_factory: Opener, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_progress, "FIRST_RETRY", 0)
    data = tmp_path / "data"
    data.mkdir()
    for name, text in (("a", "1\n2\n3\n"), ("b", "x\n5\n"), ("c", "6\n7\n8\n9\n"), ("d", ""), ("e", "10\n")):
        (data / f"{name}.csv").write_text(text)
        os.utime(data / f"{name}.csv", ns=(10**18, 10**18))
    mill = mill_factory(epoch_bytes=14)
    mill.sql(f"CREATE TABLE t (k INT) USING csv OPTIONS (path '{data}', mode 'DROPMALFORMED', fileAttempts 2)")
    mill.sql("CREATE MATERIALIZED VIEW v AS SELECT k FROM t")
    assert mill.advance() is not None
    first = {
        "a.csv": ("done", 6, 6, 3, 1, 0),
        "b.csv": ("done", 4, 4, 1, 1, 0),
        "c.csv": ("reading", 8, 4, 2, None, 0),
        "d.csv": ("seen", 0, 0, 0, 1, 0),
        "e.csv": ("queued", 3, 0, 0, None, 0),
    }
    assert states(mill.read("t__files").to_pylist()) == first
    (data / "c.csv").rename(data / "_c")
    assert [r.epoch for r in mill.drain()] == [2, 3]
    found = mill.read("t__files").to_pylist()
    expected = {**first, "c.csv": ("failed", 8, 4, 2, None, 2), "e.csv": ("done", 3, 3, 1, 2, 0)}
    assert states(found) == expected
    errors = {Path(r["path"]).name: (r["error"], r["retry_at"]) for r in found}
    assert errors.pop("c.csv") == ("TM5001: a file or directory does not exist", None)
    assert set(errors.values()) == {(None, None)}
    assert {r["modified"] for r in found} == {datetime.fromtimestamp(10**9, UTC)}
    assert states(mill.read("t__files", 1).to_pylist()) == first

    mill.checkpoint()
    snapshot = Snapshot.open(mill._coordinator.objects.url)
    query = "SELECT state, count(*), sum(bytes) FROM t__files GROUP BY state"
    rows = [tuple(r) for r in query_views(mill.spark, snapshot, query).collect()]
    assert sorted(rows) == [("done", 3, 13), ("failed", 1, 4), ("seen", 1, 0)]

    (data / "_c").rename(data / "c.csv")
    (data / "d.csv").write_text("11\n12\n")
    list(mill.drain())
    done = states(mill.read("t__files").to_pylist())
    assert {s[0] for s in done.values()} == {"done"}
    assert done["c.csv"][:4] == ("done", 8, 8, 4) and done["d.csv"][:4] == ("done", 6, 6, 2)
    assert sorted(mill.read("v").column("k").to_pylist()) == [1, 2, 3, *range(5, 13)]


def test_files_of_a_name_that_is_taken(mill_factory: Opener, tmp_path: Path) -> None:
    mill = mill_factory()
    mill.sql(f"CREATE TABLE t (k INT) USING csv OPTIONS (path '{tmp_path}')")
    with pytest.raises(Exception, match="TM2010"):
        mill.sql("CREATE MATERIALIZED VIEW t__files AS SELECT k FROM t")
    assert mill.read("t__files").num_rows == 0
