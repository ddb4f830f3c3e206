"""Run files: what is written is read back, and damage of any kind is noticed."""

from __future__ import annotations

import bisect
import json
import random
import resource
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tidemill.errors import TidemillError
from tidemill.state.keys.keys import KeyColumn, encode, sort
from tidemill.state.merge.merge import MergeOp, Rows, consolidate
from tidemill.state.runs import sst
from tidemill.state.runs.implied import without_implied

SUM = (MergeOp.SUM,)
INT_KEY = (KeyColumn(pa.int64()),)


def rows_of(counts: dict[int, int]) -> Rows:
    """Integer keys with one additive value each."""
    keys = encode([pa.array(counts.keys(), pa.int64())], INT_KEY, 1)
    return consolidate(keys, [pa.array(counts.values(), pa.int64())], [MergeOp.SUM], drop_zero=False)


def content(rows: Rows) -> list[tuple[bytes, ...]]:
    """Keys and values as plain Python."""
    columns = [v.to_pylist() for v in rows.values]
    return [(rows.keys[i], *(c[i] for c in columns)) for i in range(len(rows.keys))]


@pytest.fixture
def two_tables(tmp_path: Path) -> Path:
    """A run file with two sections."""
    path = tmp_path / "runs" / "e0000000001-0-0-x.sst"
    sst.write(path, [("a", rows_of({i: i * i for i in range(20)}), SUM), ("b", rows_of({7: 1, -7: -1}), SUM)])
    return path


KINDS: tuple[pa.DataType, ...] = (pa.bool_(), pa.int64(), pa.int8(), pa.string(), pa.list_(pa.int8()), pa.null())


def some_values(rng: random.Random, kind: pa.DataType, rows: int) -> pa.Array:
    """Values of a type, as a part of a column that may have NULLs elsewhere only: Arrow keeps its bitmap."""
    made: dict[pa.DataType, Any] = {
        pa.string(): "text" * rng.randrange(3),
        pa.list_(pa.int8()): [1] * rng.randrange(9),
        pa.bool_(): rng.random() < 0.5,
        pa.null(): None,
    }
    value = made.get(kind, rng.randrange(2))
    few = rng.choice((0.0, 0.0, 0.1))
    values = [None if rng.random() < few else value for _ in range(rows)]
    before = rng.randrange(20)
    return pa.array([*[None] * before, *values, None], kind).slice(before, rows)


def stored(rows: Rows) -> pa.Buffer:
    """The stream of columns that a section has."""
    return sst._stream([without_implied(sst.to_batch(rows))], pa.BufferOutputStream()).getvalue()


def test_sections_of_any_columns_about_the_size_of_an_index(tmp_path: Path, seed: int) -> None:
    """What has one checksum and what has pages is read back, and intact, whatever Arrow leaves out of a stream."""
    rng = random.Random(seed)
    indexed = 0
    for number in range(16):
        kinds = [rng.choice(KINDS)] * rng.choice((1, 5, 30)) if rng.random() < 0.7 else rng.choices(KINDS, k=4)
        rows = rows_like(rng, kinds, 6000)
        fit = bisect.bisect(range(6000), sst.WHOLE, key=lambda n: len(stored(rows.slice(0, n)))) - 1
        for count in range(max(1, fit - 2), fit + 3):
            part = rows.slice(0, count)
            path = tmp_path / f"{number} {count}.sst"
            (section,) = sst.write(path, [("t", part, (MergeOp.LAST,) * len(kinds))])
            file = sst.RunFile(path)
            file.verify()
            assert content(file.rows(0)) == content(part), (kinds, count)
            stream = stored(part).to_pybytes()
            assert path.read_bytes()[section.offset :].startswith(stream)
            assert (section.index is not None) == (len(stream) > sst.WHOLE) == (count > fit)
            indexed += section.index is not None
    assert indexed == 32


def rows_like(rng: random.Random, kinds: list[pa.DataType], count: int) -> Rows:
    """Integer keys with values of these types."""
    keys = encode([pa.array(range(count), pa.int64())], INT_KEY, 1)
    return Rows(keys.take(sort(keys)), tuple(some_values(rng, kind, count) for kind in kinds))


@contextmanager
def small_files_only() -> Iterator[None]:
    """No file can grow beyond 4096 bytes: writing fails as on a full disk. The test's own output too, so be brief."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_sections_are_read_back(two_tables: Path) -> None:
    file = sst.RunFile(two_tables)
    assert [(s.table, s.rows) for s in file.sections] == [("a", 20), ("b", 2)]
    assert content(file.rows(0)) == content(rows_of({i: i * i for i in range(20)}))
    assert content(file.rows(1)) == content(rows_of({-7: -1, 7: 1}))
    assert all(s.offset % 64 == 0 for s in file.sections)


def test_bytes_round_trip() -> None:
    rows = rows_of({3: 1, 1: 2})
    assert content(sst.from_bytes(sst.to_bytes(rows))) == content(rows)


def test_strings_and_nulls_round_trip(tmp_path: Path) -> None:
    keys = encode([pa.array(["", None, "Zoë"])], (KeyColumn(pa.string()),), 1)
    rows = consolidate(keys, [pa.array([1, None, 3], pa.int64())], [MergeOp.LAST], drop_zero=False)
    path = tmp_path / "a.sst"
    sst.write(path, [("t", rows, (MergeOp.LAST,))])
    assert content(sst.RunFile(path).rows(0)) == content(rows)


def test_every_changed_byte_is_detected_or_harmless(two_tables: Path, seed: int) -> None:
    original, raw = sst.RunFile(two_tables), two_tables.read_bytes()
    expected = [content(original.rows(i)) for i in range(2)]
    chance = random.Random(seed)
    harmless = 0
    for position in range(len(raw)):
        damaged = bytearray(raw)
        damaged[position] ^= chance.randrange(1, 256)
        path = two_tables.with_name(f"{position}.sst")
        path.write_bytes(damaged)
        try:
            file = sst.RunFile(path)
            assert [content(file.rows(i)) for i in range(2)] == expected, f"byte {position} of {len(raw)}"
            harmless += 1
        except TidemillError as error:
            assert error.number == "TM1011", f"byte {position}: {error}"
        path.unlink()
    assert harmless <= 8 + 2 * 64, "only the magic at the start and the padding before sections do not matter"


def test_every_truncation_is_detected(two_tables: Path) -> None:
    raw = two_tables.read_bytes()
    for length in range(0, len(raw), 7):
        path = two_tables.with_name(f"{length}.sst")
        path.write_bytes(raw[:length])
        with pytest.raises(TidemillError) as caught:
            sst.RunFile(path)
        assert caught.value.number == "TM1011", f"cut to {length} of {len(raw)} bytes"


def test_bytes_after_the_end_are_detected(two_tables: Path) -> None:
    path = two_tables.with_name("longer.sst")
    path.write_bytes(two_tables.read_bytes() + b"x")
    with pytest.raises(TidemillError, match="TM1011"):
        sst.RunFile(path)


def test_missing_file(tmp_path: Path) -> None:
    with pytest.raises(TidemillError, match="TM1010") as caught:
        sst.RunFile(tmp_path / "gone.sst")
    assert "gone.sst" in caught.value.got


def test_directory_in_place_of_a_file(tmp_path: Path) -> None:
    with pytest.raises(TidemillError, match="TM1011"):
        sst.RunFile(tmp_path)


def test_newer_format(tmp_path: Path) -> None:
    footer = json.dumps({"format": sst.FORMAT_VERSION + 1, "sections": []}).encode()
    magic = b"TMRUN\x00\x00\x01"
    tail = zlib.crc32(footer).to_bytes(8, "little") + len(footer).to_bytes(8, "little") + magic
    path = tmp_path / "new.sst"
    path.write_bytes(magic + footer + tail)
    with pytest.raises(TidemillError, match="TM1002") as caught:
        sst.RunFile(path)
    assert f"format {sst.FORMAT_VERSION + 1}" in caught.value.got


def test_full_disk_leaves_nothing_behind(tmp_path: Path) -> None:
    path = tmp_path / "big.sst"
    with pytest.raises(TidemillError, match="TM1012") as caught, small_files_only():
        sst.write(path, [("t", rows_of(dict.fromkeys(range(5000), 1)), SUM)])
    assert "previous epoch is intact" in caught.value.hint
    assert list(tmp_path.iterdir()) == []


def test_file_where_the_directory_should_be(tmp_path: Path) -> None:
    (tmp_path / "runs").write_text("in the way")
    with pytest.raises(TidemillError, match="TM1012"):
        sst.write(tmp_path / "runs" / "a.sst", [("t", rows_of({1: 1}), SUM)])
    assert (tmp_path / "runs").read_text() == "in the way"
