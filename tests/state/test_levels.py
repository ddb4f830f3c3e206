"""Searches of the runs of levels in files, which are searched together, against a plain dictionary."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidemill.errors import TidemillError
from tidemill.kernels.crc32 import compiled_crc32
from tidemill.state.keys.keys import Keys
from tidemill.state.lookup.levels import counts_with, groups_of
from tidemill.state.lookup.lookup import first_with_prefix, get, scan_prefix
from tidemill.state.merge.merge import MergeOp, Rows
from tidemill.state.runs import implied, level_table, mapped, pages, sst
from tidemill.state.runs.mapped import Mapped

OPS = [MergeOp.SUM, MergeOp.MAX, MergeOp.LAST]
FIXED = [pa.int64(), pa.int32(), pa.date32()]
MIXED = [pa.int64(), pa.string(), pa.bool_()]
Table = dict[bytes, tuple[Any, ...]]

# A group, then NULL (0x00), or 0x01 and a value; no group begins with another, and some are longer than footers tell.
groups = st.sampled_from([b"a", b"b", b"ca", b"cb", b"z" * 70, b"z" * 69 + b"{", b"zz{"])
tails = st.just(b"\0") | (st.binary(max_size=3) | st.integers(0, 99).map(lambda n: b"%08d" % n)).map(b"\1".__add__)
keys = st.tuples(groups, tails).map(b"".join)
values = st.tuples(st.integers(-1, 1), st.none() | st.integers(0, 9), st.none() | st.integers(0, 9))
tables = st.dictionaries(keys, values, max_size=60)


def keys_of(items: list[bytes]) -> Keys:
    return Keys.from_arrow(pa.array(items, pa.large_binary()))


def columns_of(rows: list[tuple[Any, ...]], types: list[pa.DataType]) -> tuple[pa.Array, ...]:
    columns = list(zip(*rows)) if rows else [()] * len(types)
    as_text = [str(v) if pa.types.is_string(t) and v is not None else v for t, c in zip(types, columns) for v in c]
    size = len(rows)
    parts = [as_text[i * size : (i + 1) * size] for i in range(len(types))]
    made = [[None if v is None else bool(v) for v in p] if pa.types.is_boolean(t) else p for t, p in zip(types, parts)]
    return tuple(pa.array(p, t) for p, t in zip(made, types))


def run_of(table: Table, types: list[pa.DataType]) -> Rows:
    items = sorted(table)
    return Rows(keys_of(items), columns_of([table[k] for k in items], types))


@contextmanager
def tiny(filtered: bool, left_out: bool = False) -> Iterator[None]:
    """Files have an index, in tiny blocks and pages, and however few rows a level has it is searched as one.

    With ``left_out`` equal lengths are not in the files.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sst, "WHOLE", 0)
        patch.setattr(sst, "BLOCK", 4)
        patch.setattr(sst, "FILTERED", 1 if filtered else 1 << 40)
        patch.setattr(pages, "PAGE", 64)
        if left_out:
            patch.setattr(implied, "LEAST", 1)
        patch.setattr(mapped, "_DENSE", 0)
        patch.setattr(mapped, "_CLOSE", 0)
        yield


def cut(table: Table, at: list[int]) -> list[Table]:
    """The rows in parts of ascending keys, none empty."""
    items = sorted(table)
    places = [0, *sorted({i % (len(items) + 1) for i in at}), len(items)]
    return [{k: table[k] for k in items[a:b]} for a, b in itertools.pairwise(places) if a < b]


def combined(tables: list[Table]) -> Table:
    """What several tables are together, oldest first."""
    found: Table = {}
    for table in tables:
        for key, (weight, most, last) in table.items():
            old = found.get(key, (0, None, None))
            known = [v for v in (old[1], most) if v is not None]
            found[key] = (old[0] + weight, max(known, default=None), last)
    return found


def whole(columns: Sequence[pa.Array]) -> list[list[Any]]:
    return [column.to_pylist() for column in columns]


@contextmanager
def opened(parts: list[Table], types: list[pa.DataType], filtered: bool) -> Iterator[list[Rows]]:
    """The tables as runs of a file."""
    with TemporaryDirectory() as directory, tiny(filtered, left_out=filtered):
        path = Path(directory) / "a.sst"
        sst.write(path, [("t", run_of(part, types), OPS) for part in parts])
        file = sst.RunFile(path)
        yield [file.rows(i) for i in range(len(parts))]


either = pytest.mark.parametrize("types", [FIXED, MIXED], ids=["fixed", "mixed"])


@either
@settings(max_examples=120, deadline=None)
@given(
    level=tables,
    above=tables,
    young=st.lists(tables, max_size=2),
    cuts=st.lists(st.integers(0, 1000), max_size=6),
    probes=st.sets(keys, max_size=30),
    filtered=st.booleans(),
)
def test_get(
    types: list[pa.DataType],
    level: Table,
    above: Table,
    young: list[Table],
    cuts: list[int],
    probes: set[bytes],
    filtered: bool,
) -> None:
    parts = [*cut(level, cuts), *cut(above, cuts[:2]), *(t for t in young if t)]
    wanted = sorted({*probes, *sorted(level)[::3], *sorted(above)[::4]})
    with opened(parts, types, filtered) as runs:
        for _ in range(2):  # the second time nothing is left to check
            found, columns = get(runs, keys_of(wanted), OPS, types)
            expected = combined([level, above, *young])
            assert found.tolist() == [expected.get(k, (0,))[0] != 0 for k in wanted]
            rows = [expected[k] if expected.get(k, (0,))[0] else (0, None, None) for k in wanted]
            assert whole(columns) == whole(columns_of(rows, types))


@either
@settings(max_examples=120, deadline=None)
@given(
    level=tables,
    above=tables,
    cuts=st.lists(st.integers(0, 1000), max_size=6),
    names=st.sets(groups, max_size=5),
    reverse=st.booleans(),
    skip_null=st.booleans(),
)
def test_prefixes(
    types: list[pa.DataType],
    level: Table,
    above: Table,
    cuts: list[int],
    names: set[bytes],
    reverse: bool,
    skip_null: bool,
) -> None:
    parts, wanted = [*cut(level, cuts), *cut(above, cuts[:2])], sorted(names)
    expected = combined([level, above])
    with opened(parts, types, False) as runs:
        counts = counts_with(runs, keys_of(wanted))
        assert counts.tolist() == [sum(k.startswith(p) for t in (level, above) for k in t) for p in wanted]
    with opened(parts, types, False) as runs:
        owners, rows = scan_prefix(runs, keys_of(wanted), OPS, False, types)
        scanned = [(i, k, expected[k]) for i, p in enumerate(wanted) for k in sorted(expected) if k.startswith(p)]
        assert list(zip(owners.tolist(), rows.keys.to_arrow().to_pylist())) == [row[:2] for row in scanned]
        assert whole(rows.values) == whole(columns_of([row[2] for row in scanned], types))
    with opened(parts, types, False) as runs:
        found, firsts, columns = first_with_prefix(runs, keys_of(wanted), reverse, OPS, skip_null, types)
        winners = []
        for p in wanted:
            low = p + b"\1" if skip_null else p
            some = [k for k, row in expected.items() if k.startswith(p) and k >= low and row[0] > 0]
            winners.append((max if reverse else min)(some, default=None))
        assert found.tolist() == [k is not None for k in winners]
        assert firsts.to_arrow().to_pylist() == [k or b"" for k in winners]
        rows_ = [(0, None, None) if k is None else expected[k] for k in winners]
        assert whole(columns) == whole(columns_of(rows_, types))


def test_runs_that_are_searched_together(tmp_path: Path) -> None:
    """Those of each level, unless footers do not tell that their keys ascend, or they are in memory."""
    table = {b"k%04d" % i: (1, i, i) for i in range(40)}
    long = {b"m" * 64 + bytes([i]): (1, 0, 0) for i in range(8)}
    parts = [*cut(table, [10, 20, 30]), *cut(table, [7]), *cut(long, [4])]
    with tiny(False):
        sst.write(tmp_path / "a.sst", [("t", run_of(part, FIXED), OPS) for part in parts])
        file = sst.RunFile(tmp_path / "a.sst")
        runs = [file.rows(i) for i in range(len(parts))]
        assert all(isinstance(run, Mapped) for run in runs)
        groups = groups_of(runs, 5)
        assert [(g.start, g.stop) for g in groups] == [(0, 4), (4, 7), (7, 8)]
        runs[1] = run_of(parts[1], FIXED)
        assert [(g.start, g.stop) for g in groups_of(runs, 5)] == [(0, 1), (1, 2), (2, 4), (4, 7), (7, 8)]
    assert len(groups_of(runs, 5)) == len(runs), "so few rows are searched one run after the other"


def test_slices_of_a_level(tmp_path: Path, seed: int) -> None:
    """As a partition has them: rows outside are not found, and values are those of the slice."""
    chance = random.Random(seed)
    table = {b"%03d" % i: (1, i, i) for i in range(0, 300, 2)}
    parts = cut(table, [50, 100])
    with tiny(True):
        sst.write(tmp_path / "a.sst", [("t", run_of(part, FIXED), OPS) for part in parts])
        file = sst.RunFile(tmp_path / "a.sst")
        for _ in range(50):
            runs, expected = [], {}
            for i, part in enumerate(parts):
                low = chance.randrange(len(part))
                high = chance.randrange(low + 1, len(part) + 1)
                runs.append(file.rows(i).slice(low, high))
                expected.update({k: part[k] for k in sorted(part)[low:high]})
            wanted = [b"%03d" % i for i in sorted(chance.sample(range(310), 80))]
            found, columns = get(runs, keys_of(wanted), OPS, FIXED)
            assert found.tolist() == [k in expected for k in wanted]
            rows = [expected.get(k, (0, None, None)) for k in wanted]
            assert whole(columns) == whole(columns_of(rows, FIXED))


@either
@pytest.mark.parametrize("kept", [16 << 20, 4096])
def test_a_level_of_other_runs(types: list[pa.DataType], kept: int, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some of the same runs, whole or in part, in one lookup after another: each finds what its runs have."""
    chance = random.Random(seed)
    monkeypatch.setattr(level_table, "_MOST_BYTES", kept)
    table = {b"%04d" % i: (1, chance.randrange(100), chance.randrange(100)) for i in range(400)}
    items = sorted(table)
    parts = cut(table, [50 * i for i in range(8)])
    with opened(parts, types, filtered=False) as runs:
        for _ in range(120):
            chosen: list[Rows] = []
            there: Table = {}
            for at in sorted(chance.sample(range(8), chance.randint(2, 8))):
                start, stop = chance.choice(((0, 50), (0, 50), (10, 50), (0, 31)))
                chosen.append(runs[at] if (start, stop) == (0, 50) else runs[at].slice(start, stop))
                there.update((key, table[key]) for key in items[50 * at + start : 50 * at + stop])
            assert len(groups_of(chosen, 1)) == 1
            probes = sorted(chance.sample(items, chance.choice((1, 40))))
            found, values = get(chosen, keys_of(probes), OPS, types)
            assert found.tolist() == [key in there for key in probes], f"seed {seed}"
            rows = [there[key] for key in probes if key in there]
            taken = [column.filter(pa.array(found)) for column in values]
            assert whole(taken) == whole(columns_of(rows, types)), f"seed {seed}"


@either
@pytest.mark.parametrize(("library", "left_out"), [(True, False), (False, False), (True, True)])
def test_damage_is_found_by_who_reads_it(
    types: list[pa.DataType],
    library: bool,
    left_out: bool,
    tmp_path: Path,
    seed: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A changed byte of a level gives TM1011 or the right answer, and what is not read does no harm."""
    if not library:
        monkeypatch.setattr(pages, "crc32_function", lambda: compiled_crc32().address)
    chance = random.Random(seed)
    table = {b"%04d" % i: (1, None if i % 5 == 0 else i % 7, None if i % 3 == 0 else i) for i in range(120)}
    parts = cut(table, [40, 80])
    wanted = [b"%04d" % i for i in sorted(chance.sample(range(130), 12))]
    rows = [table.get(k, (0, None, None)) for k in wanted]
    expected = whole(columns_of(rows, types))
    with tiny(True, left_out):
        path = tmp_path / "whole.sst"
        sst.write(path, [("t", run_of(part, types), OPS) for part in parts])
        raw = path.read_bytes()
        last = sst.RunFile(path).sections[-1]
        caught = 0
        for number in range(250):
            damaged = bytearray(raw)
            damaged[chance.randrange(last.offset + last.length)] ^= chance.randrange(1, 256)
            path = tmp_path / f"{number}.sst"
            path.write_bytes(damaged)
            try:
                file = sst.RunFile(path)
                runs = [file.rows(i) for i in range(len(parts))]
                found, columns = get(runs, keys_of(wanted), OPS, types)
            except TidemillError as error:
                assert error.number == "TM1011"
                caught += 1
            else:
                assert found.tolist() == [k in table for k in wanted]
                assert whole(columns) == expected
            path.unlink()
    assert 50 < caught < 250, "some damage is met, and some is where nobody looks"


@either
def test_every_buffer_is_checked(types: list[pa.DataType], tmp_path: Path, seed: int) -> None:
    """A changed byte of a bitmap, of offsets or of values that a lookup reads gives TM1011."""
    chance = random.Random(seed)
    table = {b"%04d" % i: (1, None if i % 5 == 0 else i % 7, None if i % 3 == 0 else i) for i in range(6000)}
    parts, ops = cut(table, [2000, 4000]), [MergeOp.LAST] * 3
    with tiny(True):
        path = tmp_path / "whole.sst"
        sst.write(path, [("t", run_of(part, types), ops) for part in parts])
        file, raw, buffers = sst.RunFile(path), path.read_bytes(), 0
        for number, section in enumerate(file.sections):
            run = file.rows(number)
            assert isinstance(run, Mapped)
            for array in run.body.values:
                for buffer in array.buffers():
                    at = buffer.address - run.body.pages.data.address if buffer is not None else -1
                    if not 0 <= at < run.body.pages.data.size:
                        continue
                    # So many bytes are a page that no other buffer is in.
                    at += 64 + chance.randrange(64)
                    damaged = bytearray(raw)
                    damaged[section.offset + at] ^= chance.randrange(1, 256)
                    other = tmp_path / f"{buffers}.sst"
                    other.write_bytes(damaged)
                    runs = [sst.RunFile(other).rows(i) for i in range(len(parts))]
                    with pytest.raises(TidemillError, match="TM1011"):
                        get(runs, keys_of(sorted(table)), ops, types, False)
                    buffers += 1
        assert buffers >= 4 * len(parts), "bitmaps and values of two columns; a usual weight is not in the file"
