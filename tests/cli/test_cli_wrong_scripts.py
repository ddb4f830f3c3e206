"""The command over scripts and files that are wrong: what it says, and what it leaves."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from commands import Finished
from tidemill.runtime.read.snapshot import Snapshot


def test_script_that_is_missing(command: Callable[..., Finished], tmp_path: Path) -> None:
    done = command("run", str(tmp_path / "none.sql"), "--root", str(tmp_path / "root"), "--once")
    assert done.code == 1
    assert done.err.startswith("TM7003: ")
    assert not (tmp_path / "root").exists()


TABLE = "CREATE TABLE t (a INT, b STRING) USING csv OPTIONS (path '{data}/t.csv', header true)"


@pytest.mark.parametrize(
    ("text", "number", "words"),
    [
        ("CREATE TABLE t (a INT) USING csv OPTIONS (path '{data}/none.csv')", "TM5001", "none.csv"),
        ("CREATE TABLE t (a INT) USING csv OPTIONS (path 's4://x')", "TM5002", "s4://x"),
        ("CREATE TABLE t (a INT) USING cvs OPTIONS (path '{data}')", "TM4001", "'csv'"),
        ("CREATE TABLE t (a INT) USING csv OPTIONS (path '{data}', heder true)", "TM4005", "did you mean 'header'?"),
        ("CREATE TABLE t (a INT) USING csv OPTIONS (path '{data}', mode 'X')", "TM4003", "X"),
        ("CREATE TABLE t (a INTERVAL) USING csv OPTIONS (path '{data}')", "TM200", ""),
        ("CREATE TABEL t (a INT)", "TM200", ""),
        (TABLE + "; CREATE MATERIALIZED VIEW v AS SELECT c FROM t", "TM2004", "`c`"),
        (TABLE + "; CREATE MATERIALIZED VIEW v AS SELECT a FROM u", "TM200", "u"),
        (TABLE + "; CREATE MATERIALIZED VIEW v AS SELECT sentences(b) AS s FROM t", "TM2101", "getSentences"),
        (TABLE + "; CREATE MATERIALIZED VIEW v AS SELECT a FROM t LIMIT 3", "TM2105", "LIMIT 3"),
    ],
)
def test_wrong_scripts(command: Callable[..., Finished], tmp_path: Path, text: str, number: str, words: str) -> None:
    (tmp_path / "t.csv").write_text("a,b\n1,x\n")
    (tmp_path / "wrong.sql").write_text(text.format(data=tmp_path))
    done = command("run", str(tmp_path / "wrong.sql"), "--root", str(tmp_path / "root"), "--once")
    assert (done.code, done.out) == (1, "")
    assert done.err.startswith(number), done.err
    assert words in done.err
    assert "hint:" in done.err or "got:" in done.err
    assert not (tmp_path / "root").exists()


@pytest.mark.parametrize(
    ("content", "options", "number", "words"),
    [
        ("a,c\n1,x\n", ", mode 'FAILFAST'", "TM4010", "'b'"),
        ("a,b\n7,x\nseven,y\n", ", mode 'FAILFAST'", "TM4020", "seven"),
    ],
)
def test_wrong_files_stop_the_run_and_leave_the_last_epoch(
    command: Callable[..., Finished], tmp_path: Path, content: str, options: str, number: str, words: str
) -> None:
    (tmp_path / "t1.csv").write_text("a,b\n1,x\n")
    script, root = tmp_path / "s.sql", str(tmp_path / "root")
    table = TABLE.format(data=tmp_path).replace("t.csv'", f"t*.csv'{options}")
    script.write_text(table + ";CREATE MATERIALIZED VIEW v AS SELECT * FROM t")
    assert command("run", str(script), "--root", root, "--once").code == 0
    (tmp_path / "t2.csv").write_text(content)
    done = command("run", str(script), "--root", root, "--once")
    assert done.code == 1
    assert done.err.startswith(f"{number}: "), done.err
    assert words in done.err
    snapshot = Snapshot.open(root)
    assert (snapshot.version.epoch, snapshot.read("v").to_pylist()) == (1, [{"a": 1, "b": "x"}])
    (tmp_path / "t2.csv").write_text("a,b\n2,y\n")
    assert command("run", str(script), "--root", root, "--once").code == 0
    assert sorted(Snapshot.open(root).read("v").column("a").to_pylist()) == [1, 2], "it goes on once mended"
