"""Stored keys never change: every byte of them is written down in ``golden_keys.txt``."""

from __future__ import annotations

import math
from datetime import date, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from key_values import KEY_VALUES, MODES

from tidemill.errors import TidemillError
from tidemill.state.keys.keys import KeyColumn, Keys, decode, encode

GOLDEN = Path(__file__).with_name("golden_keys.txt")


def golden() -> dict[tuple[str, str], list[str]]:
    """By type and mode the bytes of each value in turn. A line: value, then its bytes in the four modes."""
    found: dict[tuple[str, str], list[str]] = {}
    name = ""
    for line in GOLDEN.read_text(encoding="utf-8").splitlines():
        if not line.startswith(" "):
            name = line
        else:
            for mode, text in zip(MODES, line.split(" | ")[1].split(), strict=True):
                found.setdefault((name, mode), []).append(text)
    return found


def same(value: Any, decoded: Any) -> bool:
    """Equal, where NaN equals itself and 0.0 has no sign."""
    if isinstance(value, float):
        return math.isnan(decoded) if math.isnan(value) else bool(value == decoded)
    if isinstance(value, list):
        return isinstance(decoded, list) and len(value) == len(decoded) and all(map(same, value, decoded))
    if isinstance(value, dict):
        return isinstance(decoded, dict) and all(same(v, decoded[k]) for k, v in value.items())
    return bool(value == decoded)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", KEY_VALUES)
def test_stored_bytes_never_change(name: str, mode: str) -> None:
    type_, values = KEY_VALUES[name]
    column = KeyColumn(type_, *MODES[mode])
    keys = encode([pa.array(values, type_)], [column], 0)
    assert [keys[i][2:].hex() for i in range(len(keys))] == golden()[name, mode]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", KEY_VALUES)
def test_stored_bytes_are_read_back(name: str, mode: str) -> None:
    type_, values = KEY_VALUES[name]
    stored = pa.array([bytes(2) + bytes.fromhex(text) for text in golden()[name, mode]], pa.large_binary())
    [decoded] = decode(Keys.from_arrow(stored), [KeyColumn(type_, *MODES[mode])])
    found = decoded.to_pylist()
    assert all(map(same, pa.array(values, type_).to_pylist(), found)), found


def test_a_row_of_many_columns_is_its_columns_side_by_side() -> None:
    chosen = [(name, list(MODES)[i % 4]) for i, name in enumerate(KEY_VALUES)]
    layout = [KeyColumn(KEY_VALUES[n][0], *MODES[m]) for n, m in chosen]
    columns = [pa.array(KEY_VALUES[n][1][:3], KEY_VALUES[n][0]) for n, _ in chosen]
    keys = encode(columns, layout, 0)
    for row in range(3):
        assert keys[row][2:].hex() == "".join(golden()[place][row] for place in chosen)


AS_IN_RISINGWAVE = [
    (pa.int32(), -1, "asc nulls last", "007fffffff"),
    (pa.int32(), 0, "asc nulls last", "0080000000"),
    (pa.int32(), 3874, "asc nulls last", "0080000f22"),
    (pa.int32(), -(2**31), "asc nulls last", "0000000000"),
    (pa.int32(), None, "asc nulls last", "01"),
    (pa.int32(), None, "asc nulls first", "00"),
    (pa.int32(), None, "desc nulls first", "fe"),
    (pa.int32(), None, "desc nulls last", "ff"),
    (pa.int32(), 1, "desc nulls first", "ff7ffffffe"),
    (pa.int32(), 1, "asc nulls first", "0180000001"),
    (pa.int64(), -1, "asc nulls last", "007fffffffffffffff"),
    (pa.int16(), 1, "asc nulls last", "008001"),
    (pa.bool_(), True, "asc nulls last", "0001"),
    (pa.float64(), 0.0, "asc nulls last", "008000000000000000"),
    (pa.float64(), -0.0, "asc nulls last", "008000000000000000"),
    (pa.float64(), 1.5, "asc nulls last", "00bff8000000000000"),
    (pa.float64(), -1.5, "asc nulls last", "004007ffffffffffff"),
    (pa.float64(), math.inf, "asc nulls last", "00fff0000000000000"),
    (pa.float64(), math.nan, "asc nulls last", "00fff8000000000000"),
    (pa.string(), "", "asc nulls last", "0000"),
    (pa.string(), "a", "asc nulls last", "0001610000000000000001"),
    (pa.string(), "12345678", "asc nulls last", "0001313233343536373808"),
    (pa.string(), "123456789", "asc nulls last", "0001313233343536373809390000000000000001"),
    (pa.string(), "a", "desc nulls first", "fffe9efffffffffffffffe"),
    (pa.binary(), b"\0", "asc nulls last", "0001000000000000000001"),
    (pa.timestamp("us", "UTC"), datetime(1970, 1, 1, 0, 0, 1), "asc nulls last", "0080000000000f4240"),
]

OTHERWISE_THAN_RISINGWAVE = [
    ("days from 1970, not from year 1", pa.date32(), date(1970, 1, 2), "00800af93c", "0080000001"),
    (
        "microseconds, not seconds and nanoseconds",
        pa.timestamp("us"),
        datetime(1970, 1, 1, 0, 0, 1),
        "00800000000000000100000000",
        "0080000000000f4240",
    ),
    (
        "NULL is smallest in a struct, not largest",
        pa.struct([("x", pa.int32()), ("y", pa.int32())]),
        {"x": 1, "y": None},
        "00" + "0080000001" + "01",
        "00" + "0180000001" + "00",
    ),
    (
        "elements behind 01 and closed by 00, not all as one byte string",
        pa.list_(pa.int16()),
        [1],
        "0001" + "0080010000000000" + "03",
        "00" + "01018001" + "00",
    ),
]


@pytest.mark.parametrize(("type_", "value", "mode", "expected"), AS_IN_RISINGWAVE)
def test_bytes_that_are_those_of_risingwave(type_: pa.DataType, value: Any, mode: str, expected: str) -> None:
    keys = encode([pa.array([value], type_)], [KeyColumn(type_, *MODES[mode])], 0)
    assert keys[0][2:].hex() == expected


@pytest.mark.parametrize(("why", "type_", "value", "theirs", "ours"), OTHERWISE_THAN_RISINGWAVE)
def test_bytes_that_are_not(why: str, type_: pa.DataType, value: Any, theirs: str, ours: str) -> None:
    keys = encode([pa.array([value], type_)], [KeyColumn(type_, False, False)], 0)
    assert keys[0][2:].hex() == ours != theirs, why


@pytest.mark.parametrize("type_", [pa.month_day_nano_interval(), pa.time64("us"), pa.uint32()])
def test_types_without_an_order_are_refused(type_: pa.DataType) -> None:
    with pytest.raises(TidemillError, match="TM1101"):
        encode([pa.nulls(1, type_)], [KeyColumn(type_)], 0)
