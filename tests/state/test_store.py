"""The store of run files: names are never reused, ranges of vnodes, deletion, syncing."""

from __future__ import annotations

import errno
import itertools
import os
import random
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from tidemill.errors import TidemillError
from tidemill.state.keys.keys import VNODES, KeyColumn, Keys, encode
from tidemill.state.lookup import lookup
from tidemill.state.merge.merge import MergeOp, Rows, consolidate, merge
from tidemill.state.runs import derived
from tidemill.state.store import opened_ranges
from tidemill.state.store.durable_runs import make_durable
from tidemill.state.store.file_names import epoch_of
from tidemill.state.store.store import RunStore, partition_vnodes
from tidemill.state.versions.objects import Objects
from tidemill.state.versions.version import Run

SUM = (MergeOp.SUM,)


def rows_of(*keys: int) -> Rows:
    """Integer keys, each with weight 1."""
    encoded = encode([pa.array(keys, pa.int64())], (KeyColumn(pa.int64()),), 1)
    return consolidate(encoded, [pa.array([1] * len(keys), pa.int64())], [MergeOp.SUM], drop_zero=False)


def key_bytes(rows: list[Rows]) -> list[bytes]:
    """All keys of some runs."""
    return [r.keys[i] for r in rows for i in range(len(r.keys))]


@pytest.fixture
def store(tmp_path: Path) -> RunStore:
    return RunStore(Objects(tmp_path / "root"), tmp_path / "buffer")


@pytest.mark.parametrize("partitions", [1, 2, 3, 7, 64, 255, 256])
def test_partitions_share_out_all_vnodes(partitions: int) -> None:
    spans = [partition_vnodes(p, partitions) for p in range(partitions)]
    assert spans[0][0] == 0
    assert spans[-1][1] == VNODES
    assert all(before[1] == after[0] for before, after in itertools.pairwise(spans))
    assert all(low < high for low, high in spans)


def test_written_tables_are_opened(store: RunStore) -> None:
    run_a, run_b = store.write(5, [("a", rows_of(1, 2), SUM), ("none", rows_of(), SUM), ("b", rows_of(3), SUM)], "0-1")
    assert (run_a.table, run_a.rows, run_a.epoch_low, run_a.epoch_high, run_a.added) == ("a", 2, 5, 5, 5)
    assert run_a.file == run_b.file
    assert epoch_of(run_a.file) == 5
    assert key_bytes([store.open(run_b)]) == key_bytes([rows_of(3)])


def test_nothing_to_write_makes_no_file(store: RunStore) -> None:
    assert store.write(1, [("a", rows_of(), SUM)], "0-0") == []
    assert store.buffered() == []


def test_a_retry_never_gets_the_same_name(store: RunStore) -> None:
    files = {store.write(1, [("a", rows_of(1), SUM)], "0-0")[0].file for _ in range(20)}
    assert len(files) == 20


def test_ranges_of_vnodes_add_up(store: RunStore) -> None:
    rows = rows_of(*range(500))
    runs = store.write(1, [("a", rows, SUM)], "0-0")
    parts = [store.open_range(runs, *partition_vnodes(p, 3)) for p in range(3)]
    assert [k for part in parts for k in key_bytes(part)] == key_bytes([rows])
    merged = merge(parts[1], [MergeOp.SUM], drop_zero=True)
    assert all(86 <= int.from_bytes(k[:2], "big") < 171 for k in key_bytes([merged]))


def test_a_file_is_mapped_once(store: RunStore) -> None:
    run = store.write(1, [("a", rows_of(1), SUM)], "0-0")[0]
    assert store.open(run) is RunStore(store.objects, store.buffer).open(run)


def test_missing_file(store: RunStore) -> None:
    run = store.write(1, [("a", rows_of(1), SUM)], "0-0")[0]
    store.path(run.file).unlink()
    with pytest.raises(TidemillError, match="TM1018"):
        store.open(run)


def test_removed_file_can_still_be_read_by_who_has_it(store: RunStore) -> None:
    run = store.write(1, [("a", rows_of(1, 2), SUM)], "0-0")[0]
    rows = store.open(run)
    store.evict([run.file, "e0000000001-0123abcd-was-not-there.run"])
    assert store.buffered() == []
    assert key_bytes([rows]) == key_bytes([rows_of(1, 2)])
    with pytest.raises(TidemillError, match="TM1018"):
        store.open(run)


def test_listing_leaves_other_peoples_files_alone(store: RunStore) -> None:
    run = store.write(12, [("a", rows_of(1), SUM)], "0-0")[0]
    (store.buffer / "backup.run").write_text("mine")
    (store.buffer / "notes.txt").write_text("mine")
    assert [name for name, _ in store.buffered()] == [run.file]


def test_a_damaged_copy_of_an_object_is_fetched_again(tmp_path: Path) -> None:
    store = RunStore(Objects(f"memory:///{tmp_path.name}"), tmp_path / "buffer")
    written = store.write(1, [("t", rows_of(1, 2, 3), SUM)], "0-0")
    ((run,),) = [swap.new for swap in make_durable(store, [written], 1, 1 << 20)]
    copy = store.path(run.file)
    for position in (20, copy.stat().st_size - 30):  # a section, the footer
        damaged = bytearray(copy.read_bytes())
        damaged[position] ^= 1
        other = RunStore(store.objects, tmp_path / f"other {position}")
        other.buffer.mkdir()
        other.path(run.file).write_bytes(damaged)
        assert key_bytes([other.open(run)]) == key_bytes([rows_of(1, 2, 3)])


def test_a_checkpoint_of_many_tables_and_partitions_is_one_object(store: RunStore) -> None:
    groups: list[list[Run]] = [[] for _ in range(200)]
    for epoch in (1, 2):
        for partition in range(4):
            tables = [(f"t{table}", rows_of(*range(partition * 10, partition * 10 + 5)), SUM) for table in range(100)]
            for run in store.write(epoch, tables, f"0-{partition}"):
                groups[(epoch - 1) * 100 + int(run.table[1:])].append(run)
    assert len(store.buffered()) == 8
    swaps = make_durable(store, groups, 1, 1 << 30)
    assert len(store.durable()) == 1
    assert [len(swap.new) for swap in swaps] == [1] * 200
    everything = merge([rows_of(*range(p * 10, p * 10 + 5)) for p in range(4)], SUM, False)
    for swap in swaps:
        assert (swap.old[0].epoch_high, swap.new[0].epoch_high) in ((1, 1), (2, 2))
        assert key_bytes([store.open(swap.new[0])]) == key_bytes([everything])


def test_a_checkpoint_keeps_large_files_as_they_are(store: RunStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of which most is needed, on the file system of the root; tasks may have stored the same row."""
    store.objects.make()
    monkeypatch.setattr("tidemill.state.store.durable_runs._KEPT_BYTES", 100_000)
    rows = [rows_of(*range(start, 20_000, 2)) for start in (0, 1, 1)]
    files = [store.write(1, [("a", some, SUM), ("b", some, SUM)], f"0-{i}") for i, some in enumerate(rows)]
    (little,) = store.write(1, [("a", rows_of(2, 3), SUM)], "0-3")
    needed = [*files[0], *files[1], files[2][0], little]  # of the last large file half
    groups = [[run for run in needed if run.table == table] for table in "ab"]
    inodes = [store.path(runs[0].file).stat().st_ino for runs in files]
    swaps = make_durable(store, groups, 1, 1 << 30)
    assert sorted(run.file for swap in swaps for run in swap.old) == sorted(run.file for run in needed)
    store.evict([run.file for run in needed])
    new = [run for swap in swaps for run in swap.new]
    kept = {run.file: store.path(run.file).stat().st_ino for run in new}
    assert sorted(set(kept.values()) & set(inodes)) == sorted(inodes[:2]) and len(kept) == 3
    store.check_present(kept)
    for table, parts in (("a", [*rows, rows_of(2, 3)]), ("b", rows[:2])):
        found = merge([store.open(run) for run in new if run.table == table], SUM, False)
        expected = merge(parts, SUM, False)
        assert (key_bytes([found]), found.values) == (key_bytes([expected]), expected.values)


def kept_as_they_are(store: RunStore, groups: list[list[Run]]) -> int:
    """How many files become objects as they are."""
    inodes = {store.path(run.file).stat().st_ino for group in groups for run in group}
    new = {run.file for swap in make_durable(store, groups, 1, 1 << 30) for run in swap.new}
    return sum(store.path(file).stat().st_ino in inodes for file in new)


@pytest.mark.parametrize(
    ("ops", "starts", "kept"),
    [
        (SUM, [0, 0, 0, 0], 4),
        (SUM, [0, 0, 0, 0, 0], 0),
        ((MergeOp.LAST,), [0], 1),
        ((MergeOp.LAST,), [0, 0], 0),
    ],
)
def test_runs_that_overlap_are_merged_if_they_are_many_or_have_an_order(
    ops: tuple[MergeOp, ...], starts: list[int], kept: int, store: RunStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidemill.state.store.durable_runs._KEPT_BYTES", 100_000)
    store.objects.make()
    group = [run for i in starts for run in store.write(1, [("a", rows_of(*range(i, 9000)), ops)], f"0-{i}")]
    assert kept_as_they_are(store, [group]) == kept


def test_large_files_that_have_no_second_name_are_copied(store: RunStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidemill.state.store.durable_runs._KEPT_BYTES", 100_000)
    store.objects.make()
    rows = rows_of(*range(9000))
    link = os.link
    for epoch in range(3):
        (run,) = store.write(epoch, [("a", rows, SUM)], "0-0")
        with monkeypatch.context() as patches:
            if epoch == 0:
                patches.setattr(Objects, "takes_files_of", lambda *_: False)
            elif epoch == 1:  # a mapped file whose name has gone
                assert len(store.open(run)) == 9000
                store.path(run.file).unlink()
            else:  # the file of another user, where the system protects those

                def protected(source: Path, target: Path) -> None:
                    if source.suffix == ".run":
                        raise PermissionError(errno.EPERM, "Operation not permitted")
                    link(source, target)

                patches.setattr(os, "link", protected)
            ((swap,),) = [make_durable(store, [[run]], epoch, 1 << 30)]
        assert key_bytes([store.open(swap.new[0])]) == key_bytes([rows])
        assert not store.path(run.file).exists() or not store.path(run.file).samefile(store.path(swap.new[0].file))


def test_a_large_file_that_is_corrupt_is_not_made_durable(store: RunStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """The mill goes back, and reads the input again."""
    monkeypatch.setattr("tidemill.state.store.durable_runs._KEPT_BYTES", 100_000)
    store.objects.make()
    (run,) = store.write(1, [("a", rows_of(*range(9000)), SUM)], "0-0")
    damaged = bytearray(store.path(run.file).read_bytes())
    damaged[len(damaged) // 2] ^= 1
    store.path(run.file).write_bytes(damaged)
    with pytest.raises(TidemillError, match="TM1018"):
        make_durable(store, [[run]], 1, 1 << 30)
    assert store.durable() == []


def test_the_row_of_an_aggregate_without_keys_stays_though_it_counts_nothing(store: RunStore) -> None:
    keys = Keys(np.array([0, 2], np.int64), np.zeros(2, np.uint8))
    nothing = Rows(keys, (pa.array([0], pa.int64()),))
    one, other = (store.write(1, [("t", nothing, SUM)], f"0-{i}") for i in range(2))
    for runs in ([*one], [*one, *other]):
        (swap,) = make_durable(store, [runs], 1, 1 << 20)
        (kept,) = swap.new
        assert (kept.rows, store.open(kept).values[0].to_pylist()) == (1, [0])


def test_another_intact_file_under_a_name_is_found_out(store: RunStore) -> None:
    first, second = (
        make_durable(store, [store.write(1, [(t, rows_of(*k), SUM)], "0-0")], 1, 1 << 20)[0].new[0]
        for t, k in (("a", (1, 2)), ("b", (3,)))
    )
    store.path(first.file).unlink()
    store.path(first.file).write_bytes(store.path(second.file).read_bytes())
    with pytest.raises(TidemillError, match="TM1011") as caught:
        store.open(first)
    assert "another file" in caught.value.got


def test_a_checkpoint_of_which_something_has_gone(store: RunStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """The hint is to put it back, not to free space: say, the buffer directory was deleted under the mill."""
    (run,) = store.write(1, [("t", rows_of(1), (MergeOp.SUM,))], "0-0")
    put = Objects.put

    def without_buffer(objects: Objects, name: str, data: bytes | Path) -> None:
        shutil.rmtree(store.buffer)
        put(objects, name, data)

    monkeypatch.setattr(Objects, "put", without_buffer)
    with pytest.raises(TidemillError, match="TM1014") as caught:
        make_durable(store, [[run]], 1, 1 << 20)
    assert "No such file" in caught.value.got
    assert "put it back" in caught.value.hint and "free space" not in caught.value.hint


def test_a_run_is_the_same_object_when_it_is_opened_again(store: RunStore) -> None:
    """By range of vnodes, while its file is mapped; not for a version that says something else of it."""
    (run,) = store.write(1, [("t", rows_of(*range(5000)), SUM)], "0-0")
    for low, high in ((0, VNODES), (3, 50), (50, 51)):
        (rows,) = store.open_range([run], low, high)
        assert store.open_range([run], low, high)[0] is rows
        keys = [k for k in store.open(run).keys.to_arrow().to_pylist() if low <= int.from_bytes(k[:2], "big") < high]
        assert rows.keys.to_arrow().to_pylist() == keys
    with pytest.raises(TidemillError, match="another file"):
        store.open_range([replace(run, rows=4999)], 0, VNODES)
    store.path(run.file).unlink()
    store.let_go()
    with pytest.raises(TidemillError, match="TM1018"):
        store.open_range([run], 0, VNODES)


@pytest.mark.parametrize("most", [1 << 15, 20])
def test_ranges_have_the_runs_of_their_version(
    store: RunStore, most: int, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever was opened before: runs come and go, files are deleted and let go, other ranges are read between."""
    chance = random.Random(seed)
    monkeypatch.setattr(opened_ranges, "_MOST_RUNS", most)
    runs: tuple[Run, ...] = ()
    keys: dict[str, list[int]] = {}
    for epoch in range(1, 60):
        if chance.random() < 0.7:
            keys_of = sorted(chance.sample(range(3000), chance.choice((1, 200))))
            (run,) = store.write(epoch, [("t", rows_of(*keys_of), SUM)], "0-0")
            keys[run.file] = keys_of
            runs = (*runs, run)
        for run in [run for run in runs if chance.random() < 0.1]:
            runs = tuple(r for r in runs if r is not run)
            if chance.random() < 0.5:
                store.path(run.file).unlink()
        if chance.random() < 0.3:
            store.let_go(chance.choice((None, {run.file for run in runs}, set())))
        if chance.random() < 0.2:
            runs = tuple(replace(run, level=0) for run in runs)  # other objects that say the same
        for low, high in ((0, VNODES), (3, 50)):
            expected = [
                [k for k in key_bytes([rows_of(*keys[r.file])]) if low <= int.from_bytes(k[:2], "big") < high]
                for r in runs
            ]
            found = [key_bytes([rows]) for rows in store.open_range(runs, low, high)]
            assert found == [some for some in expected if some], f"seed {seed}, epoch {epoch}"


def test_a_damaged_file_is_read_again_when_it_has_been_mended(store: RunStore) -> None:
    """Also by a version that has been read before."""
    (run,) = store.write(1, [("t", rows_of(*range(9000)), SUM)], "0-0")
    runs = (run,)
    path, content = store.path(run.file), store.path(run.file).read_bytes()
    at = len(content) // 4
    path.unlink()
    path.write_bytes(content[:at] + bytes(byte ^ 1 for byte in content[at : at + 64]) + content[at + 64 :])
    (opened,) = store.open_range(runs, 0, VNODES)
    with pytest.raises(TidemillError, match="fail their checksum"):
        _ = opened.keys, opened.values
    path.unlink()
    path.write_bytes(content)
    (mended,) = store.open_range(runs, 0, VNODES)
    assert mended.keys.to_arrow().to_pylist() == rows_of(*range(9000)).keys.to_arrow().to_pylist()
    assert mended.values[0].to_pylist() == [1] * 9000


def test_many_files_are_let_go_at_once(store: RunStore) -> None:
    """Also soon after the last time."""
    runs = [store.write(e, [("t", rows_of(*range(2000)), SUM)], "0-0")[0] for e in range(1, 331)]
    store.let_go(set())
    for run in runs:
        store.open(run)
    store.let_go(set())
    maps = Path("/proc/self/maps").read_text()
    assert [run.epoch_low for run in runs if run.file in maps] == list(range(75, 331))


def test_rows_of_a_file_that_was_let_go_meanwhile(store: RunStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who opens a run while another thread lets its file go gets its rows, and nobody remembers them."""
    (run,) = store.write(1, [("t", rows_of(*range(5000)), SUM)], "0-0")
    (whole,) = store.open_range([run], 3, 50)
    keys = whole.keys.to_arrow().to_pylist()
    store.let_go()
    find, content = lookup.vnode_rows, store.path(run.file).read_bytes()

    def interrupted(rows: Rows, low: int, high: int) -> tuple[int, int]:
        store.path(run.file).unlink(missing_ok=True)
        store.let_go()
        return find(rows, low, high)

    monkeypatch.setattr(lookup, "vnode_rows", interrupted)
    (rows,) = store.open_range([run], 50, 99)
    assert rows.keys.to_arrow().to_pylist()
    monkeypatch.undo()
    with pytest.raises(TidemillError, match="TM1018"):
        store.open_range([run], 50, 99)
    store.path(run.file).write_bytes(content)
    (again,) = store.open_range([run], 3, 50)
    assert again is not whole
    assert again.keys.to_arrow().to_pylist() == keys


def mapped_deleted(directory: Path) -> int:
    """How many files that were deleted in a directory this process has mapped."""
    lines = Path("/proc/self/maps").read_text().splitlines()
    return len({line.split(None, 5)[5] for line in lines if str(directory) in line and line.endswith("(deleted)")})


def test_deleted_files_are_unmapped_in_a_process_that_is_not_told(store: RunStore) -> None:
    kept: list[Run] = []
    for epoch in range(1, 60):
        (run,) = store.write(epoch, [("t", rows_of(*range(5000)), SUM)], "0-0")
        (opened,) = store.open_range([run], 0, VNODES)
        derived.derived(opened, "keys", lambda opened=opened: (opened.keys.offsets,))  # type: ignore[misc]
        kept = [run, *kept[:2]]
        if len(kept) == 3:
            store.path(kept[2].file).unlink()
    del opened
    assert mapped_deleted(store.buffer) > 50
    store.let_go({run.file for run in kept[:2]})
    assert mapped_deleted(store.buffer) == 0
    assert len(store.open(kept[0])) == 5000


def test_files_that_no_version_names_are_unmapped_when_they_are_many(
    store: RunStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = [store.write(e, [("t", rows_of(*range(2000)), SUM)], "0-0")[0] for e in range(1, 12)]
    for run in runs:
        store.open(run)
    size = store.path(runs[0].file).stat().st_size
    monkeypatch.setattr("tidemill.state.store.store.UNNEEDED_BYTES", 4 * size + size // 2)
    monkeypatch.setattr("tidemill.state.store.store._TRIM_SECONDS", 0.0)

    def mapped() -> set[int]:
        maps = Path("/proc/self/maps").read_text()
        return {epoch_of(run.file) for run in runs if run.file in maps}

    assert len(mapped()) == 11
    store.let_go()
    assert len(mapped()) == 11, "nothing was deleted, and nobody says what is needed"
    store.let_go([runs[0].file])
    assert mapped() == {1, 8, 9, 10, 11}, "what is needed, and of the others the newest"
    monkeypatch.setattr("tidemill.state.store.store.UNNEEDED_FILES", 1)
    store.let_go([])
    assert mapped() == {11}
