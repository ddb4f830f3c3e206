"""When files go, without Spark: random histories with crashes anywhere, several tables, retention, failures."""

from __future__ import annotations

import random
import shutil
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest
from source_state import SourceState, admit, result

from clock import Clock
from tidemill.runtime.files.file_progress import clean_queue, cleaned_table, list_table
from tidemill.runtime.files.listed_files import ListedFiles
from tidemill.runtime.intake import source_cleaning
from tidemill.runtime.intake.source_cleaning import SourceCleaning
from tidemill.runtime.tables.table import Table
from tidemill.schema import Field, Schema
from tidemill.sources.file_info import FileInfo
from tidemill.sources.locations.location import Location
from tidemill.state.merge.merge import Rows
from tidemill.state.runs.sst import Part

COLUMNS = Schema((Field("k", pa.int32()),))


class Durable(SourceState):
    """State tables of which a crash takes what is not durable, and the files that epochs have read."""

    def __init__(self) -> None:
        super().__init__()
        self.durable = 0
        self.parts: list[tuple[int, str, Rows]] = []
        self.read: list[tuple[int, str, str, int, int]] = []

    def seal(self, parts: list[Part]) -> None:
        self.epoch += 1
        for part in parts:
            self.parts.append((self.epoch, part.table, part.rows))
            self._runs.setdefault(part.table, []).append(part.rows)

    def crash(self) -> None:
        self.epoch = self.durable
        self.parts = [p for p in self.parts if p[0] <= self.durable]
        self.read = [r for r in self.read if r[0] <= self.durable]
        self._runs = {}
        for _, table, rows in self.parts:
            self._runs.setdefault(table, []).append(rows)


class Mill:
    """Lists, reads, seals and cleans as a mill does."""

    def __init__(self, directory: Path, *given: dict[str, str]) -> None:
        self.directory = directory
        directory.mkdir(exist_ok=True)
        self.tables = {f"t{n}": self._table(f"t{n}", options) for n, options in enumerate(given)}
        self.state = Durable()
        self.waiting: set[str] = set()
        self.said: list[str] = []
        self.start()

    def _table(self, name: str, options: dict[str, str]) -> Table:
        path = options.get("path", str(self.directory))
        return Table(name, f"{name}#1", "csv", COLUMNS, options, path)

    def start(self) -> None:
        """As after a restart."""
        self.live = {t.name: ListedFiles(t.name, t.uid, t.file_policy, self.state.reader) for t in self.tables.values()}
        self.cleaning = SourceCleaning(self.state.reader)

    def list(self) -> None:
        for name, files in self.live.items():
            files.begin_listing()
            files.discover(i for i in Location(self.tables[name].path).listing())
            files.end_listing()

    def epoch(self, most: int = 1 << 40, only: str = "") -> None:
        """Read every admitted byte; what is to be read must be there as it was listed."""
        epoch, sealings, parts = self.state.epoch + 1, [], []
        for name, files in self.live.items():
            splits = admit(files, most) if only in ("", name) else []
            for split in splits:
                status = Path(split.path).stat()
                assert (status.st_size, status.st_mtime_ns) == (split.size, split.modified)
                self.state.read.append((epoch, name, split.path, split.start, split.end))
            sealing = files.sealing(files.after([result(s) for s in splits]), epoch)
            sealings.append((files, sealing))
            parts += sealing.tables
        notes = self.cleaning.notes(self.tables, self.waiting, epoch)
        self.state.seal([*parts, *notes.parts])
        for files, sealing in sealings:
            files.sealed(sealing)
        self.cleaning.noted(notes)

    def proceed(self, join: bool = True) -> None:
        self.cleaning.proceed(self.tables, self.live, self.waiting, self.state.durable)
        if join and self.cleaning._thread is not None:
            self.cleaning._thread.join()
            self.cleaning._take_outcomes(self.tables)
        self.said += self.cleaning.warnings()

    def checkpoint(self) -> None:
        self.state.durable = self.state.epoch

    def put(self, name: str, size: int = 10) -> Path:
        path = self.directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x" * size)
        return path

    def names(self) -> list[str]:
        return sorted(p.name for p in self.directory.rglob("*") if p.is_file())

    def rows(self, kind: str, table: str = "t0") -> int:
        made = {"list": list_table, "cleaned": cleaned_table, "queue": clean_queue}[kind](f"{table}#1")
        return len(self.state.reader(made).rows(drop_zero=True))


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was left is tried again at once."""
    monkeypatch.setattr(source_cleaning, "_FIRST_PAUSE", 0.0)
    monkeypatch.setattr(source_cleaning, "_LONGEST_PAUSE", 0.0)


DELETE = {"cleansource": "delete"}


@pytest.mark.parametrize("retention", ["0 s", "1 ms"])
@pytest.mark.parametrize("kept", [False, True])
def test_random_histories(
    tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch, retention: str, kept: bool
) -> None:
    """Each byte is read once by each of two tables, in what is durable, and everything goes, whatever crashes when."""
    monkeypatch.setattr(source_cleaning, "MOST", 7)
    chance = random.Random(f"{seed} {retention} {kept}")
    archive = {"cleansource": "archive", "sourcearchivedir": str(tmp_path / "old")}
    options = {**(DELETE if kept else archive), "cleansource.retentionduration": retention}
    options |= {"allowoverwrites": "true"} if kept else {}
    mill = Mill(tmp_path / "in", options, {**options, "path": str(tmp_path / "in" / "f*")})
    sizes: dict[str, int] = {}
    crashes = 0

    def check() -> None:
        safe: Counter[tuple[str, str]] = Counter()
        for epoch, table, path, start, end in mill.state.read:
            if epoch <= mill.state.durable:
                safe[table, path] += end - start
        for path, size in sizes.items():
            if not Path(path).exists():
                assert [safe[t, path] for t in mill.tables] == [size, size], "it went too early"

    for _ in range(400):
        step = chance.random()
        if step < 0.3:
            path = mill.put(f"f{len(sizes)}", chance.randrange(1, 30))
            sizes[str(path)] = path.stat().st_size
        elif step < 0.45:
            mill.list()
        elif step < 0.65:
            mill.epoch(chance.randrange(1, 120), chance.choice(["", "", "t0", "t1"]))
        elif step < 0.75:
            mill.checkpoint()
        elif step < 0.92:
            mill.proceed(join=chance.random() < 0.7)
            check()
        elif step < 0.94:
            if mill.cleaning._thread is not None and chance.random() < 0.5:
                mill.cleaning._stop.set()
            mill.state.crash()
            mill.start()
            crashes += 1
    for _ in range(400):
        mill.list()
        mill.epoch()
        mill.checkpoint()
        mill.proceed()
        check()
        if not mill.names() and not mill.rows("queue") and not mill.rows("queue", "t1"):
            break
    assert not mill.names() and crashes
    found = Counter()
    for _, table, path, start, end in mill.state.read:
        found.update((table, path, at) for at in range(start, end))
    assert found == Counter({(t, p, at): 1 for t in mill.tables for p, s in sizes.items() for at in range(s)})
    assert mill.said == [] and (mill.rows("queue"), mill.rows("queue", "t1")) == (0, 0)
    kind = "list" if kept else "cleaned"
    assert (mill.rows("list") + mill.rows("cleaned"), mill.rows(kind)) == (len(sizes), len(sizes))
    if not kept:
        assert {p.name: p.stat().st_size for p in (tmp_path / "old").iterdir()} == {
            Path(p).name: s for p, s in sizes.items()
        }


def test_nothing_goes_that_is_waited_for(tmp_path: Path) -> None:
    mill = Mill(tmp_path / "in", DELETE)
    mill.put("a")
    mill.list()
    mill.epoch()
    mill.proceed()
    assert mill.names() == ["a"], "not durable"
    mill.checkpoint()
    mill.waiting = {"t0"}
    mill.proceed()
    assert mill.names() == ["a"], "a view waits for history"
    mill.waiting = set()
    mill.proceed()
    assert mill.names() == []


def test_retention(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """History has a file until an epoch after its retention; that one is due even if there is nothing to read."""
    clock = Clock(runs=True)
    monkeypatch.setattr(source_cleaning, "time", clock)
    mill = Mill(tmp_path / "in", {**DELETE, "cleansource.retentionduration": "30 minutes"})
    mill.put("a")
    mill.list()
    mill.epoch()
    mill.checkpoint()
    mill.proceed()
    assert (mill.names(), mill.rows("list"), mill.cleaning.must_note) == (["a"], 1, False)
    clock.forward(1801)
    mill.proceed()
    assert (mill.names(), mill.rows("list")) == (["a"], 1), "a view that is created now reads it"
    clock.forward(1801)
    assert mill.cleaning.must_note
    mill.waiting = {"t0"}
    mill.epoch()
    assert mill.rows("list") == 1, "such a view was created"
    mill.waiting = set()
    mill.proceed()
    mill.epoch()
    assert (mill.rows("list"), mill.rows("cleaned"), mill.cleaning.must_note) == (0, 1, False)
    mill.proceed()
    assert mill.names() == ["a"], "that is not durable"
    mill.checkpoint()
    mill.proceed()
    assert mill.names() == []


def test_empty_files_stay(tmp_path: Path) -> None:
    mill = Mill(tmp_path / "in", DELETE)
    mill.put("a", 0)
    for _ in range(3):
        mill.list()
        mill.epoch()
        mill.checkpoint()
        mill.proceed()
    assert (mill.names(), mill.rows("list")) == (["a"], 1)
    mill.put("a", 5)
    mill.list()
    mill.epoch()
    mill.checkpoint()
    mill.proceed()
    assert (mill.names(), mill.rows("list"), mill.rows("cleaned")) == ([], 0, 1)


def test_another_table_that_keeps_its_files(tmp_path: Path) -> None:
    mill = Mill(tmp_path / "in", DELETE, {"path": str(tmp_path / "in" / "b*")})
    mill.put("a")
    mill.put("b")
    for _ in range(3):
        mill.list()
        mill.epoch()
        mill.checkpoint()
        mill.proceed()
    assert mill.names() == ["b"]
    assert [text[:6] for text in mill.said] == ["TM5084"], "said once"


@pytest.mark.parametrize("first", [True, False])
def test_another_table_that_names_files_through_a_link(tmp_path: Path, first: bool) -> None:
    """Either may be the first to read them, and none goes before both have."""
    (tmp_path / "by").mkdir()
    (tmp_path / "by" / "link").symlink_to(tmp_path / "in")
    mill = Mill(tmp_path / "in", DELETE, {**DELETE, "path": str(tmp_path / "by" / "link" / "*")})
    mill.put("a")
    mill.list()
    for only in ("t0", "t1") if first else ("t1", "t0"):
        assert mill.names() == ["a"]
        mill.epoch(only=only)
        mill.checkpoint()
        mill.proceed()
    mill.proceed()
    assert mill.names() == [] and len(mill.state.read) == 2 and mill.said == []


def test_one_table_that_names_files_twice(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "in")
    mill = Mill(tmp_path / "in", {**DELETE, "path": str(tmp_path / "{in,link}" / "*")})
    mill.put("a")
    mill.put("b")
    mill.list()
    for _ in range(5):
        mill.epoch(most=10)  # what is read must be there
        mill.checkpoint()
        mill.proceed()
    mill.proceed()
    assert mill.names() == [] and len(mill.state.read) == 4


def test_a_file_that_is_written_anew(tmp_path: Path) -> None:
    for options, numbers in ((DELETE, ["TM5083"]), ({**DELETE, "allowoverwrites": "true"}, [])):
        mill = Mill(tmp_path / "in", options)
        mill.put("a")
        mill.list()
        mill.epoch()
        mill.checkpoint()
        mill.put("a", 20)
        mill.proceed()
        assert ([t[:6] for t in mill.said], mill.names()) == (numbers, ["a"])
        mill.epoch()
        assert mill.rows("queue") == 0
        mill.list()
        mill.epoch()
        mill.checkpoint()
        mill.proceed()
        assert mill.names() == ([] if "allowoverwrites" in options else ["a"]), "the new version was read, or never is"


def test_a_name_that_comes_again(tmp_path: Path) -> None:
    """As without cleaning: a name is read once, or with allowOverwrites each version of it."""
    for options, read in ((DELETE, 10), ({**DELETE, "allowoverwrites": "true"}, 30)):
        mill = Mill(tmp_path / "in", options)
        for size in (10, 20):
            mill.put("a", size)
            for _ in range(2):
                mill.list()
                mill.epoch()
                mill.checkpoint()
                mill.proceed()
        assert sum(end - start for *_, start, end in mill.state.read) == read


def test_failures_are_counted_and_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source_cleaning, "_FIRST_PAUSE", 1.0)
    monkeypatch.setattr(source_cleaning, "_LONGEST_PAUSE", 3.0)
    clock = Clock()
    clock.forward(3600)  # files are noted as read by the real clock, which goes on meanwhile
    monkeypatch.setattr(source_cleaning, "time", clock)
    mill = Mill(tmp_path / "in", {"cleansource": "archive", "sourcearchivedir": str(tmp_path / "old")})
    (tmp_path / "old").write_text("a file where a directory should be")
    tried: list[None] = []
    clean = source_cleaning.clean
    monkeypatch.setattr(source_cleaning, "clean", lambda *given: (tried.append(None), clean(*given))[1])
    for number in range(3):
        mill.put(f"{number}")
    mill.list()
    mill.epoch()
    mill.checkpoint()
    for number, pause in enumerate((1.0, 2.0, 3.0, 3.0), 1):
        mill.proceed()
        assert len(tried) == number
        clock.forward(pause - 0.1)
        mill.proceed()
        assert len(tried) == number, "the pause is not over"
        clock.forward(0.2)
    (said,) = mill.said
    assert said.startswith("TM5082") and "3 files of table t0" in said
    (tmp_path / "old").unlink()
    clock.forward(3.0)
    mill.proceed()
    assert (mill.names(), sorted(p.name for p in (tmp_path / "old").iterdir())) == ([], ["0", "1", "2"])
    shutil.rmtree(tmp_path / "old")
    (tmp_path / "old").write_text("again")
    mill.put("3")
    mill.list()
    mill.epoch()
    mill.checkpoint()
    mill.proceed()
    assert [text[:6] for text in mill.said] == ["TM5082"] * 2, "it had gone on in between"


def test_memory_and_work_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a long queue some thousands are looked at; what went is noted before there is too much of it."""
    monkeypatch.setattr(source_cleaning, "MOST", 50)
    mill = Mill(tmp_path / "in", DELETE)
    infos = [FileInfo(str(tmp_path / "in" / f"{n:05d}"), 10, 1) for n in range(500)]
    mill.live["t0"].discover(infos)
    splits = admit(mill.live["t0"])
    sealing = mill.live["t0"].sealing(mill.live["t0"].after([result(s) for s in splits]), 1)
    mill.state.seal(sealing.tables)
    mill.live["t0"].sealed(sealing)
    mill.checkpoint()
    epochs = 0
    for _ in range(100):
        mill.proceed()
        assert sum(map(len, mill.cleaning._gone.values())) <= 100
        if mill.cleaning.must_note:
            mill.epoch()
            epochs += 1
    assert (epochs, mill.rows("queue")) == (10, 0)


def test_the_end_waits_for_what_may_go(tmp_path: Path) -> None:
    mill = Mill(tmp_path / "in", DELETE)
    for number in range(30):
        mill.put(f"{number}")
    mill.list()
    mill.epoch()
    mill.checkpoint()
    mill.cleaning.finish(mill.tables, mill.live, mill.waiting, None)
    assert len(mill.names()) == 30
    mill.start()
    mill.cleaning.finish(mill.tables, mill.live, mill.waiting, mill.state.durable)
    assert mill.names() == []
    mill.cleaning.finish(mill.tables, mill.live, mill.waiting, mill.state.durable)
