"""What List finds: each file once, whatever changes, fails or is restarted; checked against dictionaries."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace

import pytest
from source_state import SourceState, admit, result, spans

from tidemill.errors import TidemillError
from tidemill.runtime.files import file_progress
from tidemill.runtime.files.file_policy import FilePolicy
from tidemill.runtime.files.file_progress import FileProgress
from tidemill.runtime.files.listed_files import ListedFiles
from tidemill.runtime.files.pinned_files import PinnedFiles
from tidemill.runtime.files.progress import Limits
from tidemill.runtime.intake.history import History
from tidemill.sources.file_info import FileInfo
from tidemill.sources.split import GROWING, Split

MISSING = TidemillError("TM5001", "gone")
REFUSED = TidemillError("TM5030", "refused")
ODD = TidemillError("TM5036", "an odd name")
DAMAGED = TidemillError("TM4041", "damaged")
CHANGED = TidemillError("TM5003", "changed")


@pytest.fixture
def state() -> SourceState:
    return SourceState()


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """What could not be read may be tried again at once."""
    monkeypatch.setattr(file_progress, "FIRST_RETRY", 0)


def read_all(state: SourceState, files: ListedFiles) -> list[tuple[str, int, int]]:
    splits = admit(files)
    state.seal(files, splits)
    return spans(splits)


def test_each_file_is_new_once(state: SourceState) -> None:
    files = state.files()
    assert files.discover([FileInfo("a", 3, 1)]) == 1
    assert read_all(state, files) == [("a", 0, 3)]
    for again in (files, state.files()):
        assert again.discover([FileInfo("a", 3, 1), FileInfo("b", 1, 1)]) == 1
        assert again.discover([FileInfo("a", 3, 1), FileInfo("b", 1, 1)]) == 0
        assert spans(admit(again)) == [("b", 0, 1)]


def test_empty_file_is_seen_once_it_has_bytes(state: SourceState) -> None:
    files = state.files()
    assert files.discover([FileInfo("a", 0, 1)]) == 0 and files.done
    assert files.discover([FileInfo("a", 2, 5)]) == 1
    assert spans(admit(files)) == [("a", 0, 2)]
    files.discover([FileInfo("a", 0, 6)])
    assert files.done, "it is empty again"


def test_file_that_changed_before_it_was_read_is_taken_as_it_is_now(state: SourceState) -> None:
    files = state.files()
    files.discover([FileInfo("a", 5, 1, '"x"')])
    files.discover([FileInfo("a", 9, 2, '"y"')])
    (split,) = admit(files)
    assert (split.size, split.modified, split.end, split.etag) == (9, 2, 9, '"y"')


def test_file_that_changed_after_a_part_was_read_stays_as_it_was_listed(state: SourceState) -> None:
    files = state.files()
    files.discover([FileInfo("a", 5, 1)])
    state.seal(files, admit(files, 2))
    files.discover([FileInfo("a", 9, 2)])
    assert admit(files)[0].size == 5, "the reader will notice and say TM5003"


def test_unread_file_that_is_gone_is_forgotten(state: SourceState) -> None:
    files = state.files()
    files.discover([FileInfo("a", 5, 1), FileInfo("b", 5, 1)])
    state.seal(files, [])
    files = state.files()
    files.begin_listing()
    files.discover([FileInfo("b", 5, 1)])
    files.end_listing()
    assert files.deleted_files == ["a"]
    assert spans(admit(files)) == [("b", 0, 5)]
    state.seal(files, [])
    assert spans(admit(state.files())) == [("b", 0, 5)], "its row is gone, too"
    assert files.discover([FileInfo("a", 7, 3), FileInfo("b", 5, 1)]) == 1, "it may come back"


def test_half_read_file_that_is_gone_is_not_forgotten(state: SourceState) -> None:
    files = state.files()
    files.discover([FileInfo("a", 5, 1)])
    state.seal(files, admit(files, 2))
    files.begin_listing()
    files.end_listing()
    assert spans(admit(files)) == [("a", 2, 5)]


def test_only_names_that_must_be_looked_at_are_unknown(state: SourceState) -> None:
    files = state.files()
    files.discover([FileInfo("a", 5, 1), FileInfo("b", 5, 1)])
    state.seal(files, admit(files, files=1))
    assert files.unknown(["a", "b", "c"]) == ["b", "c"]
    assert state.files(FilePolicy(appends=True)).unknown(["a", "b", "c"]) == ["a", "b", "c"]


def test_a_file_that_was_read_and_changes(state: SourceState) -> None:
    files = state.files()
    files.discover([FileInfo("a", 50, 1)])
    read_all(state, files)
    files.discover([FileInfo("a", 70, 2)])
    assert (files.done, files.changed_files) == (True, ["a"])
    grown = state.files(FilePolicy(appends=True))
    grown.discover([FileInfo("a", 20, GROWING)])
    assert (grown.done, grown.changed_files) == (True, ["a"]), "it has become shorter"
    grown.discover([FileInfo("a", 70, 3)])
    assert (grown.done, grown.changed_files) == (True, ["a"]), "it is longer, and another one; told once"
    grown.discover([FileInfo("a", 70, GROWING)])
    assert spans(admit(grown)) == [("a", 50, 70)]
    anew = state.files(FilePolicy(overwrites=True))
    anew.discover([FileInfo("a", 30, 2)])
    assert [(s.start, s.end, s.replaces) for s in admit(anew, 10, 10)] == [
        (0, 10, True), (10, 20, False), (20, 30, False)
    ], "as one change"  # fmt: skip
    anew.discover([FileInfo("a", 0, 3)])
    assert [(s.start, s.end, s.replaces) for s in admit(anew)] == [(0, 0, True)]
    (finished,) = state.seal(anew, admit(anew)).finished
    assert (finished.size, finished.rows) == (0, 0)
    assert state.files(FilePolicy(overwrites=True)).done


@pytest.mark.usefixtures("at_once")
def test_a_file_that_cannot_be_read_is_set_aside(state: SourceState) -> None:
    files = state.files(FilePolicy(attempts=2))
    files.discover([FileInfo("a", 5, 1), FileInfo("b", 5, 1), FileInfo("c", 5, 1)])
    assert not files.failed("a", ODD)
    assert files.failed("c", DAMAGED), "its bytes stay what they are"
    assert spans(admit(files)) == [("b", 0, 5)]
    assert spans(files.admit(Limits(100, suspects=True))) == [("a", 0, 5)]
    assert files.failed("a", ODD)
    state.seal(files, admit(files))
    for again in (files, state.files()):
        assert again.done and not again.known
        again.discover([FileInfo("a", 5, 1), FileInfo("b", 5, 1), FileInfo("c", 5, 1)])
        assert again.done, "they are what they were"
    files = state.files()
    files.discover([FileInfo("a", 6, 2), FileInfo("b", 5, 1), FileInfo("c", 5, 2)])
    assert spans(admit(files)) == [("a", 0, 6), ("c", 0, 5)], "they may have been mended"
    state.seal(files, admit(files))
    assert not state.reader(file_progress.fetch_table("t#1")).rows(drop_zero=True)


@pytest.mark.usefixtures("at_once")
def test_a_store_that_refuses_is_asked_for_as_long_as_it_does(state: SourceState) -> None:
    """It is told of when that is often enough; the file is what it was."""
    files = state.files(FilePolicy(attempts=2))
    files.discover([FileInfo("a", 5, 1)])
    assert [files.failed("a", REFUSED) for _ in range(4)] == [False, True, False, False]
    assert files.waits_until(warned=False) is None, "nobody waits for it"
    assert spans(files.admit(Limits(100, suspects=True))) == [("a", 0, 5)]


@pytest.mark.usefixtures("at_once")
def test_a_file_that_is_what_it_was_again(state: SourceState) -> None:
    files = state.files(FilePolicy(attempts=1))
    files.discover([FileInfo("a", 5, 1)])
    state.seal(files, admit(files, 2))
    assert files.failed("a", CHANGED)
    state.seal(files, [])
    files.discover([FileInfo("a", 7, 2)])
    assert files.done, "the rows of another file do not follow those of this one"
    files.discover([FileInfo("a", 5, 1)])
    assert spans(admit(files)) == [("a", 2, 5)]


def test_a_file_that_went_before_it_was_read(state: SourceState) -> None:
    files = state.files()
    files.discover([FileInfo("a", 5, 1)])
    assert not files.failed("a", MISSING)
    assert files.done and files.deleted_files == ["a"]


@pytest.mark.usefixtures("at_once")
def test_files_with_an_order_wait_for_each_other(state: SourceState) -> None:
    files = state.files(FilePolicy(attempts=2, ordered=True))
    files.discover([FileInfo(n, 5, 1) for n in "abc"])
    files.failed("b", DAMAGED)
    assert spans(admit(files)) == [("a", 0, 5)]
    state.seal(files, admit(files))
    for _ in range(3):
        assert (admit(files), files.done) == ([], False)
        assert [s.path for s in files.admit(Limits(100, suspects=True))] == ["b"]
        files.failed("b", DAMAGED)
    state.seal(files, files.admit(Limits(100, suspects=True)))
    assert spans(admit(files)) == [("c", 0, 5)]


def test_static_files_are_those_of_the_beginning(state: SourceState) -> None:
    files = PinnedFiles("t", "t#1", FilePolicy(), state.reader)
    assert files.with_pinned([FileInfo("a", 0, 1)]).unpinned
    pinned = list(files.with_pinned([FileInfo("b", 5, 1), FileInfo("a", 3, 1)]).pinned.values())
    assert files.unpinned and files.done
    files = PinnedFiles("t", "t#1", FilePolicy(), state.reader, pinned)
    state.seal(files, admit(files, files=1))
    files = PinnedFiles("t", "t#1", FilePolicy(), state.reader, pinned)
    files.discover([FileInfo("a", 9, 9), FileInfo("c", 1, 1), FileInfo("d", 0, 1)])
    assert (spans(admit(files)), [i.path for i in files.appeared]) == ([("b", 0, 5)], ["c"])
    state.seal(files, admit(files))
    for again in (files, PinnedFiles("t", "t#1", FilePolicy(), state.reader, pinned)):
        again.discover([FileInfo("c", 1, 1)])
        assert again.done and not again.appeared


class Disk:
    """Files as they are, and every byte that was ever admitted of each version of one."""

    def __init__(self, chance: random.Random, policy: FilePolicy) -> None:
        self.chance = chance
        self.policy = policy
        self.now: dict[str, FileInfo] = {}
        self.admitted: Counter[tuple[str, int, int]] = Counter()
        self._clock = 0

    def change(self) -> None:
        """A file comes, grows or is written anew."""
        self._clock += 1
        path, size = f"f{self.chance.randrange(30):02d}", self.chance.randrange(0, 60)
        old = self.now.get(path)
        if old is not None and self.policy.appends:
            size = old.size + size
        elif old is not None and not self.policy.overwrites:
            return
        self.now[path] = FileInfo(path, size, GROWING if self.policy.appends else self._clock)

    def read(self, splits: list[Split]) -> None:
        """What a version consists of; the bytes of one that was replaced are withdrawn."""
        for split in sorted(splits, key=lambda s: s.start):
            if split.replaces:
                for key in [k for k in self.admitted if k[0] == split.path]:
                    del self.admitted[key]
            for at in range(split.start, split.end):
                self.admitted[split.path, at, 0] += 1

    def expected(self) -> Counter[tuple[str, int, int]]:
        return Counter((f.path, at, 0) for f in self.now.values() for at in range(f.size))


@pytest.mark.parametrize("policy", [FilePolicy(), FilePolicy(overwrites=True), FilePolicy(appends=True)])
@pytest.mark.usefixtures("at_once")
def test_every_byte_is_admitted_once(policy: FilePolicy, seed: int) -> None:
    """Random changes, listings, limits, failures and restarts; then history for views that came in between."""
    for case in range(40):
        chance = random.Random(seed + case)
        state, disk = SourceState(), Disk(chance, policy)
        files = state.files(policy)
        histories: list[tuple[History, Counter[tuple[str, int, int]], Counter[tuple[str, int, int]]]] = []
        for _ in range(60):
            what = chance.random()
            if what < 0.35:
                disk.change()
            elif what < 0.55:
                some = [f for f in disk.now.values() if chance.random() < 0.7]
                files.discover(some)
            elif what < 0.85:
                limits = Limits(chance.randrange(1, 120), chance.choice([None, 1, 3]), chance.randrange(1, 30))
                splits = files.admit(replace(limits, suspects=chance.random() < 0.3))
                bad = [s.path for s in splits if chance.random() < 0.1 and files.known[s.path].attempts < 3]
                stale = [s.path for s in splits if disk.now[s.path].modified != s.modified]
                if bad or stale:  # the epoch is run again without them
                    for path in {*bad, *stale}:
                        files.failed(path, CHANGED if path in stale else REFUSED)
                    files.discover(disk.now.values())
                    continue
                sealing = files.sealing(files.after([r for s in splits if (r := result(s))]), state.epoch + 1)
                state.write(sealing)
                for history, _, _ in histories:
                    for file in sealing.before:
                        history.keep(file)
                files.sealed(sealing)
                disk.read(splits)
            elif what < 0.9:
                files = state.files(policy)
            elif not policy.overwrites and len(histories) < 3 and disk.admitted:
                history = History("t", "t#1", state.epoch, files.parts(), b"", 0, state.reader)
                histories.append((history, Counter(disk.admitted), Counter()))
            for place, (history, expected, found) in enumerate(histories):
                if chance.random() < 0.2:
                    splits = history.admit(Limits(chance.randrange(1, 60), None, chance.randrange(1, 30)))
                    found.update((s.path, at, 0) for s in splits for at in range(s.start, s.end))
                    history.move(history.after([result(s) for s in splits]))
                    if chance.random() < 0.3:
                        again = History.from_json(history.to_json(), "t#1", state.reader)
                        histories[place] = (again, expected, found)
        for _ in range(200):
            files.discover(disk.now.values())
            splits = [*admit(files), *files.admit(Limits(1 << 40, suspects=True))]
            disk.read(splits)
            state.seal(files, [])  # what was found
            sealing = files.sealing(files.after([result(s) for s in splits]), state.epoch + 1)
            state.write(sealing)
            for history, _, _ in histories:
                for file in sealing.before:
                    history.keep(file)
            files.sealed(sealing)
            if files.done:
                break
        assert disk.admitted == disk.expected(), (seed, case)
        for history, expected, found in histories:
            while not history.done:
                splits = history.admit(Limits(1000, None, 30))
                found.update((s.path, at, 0) for s in splits for at in range(s.start, s.end))
                history.move(history.after([result(s) for s in splits]))
            assert found == expected, (seed, case)


def test_files_are_kept_as_they_are(state: SourceState) -> None:
    """What a restart finds is what was held."""
    files = state.files()
    files.discover([FileInfo("a", 50, 7, '"x"'), FileInfo("é/\U0001f600", 3, 8), FileInfo("z", 9, 9)])
    state.seal(files, admit(files, 20))
    files.failed("z", REFUSED)
    state.seal(files, [])
    assert state.files().known == files.known
    assert files.known["a"] == FileProgress("a", 50, 7, 20, etag='"x"', rows=2)
