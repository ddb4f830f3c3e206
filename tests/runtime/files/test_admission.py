"""Which files are admitted when: limits, late and replaced files, restarts, and no job for nothing."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from job_status import jobs_so_far
from tidemill.errors import TidemillError
from tidemill.mill import Mill
from tidemill.runtime.files import file_progress
from tidemill.state.versions.manifest import ManifestLog

Opener = Callable[..., Mill]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    directory = tmp_path / "data"
    directory.mkdir()
    return directory


def create(mill: Mill, data: Path, options: str = "") -> Mill:
    mill.sql(f"CREATE TABLE t (k INT) USING csv OPTIONS (path '{data}'{options})")
    mill.sql("CREATE MATERIALIZED VIEW v AS SELECT k FROM t")
    return mill


def put(data: Path, name: str, *rows: int) -> Path:
    path = data / name
    path.write_text("".join(f"{r:07d}\n" for r in rows))
    return path


def rows(mill: Mill) -> list[int]:
    return sorted(mill.read("v").column("k").to_pylist())


def admitted(mill: Mill) -> list[list[str]]:
    """Names of the files that each epoch reads, until nothing is left."""
    return [[Path(path).name for _, path, _, _ in report.read] for report in mill.drain()]


def test_nothing_to_do_runs_no_job(mill_factory: Opener, data: Path) -> None:
    mill = create(mill_factory(mode="jobs", checkpoint_seconds=3600), data)  # a checkpoint is a job, too
    before = jobs_so_far(mill.spark)
    assert mill.advance() is None
    put(data, "a.csv", 1)
    assert mill.advance() is not None
    busy = jobs_so_far(mill.spark)
    assert busy == before + 1, "one job an epoch"
    for _ in range(3):
        assert mill.advance() is None
    put(data, "_hidden.csv", 2)
    put(data, ".hidden.csv", 2)
    (data / "empty.csv").touch()
    assert mill.advance() is None
    assert (jobs_so_far(mill.spark), mill.epoch, rows(mill)) == (busy, 1, [1])


def test_files_that_appear_later_are_read_once(mill_factory: Opener, data: Path) -> None:
    mill = create(mill_factory(), data)
    put(data, "b.csv", 1)
    assert admitted(mill) == [["b.csv"]]
    put(data, "a.csv", 2)
    (data / "empty.csv").touch()
    assert admitted(mill) == [["a.csv"]]
    put(data, "empty.csv", 3)
    os.utime(data / "a.csv")
    assert admitted(mill) == [["empty.csv"]]
    assert rows(mill) == [1, 2, 3]


def test_each_file_once_across_restarts(mill_factory: Opener, data: Path) -> None:
    for number in range(4):
        put(data, f"{number}.csv", number)
        mill = mill_factory()
        mill.script(
            f"CREATE TABLE t (k INT) USING csv OPTIONS (path '{data}');CREATE MATERIALIZED VIEW v AS SELECT k FROM t"
        )
        assert admitted(mill) == [[f"{number}.csv"]]
        assert rows(mill) == list(range(number + 1))
        mill.close()


def test_max_files_per_trigger(mill_factory: Opener, data: Path) -> None:
    for number in range(5):
        put(data, f"{number}.csv", number)
    mill = create(mill_factory(), data, ", maxFilesPerTrigger 2")
    assert admitted(mill) == [["0.csv", "1.csv"], ["2.csv", "3.csv"], ["4.csv"]]
    assert rows(mill) == list(range(5))


def test_max_bytes_per_trigger(mill_factory: Opener, data: Path) -> None:
    put(data, "a.csv", *range(10))
    mill = create(mill_factory(), data, ", maxBytesPerTrigger '24b'")
    sizes = [report.bytes_in for report in mill.drain()]
    assert sizes == [24, 24, 24, 8]
    assert rows(mill) == list(range(10))


def test_most_bytes_of_an_epoch(mill_factory: Opener, data: Path) -> None:
    put(data, "a.csv", *range(20))
    mill = create(mill_factory(epoch_bytes=50, split_bytes=20), data)
    reports = list(mill.drain())
    assert max(r.bytes_in for r in reports) == 50
    assert [s for r in reports for s in sorted(r.read)][:4] == [
        ("t", str(data / "a.csv"), start, end) for start, end in ((0, 20), (20, 40), (40, 50), (50, 70))
    ]
    assert rows(mill) == list(range(20))


def test_backlog_is_what_waits(mill_factory: Opener, data: Path) -> None:
    put(data, "a.csv", 1, 2, 3)
    mill = create(mill_factory(epoch_bytes=8), data)
    assert mill.backlog() == 24
    mill.advance()
    assert mill.backlog() == 16


def test_file_replaced_before_it_was_read(mill_factory: Opener, data: Path) -> None:
    path = put(data, "a.csv", 1, 2)
    mill = create(mill_factory(), data)
    assert mill.backlog() == 16
    put(data, "a.csv", 7)
    os.utime(path, ns=(5, 5))
    assert admitted(mill) == [["a.csv"]]
    assert rows(mill) == [7]


def test_file_removed_before_it_was_read(mill_factory: Opener, data: Path) -> None:
    path = put(data, "a.csv", 1, 2)
    put(data, "b.csv", 3)
    mill = create(mill_factory(), data)
    assert mill.backlog() == 24
    path.unlink()
    assert admitted(mill) == [["b.csv"]]
    assert rows(mill) == [3]


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """What could not be read is tried again at once."""
    monkeypatch.setattr(file_progress, "FIRST_RETRY", 0)


@pytest.mark.usefixtures("at_once")
def test_file_replaced_in_the_middle(mill_factory: Opener, data: Path) -> None:
    path = put(data, "a.csv", 1, 2, 3)
    mill = create(mill_factory(epoch_bytes=8), data, ", fileAttempts 3")
    mill.advance()
    listed = path.stat().st_mtime_ns
    put(data, "a.csv", 7, 8, 9)
    os.utime(path, ns=(listed + 1, listed + 1))
    put(data, "b.csv", 4)
    assert admitted(mill) == [["b.csv"], []], "others go on; that it was set aside is noted with an epoch"
    assert rows(mill) == [1, 4]
    mill.checkpoint()
    put(data, "a.csv", 1, 2, 3)
    os.utime(path, ns=(listed, listed))
    assert admitted(mill) == [["a.csv"], ["a.csv"]]
    assert rows(mill) == [1, 2, 3, 4], "the file that was listed is back"


@pytest.mark.usefixtures("at_once")
def test_what_is_said_of_a_file_that_cannot_be_read(mill_factory: Opener, data: Path) -> None:
    path = put(data, "a.csv", 1, 2)
    mill = create(mill_factory(epoch_bytes=8), data, ", fileAttempts 2")
    mill.advance()
    path.rename(data / "_away")
    put(data, "b.csv", 3)
    said = [w for report in mill.drain() for w in report.warnings]
    (warning,) = said
    assert warning.startswith("TM5040") and str(path) in warning and "TM5001" in warning
    assert rows(mill) == [1, 3]
    mill.close()
    with mill_factory() as again:
        assert (again.advance(), rows(again)) == (None, [1, 3])
        (data / "_away").rename(path)
        assert admitted(again) == [["a.csv"]]
        assert rows(again) == [1, 2, 3]


def test_a_mode_that_fails_fast_fails(mill_factory: Opener, data: Path) -> None:
    path = put(data, "a.csv", 1, 2)
    mill = create(mill_factory(epoch_bytes=8), data, ", mode 'FAILFAST'")
    mill.advance()
    path.rename(data / "_away")
    with pytest.raises(TidemillError, match="TM5001"):
        mill.advance()
    assert (mill.epoch, rows(mill)) == (1, [1])
    (data / "_away").rename(path)
    list(mill.drain())
    assert rows(mill) == [1, 2]


def test_file_removed_between_list_and_fetch(mill_factory: Opener, data: Path) -> None:
    path = put(data, "a.csv", 1, 2)
    put(data, "b.csv", 3)
    mill = create(mill_factory(), data)
    assert mill.backlog() == 24
    path.unlink()
    (report,) = (mill.advance_known(),)
    assert report is not None
    (warning,) = report.warnings
    assert warning.startswith("TM5042") and str(path) in warning
    assert rows(mill) == [3]


def test_changed_files_are_told_of_or_read_on(mill_factory: Opener, data: Path) -> None:
    """Objects and tables that mind changes are compared with what was read."""
    put(data, "a.csv", 1, 2)
    mill = create(mill_factory(), data, ", allowAppends true")
    list(mill.drain())
    put(data, "a.csv", 1, 2, 3, 4)
    assert admitted(mill) == [["a.csv"]]
    assert rows(mill) == [1, 2, 3, 4]
    mill.sql("CREATE MATERIALIZED VIEW later AS SELECT k FROM t")
    put(data, "a.csv", 1, 2, 3, 4, 5)
    list(mill.drain())
    assert sorted(mill.read("later").column("k").to_pylist()) == rows(mill) == [1, 2, 3, 4, 5]
    put(data, "a.csv", 9)
    said = [*(w for report in mill.drain() for w in report.warnings), *mill.warnings()]
    assert [w[:6] for w in said] == ["TM5041"]
    assert "allowAppends" not in said[0]
    put(data, "a.csv", 1, 2, 3, 4, 5, 6)
    assert admitted(mill) == [["a.csv"]], "it is what it was, and longer"
    assert rows(mill) == [1, 2, 3, 4, 5, 6]


def test_a_file_that_is_written_anew_before_it_is_read(mill_factory: Opener, data: Path) -> None:
    """No row of it is torn, and no version is mixed with another, also in views that come later."""
    mill = create(mill_factory(), data, ", allowAppends true, fileAttempts 1, maxBytesPerTrigger '80'")
    path = data / "a.csv"
    path.write_text("1\n2\n3\n")
    mill.backlog()
    path.write_text("1000000\n2000000\n")
    mill.advance_known()
    assert rows(mill) == []
    list(mill.drain())
    assert rows(mill) == [1_000_000, 2_000_000]
    put(data, "b.csv", *range(20))
    assert mill.advance() is not None
    (data / "b.csv").write_text("".join(f"{n:011d}\n" for n in range(50, 90)))
    list(mill.drain())
    assert rows(mill) == [*range(10), 1_000_000, 2_000_000]
    mill.sql("CREATE MATERIALIZED VIEW later AS SELECT k FROM t")
    list(mill.drain())
    (status,) = [s for s in mill.status() if s[0] == "later"]
    assert status[1] == "failed" and "TM5003" in status[3]


@pytest.mark.parametrize("restarted", [False, True])
def test_a_file_that_was_written_anew_and_is_longer(mill_factory: Opener, data: Path, restarted: bool) -> None:
    """Nothing of it is read as if it had been added."""
    mill = create(mill_factory(), data, ", allowAppends true")
    put(data, "a.csv", *range(2000))
    put(data, "b.csv", 1)
    list(mill.drain())
    if restarted:
        mill.close()
        mill = mill_factory()
    put(data, "a.csv", *range(1000, 4000))
    put(data, "b.csv", 1, 7)
    said = [*(w for report in mill.drain() for w in report.warnings), *mill.warnings()]
    assert [w[:6] for w in said] == ["TM5041"] and "a.csv" in said[0]
    assert rows(mill) == sorted([*range(2000), 1, 7])
    list(mill.drain())
    assert not mill.warnings(), "told once"
    etags = {r["etag"] for r in mill.read("t__files").to_pylist()}
    assert etags == {None}


def test_options_of_a_statement_that_failed(mill_factory: Opener, data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What becomes of files stays as it was; so it does when the statement is given again and succeeds."""
    mill = create(mill_factory(), data)
    put(data, "a.csv", 1)
    list(mill.drain())
    publish = ManifestLog.publish

    def full(*_: Any) -> Any:
        raise TidemillError("TM1012", "a state file could not be written", got="No space left on device")

    monkeypatch.setattr(ManifestLog, "publish", full)
    with pytest.raises(TidemillError, match="TM1012"):
        mill.sql("ALTER TABLE t SET OPTIONS (cleanSource 'delete')")
    monkeypatch.setattr(ManifestLog, "publish", publish)
    put(data, "b.csv", 2)
    list(mill.drain())
    assert {r["state"] for r in mill.read("t__files").to_pylist()} == {"done"}
    mill.sql("ALTER TABLE t SET OPTIONS (cleanSource 'delete')")
    put(data, "c.csv", 3)
    list(mill.drain())
    states = {Path(r["path"]).name: r["state"] for r in mill.read("t__files").to_pylist()}
    assert states == {"a.csv": "done", "b.csv": "done", "c.csv": "cleaned"}
    assert rows(mill) == [1, 2, 3]


def test_lines_that_are_being_written(mill_factory: Opener, data: Path) -> None:
    """A line counts once it has its end; so does the first one of a file."""
    mill = create(mill_factory(), data, ", allowAppends true")
    path, written = data / "a.csv", b""
    for piece, expected in ((b"1", []), (b"2\n3", [12]), (b"", [12]), (b"4\n5\n", [5, 12, 34]), (b"6", [5, 12, 34])):
        written += piece
        path.write_bytes(written)
        list(mill.drain())
        assert rows(mill) == expected
    mill.close()
    path.write_bytes(written + b"7\n")
    with mill_factory() as again:
        assert admitted(again) == [["a.csv"]]
        assert rows(again) == [5, 12, 34, 67]


@pytest.mark.parametrize(
    "options", ["multiLine true", "allowOverwrites true", "static true", "lineSep ';'", "compression 'gzip'"]
)
def test_files_that_cannot_grow(mill_factory: Opener, data: Path, options: str) -> None:
    using = "json" if "multiLine" in options else "csv"
    with pytest.raises(TidemillError, match="TM2038"):
        mill_factory().sql(
            f"CREATE TABLE t (k INT) USING {using} OPTIONS (path '{data}', allowAppends true, {options})"
        )


def test_odd_files_do_not_hide_others(mill_factory: Opener, data: Path) -> None:
    """Names that are no text, links to themselves, archives that nobody reads."""
    mill = create(mill_factory(), data)
    put(data, "a.csv", 1)
    (data / "b.csv").symlink_to(data / "b.csv")
    (Path(os.fsdecode(os.fsencode(data) + b"/c\xe9.csv"))).write_text("2\n")
    put(data, "d.zip", 3)
    put(data, "e.csv", 4)
    said = [w for report in mill.drain() for w in report.warnings]
    assert sorted(w[:6] for w in said) == ["TM5006", "TM5044"]
    assert rows(mill) == [1, 4]
    assert (mill.advance(), mill.warnings()) == (None, ()), "each is told of once"


def test_a_table_that_no_view_reads_does_not_hold_up_others(
    mill_factory: Opener, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidemill.runtime.files.listed_files.ROOM", 3)
    mill = create(mill_factory(), data)
    mill.sql(f"CREATE TABLE unused (k INT) USING csv OPTIONS (path '{data}')")
    for number in range(10):
        put(data, f"{number}.csv", number)
    list(mill.drain())
    assert rows(mill) == list(range(10))
    mill.sql("CREATE MATERIALIZED VIEW later AS SELECT k FROM unused")
    list(mill.drain())
    assert sorted(mill.read("later").column("k").to_pylist()) == list(range(10))


def test_most_rows_of_an_epoch(mill_factory: Opener, data: Path) -> None:
    """Bytes for so many rows, by what rows had so far."""
    put(data, "a.csv", *range(200))
    mill = create(mill_factory(), data, ", maxRowsPerTrigger 20")
    read = [report.rows_in for report in mill.drain()]
    assert read[0] == 80, "32 bytes are taken for a row that nobody has seen"
    assert read[1:] == [20] * 6


def test_paths_that_do_not_exist(mill_factory: Opener, tmp_path: Path) -> None:
    mill = mill_factory()
    for path, number in ((tmp_path / "none", "TM5001"), ("s4://bucket/x", "TM5002")):
        with pytest.raises(TidemillError, match=number):
            mill.sql(f"CREATE TABLE t (k INT) USING csv OPTIONS (path '{path}')")
    with pytest.raises(TidemillError, match="TM5005"):
        mill.sql("CREATE TABLE t (k INT) USING csv")
    mill.sql(f"CREATE TABLE t (k INT) USING csv OPTIONS (path '{tmp_path}/none-yet-*.csv')")


@pytest.mark.parametrize("text", ["0", "-1", "many", "1.5m", ""])
def test_bad_limits(mill_factory: Opener, data: Path, text: str) -> None:
    for option in ("maxFilesPerTrigger", "maxBytesPerTrigger", "maxRowsPerTrigger", "fileAttempts"):
        with pytest.raises(TidemillError, match="TM4003") as caught:
            create(mill_factory(name=option), data, f", {option} '{text}'")
        assert option in caught.value.what


def test_history_and_new_rows_take_turns(mill_factory: Opener, data: Path) -> None:
    mill = create(mill_factory(epoch_bytes=16), data)
    put(data, "a.csv", *range(8))
    assert len(admitted(mill)) == 4
    mill.sql("CREATE MATERIALIZED VIEW late AS SELECT k % 2 AS d, COUNT(*) AS n FROM t GROUP BY k % 2")
    found, whole = [], []
    for number in range(8, 15):
        if number not in (11, 12):
            put(data, f"b{number}.csv", number)
        report = mill.advance()
        assert report is not None
        found.append((report.rows_in, report.backfilled))
        whole.append("late" not in mill.snapshot().initialising)
    assert found == [(0, 2), (2, 0), (0, 2), (1, 0), (0, 2), (1, 0), (0, 2)]
    assert whole == [False] * 6 + [True]
    assert admitted(mill) == [["b14.csv"]]
    assert rows(mill) == [*range(11), 13, 14]
    assert {r["d"]: r["n"] for r in mill.read("late").to_pylist()} == {0: 7, 1: 6}
