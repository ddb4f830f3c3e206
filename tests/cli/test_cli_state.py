"""``tidemill state``: what its commands print, their exit codes, and that none but ``gc`` changes anything."""

from __future__ import annotations

import csv
import io
import json
import os
import shutil
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from commands import Finished, elsewhere, here
from local_jobs import local
from state_root import contents, flip
from tidemill.config import Settings
from tidemill.mill import Mill
from tidemill.runtime.read.snapshot import Snapshot
from tidemill.state.store import store as run_store
from tidemill.state.versions.version import Run

EPOCHS = 3


@pytest.fixture(scope="module")
def made(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A root with a table, a view, and a checkpoint after each of three epochs."""
    home = tmp_path_factory.mktemp("made")
    (home / "data").mkdir()
    for number in range(EPOCHS):
        (home / "data" / f"{number}.csv").write_text(f"Zoë,1\nk{number},2\n")
    given = Settings(master="local[2]", partitions=2, listing_seconds=0.0, checkpoint_seconds=1e9)
    with Mill(home / "root", spark=spark, settings=given) as mill:
        local(mill)
        mill.sql(f"CREATE TABLE t (k STRING, v INT) USING csv OPTIONS (path '{home}/data', maxFilesPerTrigger 1)")
        mill.sql("CREATE MATERIALIZED VIEW sums AS SELECT k, SUM(v) AS v FROM t GROUP BY k")
        for _ in range(EPOCHS):
            mill.advance()
            mill.checkpoint()
    return home / "root"


@pytest.fixture
def root(made: Path, tmp_path: Path) -> Path:
    """A copy of it; what lies in the buffer and is durable too is not copied."""
    shutil.copytree(made, tmp_path / "root", ignore=shutil.ignore_patterns("buffer"))
    run_store._open.clear()
    return tmp_path / "root"


def state(root: Path, *arguments: str) -> Finished:
    return here("state", *arguments, "--root", str(root))


def as_json(done: Finished) -> list[dict[str, Any]]:
    assert done.code == 0, done.err
    return [json.loads(line) for line in done.out.splitlines()]


def runs_of(root: Path, view: str) -> tuple[Run, ...]:
    snapshot = Snapshot.open(root)
    return snapshot.version.runs(snapshot.plan(view).table.id)


def orphan(root: Path, name: str = "c0000000099-x.sst", age: float = 3600.0) -> Path:
    path = root / "sst" / name
    path.write_text("orphan")
    os.utime(path, (time.time() - age,) * 2)
    return path


def test_ls(root: Path) -> None:
    before, version = contents(root), Snapshot.open(root).version
    found = {r["table"]: r for r in as_json(state(root, "ls", "--format", "json"))}
    assert set(found) == set(version.tables)
    for name, row in found.items():
        runs = version.runs(name)
        assert row["runs"] == len(runs) > 0
        assert row["rows"] == sum(r.rows for r in runs)
        assert row["bytes"] == sum(r.bytes for r in runs) > 0
        assert (row["first_epoch"], row["last_epoch"]) == (1, EPOCHS)
        assert (row["buffered_rows"], row["buffered_bytes"]) == (0, 0)
    done = state(root, "ls")
    lines = done.out.splitlines()
    assert lines[0].startswith(f"{root}: epochs 0 to {EPOCHS} are durable, in manifest ")
    assert lines[1].endswith(f"durable files have {sum(p.stat().st_size for p in (root / 'sst').iterdir()):,}")
    assert lines[2].split()[:4] == ["table", "runs", "rows", "bytes"]
    assert lines[-1] == f"({len(found)} rows)"
    assert contents(root) == before


def test_ls_files(root: Path) -> None:
    lost = orphan(root)
    version = Snapshot.open(root).version
    found = {r["file"]: r for r in as_json(state(root, "ls", "--files", "--format", "json"))}
    on_disk = {p.name: p.stat().st_size for p in (root / "sst").iterdir()}
    assert {n: r["bytes"] for n, r in found.items()} == on_disk
    assert {n for n, r in found.items() if r["used_by"] == "nothing"} == {lost.name}
    assert {n for n, r in found.items() if r["used_by"] == "newest"} == version.files()
    (root / "sst" / min(version.files())).unlink()
    table = state(root, "ls", "--files", "--format", "csv")
    places = {r["file"]: r["place"] for r in csv.DictReader(io.StringIO(table.out))}
    assert Counter(places.values()) == {"missing": 1, "durable": len(on_disk) - 1}
    assert places[min(version.files())] == "missing"
    assert (table.code, table.err.split(", ")[0]) == (1, f"missing: sst/{min(version.files())}")


def test_ls_says_what_is_missing(root: Path) -> None:
    run = runs_of(root, "sums")[0]
    (root / "sst" / run.file).unlink()
    for format_ in ("table", "json"):
        done = state(root, "ls", "--format", format_)
        assert done.code == 1
        assert done.err.startswith(f"missing: sst/{run.file}, which manifest ")
        assert "`tidemill state verify`" in done.err
    rows = [json.loads(line) for line in done.out.splitlines()]
    version = Snapshot.open(root).version
    assert run.table in {r["table"] for r in rows}
    for row in rows:
        assert row["missing_files"] == int(any(r.file == run.file for r in version.runs(row["table"])))


def test_gc_of_a_root_that_has_begun(tmp_path: Path, spark: SparkSession) -> None:
    with Mill(tmp_path / "root", spark=spark, settings=Settings(master="local[2]", partitions=2)):
        done = state(tmp_path / "root", "gc")
    said = "a mill has begun this root and nothing is durable yet: nothing was removed\n"
    assert (done.code, done.out, done.err) == (0, "", said)


def test_what_is_sealed_and_not_durable(root: Path, spark: SparkSession) -> None:
    given = Settings(master="local[2]", partitions=2, listing_seconds=0.0, checkpoint_seconds=1e9)
    data = Path(Snapshot.open(root).catalog.tables["t"].path) / "late.csv"
    data.write_text("late,7\n")
    with Mill(root, spark=spark, settings=given) as mill:
        local(mill).advance()
        table = Snapshot.open(root).plan("sums").table.id
        row = next(r for r in as_json(state(root, "ls", "--format", "json")) if r["table"] == table)
        files = as_json(state(root, "ls", "--files", "--format", "json"))
    data.unlink()
    assert row["buffered_rows"] > 0 and row["buffered_bytes"] > 0
    waiting = [r for r in files if r["place"] == "buffer"]
    assert {(r["used_by"], r["last_epoch"]) for r in waiting} == {("next checkpoint", EPOCHS + 1)}


@pytest.mark.parametrize("by", ["view", "table"])
def test_inspect_a_table_or_view(root: Path, by: str) -> None:
    table, runs = Snapshot.open(root).plan("sums").table.id, runs_of(root, "sums")
    name = "sums" if by == "view" else table
    found = as_json(state(root, "inspect", name, "--format", "json"))
    visible = [r for r in found if r["removed"] is None]
    assert [(r["file"], r["section"], r["rows"], r["bytes"]) for r in visible] == [
        (r.file, r.section, r.rows, r.bytes) for r in runs
    ]
    assert state(root, "inspect", name).out.splitlines()[0] == table


def test_inspect_a_file(root: Path) -> None:
    run = runs_of(root, "sums")[0]
    for name in (run.file, run.file[:20], f"sst/{run.file}"):
        done = state(root, "inspect", name)
        if name == run.file[:20] and done.code:  # several begin so
            assert done.err.startswith("TM1037: ")
            continue
        assert done.out.splitlines()[0] == run.file
        sections = as_json(state(root, "inspect", name, "--format", "json"))
        assert {s["state"] for s in sections} == {"intact"}
        [mine] = [s for s in sections if s["section"] == run.section]
        assert (mine["table"], mine["rows"], mine["bytes"]) == (run.table, run.rows, run.bytes)
        assert 0 <= mine["first_vnode"] <= mine["last_vnode"]


def test_inspect_rows_are_those_of_the_view(root: Path) -> None:
    expected: Mapping[str, int] = {"Zoë": 3, "k0": 2, "k1": 2, "k2": 2}
    assert {r["k"]: r["v"] for r in Snapshot.open(root).read("sums").to_pylist()} == expected
    rows = as_json(state(root, "inspect", "sums", "--rows", "100", "--format", "json"))
    assert {r["k"]: r["v2"] for r in rows} == expected, "merged: one row a key, its sum the last of what is kept"
    assert len(rows) == len(expected)
    assert len(as_json(state(root, "inspect", "sums", "--rows", "2", "--format", "json"))) == 2
    done = state(root, "inspect", runs_of(root, "sums")[0].file, "--rows", "1")
    assert done.out.startswith("section 0, ")
    arrow = state(root, "inspect", "sums", "--rows", "100", "--format", "arrow")
    assert len(pa.ipc.open_stream(arrow.raw).read_all()) == len(rows)


VIEWS = {
    "top": ("SELECT k AS name, v FROM t ORDER BY v DESC, k LIMIT 3", "view:", ("name", "v")),
    "joined": ("SELECT a.k, a.v, b.v AS w FROM t a JOIN t b ON a.k = b.k", "view:", ("k", "v", "w")),
    "fewest": ("SELECT v % 2 AS odd, MIN(k) AS k FROM t GROUP BY v % 2", "group:", ("remainder(v, 2)",)),
    "alone": ("SELECT COUNT(*) AS n FROM t", "group:", ()),
    "keyed": ("SELECT id, s FROM u", "view:", ("id", "s")),
}


@pytest.fixture(scope="module")
def named(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A root with views of several kinds."""
    home = tmp_path_factory.mktemp("named")
    (home / "t.csv").write_text("a,1,I\nb,2,I\nb,3,I\na,2,I\nc,9,I\nc,9,D\n")
    (home / "u.csv").write_text("1,x\n2,y\n1,z\n")
    with Mill(home / "root", spark=spark, settings=Settings(master="local[2]", partitions=2)) as mill:
        local(mill)
        mill.sql(
            f"CREATE TABLE t (k STRING, v INT) USING csv OPTIONS (path '{home}/t.csv', opColumn 'op', header 'false')"
        )
        mill.sql(f"CREATE TABLE u (id INT PRIMARY KEY, s STRING) USING csv OPTIONS (path '{home}/u.csv')")
        for name, (query, _, _) in VIEWS.items():
            mill.sql(f"CREATE MATERIALIZED VIEW {name} AS {query}")
        list(mill.drain())
    return home / "root"


@pytest.mark.parametrize("view", VIEWS)
def test_inspect_names_columns_as_the_plan_does(named: Path, view: str) -> None:
    _, kind, keys = VIEWS[view]
    rows = as_json(state(named, "inspect", view, "--rows", "100", "--format", "json"))
    snapshot = Snapshot.open(named)
    assert snapshot.plan(view).table.id.startswith(kind)
    assert tuple(rows[0])[: len(keys)] == keys
    if kind == "view:":
        kept = Counter({tuple(r[k] for k in keys): r["__weight"] for r in rows})
        assert {k: n for k, n in kept.items() if n} == Counter(
            tuple(r.values()) for r in snapshot.read(view).to_pylist()
        )
    else:
        assert {n[0] for n in tuple(rows[0])[len(keys) :]} == {"v"}


def test_inspect_names_columns_of_all_state_tables(named: Path) -> None:
    """What a join, an order and extremes of groups keep, a table with a key, a source: in the order of their keys."""
    snapshot = Snapshot.open(named)
    found = {}
    for table in snapshot.version.tables:
        rows = as_json(state(named, "inspect", table, "--rows", "1", "--format", "json"))
        found.setdefault(table.split(":")[0].rstrip("0123456789"), set()).add(tuple(rows[0]) if rows else ())
    assert found["top"] == {("v", "k", "k#2", "__weight")}, "the order, then the other column"
    assert found["rows"] == {("k", "v", "__weight")}
    assert found["values"] == {("remainder(v, 2)", "k", "__weight")}
    assert {names[:2] for names in found["table"]} == {("id", "v0")}
    assert {names[0] for names in found["list"]} == {"file"}


@pytest.mark.parametrize(
    ("arguments", "number", "words"),
    [
        (("inspect", "smus"), "TM1037", "did you mean 'sums'?"),
        (("inspect", "c0"), "TM1037", "give more of the name"),
        (("ls", "--format", "xml"), "TM7002", "valid names: arrow, csv, json, table"),
        (("verify", "--format", "xml"), "TM7002", "valid names"),
        (("gc", "--format", "xml"), "TM7002", "valid names"),
    ],
)
def test_wrong_questions(root: Path, arguments: tuple[str, ...], number: str, words: str) -> None:
    orphan(root)
    before = contents(root)
    done = state(root, *arguments)
    assert (done.code, done.out) == (1, "")
    assert done.err.startswith(f"{number}: ")
    assert words in done.err
    assert contents(root) == before


def test_verify(root: Path) -> None:
    before = contents(root)
    done = state(root, "verify")
    files = [n for n in before if n.startswith("sst/")]
    manifests = [n for n in before if n.startswith("manifest/")]
    size = sum(len(before[n]) for n in (*files, *manifests))
    said = f"{root}: {len(manifests)} manifests and {len(files)} files, {size:,} bytes checked: all intact\n"
    assert (done.code, done.out, done.err) == (0, "", said)
    everything = as_json(state(root, "verify", "--format", "json"))
    assert {r["name"]: (r["bytes"], r["state"]) for r in everything} == {
        n: (len(before[n]), "intact") for n in (*files, *manifests)
    }
    assert contents(root) == before


def test_verify_and_inspect_a_damaged_root(root: Path) -> None:
    last = max((root / "sst").iterdir())
    flip(last, last.stat().st_size - 1)
    before = contents(root)
    done = state(root, "verify")
    assert done.code == 1
    assert last.name[:50] in done.out and "TM1011" in done.out
    assert "1 not intact" in done.err
    rows = [json.loads(line) for line in state(root, "verify", "--format", "json").out.splitlines()]
    assert [(r["name"], r["bytes"], r["state"]) for r in rows if r["state"] != "intact"] == [
        (f"sst/{last.name}", last.stat().st_size, "damaged")
    ]
    [first] = {r["first_manifest"] for r in rows if r["state"] != "intact"}
    assert f"go back to manifest {first - 1}," in done.err
    assert contents(root) == before


def test_one_damaged_section(root: Path) -> None:
    """``inspect`` says which it is, ``verify`` that the file is not intact."""
    run = next(r for r in runs_of(root, "sums") if r.rows)
    path = root / "sst" / run.file
    sections = as_json(state(root, "inspect", run.file, "--format", "json"))
    raw = path.read_bytes()
    at = next(i for i in range(len(raw) // 4, len(raw)) if raw[i] and _hits(path, raw, i, root, run.file))
    run_store._open.clear()
    flip(path, at)
    run_store._open.clear()
    damaged = [json.loads(line) for line in state(root, "inspect", run.file, "--format", "json").out.splitlines()]
    assert len(damaged) == len(sections)
    assert sum(s["state"] == "TM1011" for s in damaged) == 1
    assert state(root, "verify").code == 1


def _hits(path: Path, raw: bytes, at: int, root: Path, file: str) -> bool:
    """Whether a flipped byte damages a section, and leaves the footer."""
    flip(path, at)
    run_store._open.clear()
    try:
        done = state(root, "inspect", file, "--format", "json")
        return done.code == 0 and "TM1011" in done.out
    finally:
        path.unlink()
        path.write_bytes(raw)


def test_gc(root: Path) -> None:
    old, young = orphan(root), orphan(root, "c0000000098-y.sst", age=0.0)
    before = contents(root)
    dry = state(root, "gc", "--dry-run")
    assert dry.code == 0
    assert old.name in dry.out and young.name not in dry.out
    kept = "; 1 more that nothing names stay, as they are younger than 120 s\n"
    assert dry.err == f"would remove 1 files, 6 bytes{kept}"
    assert contents(root) == before
    done = state(root, "gc")
    assert (done.code, done.out, done.err) == (0, dry.out, f"removed 1 files, 6 bytes{kept}")
    assert contents(root) == {n: b for n, b in before.items() if n != f"sst/{old.name}"}
    [row] = as_json(state(root, "gc", "--grace", "0", "--format", "json"))
    assert (row["name"], row["place"], row["bytes"]) == (f"sst/{young.name}", "durable", 6)
    done = state(root, "gc", "--grace", "0")
    assert (done.code, done.out, done.err) == (0, "", "removed 0 files, 0 bytes\n")
    assert state(root, "verify").code == 0


def test_gc_takes_a_buffer_that_was_given(root: Path, tmp_path: Path) -> None:
    """What was sealed there and is not durable is read again by the next mill; nothing else is touched."""
    buffer = tmp_path / "elsewhere"
    buffer.mkdir()
    for epoch in (1, EPOCHS + 5):
        (buffer / f"e{epoch:010d}-0123abcd-0-0-{epoch:032x}.run").write_text("sealed")
    (buffer / "notes.txt").write_text("not ours")
    before = contents(root)
    assert "removed 0 files" in state(root, "gc", "--grace", "0").err
    done = state(root, "gc", "--grace", "0", "--buffer", str(buffer))
    assert done.err.startswith("removed 2 files, 12 bytes")
    assert contents(root) == before
    assert [p.name for p in buffer.iterdir()] == ["notes.txt"]


def test_as_a_process(root: Path) -> None:
    """The same in a process of its own, after another: output, and exit codes of success and failure."""
    at = ("--root", str(root))
    (root / "sst" / runs_of(root, "sums")[0].file).unlink()
    commands = [("state", "ls", *at), ("state", "verify", *at), ("state", "gc", *at), ("state", "inspect", "sums", *at)]
    there = elsewhere(*commands)
    run_store._open.clear()
    assert [d.code for d in there] == [1, 1, 1, 0]
    assert there[2].err.startswith("TM1010: a state file named by the manifest is missing")
    assert [(d.code, d.raw, d.err) for d in there] == [
        (d.code, d.raw, d.err) for d in (here(*arguments) for arguments in commands)
    ]
