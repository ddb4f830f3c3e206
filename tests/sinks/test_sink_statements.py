"""CREATE, ALTER, DROP and SHOW SINK: what they refuse, pauses, gaps, replaced views, restarts."""

from __future__ import annotations

import random
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from sinking import Counted, weighted
from test_file_sinks import json_rows, parquet_rows

from mill_factory import MillFactory
from tidemill.errors import TidemillError
from tidemill.mill import Mill
from tidemill.plan.sql.own_statements import AsTable, changes_sinks, own_statement
from tidemill.plan.sql.statement_words import check_script
from tidemill.plan.sql.statements import AlterSink, Drop, Show, Source, classify
from tidemill.runtime.read.snapshot import Snapshot
from waiting import wait_until


def test_heads() -> None:
    text = "CREATE SINK if not exists `S 1`\n FROM v INTO parquet OPTIONS (path '/)')"
    as_table = "CREATE TABLE if not exists `S 1`\n       USING parquet OPTIONS (path '/)')"
    assert own_statement(Source(text)) == AsTable(as_table, "SINK", "v")
    assert own_statement(Source("alter sink s pause")) == AlterSink("s", True)
    assert own_statement(Source("ALTER SINK S RESUME")) == AlterSink("s", False)
    assert own_statement(Source("ALTER SINK s SET OPTIONS (a 'b')")) == AsTable(
        "ALTER TABLE s SET OPTIONS (a 'b')", "SINK"
    )
    assert own_statement(Source("CREATE TABLE sink (a INT) USING csv")) is None
    assert classify(Source("DROP SINK IF EXISTS s")) == Drop("sink", "s", True)
    assert classify(Source("show sinks")) == Show("sinks")
    for text in ("CREATE /* a */ SINK s", "-- b\nalter sink s PAUSE", "DROP SINK s", "DROP MATERIALIZED SINK s"):
        assert changes_sinks(Source(text))
    for text in ("SHOW SINKS", "CREATE TABLE sink (a INT)", "DROP VIEW sink", "DROP TABLE IF EXISTS sink", "DROP", ""):
        assert not changes_sinks(Source(text))


@pytest.mark.parametrize(
    ("text", "place", "hint"),
    [
        ("CREATE SINK", "line 1, column 12", "FROM is missing"),
        ("CREATE SINK s INTO parquet", "line 1, column 15", "FROM is missing"),
        ("CREATE SINK s\nFROM v", "line 2, column 7", "INTO is missing"),
        ("CREATE SINK s FROM v INTO", "line 1, column 26", "a name is missing"),
        ("CREATE SINK s FROM v INTO 'x'", "line 1, column 27", "a name is missing"),
        ("CREATE SINK s FROM v INTO parquet AS SELECT 1", "line 1, column 35", "OPTIONS is expected"),
        ("CREATE SINK s FROM v INTO json OPTIONS (path 'x') x", "line 1, column 51", "nothing follows"),
        ("CREATE SINK s FROM v INTO json OPTIONS (path 'x'", "line 1, column 40", "not closed"),
        ("ALTER SINK s", "line 1, column 13", "PAUSE"),
        ("ALTER SINK s STOP", "line 1, column 14", "PAUSE"),
        ("ALTER SINK s PAUSE now", "line 1, column 14", "PAUSE"),
    ],
)
def test_bad_heads(text: str, place: str, hint: str) -> None:
    """They are refused before Spark starts."""
    with pytest.raises(TidemillError) as caught:
        check_script(text)
    assert caught.value.number == "TM2001"
    assert place in caught.value.got
    assert hint in caught.value.hint


def test_what_is_refused(counted: Counted, tmp_path: Path) -> None:
    place, other = f"path '{tmp_path}/p'", f"path '{tmp_path}/other'"
    counted.mill.sql(f"CREATE SINK s FROM v INTO parquet OPTIONS ({place})")
    counted.mill.sql("CREATE MATERIALIZED VIEW w AS SELECT k AS __epoch FROM t")
    refused = {
        f"CREATE SINK x FROM v INTO parqet OPTIONS ({place})": ("TM8200", "parquet"),
        f"CREATE SINK x FROM v INTO parquet OPTIONS ({place}, comression 'gzip')": ("TM8201", "compression"),
        f"CREATE SINK x FROM v INTO parquet OPTIONS ({place}, url 'http://h/')": ("TM8201", ""),
        f"CREATE SINK x FROM v INTO parquet OPTIONS ({place}, mode 'all')": ("TM4003", "changes"),
        f"CREATE SINK x FROM v INTO parquet OPTIONS ({place}, region 'eu')": ("TM4003", "local"),
        "CREATE SINK x FROM v INTO parquet OPTIONS (path)": ("TM2001", ""),
        "CREATE SINK x FROM v INTO parquet": ("TM8207", "path"),
        "CREATE SINK x FROM v INTO webhook OPTIONS (url 'ftp://h/x')": ("TM8207", "https"),
        "CREATE SINK x FROM v INTO webhook OPTIONS (url 'http://h/', mode 'snapshot')": ("TM4003", "changes"),
        "CREATE SINK x FROM v INTO tcp OPTIONS (path 'tcp+listen://h:1')": ("TM8207", "tcp://"),
        "CREATE SINK x FROM v INTO tcp OPTIONS (path 'tcp://h')": ("TM5020", "tcp://"),
        f"CREATE SINK x FROM nothing INTO parquet OPTIONS ({place})": ("TM2012", ""),
        f"CREATE SINK x FROM t INTO parquet OPTIONS ({other})": ("TM2036", ""),
        f"CREATE SINK x FROM w INTO parquet OPTIONS ({other})": ("TM8209", "name"),
        f"CREATE SINK s FROM n INTO parquet OPTIONS ({other})": ("TM8203", "IF NOT EXISTS"),
        f"CREATE SINK x FROM n INTO json OPTIONS ({place})": ("TM8205", "directory"),
        "DROP VIEW v": ("TM8206", "DROP SINK"),
        "DROP SINK z": ("TM8204", "valid names: s"),
        "ALTER SINK z PAUSE": ("TM8204", "valid names: s"),
        f"ALTER SINK s SET OPTIONS ({place})": ("TM8202", "DROP SINK"),
        "ALTER SINK s SET OPTIONS (onGap 'x')": ("TM4003", "snapshot"),
        "ALTER SINK s SET OPTIONS (onGab 'error')": ("TM8201", "onGap"),
    }
    for statement, (number, hint) in refused.items():
        with pytest.raises(TidemillError) as caught:
            counted.mill.sql(statement)
        assert caught.value.number == number, f"{statement}: {caught.value}"
        assert hint in caught.value.hint, f"{statement}: {caught.value}"
    assert list(counted.sinks()) == ["s"]
    counted.mill.sql(f"CREATE SINK IF NOT EXISTS s FROM n INTO parquet OPTIONS ({other})")
    counted.mill.sql("DROP SINK IF EXISTS z")
    counted.mill.sql("DROP SINK s")
    counted.mill.sql("DROP VIEW v")


def test_no_sink_writes_into_the_root(counted: Counted, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "root")
    for place in ("root", "root/out", "elsewhere/../root/out", "link/out"):
        for target in ("parquet", "json", "delta"):
            with pytest.raises(TidemillError, match="TM8219") as caught:
                counted.mill.sql(f"CREATE SINK s FROM v INTO {target} OPTIONS (path '{tmp_path}/{place}')")
            assert str(tmp_path / "root") in caught.value.got
    counted.mill.sql(f"CREATE SINK s FROM v INTO parquet OPTIONS (path '{tmp_path}/root/../root2/x/..')")
    assert counted.sink("s")["location"] == f"{tmp_path}/root2"
    with pytest.raises(TidemillError, match="TM8205"):
        counted.mill.sql(f"CREATE SINK x FROM v INTO json OPTIONS (path '{tmp_path}/y/../root2/')")


def test_only_allowed_paths(mill_factory: MillFactory, tmp_path: Path) -> None:
    with mill_factory(
        "root", allowed_paths=f"{tmp_path}/out,https://hooks.example/a,s3://bucket,https://store.example"
    ) as mill:
        mill.sql("CREATE TABLE g (x INT) USING generator OPTIONS (numberOfRows '3')")
        mill.sql("CREATE MATERIALIZED VIEW v AS SELECT x FROM g")
        outside = (tmp_path / "out").with_name("link")
        (tmp_path / "out").mkdir()
        (tmp_path / "out" / "link").symlink_to(tmp_path)
        assert not outside.exists()
        for target, place in {
            "parquet": f"path '{tmp_path}/other'",
            "json": f"path '{tmp_path}/out/../other'",
            "delta": f"path '{tmp_path}/out/link/other'",
            "tcp": "path 'tcp://127.0.0.1:1'",
            "webhook": "url 'https://hooks.example/b'",
        }.items():
            with pytest.raises(TidemillError) as caught:
                mill.sql(f"CREATE SINK s FROM v INTO {target} OPTIONS ({place})")
            assert caught.value.number == "TM5045", target
        mill.sql(f"CREATE SINK s FROM v INTO parquet OPTIONS (path '{tmp_path}/out/p')")
        store = "path 's3://bucket/p', awsAccessKey 'a', awsSecretKey 'b'"
        for target in ("json", "delta"):
            with pytest.raises(TidemillError, match="TM5045") as caught:
                mill.sql(f"CREATE SINK e FROM v INTO {target} OPTIONS ({store}, endpoint 'https://elsewhere.example')")
            assert "elsewhere.example" in caught.value.got
        mill.sql(f"CREATE SINK e FROM v INTO json OPTIONS ({store}, endpoint 'https://store.example')")
        mill.sql("ALTER SINK e PAUSE")
        with pytest.raises(TidemillError, match="TM5045"):
            mill.sql("ALTER SINK e SET OPTIONS (endpoint 'https://elsewhere.example')")
        mill.sql("DROP SINK e")
    with pytest.raises(TidemillError) as caught:
        mill_factory("root", allowed_paths=f"{tmp_path}/elsewhere")
    assert caught.value.number == "TM5045"


def test_pause_resume_and_restart(counted: Counted, seed: int, tmp_path: Path) -> None:
    """A script that is repeated changes nothing; a pause outlives a restart."""
    chance = random.Random(seed)
    script = f"CREATE SINK s FROM v INTO json OPTIONS (path '{tmp_path}/s')"
    counted.mill.script(script)
    counted.change(chance)
    counted.advance()
    counted.mill.sql("ALTER SINK s PAUSE")
    done = counted.sink("s")["epoch"]
    before = dict(counted.rows)
    counted.change(chance)
    counted.advance()
    assert (counted.sink("s")["state"], counted.sink("s")["epoch"]) == ("paused", done)
    counted.mill.close()
    shown = Snapshot.open(tmp_path / "root").show("sinks").to_pylist()
    assert [(r["name"], r["state"], r["epoch"]) for r in shown] == [("s", "paused", done)]
    counted.open()
    counted.mill.script(counted.script + script)
    counted.advance()
    assert counted.sink("s")["state"] == "paused"
    assert weighted(json_rows(tmp_path / "s")) == before
    counted.mill.sql("ALTER SINK s RESUME")
    counted.advance()
    assert weighted(json_rows(tmp_path / "s")) == counted.rows
    assert [r[0] for r in counted.mill.sql("SHOW SINKS").collect()] == ["s"]


def test_closing_delivers_what_is_durable(counted: Counted, seed: int, tmp_path: Path) -> None:
    counted.mill.sql(f"CREATE SINK s FROM v INTO json OPTIONS (path '{tmp_path}/s')")
    counted.change(random.Random(seed))
    while counted.mill.advance() is not None:
        pass
    epoch = counted.mill.epoch
    counted.mill.close()
    assert weighted(json_rows(tmp_path / "s")) == counted.rows
    shown = Snapshot.open(tmp_path / "root").show("sinks").to_pylist()
    assert [r["epoch"] for r in shown] == [epoch]


def test_gaps(mill_factory: MillFactory, seed: int, tmp_path: Path) -> None:
    """Behind retention it is an error, or all rows take the place of what went before."""
    chance = random.Random(seed)
    counted = Counted(mill_factory, tmp_path, history_epochs=2)
    for name in ("stops", "goes"):
        on_gap = "snapshot" if name == "goes" else "error"
        counted.mill.sql(f"CREATE SINK {name} FROM v INTO parquet OPTIONS (path '{tmp_path}/{name}', onGap '{on_gap}')")
    counted.mill.sql(f"CREATE SINK d FROM v INTO delta OPTIONS (path '{tmp_path}/d', onGap 'snapshot')")
    counted.change(chance)
    counted.advance()
    for name in counted.sinks():
        counted.mill.sql(f"ALTER SINK {name} PAUSE")
    for _ in range(5):
        counted.change(chance)
        counted.advance()
    for name in counted.sinks():
        counted.mill.sql(f"ALTER SINK {name} RESUME")
    wait_until(lambda: counted.sink("stops")["state"] == "failed")
    assert counted.sink("stops")["error"].startswith("TM8215")
    assert counted.mill.wait_for_sinks(30)
    counted.mill.sql("ALTER SINK stops SET OPTIONS (onGap 'snapshot')")
    counted.change(chance)
    counted.advance()
    for name in ("stops", "goes"):
        files = sorted(p.name for p in (tmp_path / name).glob("*.parquet"))
        newest = max(f for f in files if "snapshot" in f)
        counting = [f for f in files if f >= newest]
        rows = [r for f in counting for r in pq.read_table(tmp_path / name / f).to_pylist()]
        assert weighted(rows) == counted.rows
    from deltalake import DeltaTable

    assert weighted(DeltaTable(tmp_path / "d").to_pyarrow_table().to_pylist()) == counted.rows


def test_a_replaced_view(counted: Counted, seed: int, tmp_path: Path) -> None:
    """One of the same columns goes on with changes, one of others begins with all rows."""
    chance = random.Random(seed)
    counted.mill.sql(f"CREATE SINK s FROM n INTO json OPTIONS (path '{tmp_path}/s')")
    counted.change(chance)
    counted.advance()
    counted.mill.sql(
        "CREATE OR REPLACE MATERIALIZED VIEW n AS SELECT k, count(*) + 1 AS c, sum(x) AS s FROM t GROUP BY k"
    )
    counted.change(chance)
    counted.advance()
    more = {(k, c + 1, s): n for (k, c, s), n in counted.sums.items()}
    assert weighted(json_rows(tmp_path / "s")) == more
    assert len(list((tmp_path / "s").glob("*-snapshot.jsonl"))) == 1
    counted.mill.sql("CREATE OR REPLACE MATERIALIZED VIEW n AS SELECT k, count(*) AS c FROM t GROUP BY k")
    counted.change(chance)
    counted.advance()
    newest = max(p.name for p in (tmp_path / "s").glob("*-snapshot.jsonl"))
    rows = [r for r in json_rows(tmp_path / "s") if r["__epoch"] >= int(newest[:20])]
    assert weighted(rows) == {(k, c): n for (k, c, _), n in counted.sums.items()}


def test_a_sink_of_errors_and_a_view_that_fails_for_now(counted: Counted, tmp_path: Path) -> None:
    """Malformed rows are delivered; a view in error waits, and what changed meanwhile comes when it is right again."""
    counted.mill.sql("CREATE MATERIALIZED VIEW q AS SELECT k, 10 DIV x AS y FROM t")
    counted.mill.sql(f"CREATE SINK e FROM t__errors INTO json OPTIONS (path '{tmp_path}/e')")
    counted.mill.sql(f"CREATE SINK q FROM q INTO json OPTIONS (path '{tmp_path}/q')")
    counted.write([("a", 1)])
    counted.advance()
    (counted.input / "bad.csv").write_text("b,oops,I\n")
    counted.write([("z", 0), ("c", 5)])
    counted.advance()
    assert [row["reason"] for row in json_rows(tmp_path / "e")] == [counted.mill.read("t__errors")["reason"][0].as_py()]
    wait_until(lambda: counted.sink("q")["state"] == "waiting")
    assert counted.sink("q")["error"].startswith("TM1039")
    counted.write([("d", 2)], [("z", 0)])
    counted.advance()
    wait_until(lambda: counted.sink("q")["state"] == "running" and counted.sink("q")["lag"] == 0)
    expected = {tuple(row.values()): 1 for row in counted.mill.read("q").to_pylist()}
    assert {row[0] for row in expected} == {"a", "b", "c", "d"}
    assert weighted(json_rows(tmp_path / "q")) == expected


def test_a_root_that_was_put_back(counted: Counted, tmp_path: Path) -> None:
    """The target has epochs that the root does not have."""
    counted.mill.sql(f"CREATE SINK s FROM v INTO parquet OPTIONS (path '{tmp_path}/s')")
    counted.write([("a", 1)])
    counted.advance()
    counted.mill.close()
    (tmp_path / "s" / f"{99:020d}-changes.parquet").write_bytes(b"")
    counted.open()
    counted.mill.checkpoint()
    wait_until(lambda: counted.sink("s")["state"] == "failed")
    assert counted.sink("s")["error"].startswith("TM8216")


def test_declarations(counted: Counted, tmp_path: Path) -> None:
    """As `tidemill run` reads scripts: all of them or nothing."""
    script = f"""
        CREATE SINK s FROM v INTO json OPTIONS (path '{tmp_path}/s');
        CREATE SINK other FROM v INTO json OPTIONS (path '{tmp_path}/o');
    """
    with counted.mill.declaring() as declaration:
        declaration.add_script(check_script(script), may_replace=False)
        assert [(c.action, c.kind, c.name) for c in declaration.changes] == [
            ("add", "sink", "s"),
            ("add", "sink", "other"),
        ]
    with counted.mill.declaring() as declaration:
        more = "ALTER SINK s PAUSE; DROP SINK other; DROP SINK IF EXISTS other"
        declaration.add_script(check_script(script + more), may_replace=False)
        assert [(c.action, c.name) for c in declaration.changes] == [("change", "s"), ("drop", "other")]
    assert {n: s["state"] for n, s in counted.sinks().items()} == {"s": "paused"}


def test_a_bug_is_shown(counted: Counted, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(*_: object) -> None:
        raise KeyError("a bug")

    monkeypatch.setattr("tidemill.sinks.files.folder.Folder.write", failing)
    counted.write([("a", 1)])
    counted.advance()
    counted.mill.sql(f"CREATE SINK s FROM v INTO parquet OPTIONS (path '{tmp_path}/s', maxBackoff '20 ms')")
    wait_until(lambda: counted.sink("s")["state"] == "retrying")
    assert counted.sink("s")["error"].startswith("TM8249")
    assert "a bug" in counted.sink("s")["error"]
    monkeypatch.undo()
    wait_until(lambda: counted.sink("s")["lag"] == 0)
    assert weighted(parquet_rows(tmp_path / "s")) == counted.rows


def test_a_missing_package(counted: Counted, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "deltalake", None)
    with pytest.raises(TidemillError) as caught:
        counted.mill.sql(f"CREATE SINK d FROM v INTO delta OPTIONS (path '{tmp_path}/d')")
    assert caught.value.number == "TM8208"
    assert "tidemill[delta]" in caught.value.hint
    assert isinstance(counted.mill, Mill)
