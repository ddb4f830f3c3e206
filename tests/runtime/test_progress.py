"""How far files have been read: admission limits, positions, verified quotes."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from tidemill.runtime.progress import FileProgress, Progress, from_rows, list_table, to_rows, verify_quotes
from tidemill.sources.files import FileInfo
from tidemill.sources.split import GROWING, Split, SplitResult
from tidemill.state.keys import decode
from tidemill.state.merge import merge


def result(split: Split, assumed: bool = False, parity: int = 0) -> SplitResult:
    """What a reader of the split says."""
    return SplitResult(split, assumed, parity, 1, split.end - split.start, 0, 0)


def of_files(**sizes: int) -> Progress:
    progress = Progress("t", None)
    progress.discover(FileInfo(name, size, 1) for name, size in sizes.items())
    return progress


def seal(progress: Progress, splits: list[Split]) -> None:
    progress.move(progress.after([result(s) for s in splits]))


def spans(splits: list[Split]) -> list[tuple[str, int, int]]:
    return [(s.path, s.start, s.end) for s in splits]


def test_files_are_cut_into_splits_within_the_budget() -> None:
    progress = of_files(a=10, b=10)
    assert spans(progress.admit(14, 4, None)) == [("a", 0, 4), ("a", 4, 8), ("a", 8, 10), ("b", 0, 4)]


def segments(**sizes: int) -> list[FileInfo]:
    return [FileInfo(f"/spool/{name.removeprefix('s'):0>20}.segment", size, GROWING) for name, size in sizes.items()]


def test_a_spool_is_followed_as_it_grows() -> None:
    progress = Progress("t", None)
    assert progress.follow(segments(s0=4)) == set() and progress.done
    assert progress.follow(segments(s0=14)) == set()
    first = progress.admit(100, 100, None)
    assert [(s.start, s.end, s.size, s.in_quotes) for s in first] == [(4, 14, 14, False)]
    progress.follow(segments(s0=20, s16=9))  # it grows while the epoch runs
    seal(progress, first)
    progress.follow(segments(s0=20, s16=9))
    assert [(s.start, s.end) for s in progress.admit(100, 100, None)] == [(14, 20), (4, 9)]


def test_parts_of_a_spool_that_were_read_may_go_and_no_others() -> None:
    progress = Progress("t", None)
    found = segments(s0=20, s16=9, s21=9)
    progress.follow(found[:2])
    seal(progress, progress.admit(100, 100, None))
    assert progress.follow(found[2:]) == set()
    assert list(progress.known) == [found[2].path]
    assert progress.follow([]) == {found[2].path}
    behind = Progress("t", None, [FileProgress(found[0].path, 20, GROWING, 20)])  # an older manifest: 16 is not known
    assert behind.follow(found[2:]) == {found[2].path}
    assert Progress("t", None).follow(found[1:]) == {found[1].path}


def test_asking_changes_nothing() -> None:
    progress = of_files(a=10)
    assert progress.admit(4, 4, None) == progress.admit(4, 4, None)


def test_most_files_of_an_epoch() -> None:
    progress = of_files(a=1, b=1, c=1)
    first = progress.admit(100, 100, 2)
    assert spans(first) == [("a", 0, 1), ("b", 0, 1)]
    seal(progress, first)
    assert spans(progress.admit(100, 100, 2)) == [("c", 0, 1)]


def test_only_the_first_split_of_a_file_knows_about_quotes() -> None:
    progress = of_files(a=10)
    assert [s.in_quotes for s in progress.admit(10, 4, None)] == [False, None, None]


@pytest.mark.parametrize("watermark", [False, True])
def test_tags_of_objects_are_kept(watermark: bool) -> None:
    """In the state table, in splits, in history; a file that was replaced before it was read has its new one."""
    progress = Progress("t", None)
    progress.discover([FileInfo("a", 10, 1, '"x"'), FileInfo("b", 5, 1, '"y"')])
    progress.discover([FileInfo("a", 12, 2, '"z"'), FileInfo("b", 5, 1, '"y"')])
    splits = progress.admit(8, 100, None)
    assert [(s.path, s.etag, s.size) for s in splits] == [("a", '"z"', 12)]
    changed = progress.after([result(s) for s in splits])
    table = list_table("t#1", watermark, objects=True)
    rows = to_rows(table, [*changed, progress.known["b"]])
    assert from_rows(decode(rows.keys, table.key)[0], rows, objects=True) == {**progress.known, "a": changed[0]}


def test_positions_move_only_when_told() -> None:
    progress = of_files(a=10)
    splits = progress.admit(6, 3, None)
    changed = progress.after([result(splits[1], parity=1), result(splits[0])])
    assert changed == [FileProgress("a", 10, 1, 6, True)]
    assert progress.known["a"] == FileProgress("a", 10, 1), "nothing is sealed yet"
    progress.move(changed)
    assert progress.known["a"].position == 6
    assert progress.remaining == 4


def test_gap_is_refused() -> None:
    progress = of_files(a=10)
    with pytest.raises(AssertionError):
        progress.after([result(progress.admit(10, 5, None)[1])])


def test_each_file_is_new_once() -> None:
    progress = of_files(a=3)
    seal(progress, progress.admit(3, 3, None))
    assert progress.discover([FileInfo("a", 3, 1), FileInfo("b", 1, 1)]) == 1
    assert progress.discover([FileInfo("a", 3, 1), FileInfo("b", 1, 1)]) == 0
    assert spans(progress.admit(100, 100, None)) == [("b", 0, 1)]


def test_empty_file_is_seen_once_it_has_bytes() -> None:
    progress = of_files(a=0)
    assert progress.done
    assert progress.discover([FileInfo("a", 2, 5)]) == 1
    assert spans(progress.admit(9, 9, None)) == [("a", 0, 2)]


def test_file_that_changed_before_it_was_read_is_taken_as_it_is_now() -> None:
    progress = of_files(a=5)
    progress.discover([FileInfo("a", 9, 2)])
    (split,) = progress.admit(100, 100, None)
    assert (split.size, split.modified, split.end) == (9, 2, 9)


def test_file_that_changed_after_a_part_was_read_stays_as_it_was_listed() -> None:
    progress = of_files(a=5)
    seal(progress, progress.admit(2, 2, None))
    progress.discover([FileInfo("a", 9, 2)])
    assert progress.admit(100, 100, None)[0].size == 5, "the reader will notice and say TM5003"


@pytest.mark.parametrize("listed", [[], [FileInfo("a", 0, 2)]])
def test_unread_file_that_is_gone_is_forgotten(listed: list[FileInfo]) -> None:
    progress = of_files(a=5, b=5)
    progress.discover([*listed, FileInfo("b", 5, 1)])
    assert spans(progress.admit(100, 100, None)) == [("b", 0, 5)]
    assert progress.discover([FileInfo("a", 7, 3), FileInfo("b", 5, 1)]) == 1, "it may come back"


def test_half_read_file_that_is_gone_is_not_forgotten() -> None:
    progress = of_files(a=5)
    seal(progress, progress.admit(2, 2, None))
    progress.discover([])
    assert spans(progress.admit(100, 100, None)) == [("a", 2, 5)]


def test_positions_survive_in_a_state_table() -> None:
    table = list_table("t#1")
    old = to_rows(table, [FileProgress("a", 10, 7, 4, True), FileProgress("é", 3, 8, 3)])
    new = to_rows(table, [FileProgress("a", 10, 7, 10)])
    rows = merge([old, new], table.ops, drop_zero=False)
    found = from_rows(decode(rows.keys, table.key)[0], rows)
    assert found == {"a": FileProgress("a", 10, 7, 10), "é": FileProgress("é", 3, 8, 3)}


def test_random_admission_reads_every_byte_once(seed: int) -> None:
    for case in range(50):
        chance = random.Random(seed + case)
        sizes = {f"f{i}": chance.randrange(1, 50) for i in range(chance.randrange(1, 8))}
        progress, read = Progress("t", None), dict.fromkeys(sizes, 0)
        names = list(sizes)
        while names or not progress.done:
            if names and chance.random() < 0.5:
                names.pop()
            progress.discover(FileInfo(n, sizes[n], 1) for n in sizes if n not in names)
            budget, size = chance.randrange(1, 60), chance.randrange(1, 20)
            splits = progress.admit(budget, size, chance.choice([None, 1, 3]))
            assert sum(s.end - s.start for s in splits) <= budget
            assert all(s.end - s.start <= size for s in splits)
            if chance.random() < 0.2:
                continue  # the epoch failed: the same input comes again
            for split in splits:
                assert split.start == read[split.path], case
                read[split.path] = split.end
            seal(progress, splits)
            if chance.random() < 0.1:
                progress = Progress("t", None, progress.known.values())
        assert read == sizes


def test_right_guesses_are_confirmed() -> None:
    first, second, third = of_files(a=9).admit(9, 3, None)
    found = [result(second, True, 0), result(third, True, 1), result(first, False, 1)]
    assert verify_quotes(found, {("t", None, "a"): False}) is None


def test_one_wrong_guess_gives_the_truth_for_all() -> None:
    first, second, third = of_files(a=9).admit(9, 3, None)
    found = [result(first, False, 1), result(second, False, 1), result(third, False, 0)]
    truth = verify_quotes(found, {("t", None, "a"): False})
    assert truth == {first: False, second: True, third: False}


def test_files_tables_and_histories_are_verified_apart() -> None:
    live = of_files(a=3).admit(3, 3, None)[0]
    history, other = replace(live, audience=4), replace(live, table="u")
    starts = {("t", None, "a"): False, ("t", 4, "a"): True, ("u", None, "a"): False}
    found = [result(live, False, 1), result(history, True, 0), result(other, False, 0)]
    assert verify_quotes(found, starts) is None


def test_a_whole_file_is_one_split_whatever_the_limits() -> None:
    progress = Progress("t", None)
    progress.discover([FileInfo("a.gz", 5000, 1), FileInfo("b", 300, 1), FileInfo("c.gz", 10, 1)])
    found = progress.admit(1000, 100, None, tasks=2, whole=lambda path: path.endswith(".gz"))
    assert [(s.path, s.start, s.end) for s in found] == [("a.gz", 0, 5000)]
    progress.move(progress.after([SplitResult(found[0], False, 0, 1, 5000, 0, 0)]))
    found = progress.admit(305, 100, None, tasks=2, whole=lambda path: path.endswith(".gz"))
    assert [(s.path, s.start, s.end) for s in found][-1] == ("c.gz", 0, 10)
    assert [(s.path, s.start) for s in found][:-1] == [("b", 0), ("b", 100), ("b", 200)]


def test_only_files_that_would_be_cut_are_asked_about() -> None:
    asked: list[str] = []

    def whole(path: str) -> bool:
        asked.append(path)
        return path == "b"

    progress = of_files(a=3, b=10, c=10)
    assert spans(progress.admit(100, 4, None, whole=whole)) == [
        ("a", 0, 3), ("b", 0, 10), ("c", 0, 4), ("c", 4, 8), ("c", 8, 10),
    ]  # fmt: skip
    assert asked == ["b", "c"]
    assert spans(progress.admit(4, 100, None, whole=whole)) == [("a", 0, 3), ("b", 0, 10)]
