"""What a rule gives is not written, and is there when a run is read; files of older versions are read."""

from __future__ import annotations

import gc
import lzma
import random
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from golden_runs import GOLDEN, content, sections

from tidemill.state.keys.keys import decode
from tidemill.state.runs import implied, sst
from tidemill.state.runs.implied import LEAST, with_implied, without_implied
from tidemill.state.runs.sst import FORMAT_VERSION, OLDEST_FORMAT, RunFile

TEXTS = (pa.string(), pa.binary(), pa.large_string(), pa.large_binary())
ARCHIVES = sorted(GOLDEN.glob("*.sst.xz"))


def check_golden(file: RunFile) -> None:
    assert [s.table for s in file.sections] == ["few", "names", "sums", "codes"]
    for number, section in enumerate(file.sections):
        layout, keys, values, ops = content(section.table)
        rows = file.rows(number)
        found = [column.to_pylist() for column in decode(rows.keys, layout)]
        place = {key: i for i, key in enumerate(zip(*keys, strict=True))}
        order = [place[key] for key in zip(*found, strict=True)]
        assert sorted(order) == list(range(len(keys[0]))), "each key once"
        assert section.ops == ops
        for column, expected in zip(rows.values, values, strict=True):
            assert column.type == expected.type
            assert column.to_pylist() == [expected[i].as_py() for i in order]


@pytest.mark.parametrize("archive", ARCHIVES, ids=lambda path: path.name)
def test_files_of_older_versions_are_read(archive: Path, tmp_path: Path) -> None:
    path = tmp_path / "golden.sst"
    path.write_bytes(lzma.decompress(archive.read_bytes()))
    file = RunFile(path)
    check_golden(file)
    file.verify()


def test_there_is_a_file_of_each_older_version() -> None:
    assert {int(path.name.split(".")[0]) for path in ARCHIVES} >= set(range(OLDEST_FORMAT, FORMAT_VERSION))


def test_files_of_this_version_are_smaller(tmp_path: Path) -> None:
    older = lzma.decompress((GOLDEN / "3.sst.xz").read_bytes())
    (tmp_path / "3.sst").write_bytes(older)
    sst.write(tmp_path / "4.sst", sections())
    before, now = RunFile(tmp_path / "3.sst"), RunFile(tmp_path / "4.sst")
    check_golden(now)
    saved = {b.table: (_size(b) - _size(n)) / b.rows for b, n in zip(before.sections, now.sections, strict=True)}
    assert saved["few"] == 0
    assert saved["names"] == pytest.approx(0, abs=0.25), "lengths differ, and so do weights"
    assert saved["sums"] == pytest.approx(8 + 8 + 8, abs=0.25), "offsets of keys, weights, the low parts of sums"
    assert saved["codes"] == pytest.approx(8 + 8 + 4, abs=0.25), "and offsets of codes; -7 is no usual number"


def _size(section: sst.Section) -> int:
    """Bytes of a section without checksums, of which there are more than there were."""
    return section.length if section.index is None else section.index.end


def random_column(chance: random.Random, rows: int) -> pa.Array[Any]:
    """A column that a rule may give, or almost."""
    kind = chance.choice(["number", "float", "text", "other"])
    spoiled = chance.choice([None, None, 0, rows // 2, rows - 1])
    if kind == "number":
        values = [chance.choice([0, 1, -1, 0, 1, -1, 2, -(2**63)])] * rows
        other: Any = values[0] ^ 1
        types = (pa.int64(),)
    elif kind == "float":
        values = [chance.choice([0.0, 0.0, -0.0, float("nan"), 5e-324])] * rows
        other, types = 1.5, (pa.float64(),)
    elif kind == "text":
        width = chance.choice([0, 1, 4, 11, 100])
        values = ["".join(chance.choices("abc", k=width)) for _ in range(rows)]
        other, types = "a" * chance.choice([0, width + 1]), TEXTS
    else:
        values, other = [7] * rows, 8
        types = (pa.int32(), pa.decimal128(30, 2), pa.timestamp("us"), pa.duration("us"))
    if spoiled is not None:
        values[spoiled] = chance.choice([None, other])
    column = pa.array(values).cast(chance.choice(types))
    if spoiled is None and chance.random() < 0.3:  # of values that differ, a part that does not
        edge = pa.concat_arrays([pa.array([None], column.type), column, pa.array([None], column.type)])
        column = edge.slice(1, rows)
    return column


def same_bits(one: pa.Array[Any], other: pa.Array[Any]) -> bool:
    if pa.types.is_float64(one.type):
        one, other = (pa.array(np.asarray(a.fill_null(0.0)).view(np.int64)) for a in (one, other))
    return bool(one.equals(other))


def test_columns_come_back(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    chance = random.Random(seed)
    monkeypatch.setattr(implied, "MOST", 5000)
    left_out = 0
    for _ in range(400):
        rows = chance.choice([1, LEAST - 1, LEAST, LEAST + 1, 3000, 5000, 5001])
        columns = [random_column(chance, rows) for _ in range(chance.randint(1, 4))]
        batch = pa.RecordBatch.from_arrays(columns, names=[f"v{i}" for i in range(len(columns))])
        kept = without_implied(batch)
        stored = pa.ipc.open_stream(stream_of(kept)).read_next_batch()
        found = with_implied(stored)
        assert [c.type for c in found] == [c.type for c in columns]
        for column, expected, written in zip(found, columns, kept.columns, strict=True):
            column.validate(full=True)
            assert column.null_count == expected.null_count
            assert same_bits(column, expected)
            left_out += written.type != expected.type
            assert LEAST <= rows <= 5000 or written.type == expected.type
    assert left_out > 50


def stream_of(batch: pa.RecordBatch) -> pa.Buffer:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return sink.getvalue()


def test_a_process_has_offsets_and_numbers_once() -> None:
    implied._kept.clear()
    gc.collect()
    of_others = set(implied._alive)  # which files have that other tests opened
    addresses = set()
    for rows in (4000, 3000, 2000):
        ones = pa.RecordBatch.from_arrays([pa.array([1] * rows), pa.array(["abc"] * rows)], names=["a", "b"])
        number, text = with_implied(without_implied(ones))
        addresses.add((number.buffers()[1].address, text.buffers()[1].address))
    assert len(addresses) == 1
    del number, text
    gc.collect()
    seen: dict[int, tuple[int, pa.Array[Any]]] = {}
    for _ in range(2):  # many lengths, more than are kept: what is in use is not made again, and the rest goes
        for width in range(1, 31):
            texts = pa.array([b"x" * width] * 200_000)
            found = with_implied(without_implied(pa.RecordBatch.from_arrays([texts], names=["a"])))[0]
            assert found.equals(texts)
            address = found.buffers()[1].address
            assert seen.setdefault(width, (address, found))[0] == address
            with pytest.raises(ValueError, match="read-only"):
                np.frombuffer(found.buffers()[1], np.int32)[0] = 1
    del found
    assert sum(a.nbytes for a in implied._kept.values()) <= implied._KEPT_BYTES
    seen.clear()
    gc.collect()
    assert set(implied._alive) - of_others <= set(implied._kept), "nobody needs the others"
