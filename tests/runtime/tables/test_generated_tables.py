"""Tables USING generator in mills: rows come at their rate, and are the same whoever reads them, and when."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import tidemill.formats
from local_jobs import local
from mill_factory import MillFactory
from tidemill.errors import TidemillError
from tidemill.mill import Mill
from tidemill.runtime.read.snapshot import Snapshot

COLUMNS = "id BIGINT, price DOUBLE, name STRING, at TIMESTAMP"
FIELDS = {"seed": "9", "fields.id.kind": "sequence", "fields.name.length": "1", "fields.price.nullRate": "0.1"}
SETTINGS = ", ".join(f"`{name}` '{value}'" for name, value in FIELDS.items())


def rows(mill: Mill, view: str) -> list[tuple[Any, ...]]:
    return sorted(tuple(row.values()) for row in mill.read(view).to_pylist())


def drained(mill: Mill) -> Mill:
    for _ in mill.drain():
        pass
    return mill


def generated(count: int, **more: str) -> list[tuple[Any, ...]]:
    """The oracle of a mill: the first rows without one."""
    options: dict[str, Any] = {**FIELDS, **more, "numberOfRows": count}
    return [tuple(r.values()) for r in tidemill.formats.open("generator", COLUMNS, **options).read(b"").to_pylist()]


def test_rows_at_once_in_any_epochs_and_again_for_later_views(mill_factory: MillFactory) -> None:
    script = f"""
        CREATE TABLE g ({COLUMNS}) USING generator OPTIONS (numberOfRows '5000', {SETTINGS});
        CREATE MATERIALIZED VIEW v AS SELECT id, price, name, at FROM g;
    """
    mill = local(mill_factory(epoch_bytes=30_000, split_bytes=7_001))
    mill.script(script)
    reports = [mill.advance() for _ in range(2)]
    assert [r.rows_in for r in reports if r] == [-(-30_000 // 25), 30_000 * 2 // 25 - 30_000 // 25]
    mill.close()
    mill = local(mill_factory(epoch_bytes=30_000, split_bytes=7_001))
    mill.script(script)
    assert rows(drained(mill), "v") == generated(5000)
    mill.sql("CREATE MATERIALIZED VIEW late AS SELECT name, COUNT(*) AS n, COUNT(price) AS p FROM g GROUP BY name")
    found = rows(drained(mill), "late")
    assert sum(n for _, n, _ in found) == 5000 and len(found) == 32
    assert sum(p for _, _, p in found) == sum(r[1] is not None for r in generated(5000))
    assert mill.advance() is None and not mill.awaits_input()


def test_rows_come_with_time(mill_factory: MillFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also while no mill runs; a clock that goes back takes no row away."""
    began = time.time()
    clock = [began]
    monkeypatch.setattr(time, "time", lambda: clock[0])
    monkeypatch.setattr(time, "time_ns", lambda: int(clock[0] * 10**9))
    script = f"""
        CREATE TABLE g ({COLUMNS}) USING generator OPTIONS (rowsPerSecond '100', numberOfRows '1000', {SETTINGS});
        CREATE MATERIALIZED VIEW v AS SELECT id, price, name, at FROM g;
    """
    mill = local(mill_factory())
    mill.script(script)
    assert rows(drained(mill), "v") == []
    for seconds, count in ((2, 200), (2.5, 250), (1, 250), (3, 300)):
        clock[0] = began + seconds + 0.001
        assert len(rows(drained(mill), "v")) == count and mill.awaits_input()
    mill.close()
    clock[0] = began + 7.001
    mill = local(mill_factory())
    mill.script(script)
    assert rows(drained(mill), "v") == generated(700, rowsPerSecond="100")
    clock[0] = began + 60
    assert rows(drained(mill), "v") == generated(1000, rowsPerSecond="100")
    assert not mill.awaits_input()


@pytest.mark.slow
def test_once_reads_to_the_end(tmp_path: Path) -> None:
    """As a command: of rows that have an end it waits for that, of others it takes those that are there."""
    (tmp_path / "p.sql").write_text(f"""
        CREATE TABLE ends ({COLUMNS}) USING generator OPTIONS (rowsPerSecond '400', numberOfRows '3000', {SETTINGS});
        CREATE TABLE endless (a INT) USING generator OPTIONS (rowsPerSecond '5');
        CREATE MATERIALIZED VIEW v AS SELECT COUNT(*) AS n, SUM(id) AS s FROM ends;
        CREATE MATERIALIZED VIEW w AS SELECT COUNT(*) AS n FROM endless;
    """)
    command = [sys.executable, "-m", "tidemill", "run", str(tmp_path / "p.sql"), "--root", str(tmp_path / "root")]
    done = subprocess.run([*command, "--once", "--master", "local[1]"], capture_output=True, timeout=250, check=False)
    assert done.returncode == 0, done.stderr.decode()
    snapshot = Snapshot.open(str(tmp_path / "root"))
    assert snapshot.read("v").to_pylist() == [{"n": 3000, "s": 2999 * 1500}]
    assert 0 < snapshot.read("w").to_pylist()[0]["n"] < 5 * 250


def test_keys_static_tables_and_watermarks(mill_factory: MillFactory) -> None:
    mill = local(mill_factory(epoch_bytes=5000))
    mill.script("""
        CREATE TABLE keyed (k INT, v BIGINT, PRIMARY KEY (k)) USING generator
          OPTIONS (numberOfRows 1000, fields.k.min 0, fields.k.max 9, fields.v.kind 'sequence');
        CREATE STATIC TABLE names (k INT, name STRING) USING generator
          OPTIONS (numberOfRows 10, fields.k.kind 'sequence');
        CREATE TABLE timed (at TIMESTAMP, n INT) USING generator
          OPTIONS (numberOfRows 100, fields.at.kind 'sequence', watermark 'at', watermarkDelay '5 seconds');
        CREATE MATERIALIZED VIEW j AS SELECT t.v, n.name FROM keyed t JOIN names n ON t.k = n.k;
        CREATE MATERIALIZED VIEW w AS SELECT window(at, '10 seconds') AS w, COUNT(*) AS n FROM timed
          GROUP BY window(at, '10 seconds');
    """)
    drained(mill)
    options = {"numberOfRows": 1000, "fields.k.min": 0, "fields.k.max": 9, "fields.v.kind": "sequence"}
    made = tidemill.formats.open("generator", "k INT, v BIGINT", **options).read(b"").to_pylist()
    last = {row["k"]: row["v"] for row in made}
    assert rows(mill, "keyed") == sorted(last.items())
    assert [v for v, _ in rows(mill, "j")] == sorted(last.values())
    assert mill.read("w")["n"].to_pylist() == [10] * 10


def test_the_example_of_the_documentation(mill_factory: MillFactory) -> None:
    text = (Path(__file__).parents[3] / "docs" / "sources.md").read_text()
    begin = text.index("CREATE TABLE orders (id BIGINT, price DECIMAL(9,2), name STRING")
    mill = local(mill_factory())
    mill.sql(text[begin : text.index(";", begin)])
    mill.sql("CREATE MATERIALIZED VIEW v AS SELECT COUNT(*) AS n, COUNT(name) AS k, MAX(id) AS i FROM orders")
    drained(mill)
    (row,) = mill.read("v").to_pylist()
    assert row["n"] == (row["i"] + 1 if row["n"] else 0) and row["k"] <= row["n"]


@pytest.mark.parametrize(
    ("statement", "number"),
    [
        ("CREATE TABLE g (a INT) USING generator OPTIONS (path '/x')", "TM4003"),
        ("CREATE TABLE g (a INT, o STRING) USING generator OPTIONS (opColumn 'o')", "TM4003"),
        ("CREATE STATIC TABLE g (a INT) USING generator OPTIONS (rowsPerSecond '5', numberOfRows '5')", "TM4003"),
        ("CREATE TABLE g (a INT) USING generator OPTIONS (fields.b.min '5')", "TM4005"),
        ("CREATE TABLE g (a INT) USING generator OPTIONS (header 'true')", "TM4005"),
        ("CREATE TABLE g (a INT) USING csv OPTIONS (path 'generator://1/2')", "TM5002"),
        ("CREATE TABLE g USING generator", "TM2009"),
    ],
)
def test_statements_that_are_refused(mill_factory: MillFactory, statement: str, number: str) -> None:
    with pytest.raises(TidemillError, match=number):
        mill_factory().sql(statement)
