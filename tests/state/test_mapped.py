"""Larger sections: only what is touched is checked, every damaged byte is found by who would use it."""

from __future__ import annotations

import datetime
import os
import random
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tidemill.errors import TidemillError
from tidemill.state.keys.keys import KeyColumn, Keys, encode, hash64, prefix, sort
from tidemill.state.lookup.levels import rows_with
from tidemill.state.lookup.lookup import first_with_prefix, get, scan_prefix, vnode_range, vnode_rows
from tidemill.state.merge.merge import MergeOp, Rows, consolidate
from tidemill.state.runs import mapped, pages, sst
from tidemill.state.runs.mapped import Mapped
from tidemill.state.runs.sst import RunFile

LAYOUT = (KeyColumn(pa.int64()), KeyColumn(pa.int64()))
MEGABYTES = int(os.environ.get("TIDEMILL_STATE_MB", "20"))

NESTED: dict[str, Callable[[int], Any]] = {
    "int64": lambda i: i * i,
    "float64": lambda i: None if i % 3 == 0 else i / 7,
    "bool": lambda i: None if i % 5 == 0 else i % 2 == 0,
    "text": lambda i: None if i % 4 == 0 else "é" * (i % 7),
    "blob": lambda i: bytes(i % 3) if i % 2 else b"",
    "decimal": lambda i: Decimal(i) / 100,
    "day": lambda i: datetime.date(2020, 1, 1) + datetime.timedelta(i % 900),
    "list": lambda i: None if i % 6 == 0 else [str(j) for j in range(i % 4)],
    "struct": lambda i: None if i % 7 == 0 else {"a": i, "b": [None, i] if i % 2 else []},
    "map": lambda i: [(f"k{j}", {"x": j}) for j in range(i % 3)],
    "triple": lambda i: [i, None, -i],
    "nothing": lambda i: None,
    "empty": lambda i: None,
}
TYPES: dict[str, pa.DataType] = {
    "int64": pa.int64(),
    "float64": pa.float64(),
    "bool": pa.bool_(),
    "text": pa.string(),
    "blob": pa.binary(),
    "decimal": pa.decimal128(20, 2),
    "day": pa.date32(),
    "list": pa.list_(pa.string()),
    "struct": pa.struct([("a", pa.int64()), ("b", pa.list_(pa.int32()))]),
    "map": pa.map_(pa.string(), pa.struct([("x", pa.int16())])),
    "triple": pa.list_(pa.int64(), 3),
    "nothing": pa.null(),
    "empty": pa.string(),
}
LAST = [MergeOp.SUM, *[MergeOp.LAST] * len(TYPES)]


def rows_of(count: int, group: int = 10) -> Rows:
    """Keys of two numbers, ``group`` to each first one; a weight and a column of each type."""
    numbers = list(range(count))
    keys = encode([pa.array([i // group for i in numbers]), pa.array(numbers)], LAYOUT, 1)
    weights = pa.array([-1 if i % 4 == 0 else 1 for i in numbers], pa.int64())
    columns = [pa.array([NESTED[name](i) for i in numbers], type_) for name, type_ in TYPES.items()]
    return consolidate(keys, [weights, *columns], LAST, False)


def content(rows: Rows) -> list[tuple[Any, ...]]:
    return list(zip(rows.keys.to_arrow().to_pylist(), *(v.to_pylist() for v in rows.values), strict=True))


def sorted_prefixes(groups: list[int]) -> Keys:
    names = prefix([pa.array(groups, pa.int64())], LAYOUT, 1)
    return names.take(np.array(sorted(range(len(names)), key=lambda i: names[i]), np.int64))


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Files with an index for everything but the smallest sections, in tiny blocks and pages; lookups use it."""
    monkeypatch.setattr(sst, "WHOLE", 1500)
    monkeypatch.setattr(sst, "BLOCK", 8)
    monkeypatch.setattr(sst, "FILTERED", 8)
    monkeypatch.setattr(pages, "PAGE", 64)
    monkeypatch.setattr(mapped, "_DENSE", 0)
    yield


def written(path: Path, *parts: Rows, ops: list[MergeOp] = LAST) -> RunFile:
    sst.write(path, [("t", rows, ops) for rows in parts])
    return RunFile(path)


def indexed(file: RunFile, section: int = 0) -> Mapped:
    rows = file.rows(section)
    assert isinstance(rows, Mapped)
    return rows


@pytest.mark.usefixtures("tiny")
@pytest.mark.parametrize("count", [9, 64, 65, 300])
def test_values_of_every_type(tmp_path: Path, count: int, seed: int) -> None:
    rows = rows_of(count)
    expected, chance = content(rows), random.Random(seed)
    for _ in range(8):
        path = tmp_path / f"{chance.random()}.sst"
        run = indexed(written(path, rows))
        assert len(run) == count
        wanted = np.array(sorted(chance.sample(range(count), chance.randrange(1, 6))), np.int64)
        assert content(run.take(wanted)) == [expected[i] for i in wanted]
        low = chance.randrange(count)
        high = chance.randrange(low, count + 1)
        part = run.slice(low, high)
        places = part.locate(rows.keys, lambda: hash64(rows.keys))
        assert places.tolist() == [i - low if low <= i < high else -1 for i in range(count)]
        assert content(part) == expected[low:high]
        assert content(part.slice(1, len(part))) == expected[low + 1 : high] if len(part) else True
        assert content(run) == expected


@pytest.mark.usefixtures("tiny")
def test_slices_answer_like_slices_in_memory(tmp_path: Path, seed: int) -> None:
    rows, chance = rows_of(200), random.Random(seed)
    file = written(tmp_path / "a.sst", rows)
    for _ in range(60):
        low = chance.randrange(200)
        high = chance.randrange(low, 201)
        ours, theirs = indexed(file).slice(low, high), rows.slice(low, high)
        prefixes = sorted_prefixes(chance.sample(range(22), chance.randrange(1, 8)))
        for a, b in zip(rows_with(ours, prefixes), rows_with(theirs, prefixes), strict=True):
            assert a.tolist() == b.tolist()
        first = chance.randrange(250)
        span = (first, first + chance.randrange(1, 80))
        assert vnode_rows(ours, *span) == vnode_range(theirs.keys, *span)
        for reverse in (False, True):
            found, keys, values = first_with_prefix([ours], prefixes, reverse, LAST, False, rows.value_types())
            same = first_with_prefix([theirs], prefixes, reverse, LAST, False, rows.value_types())
            assert found.tolist() == same[0].tolist()
            assert keys.to_arrow().equals(same[1].to_arrow())
            assert [v.to_pylist() for v in values] == [v.to_pylist() for v in same[2]]


def reads(file: RunFile, probes: Keys, prefixes: Keys, types: list[pa.DataType], ops: list[MergeOp]) -> Iterator[Any]:
    """Whatever can be asked of a file, each answer computed when it is asked for."""

    def looked_up(keys: Keys) -> Any:
        found, values = get([file.rows(0), file.rows(1)], keys, ops, types)
        return found.tolist(), [v.to_pylist() for v in values]

    def scanned() -> Any:
        owners, rows = scan_prefix([file.rows(0), file.rows(1)], prefixes, ops, False, types)
        return owners.tolist(), content(rows)

    def first(reverse: bool) -> Any:
        found, keys, values = first_with_prefix([file.rows(0), file.rows(1)], prefixes, reverse, ops, False, types)
        return found.tolist(), keys.to_arrow().to_pylist(), [v.to_pylist() for v in values]

    yield lambda: looked_up(probes.take([0]))
    yield lambda: looked_up(probes)
    yield scanned
    yield lambda: first(False)
    yield lambda: first(True)
    yield lambda: [content(file.rows(i)) for i in range(2)]
    yield lambda: [content(file.rows(i).slice(1, 3)) for i in range(2)]
    yield lambda: [(s.table, s.rows, s.vnodes, s.epochs, s.low, s.high) for s in file.sections]


@pytest.mark.parametrize("part", [(0, 40_000), (500, 39_000)])
def test_many_keys_of_which_few_exist(part: tuple[int, int], tmp_path: Path, seed: int) -> None:
    """The filter leaves few of them, which are sought by the index, or many; in a part of a run, too."""
    chance = np.random.default_rng(seed)
    items = np.unique(chance.integers(0, 1 << 40, 41_000))[:40_000]
    keys = encode([pa.array(items)], LAYOUT[:1], 1)
    order = sort(keys)
    items = items[order]
    sst.write(tmp_path / "a.sst", [("t", Rows(keys.take(order), (pa.array(items * 3),)), [MergeOp.LAST])])
    rows = RunFile(tmp_path / "a.sst").rows(0).slice(*part)
    there = set(items[slice(*part)].tolist())
    for existing in (3, 300, 1100, 5000):
        some = chance.choice(items, existing, replace=False)
        sought = np.unique(np.append(some, chance.integers(0, 1 << 40, 4000)))
        probes = encode([pa.array(sought)], LAYOUT[:1], 1)
        by_key = sort(probes)
        found, (column,) = get([rows], probes.take(by_key), [MergeOp.LAST], [pa.int64()], drop_zero=False)
        expected = [key * 3 if key in there else None for key in sought[by_key].tolist()]
        assert column.to_pylist() == expected, f"seed {seed}"
        assert found.tolist() == [value is not None for value in expected]


@pytest.mark.slow
@pytest.mark.usefixtures("tiny")
def test_every_changed_byte_is_found_by_who_reads_it(tmp_path: Path, seed: int) -> None:
    """Keys, values, fences, filter, checksums, footer: TM1011 or the right answer, whatever was read before."""
    ops = [MergeOp.SUM, MergeOp.LAST, MergeOp.LAST]
    names = ("text", "list")

    def small(numbers: range) -> Rows:
        keys = encode([pa.array([i // 5 for i in numbers]), pa.array(numbers)], LAYOUT, 1)
        columns = [pa.array([NESTED[n](i) for i in numbers], TYPES[n]) for n in names]
        return consolidate(keys, [pa.array([1 - 2 * (i % 3 == 0) for i in numbers]), *columns], ops, False)

    rows, other = small(range(40)), small(range(38, 42))
    path = tmp_path / "whole.sst"
    original, raw = written(path, rows, other, ops=ops), path.read_bytes()
    assert isinstance(original.rows(0), Mapped)
    assert not isinstance(original.rows(1), Mapped), "one section of each kind"
    probes = small(range(7, 60, 9)).keys
    question = (probes, sorted_prefixes([0, 3, 8, 11]), rows.value_types(), ops)
    expected = [ask() for ask in reads(original, *question)]
    chance, harmless, used = random.Random(seed), 0, 0
    for position in range(len(raw)):
        damaged = bytearray(raw)
        damaged[position] ^= chance.choice([1, 128, chance.randrange(1, 256)])
        path = tmp_path / "damaged.sst"
        path.write_bytes(damaged)
        caught = 0
        try:
            RunFile(path).verify()
        except TidemillError as error:
            assert error.number == "TM1011"
            caught = 1
        harmless += not caught
        try:
            file = RunFile(path)
        except TidemillError as error:
            assert error.number == "TM1011"
            path.unlink()
            continue
        asked = list(zip(reads(file, *question), expected, strict=True))
        chance.shuffle(asked)
        for ask, answer in asked:
            try:
                assert ask() == answer, f"byte {position} of {len(raw)}"
            except TidemillError as error:
                assert error.number == "TM1011"
                assert caught, "what a read finds verify finds too"
                assert file.damaged
                used += 1
        path.unlink()
    assert harmless <= 8 + 2 * 64, "only the magic at the start and the padding before sections do not matter"
    assert used > len(raw), "most damage is met by several reads"


@pytest.mark.usefixtures("tiny")
def test_a_file_cut_anywhere_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.sst"
    written(path, rows_of(20))
    raw = path.read_bytes()
    for length in range(len(raw)):
        path.write_bytes(raw[:length])
        with pytest.raises(TidemillError, match="TM1011"):
            RunFile(path)


@pytest.mark.usefixtures("tiny")
def test_verify_tells_all_that_is_damaged(tmp_path: Path) -> None:
    path = tmp_path / "a.sst"
    sections = sst.write(path, [("one", rows_of(50), LAST), ("two", rows_of(50), LAST), ("tri", rows_of(50), LAST)])
    with path.open("r+b") as file:
        for section, at in ((0, 200), (0, 900), (2, 777)):
            file.seek(sections[section].offset + at)
            (byte,) = file.read(1)
            file.seek(-1, 1)
            file.write(bytes([byte ^ 4]))
    opened = RunFile(path)
    assert content(opened.rows(1)) == content(rows_of(50)), "the table between is intact"
    with pytest.raises(TidemillError, match="TM1011") as caught:
        opened.verify()
    assert "section 0 (table one): 2 pages: 3, 14" in caught.value.got
    assert "section 2 (table tri): 1 pages: 12" in caught.value.got
    assert "two" not in caught.value.got


def test_opening_reads_nothing_and_lookups_little(tmp_path: Path, seed: int) -> None:
    """Recovery of 1 GB in short form; TIDEMILL_STATE_MB=1000 is the long one."""
    count = MEGABYTES << 20 >> 6
    chance = np.random.default_rng(seed)
    numbers = np.arange(count)
    keys = encode([pa.array(numbers // 10), pa.array(numbers)], LAYOUT, 1)
    columns = [pa.array(np.ones(count, np.int64)), pa.array(chance.random(count)), pa.array(numbers)]
    ops = [MergeOp.SUM, MergeOp.LAST, MergeOp.LAST]
    rows = consolidate(keys, columns, ops, False)
    path = tmp_path / "big.sst"
    file = written(path, rows, ops=ops)
    assert path.stat().st_size > 0.55 * MEGABYTES * 2**20
    run = indexed(file)
    assert file.checked_bytes() <= 2 * pages.PAGE, "the head only"
    wanted = np.sort(chance.choice(count, 20, replace=False))
    found, values = get([run], rows.keys.take(wanted), ops, rows.value_types())
    assert found.all()
    assert [v.to_pylist() for v in values] == [v.take(pa.array(wanted)).to_pylist() for v in rows.values]
    index = count * 10 // 8 + count // 1024 * 40 + 4 * pages.PAGE
    assert file.checked_bytes() <= index + 20 * 4 * 4 * pages.PAGE
    after = file.checked_bytes()
    absent = encode([pa.array([count + 5], pa.int64()), pa.array([1], pa.int64())], LAYOUT, 1)
    assert not get([run], absent, ops, rows.value_types())[0].any()
    assert file.checked_bytes() <= after + 4 * pages.PAGE

    # A changed bit where nobody looks does no harm there; who looks, and verify, find it.
    section = file.sections[0]
    assert section.index is not None
    row = count - 8000
    at = section.offset + section.index.stream - 8 * 8000  # near the end of the last column
    wanted = wanted[wanted < count - 30_000]
    with path.open("r+b") as raw:
        raw.seek(at)
        (byte,) = raw.read(1)
        raw.seek(at)
        raw.write(bytes([byte ^ 1]))
    file = RunFile(path)
    found, _ = get([indexed(file)], rows.keys.take(wanted), ops, rows.value_types())
    assert found.all()
    with pytest.raises(TidemillError, match="TM1011"):
        get([indexed(file)], rows.keys.take([row]), ops, rows.value_types())
    with pytest.raises(TidemillError, match="TM1011"):
        file.verify()
    with pytest.raises(TidemillError, match="TM1011"):
        _ = indexed(RunFile(path)).values
    assert len(indexed(RunFile(path)).keys) == count, "the keys are intact"


def test_small_sections_have_no_index(tmp_path: Path) -> None:
    file = written(tmp_path / "a.sst", rows_of(100))
    assert file.sections[0].index is None
    assert not isinstance(file.rows(0), Mapped)
