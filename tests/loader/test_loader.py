"""The loader against PyArrow's own readers, and against itself undisturbed."""

from __future__ import annotations

import csv
import gzip
import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tidemill.errors import TidemillError
from tidemill.loader import Loader
from tidemill.loader.order import permutation

Make = Callable[..., Loader]
FILES, SPLIT_BYTES = 5, 2_000


@pytest.fixture(scope="module")
def parquet(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Five files of 1,000 to 1,800 rows in row groups of 130; ``i`` counts through all of them."""
    directory, begin = tmp_path_factory.mktemp("parquet"), 0
    for number in range(FILES):
        rows = range(begin, begin + 1_000 + 200 * number)
        table = pa.table({"i": list(rows), "x": [i / 3 for i in rows], "s": [f"text {i}" for i in rows]})
        pq.write_table(table, directory / f"{number}.parquet", row_group_size=130)
        begin = rows.stop
    return directory


@pytest.fixture
def make(parquet: Path) -> Make:
    """A loader of these files, with batches of 64 rows and small splits unless told otherwise."""

    def made(**given: Any) -> Loader:
        return Loader(f"{parquet}/*.parquet", **{"batch_size": 64, "split_bytes": SPLIT_BYTES, **given})

    return made


ORDERS: list[dict[str, Any]] = [{}, {"shuffle": 7, "shuffle_buffer": 700}, {"shuffle": 0, "shuffle_buffer": 10_000}]


def taken(batches: Iterator[pa.RecordBatch] | Loader) -> list[bytes]:
    """Each batch byte for byte."""
    return [_bytes(batch) for batch in batches]


def _bytes(batch: pa.RecordBatch) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    found: bytes = sink.getvalue().to_pybytes()
    return found


def test_without_a_seed_rows_come_as_they_lie_in_the_files(make: Make, parquet: Path) -> None:
    expected = pa.concat_tables([pq.read_table(parquet / f"{n}.parquet") for n in range(FILES)])
    batches = list(make())
    assert [b.num_rows for b in batches[:-1]] == [64] * (len(batches) - 1)
    assert pa.Table.from_batches(batches).equals(expected)
    chosen = pa.Table.from_batches(list(make(columns=["s", "i"])))
    assert chosen.equals(expected.select(["s", "i"]))


@pytest.mark.parametrize("order", ORDERS[1:])
def test_a_shuffled_pass_has_each_row_once(make: Make, parquet: Path, order: dict[str, Any]) -> None:
    expected = pa.concat_tables([pq.read_table(parquet / f"{n}.parquet") for n in range(FILES)])
    loader = make(**order)
    passes = [pa.Table.from_batches(list(loader)) for _ in range(2)]
    for rows in passes:
        assert rows.sort_by("i").equals(expected) and not rows.equals(expected)
    assert not passes[0].equals(passes[1])
    again = pa.Table.from_batches(list(make(epochs=2, **order)))
    assert again.equals(pa.concat_tables(passes))


@pytest.mark.parametrize("order", ORDERS)
def test_any_number_of_threads_gives_the_same(make: Make, order: dict[str, Any]) -> None:
    expected = taken(make(workers=0, **order))
    for workers in (1, 2, 7):
        assert taken(make(workers=workers, **order)) == expected


@pytest.mark.slow
@pytest.mark.parametrize("order", ORDERS)
def test_a_hundred_consumers_are_killed_and_resumed(make: Make, seed: int, order: dict[str, Any]) -> None:
    chance = random.Random(seed)
    undisturbed = taken(make(epochs=2, **order))
    for _ in range(6):
        got: list[bytes] = []
        state: dict[str, Any] | None = None
        while len(got) < len(undisturbed):
            loader = make(epochs=2, workers=chance.choice((0, 1, 3)), **order)
            if state is not None:
                loader.load_state_dict(json.loads(json.dumps(state)))
            batches = iter(loader)
            for _ in range(chance.randrange(1, 1 + len(undisturbed) // 4)):
                batch = next(batches, None)
                if batch is None:
                    break
                got.append(_bytes(batch))
            state = loader.state_dict()
        assert got == undisturbed


@pytest.mark.parametrize("order", ORDERS)
def test_ranks_share_the_batches(make: Make, order: dict[str, Any]) -> None:
    whole = taken(make(**order))
    full = len([None for b in make(**order) if b.num_rows == 64])
    for ranks in (2, 3, 5):
        each = [taken(make(rank=r, world_size=ranks, **order)) for r in range(ranks)]
        assert {len(batches) for batches in each} == {full // ranks}
        assert [b for step in zip(*each, strict=True) for b in step] == whole[: full // ranks * ranks]
        kept = [taken(make(rank=r, world_size=ranks, drop_last=False, **order)) for r in range(ranks)]
        assert sorted(b for batches in kept for b in batches) == sorted(whole)


@pytest.mark.parametrize("order", ORDERS)
def test_resumed_with_other_ranks(make: Make, seed: int, order: dict[str, Any]) -> None:
    chance = random.Random(seed)
    whole = taken(make(**order))
    for before, after in ((1, 3), (3, 1), (2, 5), (4, 2)):
        steps = chance.randrange(1, len(whole) // before - 1)
        got, states = [[] for _ in range(before)], []
        for rank in range(before):
            loader = make(rank=rank, world_size=before, **order)
            batches = iter(loader)
            got[rank] = [_bytes(next(batches)) for _ in range(steps)]
            states.append(loader.state_dict())
        rows = {state["rows"] for state in states}
        assert rows == {steps * before * 64}
        rest = []
        for rank in range(after):
            loader = make(rank=rank, world_size=after, **order)
            loader.load_state_dict(chance.choice(states))
            rest.append(taken(loader))
        sequence = [b for step in zip(*got, strict=True) for b in step]
        sequence += [b for step in zip(*rest, strict=True) for b in step]
        assert sequence == whole[: len(sequence)] and len(whole) - len(sequence) <= after


def test_a_state_of_other_data_says_what_changed(make: Make, tmp_path: Path) -> None:
    loader = make(shuffle=7)
    next(iter(loader))
    state = loader.state_dict()
    for other, changed in (
        (make(shuffle=8), "the seed"),
        (make(shuffle=7, columns=["i"]), "the columns"),
        (make(shuffle=7, shuffle_buffer=5), "shuffled together"),
        (make(shuffle=7, split_bytes=10_000), "splits"),
    ):
        with pytest.raises(TidemillError, match="TM9005") as error:
            other.load_state_dict(state)
        assert changed in error.value.got
        other.load_state_dict(state, strict=False)
    for wrong in ({}, None, [], {**state, "rows": -1}, {**state, "version": 9}, {**state, "rows": True}):
        with pytest.raises(TidemillError, match="TM9004"):
            loader.load_state_dict(wrong)  # type: ignore[arg-type]


def test_a_file_that_changes_is_an_error(tmp_path: Path) -> None:
    for number in range(3):
        pq.write_table(pa.table({"i": [number] * 100}), tmp_path / f"{number}.parquet")
    loader = Loader(str(tmp_path), batch_size=10)
    pq.write_table(pa.table({"i": list(range(500))}), tmp_path / "1.parquet")
    got = []
    with pytest.raises(TidemillError, match="TM50"):
        for batch in loader:
            got += batch.column(0).to_pylist()
    assert got == [0] * 100
    state = loader.state_dict()
    with pytest.raises(TidemillError, match="TM9005"):
        Loader(str(tmp_path), batch_size=10).load_state_dict(state)


def rows_of_csv(path: Path, count: int, chance: random.Random) -> list[tuple[int, str]]:
    """A file with line ends and commas within quotes."""
    rows = [(i, "".join(chance.choice('a,"\n ') for _ in range(chance.randrange(12))) + "z") for i in range(count)]
    with path.open("w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows(rows)
    return rows


def test_text_files_are_cut_where_a_row_begins(tmp_path: Path, seed: int) -> None:
    expected = rows_of_csv(tmp_path / "a.csv", 3_000, random.Random(seed))
    options = {"schema": "i INT, s STRING", "multiLine": True, "escape": '"'}
    for split_bytes in (100, 777, 1 << 20):
        loader = Loader(f"{tmp_path}/*.csv", batch_size=50, split_bytes=split_bytes, **options)
        found = pa.Table.from_batches(list(loader)).to_pydict()
        assert list(zip(found["i"], found["s"], strict=True)) == expected


def test_compressed_json(tmp_path: Path) -> None:
    rows = [{"i": i, "xs": [float(i), i / 2], "s": None if i % 3 else f"t{i}"} for i in range(1_000)]
    with gzip.open(tmp_path / "a.jsonl.gz", "wt") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)
    loader = Loader(f"{tmp_path}/*.gz", batch_size=300, schema="i BIGINT, xs ARRAY<DOUBLE>, s STRING")
    assert pa.Table.from_batches(list(loader)).to_pylist() == rows
    arrays = next(iter(loader.numpy()))
    assert arrays["i"].dtype == np.int64 and arrays["xs"].shape == (300, 2)
    assert arrays["xs"].tolist() == [row["xs"] for row in rows[:300]]


def test_what_is_wrong_has_a_number(make: Make, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("1\n")
    (tmp_path / "b.json").write_text('{"a": 1}\n')
    (tmp_path / "c.txt").write_text("1\n")
    (tmp_path / "none").mkdir()
    for number, call in (
        ("TM9001", lambda: Loader(f"{tmp_path}/none")),
        ("TM5001", lambda: Loader(f"{tmp_path}/nowhere.csv")),
        ("TM9002", lambda: Loader([f"{tmp_path}/a.csv", f"{tmp_path}/b.json"])),
        ("TM9002", lambda: Loader(f"{tmp_path}/c.txt")),
        ("TM4001", lambda: Loader(f"{tmp_path}/c.txt", format="nothing")),
        ("TM4003", lambda: Loader(None)),  # type: ignore[arg-type]
        ("TM4003", lambda: Loader([1])),  # type: ignore[list-item]
        ("TM4003", lambda: make(batch_size=0)),
        ("TM4003", lambda: make(batch_size=True)),
        ("TM4003", lambda: make(rank=2, world_size=2)),
        ("TM4003", lambda: make(epochs=0)),
        ("TM4005", lambda: make(sepp=";")),
        ("TM4006", lambda: make(columns=["j"])),
        ("TM4003", lambda: make(columns=[])),
    ):
        with pytest.raises(TidemillError, match=number):
            call()


def test_files_without_rows(tmp_path: Path) -> None:
    schema = pa.schema([("i", pa.int64())])
    pq.write_table(schema.empty_table(), tmp_path / "a.parquet")
    assert list(Loader(str(tmp_path))) == []
    assert list(Loader(str(tmp_path), shuffle=1, epochs=None)) == []
    pq.write_table(pa.table({"i": [1, 2]}), tmp_path / "b.parquet")
    pq.write_table(schema.empty_table(), tmp_path / "c.parquet")
    assert [b.to_pydict() for b in Loader(str(tmp_path), batch_size=5)] == [{"i": [1, 2]}]


def test_an_iteration_that_was_left_begins_its_pass_again(make: Make) -> None:
    loader = make(shuffle=3)
    first = taken(loader)
    second = taken(loader)
    assert first != second
    third = iter(loader)
    begun = [_bytes(next(third)) for _ in range(3)]
    assert taken(loader)[:3] == begun


def test_passes_without_end(make: Make) -> None:
    loader = iter(make(shuffle=3, epochs=None, batch_size=1_000))
    seen = [next(loader) for _ in range(30)]
    assert sum(b.num_rows for b in seen) > 3 * 7_000


@pytest.mark.parametrize("size", [0, 1, 2, 10, 1_000])
def test_permutations(size: int) -> None:
    found = permutation((1, 2, 3), size)
    assert sorted(found.tolist()) == list(range(size))
    assert found.tolist() == permutation((1, 2, 3), size).tolist()
    if size > 9:
        assert found.tolist() != permutation((1, 2, 4), size).tolist()


def split_mix(state: int) -> int:
    """SplitMix64 in whole numbers of Python."""
    mask = (1 << 64) - 1
    state = (state + 0x9E3779B97F4A7C15) & mask
    state = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & mask
    state = ((state ^ (state >> 27)) * 0x94D049BB133111EB) & mask
    return state ^ (state >> 31)


@pytest.mark.parametrize("key", [(7, 0, 1), (0, 3, 2, 65_536), (2**64 + 5, 0, 1)])
def test_a_permutation_never_changes(key: tuple[int, ...]) -> None:
    """A state has to give the same rows in years: the algorithm is for ever."""
    state = 0
    for part in key:
        state = split_mix(state ^ split_mix(part % 2**64))
    values = [split_mix((state + number * 0x9E3779B97F4A7C15) % 2**64) for number in range(1, 101)]
    assert permutation(key, 100).tolist() == sorted(range(100), key=values.__getitem__)


def test_a_bar_for_each_pass(make: Make, capfd: pytest.CaptureFixture[str]) -> None:
    """Standard error is no terminal here: one line a pass, at its end."""
    loader = make(progress=True, epochs=2, shuffle=3)
    rows = sum(batch.num_rows for batch in loader) // 2
    splits = len(loader.planned.sets)
    told = [line for line in capfd.readouterr().err.splitlines() if "pass" in line]
    assert len(told) == 2, told
    for number, line in enumerate(told, start=1):
        assert line.startswith(f"pass {number} ")
        assert f"{splits}/{splits} splits, {rows:,} rows" in " ".join(line.split()), line


def test_a_bar_of_what_is_left_early(make: Make, capfd: pytest.CaptureFixture[str]) -> None:
    loader = make(progress=True)
    found = iter(loader)
    for _ in range(3):
        next(found)
    found.close()  # type: ignore[attr-defined]
    (line,) = [line for line in capfd.readouterr().err.splitlines() if "pass" in line]
    assert "192 rows" in line
    assert f"{len(loader.planned.sets)}/" not in line
    list(make())
    assert capfd.readouterr().err == "", "nobody has asked for one"
