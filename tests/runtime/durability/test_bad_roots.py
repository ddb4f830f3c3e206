"""Roots that cannot be used as they are: an error says what is intact and what to do, and nothing is changed."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from unittest import mock

import pytest
from pyspark.sql import SparkSession

from commands import Finished, elsewhere, here, tidemill
from local_jobs import local
from state_root import contents, flip
from tidemill import mill as mill_module
from tidemill.config import Settings
from tidemill.errors import TidemillError
from tidemill.mill import Mill
from tidemill.runtime.read.snapshot import Snapshot
from tidemill.runtime.root import Root
from tidemill.state.runs import sst
from tidemill.state.store import store as run_store
from tidemill.state.store.file_names import this_host
from tidemill.state.store.store import RunStore
from tidemill.state.versions.manifest import FORMAT_VERSION, OLDEST_FORMAT

Harm = Callable[[Path], None]


GIVEN = Settings(master="local[2]", partitions=2, listing_seconds=0.0, checkpoint_seconds=1e9)


def unprivileged(*commands: Sequence[str]) -> list[Finished]:
    """Commands in one process that heeds the permissions of files though it is root."""
    powers = "-dac_override,-dac_read_search"
    drop = ["setpriv", f"--bounding-set={powers}", f"--inh-caps={powers}"]
    return elsewhere(*commands, prefix=drop if os.geteuid() == 0 else ())


@pytest.fixture
def no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever would start Spark fails."""

    def start(_: Settings) -> SparkSession:
        raise AssertionError("Spark was asked for")

    monkeypatch.setattr(mill_module, "create_session", start)


def test_tables_of_spark_are_not_in_the_working_directory(spark: SparkSession) -> None:
    warehouse = Path((spark.conf.get("spark.sql.warehouse.dir") or "").removeprefix("file:"))
    assert warehouse.is_dir()
    assert Path.cwd() not in (warehouse, *warehouse.parents)


def test_a_root_that_was_made_for_nothing_is_gone(tmp_path: Path, no_spark: None) -> None:
    """Nothing durable was made: who made the directory takes it away, and no directory that was there."""
    Root(tmp_path / "a" / "b", GIVEN).release()
    assert contents(tmp_path) == {}
    assert not (tmp_path / "a").exists()
    (tmp_path / "there").mkdir()
    Root(tmp_path / "there", GIVEN).release()
    assert (tmp_path / "there" / "LOCK").exists()
    taken = Root(tmp_path / "a" / "b", GIVEN)
    (tmp_path / "a" / "b" / "mine.txt").touch()
    taken.release()
    assert (tmp_path / "a" / "b" / "mine.txt").exists()


@pytest.fixture(scope="module")
def good(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A root with three epochs, a checkpoint each, and its data beside it."""
    home = tmp_path_factory.mktemp("good")
    (home / "data").mkdir()
    for number in range(3):
        (home / "data" / f"{number}.csv").write_text(f"{number},1\n0,1\n")
    with Mill(home / "root", spark=spark, settings=GIVEN) as mill:
        local(mill)
        mill.sql(f"CREATE TABLE t (k INT, v INT) USING csv OPTIONS (path '{home}/data', maxFilesPerTrigger 1)")
        mill.sql("CREATE MATERIALIZED VIEW sums AS SELECT k, SUM(v) AS v FROM t GROUP BY k")
        for _ in range(3):
            mill.advance()
            mill.checkpoint()
    return home


@pytest.fixture
def root(good: Path, tmp_path: Path) -> Path:
    shutil.copytree(good / "root", tmp_path / "root")
    run_store._open.clear()
    return tmp_path / "root"


def newest_manifest(root: Path) -> Path:
    return max((root / "manifest").glob("*.json"))


def state_file(root: Path) -> Path:
    """The oldest durable file of the view."""
    snapshot = Snapshot.open(root)
    return snapshot.store.path(snapshot.runs(snapshot.plan("sums"))[0].file)


def foreign(root: Path) -> None:
    shutil.rmtree(root)
    root.mkdir()
    (root / "thesis.tex").write_text("years of work")
    (root / "manifest").mkdir()
    (root / "manifest" / "README").write_text("of something else")


def manifests_lost(root: Path) -> None:
    shutil.rmtree(root / "manifest")


def manifest_torn(root: Path) -> None:
    raw = newest_manifest(root).read_bytes()
    newest_manifest(root).write_bytes(raw[: len(raw) // 2])


def manifest_empty(root: Path) -> None:
    newest_manifest(root).write_bytes(b"")


def manifest_flipped(root: Path) -> None:
    flip(newest_manifest(root), newest_manifest(root).stat().st_size // 2)


def of_format(number: int) -> Harm:
    def harm(root: Path) -> None:
        body = json.dumps({**json.loads(newest_manifest(root).read_bytes()[65:]), "format": number}).encode()
        newest_manifest(root).write_bytes(hashlib.sha256(body).hexdigest().encode() + b"\n" + body)

    return harm


def file_of_another_format(root: Path) -> None:
    path = state_file(root)
    parts = [(s.table, sst.RunFile(path).rows(i), s.ops) for i, s in enumerate(sst.RunFile(path).sections)]
    known, sst.FORMAT_VERSION = sst.FORMAT_VERSION, sst.FORMAT_VERSION + 1
    try:
        path.unlink()
        sst.write(path, parts)
    finally:
        sst.FORMAT_VERSION = known
    run_store._open.clear()


def file_missing(root: Path) -> None:
    state_file(root).unlink()


def file_torn(root: Path) -> None:
    path = state_file(root)
    raw = path.read_bytes()
    path.unlink()
    path.write_bytes(raw[: len(raw) * 2 // 3])


ROOTS: dict[str, tuple[Harm, str, str]] = {
    "foreign directory": (foreign, "TM1005", "give a new or empty directory"),
    "manifests lost": (manifests_lost, "TM1006", "the state files are untouched"),
    "torn manifest": (manifest_torn, "TM1004", "older manifests: ["),
    "empty manifest": (manifest_empty, "TM1004", "older manifests: ["),
    "flipped manifest": (manifest_flipped, "TM1004", "older manifests: ["),
    "newer manifest": (of_format(FORMAT_VERSION + 1), "TM1002", "upgrade Tidemill; nothing was changed"),
    "older manifest": (of_format(OLDEST_FORMAT - 1), "TM1002", "open it with the version that wrote it"),
    "newer state file": (file_of_another_format, "TM1002", "upgrade Tidemill; nothing was changed"),
    "missing state file": (file_missing, "TM1010", "`tidemill state verify` says what is intact"),
    "torn state file": (file_torn, "TM1011", "`tidemill state verify` says what is intact"),
}


@pytest.mark.parametrize("name", ROOTS)
def test_a_mill(no_spark: None, root: Path, name: str) -> None:
    """It is told before Spark starts, by the class and by the command, and the root is free again."""
    harm, number, words = ROOTS[name]
    harm(root)
    before = contents(root)
    with pytest.raises(TidemillError, match=number) as caught:
        Mill(root, settings=GIVEN)
    assert words in caught.value.hint
    script = root.parent / "s.sql"
    script.write_text("CREATE TABLE t (a INT) USING csv OPTIONS (path '/tmp/none')")
    done = here("run", str(script), "--root", str(root), "--once")
    assert (done.code, done.out) == (1, "")
    assert done.err.startswith(f"{number}: ")
    assert words in done.err
    assert contents(root) == before
    with suppress(FileNotFoundError), (root / "LOCK").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)


@pytest.mark.parametrize("name", ROOTS)
def test_commands(root: Path, name: str) -> None:
    harm, number, words = ROOTS[name]
    harm(root)
    number, words = ("TM1001", "") if name == "foreign directory" else (number, words)
    before = contents(root)
    done = here("query", "SELECT * FROM sums", "--root", str(root))
    assert (done.code, done.out) == (1, "")
    assert done.err.startswith(f"{number}: ")
    assert words in done.err
    checked = here("state", "verify", "--root", str(root))
    assert checked.code == 1
    if name in ("foreign directory", "manifests lost"):
        assert checked.err.startswith(f"{number}: ")
    else:
        assert "1 not intact" in checked.err
        assert number in checked.out
        assert ("upgrade Tidemill" if name.startswith("newer") else "copy of the root") in checked.err
    assert contents(root) == before


@pytest.mark.parametrize(("gone", "times"), [(1, 0), (3, 1)])
def test_manifests_that_have_gone(spark: SparkSession, root: Path, gone: int, times: int) -> None:
    """It is told, once, when something tells it; and either way the mill reads the rest again."""
    numbers = sorted(int(p.stem) for p in (root / "manifest").glob("*.json"))
    for number in numbers[-gone:]:
        (root / "manifest" / f"{number:020d}.json").unlink()
    with Mill(root, spark=spark, settings=GIVEN) as mill:
        told = [w for report in local(mill).drain() for w in report.warnings]
        assert {r["k"]: r["v"] for r in mill.read("sums").to_pylist()} == {0: 4, 1: 1, 2: 1}
    assert [w.splitlines()[0] for w in told] == ["TM1023: newer manifests than the newest one have gone"] * times


@pytest.mark.parametrize("name", ["torn manifest", "torn state file", "missing state file"])
def test_going_back_as_verify_says(spark: SparkSession, root: Path, name: str) -> None:
    """Manifests newer than the one that is named are moved away: the mill reads the rest again."""
    if name == "torn manifest":
        manifest_torn(root)
    else:
        last = max((root / "sst").iterdir())
        raw = last.read_bytes()
        last.unlink()
        if name == "torn state file":
            last.write_bytes(raw[:-1])
    said = here("state", "verify", "--root", str(root)).err
    number = int(said.split("go back to manifest ")[1].split(",")[0])
    away = root.parent / "away"
    away.mkdir()
    for path in (root / "manifest").glob("*.json"):
        if int(path.stem) > number:
            path.rename(away / path.name)
    with Mill(root, spark=spark, settings=GIVEN) as mill:
        list(local(mill).drain())
        assert {r["k"]: r["v"] for r in mill.read("sums").to_pylist()} == {0: 4, 1: 1, 2: 1}


def test_run_in_a_directory_of_somebody_else(tmp_path: Path) -> None:
    """A process without Java learns of the directory, not of Java."""
    home = tmp_path / "home"
    home.mkdir()
    (home / "letter.txt").write_text("Dear Zoë")
    script = tmp_path / "s.sql"
    script.write_text("CREATE TABLE t (a INT) USING csv OPTIONS (path '/tmp/none')")
    no_java = {**{k: v for k, v in os.environ.items() if k not in ("JAVA_HOME", "SPARK_HOME")}, "PATH": str(tmp_path)}
    done = tidemill("run", str(script), "--root", str(home), "--once", environment=no_java)
    assert (done.code, done.out) == (1, "")
    assert done.err.startswith("TM1005: this directory holds other files and no Tidemill root")
    assert "letter.txt" in done.err
    assert contents(home) == {"letter.txt": "Dear Zoë".encode()}
    assert not (home / "LOCK").exists()


def test_what_may_lie_in_a_new_root(spark: SparkSession, tmp_path: Path) -> None:
    """A disk that was just formatted and mounted, and a buffer made before."""
    for name in ("lost+found", "buffer", ".snapshots"):
        (tmp_path / "root" / name).mkdir(parents=True)
    settings = Settings(master="local[2]", partitions=2)
    (tmp_path / "in").mkdir()
    with closing(Mill(tmp_path / "root", spark=spark, settings=settings)) as mill:
        mill.sql(f"CREATE TABLE t (a INT) USING csv OPTIONS (path '{tmp_path}/in/*.csv')")
    with closing(Mill(tmp_path / "root", spark=spark, settings=settings)) as mill:
        assert mill.sql("SHOW TABLES").count() == 1  # type: ignore[union-attr]
    assert {"lost+found", "buffer", ".snapshots"} < {path.name for path in (tmp_path / "root").iterdir()}


@contextmanager
def without_permission(path: Path, mode: int) -> Iterator[None]:
    """The permissions of a directory or file, and of all below it, taken away for a while."""
    paths = [path, *path.rglob("*")]
    before = [p.stat().st_mode for p in paths]
    for p in reversed(paths):
        p.chmod(p.stat().st_mode & mode)
    try:
        yield
    finally:
        for p, old in zip(paths, before, strict=True):
            p.chmod(old)


def test_root_that_cannot_be_written_to(root: Path) -> None:
    before, at = contents(root), ("--root", str(root))
    with without_permission(root, 0o555):
        read, checked, tidied = unprivileged(
            ("query", "SELECT * FROM sums", "--format", "csv", *at),
            ("state", "verify", *at),
            ("state", "gc", "--grace", "0", *at),
        )
    assert (read.code, len(read.out.splitlines())) == (0, 4), read.err
    assert checked.code == 0
    assert "all intact" in checked.err
    assert (tidied.code, tidied.err.split(":")[0]) == (1, "TM1013")
    assert contents(root) == before


@pytest.mark.parametrize(("below", "number"), [("manifest", "TM1013"), ("sst", "TM1016")])
def test_root_that_cannot_be_read(root: Path, below: str, number: str) -> None:
    before, at = contents(root), ("--root", str(root))
    with without_permission(root / below, 0o000):
        read, checked, listed = unprivileged(
            ("query", "SELECT * FROM sums", *at), ("state", "verify", *at), ("state", "ls", "--files", *at)
        )
    for done in (read, listed):
        assert (done.code, done.err.split(":")[0]) == (1, number), done.err
    assert checked.code == 1
    assert number in checked.err + checked.out
    assert contents(root) == before


def test_beside_a_mill_in_another_process(spark: SparkSession, root: Path) -> None:
    script, at = root.parent / "s.sql", ("--root", str(root))
    script.write_text("CREATE TABLE u (a INT) USING csv OPTIONS (path '/tmp/none')")
    with Mill(root, spark=spark, settings=GIVEN):
        before = contents(root)
        second, tidied, *readers = elsewhere(
            ("run", str(script), "--once", *at),
            ("state", "gc", *at),
            ("state", "ls", *at),
            ("state", "verify", *at),
            ("query", "SELECT * FROM sums", *at),
        )
        for refused in (second, tidied):
            assert (refused.code, refused.out) == (1, "")
            assert refused.err.startswith("TM1003: another process is writing to this root")
        assert [r.code for r in readers] == [0, 0, 0], "reading goes on beside it"
        assert contents(root) == before


def test_store_names_what_is_missing(root: Path) -> None:
    snapshot = Snapshot.open(root)
    names = sorted(snapshot.version.files())
    for name in names:
        (root / "sst" / name).unlink()
    with pytest.raises(TidemillError, match="TM1010") as caught:
        RunStore(snapshot.store.objects, root / "buffer").check_present(names)
    assert caught.value.got == f"{root}/sst/{names[0]} and {len(names) - 1} more"


def unwritable(kind: str, tmp_path: Path) -> str:
    """A buffer directory in which nothing can be made."""
    if kind == "a file":
        (tmp_path / "taken").write_text("mine")
        return f"{tmp_path}/taken"
    if kind == "below a file":
        (tmp_path / f"{this_host()}.d").write_text("mine")
        return f"{tmp_path}/{{host}}.d/buffer"
    return "/proc/tidemill"


@pytest.mark.parametrize("kind", ["a file", "below a file", "no permission"])
def test_buffer_directory_that_cannot_be_written(no_spark: None, root: Path, kind: str) -> None:
    """It is told before Spark starts, not at the first epoch, and the root is free again."""
    given = unwritable(kind, root.parent)
    before = contents(root.parent)
    with pytest.raises(TidemillError, match="TM1022") as caught:
        Mill(root, settings=replace(GIVEN, buffer_directory=given))
    assert caught.value.got.startswith(f"{given.replace('{host}', this_host())}: ")
    assert "buffer_directory" in caught.value.hint
    script = root.parent / "s.sql"
    script.write_text("CREATE TABLE t (a INT) USING csv OPTIONS (path '/tmp/none')")
    done = here("run", str(script), "--root", str(root), "--once", "--set", f"buffer_directory={given}")
    script.unlink()
    assert (done.code, done.out) == (1, "")
    assert done.err.startswith("TM1022: the buffer directory cannot be written to\n")
    assert contents(root.parent) == before
    with (root / "LOCK").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_buffer_directory_of_somebody_else(root: Path) -> None:
    """One that is there already, and whose permissions forbid it."""
    buffer, script = root.parent / "buffer", root.parent / "s.sql"
    buffer.mkdir()
    script.write_text("CREATE TABLE t (a INT) USING csv OPTIONS (path '/tmp/none')")
    with without_permission(buffer, 0o555):
        run = ("run", str(script), "--once", "--root", str(root), "--set", f"buffer_directory={buffer}")
        [done] = unprivileged(run)
    assert (done.code, done.out) == (1, "")
    assert done.err.splitlines()[:2] == [
        "TM1022: the buffer directory cannot be written to",
        f"  got:  {buffer}: Permission denied",
    ]


def test_buffer_directory_is_made(tmp_path: Path) -> None:
    """Nothing is left in it, and a full disk is not what this looks for."""
    given = replace(GIVEN, buffer_directory=f"{tmp_path}/a/{{host}}/b")
    taken = Root(tmp_path / "root", given)
    assert list((tmp_path / "a" / this_host() / "b").iterdir()) == []
    taken.release()
    full = mock.Mock(side_effect=OSError(errno.ENOSPC, "No space left on device"))
    with mock.patch.object(tempfile, "TemporaryFile", full):
        Root(tmp_path / "root", given).release()
    assert full.called
