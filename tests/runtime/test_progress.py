"""How far files have been read: admission limits, positions, verified quotes."""

from __future__ import annotations

from dataclasses import replace

import pytest
from source_state import SourceState, admit, result, spans

from tidemill.runtime.file_progress import FileProgress
from tidemill.runtime.listed_files import ListedFiles
from tidemill.runtime.progress import Limits, Progress, SpoolProgress, verify_quotes
from tidemill.sources.files import FileInfo
from tidemill.sources.split import GROWING, Split


def of_files(**sizes: int) -> ListedFiles:
    progress = SourceState().files()
    progress.discover(FileInfo(name, size, 1) for name, size in sizes.items())
    return progress


def seal(progress: Progress, splits: list[Split]) -> None:
    progress.move(progress.after([result(s) for s in splits]))


def test_files_are_cut_into_splits_within_the_budget() -> None:
    progress = of_files(a=10, b=10)
    assert spans(admit(progress, 14, 4)) == [("a", 0, 4), ("a", 4, 8), ("a", 8, 10), ("b", 0, 4)]


def segments(**sizes: int) -> list[FileInfo]:
    return [FileInfo(f"/spool/{name.removeprefix('s'):0>20}.segment", size, GROWING) for name, size in sizes.items()]


def test_a_spool_is_followed_as_it_grows() -> None:
    progress = SpoolProgress("t", "t#1")
    assert progress.follow(segments(s0=4)) == set() and progress.done
    assert progress.follow(segments(s0=14)) == set()
    first = admit(progress, 100, 100)
    assert [(s.start, s.end, s.size, s.in_quotes) for s in first] == [(4, 14, 14, False)]
    progress.follow(segments(s0=20, s16=9))  # it grows while the epoch runs
    seal(progress, first)
    progress.follow(segments(s0=20, s16=9))
    assert [(s.start, s.end) for s in admit(progress, 100, 100)] == [(14, 20), (4, 9)]


def test_parts_of_a_spool_that_were_read_may_go_and_no_others() -> None:
    progress = SpoolProgress("t", "t#1")
    found = segments(s0=20, s16=9, s21=9)
    progress.follow(found[:2])
    seal(progress, admit(progress, 100, 100))
    assert progress.follow(found[2:]) == set()
    assert list(progress.known) == [found[2].path]
    assert progress.follow([]) == {found[2].path}
    # an older manifest: 16 is not known
    behind = SpoolProgress("t", "t#1", [FileProgress(found[0].path, 20, GROWING, 20)])
    assert behind.follow(found[2:]) == {found[2].path}
    assert SpoolProgress("t", "t#1").follow(found[1:]) == {found[1].path}


def test_asking_changes_nothing() -> None:
    progress = of_files(a=10)
    assert admit(progress, 4, 4) == admit(progress, 4, 4)


def test_most_files_of_an_epoch() -> None:
    progress = of_files(a=1, b=1, c=1)
    first = admit(progress, 100, 100, 2)
    assert spans(first) == [("a", 0, 1), ("b", 0, 1)]
    seal(progress, first)
    assert spans(admit(progress, 100, 100, 2)) == [("c", 0, 1)]


def test_only_the_first_split_of_a_file_knows_about_quotes() -> None:
    progress = of_files(a=10)
    assert [s.in_quotes for s in admit(progress, 10, 4)] == [False, None, None]


def test_positions_move_only_when_told() -> None:
    progress = of_files(a=10)
    splits = admit(progress, 6, 3)
    changed = progress.after([result(splits[1], parity=1), result(splits[0])])
    assert changed == [FileProgress("a", 10, 1, 6, True)], "the order of results does not matter"
    assert progress.known["a"] == FileProgress("a", 10, 1), "nothing is sealed yet"
    progress.move(changed)
    assert progress.known["a"].position == 6
    assert progress.remaining == 4


def test_gap_is_refused() -> None:
    progress = of_files(a=10)
    with pytest.raises(AssertionError):
        progress.after([result(admit(progress, 10, 5)[1])])


def test_right_guesses_are_confirmed() -> None:
    first, second, third = admit(of_files(a=9), 9, 3)
    found = [result(second, True, 0), result(third, True, 1), result(first, False, 1)]
    assert verify_quotes(found, {("t", None, "a"): False}) is None


def test_one_wrong_guess_gives_the_truth_for_all() -> None:
    first, second, third = admit(of_files(a=9), 9, 3)
    found = [result(first, False, 1), result(second, False, 1), result(third, False, 0)]
    truth = verify_quotes(found, {("t", None, "a"): False})
    assert truth == {first: False, second: True, third: False}


def test_files_tables_and_histories_are_verified_apart() -> None:
    live = admit(of_files(a=3), 3, 3)[0]
    history, other = replace(live, audience=4), replace(live, table="u")
    starts = {("t", None, "a"): False, ("t", 4, "a"): True, ("u", None, "a"): False}
    found = [result(live, False, 1), result(history, True, 0), result(other, False, 0)]
    assert verify_quotes(found, starts) is None


def test_a_whole_file_is_one_split_whatever_the_limits() -> None:
    progress = SourceState().files()
    progress.discover([FileInfo("a.gz", 5000, 1), FileInfo("b", 300, 1), FileInfo("c.gz", 10, 1)])
    found = progress.admit(Limits(1000, None, 100, 2), whole=lambda path: path.endswith(".gz"))
    assert [(s.path, s.start, s.end) for s in found] == [("a.gz", 0, 5000)]
    progress.move(progress.after([result(found[0])]))
    found = progress.admit(Limits(305, None, 100, 2), whole=lambda path: path.endswith(".gz"))
    assert [(s.path, s.start, s.end) for s in found][-1] == ("c.gz", 0, 10)
    assert [(s.path, s.start) for s in found][:-1] == [("b", 0), ("b", 100), ("b", 200)]


def test_only_files_that_would_be_cut_are_asked_about() -> None:
    asked: list[str] = []

    def whole(path: str) -> bool:
        asked.append(path)
        return path == "b"

    progress = of_files(a=3, b=10, c=10)
    assert spans(progress.admit(Limits(100, None, 4), whole=whole)) == [
        ("a", 0, 3), ("b", 0, 10), ("c", 0, 4), ("c", 4, 8), ("c", 8, 10),
    ]  # fmt: skip
    assert asked == ["b", "c"]
    assert spans(progress.admit(Limits(4, None, 100), whole=whole)) == [("a", 0, 3), ("b", 0, 10)]
