"""Golden state files: what each version of their format holds, by formulas.

``python tests/state/golden_runs.py`` writes that of the present version to ``tests/state/golden/``. It is run before
the version goes up, and what it has written is never changed afterwards.
"""

from __future__ import annotations

import lzma
import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa

from tidemill.state.keys.keys import KeyColumn, encode
from tidemill.state.merge.merge import MergeOp, Rows, consolidate
from tidemill.state.runs import sst

GOLDEN = Path(__file__).parent / "golden"
COUNT = 5000

NUMBERED = (KeyColumn(pa.int64()),)
NAMED = (KeyColumn(pa.string()), KeyColumn(pa.int32()))


def content(table: str) -> tuple[tuple[KeyColumn, ...], list[list[Any]], list[pa.Array[Any]], tuple[MergeOp, ...]]:
    """Key columns, their values and the value columns of a section."""
    n = {"few": 5}.get(table, COUNT)
    numbers = list(range(n))
    ones = pa.array([1] * n)
    if table == "names":  # keys and values of many lengths
        keys = [[None if i % 11 == 0 else "é" * (i % 5) for i in numbers], numbers]
        texts = pa.array([None if i % 7 == 0 else "x" * (i % 4) for i in numbers])
        return NAMED, keys, [pa.array([1 + i % 2 for i in numbers]), texts], (MergeOp.SUM, MergeOp.LAST)
    if table == "sums":
        sums = [pa.array([i / 7 for i in numbers]), pa.array([0.0] * n)]
        return NUMBERED, [numbers], [ones, *sums], (MergeOp.SUM, MergeOp.SUM_DD)
    codes = pa.array([f"{i:04x}".encode() for i in numbers], pa.binary())
    return NUMBERED, [numbers], [ones, codes, pa.array([-7] * n)], (MergeOp.SUM, MergeOp.LAST, MergeOp.LAST)


def sections() -> list[tuple[str, Rows, tuple[MergeOp, ...]]]:
    """What is written."""
    found = []
    for table in ("few", "names", "sums", "codes"):
        layout, keys, values, ops = content(table)
        types = [column.type for column in layout]
        encoded = encode([pa.array(k, t) for k, t in zip(keys, types, strict=True)], layout, 1)
        found.append((table, consolidate(encoded, values, ops, False), ops))
    return found


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        file = Path(place) / "golden.sst"
        sst.write(file, sections())
        archive = GOLDEN / f"{sst.FORMAT_VERSION}.sst.xz"
        assert not archive.exists(), "golden files are never written again"
        GOLDEN.mkdir(exist_ok=True)
        archive.write_bytes(lzma.compress(file.read_bytes()))
        print(archive, archive.stat().st_size)
