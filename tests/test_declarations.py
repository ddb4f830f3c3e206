"""A script is a declaration: it is compared with what there is, and all that it changes is carried out, or nothing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from commands import Finished
from tidemill.errors import TidemillError
from tidemill.mill import Mill
from tidemill.runtime.read.snapshot import Snapshot

Command = Callable[..., Finished]

TABLE = "CREATE TABLE t (k INT, v INT) USING csv OPTIONS (path '{data}');"
SUMS = "CREATE MATERIALIZED VIEW sums AS SELECT k, SUM(v) AS s FROM t GROUP BY k;"
MOST = "CREATE MATERIALIZED VIEW most AS SELECT MAX(s) AS s FROM sums;"
FEW = "CREATE MATERIALIZED VIEW few AS SELECT v FROM t WHERE v < {most};"


@pytest.fixture
def run(command: Command, tmp_path: Path) -> Callable[..., Finished]:
    data = tmp_path / "data"
    data.mkdir()
    (data / "1.csv").write_text("1,10\n1,20\n2,3\n")

    def once(text: str, *options: str, suffix: str = "sql") -> Finished:
        path = tmp_path / f"script.{suffix}"
        path.write_text(text.replace("{data}", str(data)))
        return command("run", str(path), "--root", str(tmp_path / "root"), "--once", *options)

    return once


def views(tmp_path: Path) -> dict[str, list[tuple[int, ...]]]:
    snapshot = Snapshot.open(tmp_path / "root")
    return {v: sorted(tuple(r.values()) for r in snapshot.read(v).to_pylist()) for v in snapshot.catalog.views}


def test_a_script_that_changes(run: Callable[..., Finished], tmp_path: Path) -> None:
    first, second = TABLE + SUMS + MOST + FEW.format(most=5), TABLE + SUMS + FEW.format(most=15)
    planned = run(first, "--plan")
    assert (planned.code, [line.split() for line in planned.out.splitlines()]) == (
        0,
        [["add", "table", "t"], *(["add", "view", v] for v in ("sums", "most", "few"))],
    )
    assert not (tmp_path / "root").exists()
    done = run(first)
    assert (done.code, done.err) == (0, "added table t, view sums, view most, view few\n")
    before = {"sums": [(1, 30), (2, 3)], "most": [(30,)], "few": [(3,)]}
    assert views(tmp_path) == before
    planned = run(first, "--plan")
    assert planned.out == "nothing changes\n"

    planned = run(second, "--plan")
    assert [line.split()[:3] for line in planned.out.splitlines()] == [
        ["replace", "view", "few"],
        ["keep", "view", "most"],
    ]
    assert "--replace" in planned.out and "--prune" in planned.out
    for options in ((), ("--prune",)):
        refused = run(second, *options)
        assert refused.code == 1 and refused.err.startswith("TM2010: this name is taken\n  got:  few: ")
        assert "--replace" in refused.err and "CREATE OR REPLACE MATERIALIZED VIEW" in refused.err
        assert views(tmp_path) == before, "nothing was dropped either"
    planned = run(second, "--plan", "--replace", "--prune")
    assert [line.split() for line in planned.out.splitlines()] == [["replace", "view", "few"], ["drop", "view", "most"]]
    assert views(tmp_path) == before
    done = run(second, "--replace", "--prune")
    assert (done.code, done.err) == (0, "replaced view few; dropped view most\n")
    assert views(tmp_path) == {"sums": before["sums"], "few": [(3,), (10,)]}
    # SUMS is read by MOST now: those that are not declared go from the top down
    assert run(TABLE + SUMS + FEW.format(most=15) + MOST).err == "added view most\n"
    assert run(TABLE, "--prune").err == "dropped view most, view few, view sums\n"
    assert views(tmp_path) == {}


@pytest.mark.parametrize(
    ("text", "number", "words"),
    [
        (TABLE + SUMS + "CREATE MATERIALIZED VIEW bad AS SELECT nope FROM sums;", "TM2004", "line 1"),
        (TABLE.replace("t (", "u (") + SUMS.replace("INT", "BIGINT") + "DROP VIEW nope", "TM2012", "nope"),
        (TABLE + SUMS + "CREATE TABLE x (a INT) USING csv OPTIONS (path '{data}', heder true)", "TM4005", "header"),
        (TABLE.replace("v INT", "v BIGINT") + SUMS, "TM2010", "t"),
        (TABLE + "SELECT * FROM t", "TM2003", "declares nothing"),
        (TABLE + SUMS + "CREAT MATERIALIZED VIEW x AS SELECT 1", "TM2001", "did you mean 'CREATE'?"),
        (TABLE + SUMS + "CREATE MATERIALIZED VIEW x AS SELECT 'a", "TM2001", "not closed"),
    ],
)
def test_all_or_nothing(run: Callable[..., Finished], tmp_path: Path, text: str, number: str, words: str) -> None:
    """The statements before and behind the one that is wrong have no effect."""
    assert run(TABLE + MOST.replace("sums", "t").replace("(s)", "(v)")).code == 0
    before = Snapshot.open(tmp_path / "root").catalog
    failed = run(text)
    assert (failed.code, failed.out) == (1, "")
    assert failed.err.startswith(f"{number}: ") and words in failed.err, failed.err
    assert Snapshot.open(tmp_path / "root").catalog == before


def test_statements_that_alter_and_drop(run: Callable[..., Finished], tmp_path: Path) -> None:
    assert run(TABLE + SUMS).code == 0
    done = run(TABLE.replace("')", "', maxErrors '7')") + SUMS + "DROP VIEW IF EXISTS few; DROP VIEW sums;" + SUMS)
    assert (done.code, done.err) == (0, "added view sums; changed table t; dropped view sums\n")
    assert Snapshot.open(tmp_path / "root").catalog.tables["t"].options["maxerrors"] == "7"
    assert views(tmp_path) == {"sums": [(1, 30), (2, 3)]}
    done = run("DROP VIEW sums; DROP TABLE t;" + TABLE + SUMS)
    assert (done.code, views(tmp_path)) == (0, {"sums": [(1, 30), (2, 3)]}), "of another table, which is read anew"
    done = run("CREATE OR REPLACE MATERIALIZED VIEW sums AS SELECT k, MIN(v) AS s FROM t GROUP BY k")
    assert (done.code, done.err, views(tmp_path)) == (0, "replaced view sums\n", {"sums": [(1, 10), (2, 3)]})


def test_a_pipeline_in_python(run: Callable[..., Finished], tmp_path: Path) -> None:
    text = (
        'import tidemill as tm\ntm.sql("'
        + TABLE[:-1]
        + '")\n@tm.table\ndef few():\n    return tm.read("t").where("v < 5")\n'
    )
    assert run(text, suffix="py").err == "added table t, view few\n"
    changed = text.replace("v < 5", "v < 15") + "@tm.table\ndef more():\n    return 'SELECT k FROM few'\n"
    planned = run(changed, "--plan", suffix="py")
    assert [line.split()[:3] for line in planned.out.splitlines()] == [
        ["replace", "view", "few"],
        ["add", "view", "more"],
    ]
    assert run(changed, suffix="py").err.startswith("TM2010: ")
    assert views(tmp_path) == {"few": [(2, 3)]}
    assert run(changed, "--replace", suffix="py").err == "added view more; replaced view few\n"
    assert views(tmp_path) == {"few": [(1, 10), (2, 3)], "more": [(1,), (2,)]}


def test_a_mill_that_runs_on_the_root(run: Callable[..., Finished], spark: SparkSession, tmp_path: Path) -> None:
    """Its root is not for others to write; what a script would change can be shown all the same."""
    with Mill(tmp_path / "root", spark=spark) as mill:
        mill.script((TABLE + SUMS).replace("{data}", str(tmp_path / "data")))
        assert run(TABLE + SUMS).err.startswith("TM1003: ")
        planned = run(TABLE + SUMS + MOST, "--plan")
        assert (planned.code, planned.out.split()) == (0, ["add", "view", "most"])
        with pytest.raises(TidemillError, match="TM2004"), mill.declaring() as declaration:
            declaration.add_script([], may_replace=True)
            mill.sql("CREATE MATERIALIZED VIEW x AS SELECT nope FROM t")
        assert [name for name, *_ in mill.status()] == ["sums"]


def test_a_glob_in_a_directory_that_does_not_exist(run: Callable[..., Finished], tmp_path: Path) -> None:
    text = (TABLE + SUMS).replace("{data}", "{data}/none/*.csv")
    done = run(text)
    assert done.code == 0 and "warning: TM5047: the directory of a glob does not exist" in done.err, done.err
    done = run((TABLE + SUMS).replace("{data}'", "{data}/none/*.csv', failOnMissing 'true'").replace(" t ", " u "))
    assert done.code == 1 and done.err.startswith("TM5001: "), done.err
    (tmp_path / "data" / "none").mkdir()
    (tmp_path / "data" / "none" / "1.csv").write_text("5,5\n")
    assert "TM5047" not in run(text).err
    assert views(tmp_path)["sums"] == [(5, 5)]
