"""Damaged, missing and unwritable files: a number, nothing half-written, and on it goes once they are mended."""

from __future__ import annotations

import hashlib
import json
import shutil
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from py4j.protocol import Py4JNetworkError
from pyspark import RDD, Broadcast

from local_jobs import local
from python_workers import kill_workers
from tidemill.errors import TidemillError
from tidemill.mill import Mill
from tidemill.runtime.read.snapshot import Snapshot
from tidemill.state.runs.sst import RunFile
from tidemill.state.store import store as run_store
from tidemill.state.store.store import RunStore
from tidemill.state.versions.manifest import ManifestLog
from tidemill.state.versions.objects import Objects
from tidemill.task.functions.columns.registry import every_function

_SCRIPT = """
CREATE TABLE t (k INT, v INT) USING csv OPTIONS (path '{data}', maxFilesPerTrigger 1);
CREATE MATERIALIZED VIEW sums AS SELECT k, COUNT(*) AS n, SUM(v) AS v FROM t GROUP BY k;
CREATE MATERIALIZED VIEW sizes AS SELECT n, COUNT(*) AS groups FROM sums GROUP BY n;
"""

Opener = Callable[..., Mill]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Six files; file i has the rows (0, i) and (i, 1)."""
    directory = tmp_path / "data"
    directory.mkdir()
    for number in range(6):
        (directory / f"{number}.csv").write_text(f"0,{number}\n{number},1\n")
    return directory


@pytest.fixture
def mill(request: pytest.FixtureRequest, mill_factory: Opener, data: Path) -> Mill:
    """A mill that has read two of the files; checkpoints are made when asked for.

    ``sizes`` reads the groups of ``sums`` as they were before each epoch.
    """
    opened = mill_factory(checkpoint_seconds=1e9, **getattr(request, "param", {}))
    opened.script(_SCRIPT.format(data=data))
    opened.advance()
    opened.advance()
    opened.checkpoint()
    return opened


def sums(source: Mill | Snapshot) -> dict[int, tuple[int, int]]:
    return {r["k"]: (r["n"], r["v"]) for r in source.read("sums").to_pylist()}


def after(files: int) -> dict[int, tuple[int, int]]:
    """The view over the first files."""
    expected = dict.fromkeys(range(files), (1, 1))
    return {**expected, 0: (files + 1, sum(range(files)) + 1)}


def forget_open_files(mill: Mill) -> None:
    """As in new processes: nothing is mapped any more."""
    run_store._open.clear()
    kill_workers(mill.spark)


def assert_goes_on(mill: Mill) -> None:
    """All input arrives exactly once, and the result is durable."""
    list(mill.drain())
    assert sums(mill) == after(6)
    mill.checkpoint()
    assert sums(Snapshot.open(mill._coordinator.objects.url)) == after(6)


def test_workers_cannot_write(mill: Mill, tmp_path: Path) -> None:
    runs, away = tmp_path / "root" / "buffer", tmp_path / "away"
    runs.rename(away)
    runs.write_text("in the way")
    with pytest.raises(TidemillError, match=r"TM101[12]"):
        mill.advance()
    runs.unlink()
    away.rename(runs)
    assert (mill.epoch, sums(mill)) == (2, after(2))
    assert_goes_on(mill)


def test_positions_cannot_be_written(mill: Mill, monkeypatch: pytest.MonkeyPatch) -> None:
    """The rows are written, their positions are not: neither counts."""
    write = RunStore.write

    def full(self: RunStore, epoch: int, tables: object, label: str) -> object:
        raise TidemillError("TM1012", "a state file could not be written", got="No space left on device")

    monkeypatch.setattr(RunStore, "write", full)
    for _ in range(2):
        with pytest.raises(TidemillError, match="TM1012"):
            mill.advance()
        assert (mill.epoch, sums(mill)) == (2, after(2))
    monkeypatch.setattr(RunStore, "write", write)
    assert_goes_on(mill)


def no_space(name: str, raw: bytes) -> None:
    raise OSError(28, "No space left on device")


def test_manifest_of_a_statement_cannot_be_written(mill: Mill, monkeypatch: pytest.MonkeyPatch) -> None:
    statements = (
        "CREATE MATERIALIZED VIEW more AS SELECT k FROM t",
        "DROP VIEW sizes",
        "CREATE TABLE u (k INT) USING csv OPTIONS (path '/tmp')",
    )
    with monkeypatch.context() as patch:
        patch.setattr(mill._coordinator.objects, "put", no_space)
        for statement in statements:
            for _ in range(2):
                with pytest.raises(TidemillError, match="TM1014"):
                    mill.sql(statement)
        assert [name for name, *_ in mill.status()] == ["sums", "sizes"], "nothing has changed"
        assert sums(mill) == after(2)
    mill.sql(statements[0])
    assert_goes_on(mill)
    assert sorted(mill.read("more").column("k").to_pylist()) == sorted([0] * 6 + list(range(6)))


def test_checkpoint_cannot_be_written(mill: Mill, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(mill._coordinator.objects, "put", no_space)
        assert mill.advance() is not None, "sealing does not wait for the disk"
        with pytest.raises(TidemillError, match="TM1014"):
            mill.checkpoint()
        assert sums(mill) == after(3)
        assert sums(Snapshot.open(tmp_path / "root")) == after(2)
    assert_goes_on(mill)


def test_root_on_a_file(mill_factory: Opener, tmp_path: Path) -> None:
    (tmp_path / "root").write_text("in the way")
    with pytest.raises(TidemillError, match="TM1013"):
        mill_factory()
    assert (tmp_path / "root").read_text() == "in the way"


def file_of_sums(mill: Mill) -> tuple[Path, int]:
    """A durable file of the view, and where in it a byte of the view is."""
    snapshot = Snapshot.open(mill._coordinator.objects.url)
    run = snapshot.runs(snapshot.plan("sums"))[0]
    section = RunFile(snapshot.store.path(run.file)).sections[run.section]
    return snapshot.store.path(run.file), section.offset + section.length // 2


def test_missing_state_file(mill: Mill, mill_factory: Opener, tmp_path: Path) -> None:
    lost, _ = file_of_sums(mill)
    mill.close()
    lost.rename(tmp_path / "lost")
    forget_open_files(mill)
    with pytest.raises(TidemillError, match="TM1010") as caught:
        sums(Snapshot.open(tmp_path / "root"))
    assert caught.value.got == str(lost)
    with pytest.raises(TidemillError, match="TM1010"):
        mill_factory()  # which files have been read stands there too
    (tmp_path / "lost").rename(lost)
    opened = mill_factory()
    assert opened.epoch == 2
    assert_goes_on(opened)


def test_corrupt_state_file(mill: Mill, mill_factory: Opener, tmp_path: Path) -> None:
    bad, at = file_of_sums(mill)
    mill.close()
    good = bad.read_bytes()
    damaged = bytearray(good)
    damaged[at] ^= 0x40
    bad.unlink()
    bad.write_bytes(damaged)
    forget_open_files(mill)
    with pytest.raises(TidemillError, match="TM1011") as caught:
        sums(Snapshot.open(tmp_path / "root"))
    assert str(bad) in caught.value.got
    opened = mill_factory()
    with pytest.raises(TidemillError, match="TM1011"):
        list(opened.drain())
    assert opened.epoch == 2
    bad.unlink()
    bad.write_bytes(good)
    assert_goes_on(opened)


def test_damaged_manifest_and_going_back_one(mill: Mill, mill_factory: Opener, tmp_path: Path) -> None:
    mill.advance()
    mill.close()
    newest = sorted((tmp_path / "root" / "manifest").glob("*.json"))[-1]
    newest.write_bytes(newest.read_bytes()[:-5])
    for opening in (mill_factory, lambda: Snapshot.open(tmp_path / "root")):
        with pytest.raises(TidemillError, match="TM1004") as caught:
            opening()
        assert str(newest) in caught.value.got
    shutil.move(newest, tmp_path / "damaged")
    opened = mill_factory()
    assert (opened.epoch, sums(opened)) == (2, after(2))
    assert_goes_on(opened)


def test_manifest_of_a_newer_version(mill: Mill, mill_factory: Opener, tmp_path: Path) -> None:
    mill.close()
    body = json.dumps({"format": 99}).encode()
    newer = tmp_path / "root" / "manifest" / f"{10**6:020d}.json"
    newer.write_bytes(hashlib.sha256(body).hexdigest().encode() + b"\n" + body)
    before = sorted((tmp_path / "root" / "sst").iterdir())
    for opening in (mill_factory, lambda: Snapshot.open(tmp_path / "root")):
        with pytest.raises(TidemillError, match="TM1002"):
            opening()
    assert sorted((tmp_path / "root" / "sst").iterdir()) == before
    newer.unlink()
    assert_goes_on(mill_factory())


def test_no_root(tmp_path: Path) -> None:
    for root in (tmp_path, tmp_path / "none"):
        with pytest.raises(TidemillError, match="TM1001"):
            Snapshot.open(root)
    ManifestLog(Objects(tmp_path / "new"), create=True)
    with pytest.raises(TidemillError, match="TM1001"):
        Snapshot.open(tmp_path / "new")


def test_background_failure_is_told_to_all_who_ask(mill: Mill, tmp_path: Path) -> None:
    runs, away = tmp_path / "root" / "buffer", tmp_path / "away"
    runs.rename(away)
    runs.write_text("in the way")
    mill.start(interval=0.01)
    began = time.monotonic()
    while {s for _, s, _, _ in mill.status()} != {"stopped"}:
        assert time.monotonic() < began + 120
        time.sleep(0.01)
    assert {d[:6] for _, _, _, d in mill.status()} <= {"TM1011", "TM1012"}
    said = "\n".join(mill.warnings())
    assert "TM7008" in said and mill.status()[0][3] in said
    assert not mill.warnings()
    with pytest.raises(TidemillError, match=r"TM101[12]"):
        next(mill.subscribe("sums", from_epoch=mill.epoch, timeout=120))
    with pytest.raises(TidemillError, match=r"TM101[12]"):
        mill.start()
    assert {s for _, s, _, _ in mill.status()} == {"fresh"}
    runs.unlink()
    away.rename(runs)
    assert sums(mill) == after(2)
    mill.start(interval=0.01)
    began = time.monotonic()
    while sums(mill) != after(6):
        assert time.monotonic() < began + 120
        time.sleep(0.05)
    assert {s for _, s, _, _ in mill.status()} == {"fresh"} and not mill.warnings()
    mill.stop()


def test_a_path_that_goes_away_for_a_while(mill: Mill, data: Path) -> None:
    """It is a warning, and tables go on when it is back."""
    data.rename(data.with_name("away"))
    assert mill.advance() is None
    said = "\n".join(mill.warnings())
    assert "TM5001" in said and str(data) in said
    assert "TM5042" in said
    data.with_name("away").rename(data)
    assert_goes_on(mill)


def test_a_bug_of_a_function_ends_the_views_that_call_it(mill: Mill, monkeypatch: pytest.MonkeyPatch) -> None:
    local(mill)
    mill.sql("CREATE MATERIALIZED VIEW reversed AS SELECT k, reverse(CAST(v AS STRING)) AS r FROM t")
    mill.sql(
        "CREATE MATERIALIZED VIEW lengths AS SELECT length(r) AS n, COUNT(*) AS c FROM reversed GROUP BY length(r)"
    )
    while mill.status()[-1][1] == "initialising":
        assert mill.advance() is not None

    def broken(*_: object) -> None:
        raise TypeError("no text can be read backwards")

    monkeypatch.setitem(every_function(), "reverse", replace(every_function()["reverse"], kernel=broken))
    report = mill.advance()
    assert report is not None and report.failed.keys() == {"reversed", "lengths"}
    assert (
        "TM3900" in report.failed["reversed"]
        and "TypeError: no text can be read backwards" in report.failed["reversed"]
    )
    assert [s[1] for s in mill.status()] == ["fresh", "fresh", "failed", "failed"]
    monkeypatch.undo()
    while mill.advance() is not None:
        pass
    assert sums(mill) == after(6)
    with pytest.raises(TidemillError, match="TM1033"):
        mill.read("lengths")
    mill.sql("CREATE OR REPLACE MATERIALIZED VIEW reversed AS SELECT k, reverse(CAST(v AS STRING)) AS r FROM t")
    while mill.advance() is not None:
        pass
    assert [s[1] for s in mill.status()] == ["fresh"] * 4
    assert mill.read("reversed").num_rows == 12
    assert sum(mill.read("lengths")["c"].to_pylist()) == 12


@pytest.mark.parametrize("mill", [{"mode": "jobs"}], indirect=True)
def test_results_that_do_not_arrive(mill: Mill, monkeypatch: pytest.MonkeyPatch) -> None:
    """As when Java ends while it hands them out: collect() gives a part of them, and no error."""
    collect = RDD.collect
    monkeypatch.setattr(RDD, "collect", lambda rdd: collect(rdd)[:-1])
    with pytest.raises(TidemillError, match=r"TM1020.*\n.*the results of \d+ tasks of \d+"):
        mill.advance()
    assert mill.epoch == 2 and sums(mill) == after(2)
    monkeypatch.undo()
    while mill.advance() is not None:
        pass
    assert sums(mill) == after(6)


def test_tasks_name_their_program_without_java(mill: Mill, monkeypatch: pytest.MonkeyPatch) -> None:
    """PySpark prints the trace of what fails while it pickles a function, so nothing there may ask a Java that ends."""

    def ended(self: object) -> None:
        raise Py4JNetworkError("Answer from Java side is empty")

    monkeypatch.setattr(Broadcast, "__reduce__", ended)
    assert mill.advance() is not None
    assert sums(mill) == after(3)
