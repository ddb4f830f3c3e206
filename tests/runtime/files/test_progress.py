"""How far files have been read: admission limits, positions, verified quotes."""

from __future__ import annotations

from dataclasses import replace

import pytest
from source_state import SourceState, admit, result, spans

from tidemill.formats.reading.codecs import MOST_DECODED
from tidemill.runtime.files.file_policy import FilePolicy
from tidemill.runtime.files.file_progress import FileProgress, read_part
from tidemill.runtime.files.listed_files import ListedFiles
from tidemill.runtime.files.progress import Limits, Progress, verify_quotes
from tidemill.runtime.files.spool_files import SpoolFiles
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
    progress = SpoolFiles("t", "t#1", FilePolicy())
    assert progress.follow(segments(s0=4)) == set() and progress.done
    assert progress.follow(segments(s0=14)) == set()
    first = admit(progress, 100, 100)
    assert [(s.start, s.end, s.size, s.in_quotes) for s in first] == [(4, 14, 14, False)]
    progress.follow(segments(s0=20, s16=9))  # it grows while the epoch runs
    seal(progress, first)
    progress.follow(segments(s0=20, s16=9))
    assert [(s.start, s.end) for s in admit(progress, 100, 100)] == [(14, 20), (4, 9)]


def test_parts_of_a_spool_that_were_read_may_go_and_no_others() -> None:
    progress = SpoolFiles("t", "t#1", FilePolicy())
    found = segments(s0=20, s16=9, s21=9)
    progress.follow(found[:2])
    seal(progress, admit(progress, 100, 100))
    assert progress.follow(found[2:]) == set()
    assert list(progress.known) == [found[2].path]
    assert progress.follow([]) == {found[2].path}
    # an older manifest: 16 is not known
    behind = SpoolFiles("t", "t#1", FilePolicy(), [FileProgress(found[0].path, 20, GROWING, 20)])
    assert behind.follow(found[2:]) == {found[2].path}
    assert SpoolFiles("t", "t#1", FilePolicy()).follow(found[1:]) == {found[1].path}


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
    history, other = replace(live, backfill_target=4), replace(live, table="u")
    starts = {("t", None, "a"): False, ("t", 4, "a"): True, ("u", None, "a"): False}
    found = [result(live, False, 1), result(history, True, 0), result(other, False, 0)]
    assert verify_quotes(found, starts) is None


def test_a_whole_file_is_one_split_whatever_the_limits() -> None:
    progress = of_files(a=5000, b=300, c=10)
    whole = {"a", "c"}.__contains__
    assert spans(progress.admit(Limits(1000, None, 100, 2), unsplittable=whole)) == [("a", 0, 5000)]
    progress.move(progress.after([result(s) for s in progress.admit(Limits(1000, None, 100, 2), unsplittable=whole)]))
    found = spans(progress.admit(Limits(305, None, 100, 2), unsplittable=whole))
    assert found == [("b", 0, 100), ("b", 100, 200), ("b", 200, 300), ("c", 0, 10)]


def test_of_a_compressed_file_an_epoch_has_one_part() -> None:
    progress = of_files(a=5000, b=300, z=10)
    compressed = {"a", "z"}.__contains__
    (split,) = progress.admit(Limits(1000, None, 100), compressed=compressed)
    assert (split.start, split.end, split.encoded, split.in_quotes, split.length) == (0, 1600, 0, False, 1600)
    # 70 of its bytes made 1,600; then 16,000 are large enough that a quarter of them is more than the limits.
    progress.move(progress.after([replace(result(split, False, 1), encoded=70)]))
    (split,) = progress.admit(Limits(14_400, None, 100), compressed=compressed)[:1]
    assert (split.start, split.end, split.encoded, split.in_quotes) == (1600, 16_000, 70, True)
    progress.move(progress.after([replace(result(split, True, 1), encoded=4000)]))
    first, *others = progress.admit(Limits(2000, None, 100), compressed=compressed)
    assert (first.start, first.end, first.encoded, first.length) == (16_000, 20_000, 4000, 1000)
    assert {s.path for s in others} == {"b", "z"}
    progress.move(progress.after([replace(result(first), encoded=5000)]))
    assert "a" not in progress.waiting
    assert [s.path for s in progress.admit(Limits(1 << 30), compressed=compressed)] == ["b", "z"]


def test_compressed_files_share_the_bytes_of_an_epoch() -> None:
    found = of_files(a=50, b=500, c=500).admit(Limits(300, None, 10), compressed=lambda _: True)
    assert [(s.path, s.end, s.length) for s in found] == [("a", 300, 50), ("b", 250, 250)]


def test_a_compressed_file_that_grows_is_read_on_until_it_has_been_at_its_end() -> None:
    state = SourceState()
    progress = state.files(FilePolicy(grows=lambda _: False))
    progress.discover([FileInfo("a", 50, GROWING)])
    for encoded, size in ((20, 60), (60, 70)):
        (split,) = progress.admit(Limits(10, None, 1), compressed=lambda _: True)
        sealing = progress.sealing(progress.after([replace(result(split), encoded=encoded)]), state.epoch + 1)
        state.write(sealing)
        progress.sealed(sealing)
        progress.discover([FileInfo("a", size, GROWING)])
    assert (split.start, split.size, progress.changed_files) == (16, 60, ["a"])
    assert progress.done


def test_a_part_of_a_compressed_file_never_looks_like_its_end() -> None:
    progress = of_files(a=50)
    for encoded, position in ((0, 1), (50 - 1, 49)):
        (split,) = progress.admit(Limits(10, None, 1), compressed=lambda _: True)
        (file,) = progress.after([replace(result(split), encoded=encoded)])
        assert (file.position, file.waits) == (position, True)
        progress.move([file])


def test_a_file_that_is_replaced_or_whole_is_one_part() -> None:
    progress = of_files(a=50)
    (split,) = progress.admit(Limits(10, None, 1), unsplittable=lambda _: True, compressed=lambda _: True)
    assert split.end == MOST_DECODED
    progress.known["a"] = replace(progress.known["a"], replaces=True)
    (split,) = progress.admit(Limits(10, None, 1), compressed=lambda _: True)
    assert split.end == MOST_DECODED and split.replaces


def test_history_of_a_compressed_file_ends_where_it_had_been_read_to_and_is_cut_at_marks() -> None:
    progress = of_files(a=50)
    for watermark in (5, 5, 7):
        (split,) = progress.admit(Limits(10, None, 1), watermark, compressed=lambda _: True)
        progress.move(progress.after([replace(result(split), encoded=20)]))
    assert progress.known["a"].marks == ((0, 5), (32, 7))
    history = Progress("t", 3, [read_part(progress.known["a"], 0)])
    found = []
    while not history.done:
        (split,) = history.admit(Limits(20, None, 1), compressed=lambda _: True)
        found.append((split.start, split.end, split.watermark))
        history.move(history.after([replace(result(replace(split, size=50)), encoded=20)]))
    assert found == [(0, 20, 5), (20, 32, 5), (32, 48, 7)]


def test_only_files_that_would_be_cut_are_asked_about() -> None:
    asked: list[str] = []

    def whole(path: str) -> bool:
        asked.append(path)
        return path == "b"

    progress = of_files(a=3, b=10, c=10)
    assert spans(progress.admit(Limits(100, None, 4), unsplittable=whole)) == [
        ("a", 0, 3), ("b", 0, 10), ("c", 0, 4), ("c", 4, 8), ("c", 8, 10),
    ]  # fmt: skip
    assert asked == ["b", "c"]
    assert spans(progress.admit(Limits(4, None, 100), unsplittable=whole)) == [("a", 0, 3), ("b", 0, 10)]


def test_files_of_rows_that_have_an_order_wait_for_the_end_of_a_compressed_one() -> None:
    progress = SourceState().files(FilePolicy(ordered=True))
    progress.discover(FileInfo(name, size, 1) for name, size in {"a": 9, "b": 90, "c": 9}.items())
    limits = Limits(100, None, 10)
    first, second = progress.admit(limits, compressed=lambda _: True)
    assert [(s.path, s.start, s.end) for s in (first, second)] == [("a", 0, MOST_DECODED), ("b", 0, 160)]
    progress.move(progress.after([replace(result(first), encoded=9), replace(result(second), encoded=85)]))
    (second,) = progress.admit(limits, compressed=lambda _: True)
    assert (second.path, second.start, second.end) == ("b", 160, 320)
    progress.move(progress.after([replace(result(second), encoded=90)]))
    (third,) = progress.admit(limits, compressed=lambda _: True)
    assert (third.path, third.start, third.end) == ("c", 0, MOST_DECODED)
