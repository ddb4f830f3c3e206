"""Reading small tables without kernels: compared with the kernels, row by row, and with a plain dictionary."""

from __future__ import annotations

import math
import random
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.state.key_values import KEY_VALUES

from tidemill.errors import TidemillError
from tidemill.state.keys.keys import KeyColumn, decode, encode
from tidemill.state.keys.layout import is_nested
from tidemill.state.merge.merge import MergeOp, Rows, consolidate, merge
from tidemill.state.plain import reading
from tidemill.state.plain.reading import read_small
from tidemill.state.runs.mapped import Mapped
from tidemill.state.runs.sst import RunFile, write
from tidemill.state.tables import StateTable

KINDS = [(type_, values) for type_, values in KEY_VALUES.values() if not is_nested(type_)]
OPS = (
    *(MergeOp.SUM, MergeOp.SUM, MergeOp.SUM, MergeOp.SUM_DD, MergeOp.SUM_I128),
    *(MergeOp.MIN, MergeOp.MAX, MergeOp.LAST),
)
SUMMED = (pa.int64(), pa.int64(), pa.float64(), pa.float64(), pa.float64(), pa.int64(), pa.int64())
FLOATS = (0.1, -0.3, 1e17, -0.0, 2.0**-30, math.inf, math.nan)
INTS = (-(2**63), 2**63 - 1, -1, 0, 5)
Known = dict[tuple[str, ...], list[tuple[Any, ...]]]


def random_runs(r: random.Random, table: StateTable, values: list[Any]) -> tuple[list[Rows], Known]:
    """Runs of a table, some of them empty, and the values that each key has in them."""
    runs: list[Rows] = []
    known: Known = {}
    of_type = {repr(t): v for t, v in KINDS}
    for _ in range(r.choice((1, 1, 2, 3, 7))):
        count = r.choice((0, 1, 5, 80))
        columns = [pa.array([r.choice(of_type[repr(k.type)]) for _ in range(count)], k.type) for k in table.key]
        rows = [
            (
                *(r.choice((-1, 1, 1, 2)), r.choice(INTS), r.choice(FLOATS)),
                *(r.choice(FLOATS[:4]), 0.0, r.choice(INTS), r.choice(INTS)),
                *(r.choice(values) for _ in range(3)),
            )
            for _ in range(count)
        ]
        arrays = [pa.array([row[i] for row in rows], t) for i, t in enumerate(table.value_types)]
        run = consolidate(encode(columns, table.key, 1), arrays, [MergeOp.LAST] * len(arrays), drop_zero=False)
        runs.append(run)
        names = zip(*(map(repr, c.to_pylist()) for c in decode(run.keys, table.key)), strict=True)
        for name, row in zip(names, zip(*(v.to_pylist() for v in run.values), strict=True), strict=True):
            known.setdefault(name, []).append(row)
    return runs, known


def wrapped(value: int, bits: int) -> int:
    return (value + 2 ** (bits - 1)) % 2**bits - 2 ** (bits - 1)


def extreme(values: list[Any], greatest: bool) -> Any:
    present = [v for v in values if v is not None]

    def order(value: Any) -> Any:
        if isinstance(value, float):
            return math.isnan(value), 0.0 if math.isnan(value) else value
        return value.encode() if isinstance(value, str) else value

    return (max if greatest else min)(present, key=order) if present else None


def by_dictionary(known: Known) -> dict[tuple[str, ...], tuple[str, ...]]:
    """The rows of weight other than 0; sums of double-doubles are left out."""
    found = {}
    for name, rows in known.items():
        weight, total, floats, _, _, low, high, least, greatest, last = map(list, zip(*rows, strict=True))
        if not sum(weight):
            continue
        added = floats[0]
        for addend in floats[1:]:
            added += addend
        wide = wrapped(sum((h << 64) + w % 2**64 for w, h in zip(low, high, strict=True)), 128)
        combined = (sum(weight), wrapped(sum(total), 64), added, wrapped(wide, 64), wide >> 64)
        found[name] = tuple(map(repr, (*combined, extreme(least, False), extreme(greatest, True), last[-1])))
    return found


def test_as_with_kernels_and_as_with_a_dictionary(seed: int) -> None:
    r = random.Random(seed)
    for _ in range(60):
        type_, values = r.choice(KINDS)
        key = tuple(
            KeyColumn(t, r.random() < 0.5, r.random() < 0.5) for t, _ in r.choices(KINDS, k=r.choice((1, 2, 4)))
        )
        table = StateTable("t", key, 1, (*SUMMED, type_, type_, type_), OPS)
        runs, known = random_runs(r, table, values)
        found = read_small(table, runs)
        if found is None:
            assert not any(map(len, runs))
            continue
        merged = merge(runs, OPS, drop_zero=True)
        for plain, kernel in zip(
            (*found.keys, *found.values), (*decode(merged.keys, key), *merged.values), strict=True
        ):
            plain.validate(full=True)
            assert (plain.type, len(plain)) == (kernel.type, found.length)
            assert list(map(repr, plain.to_pylist())) == list(map(repr, kernel.to_pylist())), (key, type_)
        names = zip(*(map(repr, k.to_pylist()) for k in found.keys), strict=True)
        listed = [v.to_pylist() for i, v in enumerate(found.values) if i not in (3, 4)]
        rows = [tuple(map(repr, row)) for row in zip(*listed, strict=True)]
        assert dict(zip(names, rows, strict=True)) == by_dictionary(known)


def test_double_doubles_are_summed_with_their_errors(seed: int) -> None:
    r = random.Random(seed)
    table = StateTable("t", (KeyColumn(pa.int64()),), 1, (pa.int64(), pa.float64(), pa.float64()), (OPS[0], OPS[3]))
    runs, exact = [], dict.fromkeys(range(9), Fraction(0))
    for _ in range(12):
        keys = encode([pa.array(exact)], table.key, 1)
        high = [r.choice((1e17, -1e17, 0.1, 3.0)) for _ in exact]
        low = [h * 2.0**-60 for h in high]
        exact = {k: exact[k] + Fraction(h) + Fraction(w) for k, h, w in zip(exact, high, low, strict=True)}
        weights = pa.array([1] * len(exact))
        runs.append(consolidate(keys, [weights, pa.array(high), pa.array(low)], [MergeOp.LAST] * 3, drop_zero=False))
    found = read_small(table, runs)
    assert found is not None
    for key, high_, low_ in zip(found.keys[0], *found.values[1:], strict=True):
        total = Fraction(high_.as_py()) + Fraction(low_.as_py())
        assert abs(total - exact[key.as_py()]) < Fraction(1e18) * Fraction(2) ** -95


def table_of(runs: int, rows: int, text: str = "") -> tuple[StateTable, list[Rows]]:
    key = (KeyColumn(pa.int64()), KeyColumn(pa.string()))
    table = StateTable("t", key, 1, (pa.int64(),), (MergeOp.SUM,))
    columns = [pa.array(np.arange(rows)), pa.array([text] * rows)]
    run = consolidate(encode(columns, key, 1), [pa.array([1] * rows, pa.int64())], table.ops, drop_zero=True)
    return table, [run] * runs


def test_what_is_left_to_kernels() -> None:
    table, runs = table_of(2, reading.MOST_ROWS // 2)
    assert read_small(table, runs) is not None
    assert read_small(table, [*runs, *table_of(1, 1)[1]]) is None, "too many rows"
    assert read_small(*table_of(1, 9, "x" * 4000)) is None, "a key that is too long"
    assert read_small(*table_of(1, 12_000, "x" * 2800)) is None, "too many bytes"
    assert read_small(table, []) is None, "nothing to read"
    nested = KeyColumn(pa.list_(pa.int64()))
    rows = consolidate(encode([pa.array([[1]])], (nested,), 1), [pa.array([1])], table.ops, drop_zero=True)
    assert read_small(StateTable("t", (nested,), 1, table.value_types, table.ops), [rows]) is None
    quads = (pa.int64(), *[pa.float64()] * 4)
    ops = (MergeOp.SUM, MergeOp.SUM_QD)
    values = [pa.array([1]), *[pa.array([1.0])] * 4]
    rows = consolidate(encode([pa.array([1])], table.key[:1], 1), values, ops, drop_zero=True)
    assert read_small(StateTable("t", table.key[:1], 1, quads, ops), [rows]) is None


def test_a_damaged_file_is_noticed(tmp_path: Path) -> None:
    """Also in a section of which only the pages that are touched are checked."""
    table, (run,) = table_of(1, 8000, "some text")
    write(tmp_path / "a.sst", [("t", run, table.ops)])
    file = RunFile(tmp_path / "a.sst")
    rows = file.rows(0)
    assert isinstance(rows, Mapped)
    found = read_small(table, [rows])
    assert found is not None and found.keys[0].to_pylist() == sorted_as(run, table)
    data = bytearray((tmp_path / "a.sst").read_bytes())
    data[len(data) // 3] ^= 1
    (tmp_path / "b.sst").write_bytes(data)
    with pytest.raises(TidemillError, match="TM1011"):
        read_small(table, [RunFile(tmp_path / "b.sst").rows(0)])


def sorted_as(run: Rows, table: StateTable) -> list[int]:
    return decode(run.keys, table.key)[0].to_pylist()
