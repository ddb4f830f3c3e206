"""Keys: golden vectors, order and round trip for every type, sort, group, hash."""

from __future__ import annotations

import math
import struct
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from key_values import KEY_VALUES

from tidemill.errors import TidemillError
from tidemill.state.keys.keys import (
    VNODES,
    KeyColumn,
    Keys,
    decode,
    encode,
    group,
    hash64,
    prefix,
    sort,
    vnodes,
)

GOLDEN: list[tuple[Any, pa.DataType, bool, bool, str]] = [
    # value, type, descending, nulls first, hex. "Nulls largest" means last if ascending, first if descending.
    (-1, pa.int32(), False, False, "007fffffff"),
    (0, pa.int32(), False, False, "0080000000"),
    (3874, pa.int32(), False, False, "0080000f22"),
    (-(2**31), pa.int32(), False, False, "0000000000"),
    (None, pa.int32(), False, False, "01"),
    (None, pa.int32(), False, True, "00"),
    (None, pa.int32(), True, True, "fe"),
    (None, pa.int32(), True, False, "ff"),
    (1, pa.int32(), True, True, "ff7ffffffe"),
    (1, pa.int32(), False, True, "0180000001"),
    (-1, pa.int64(), False, False, "007fffffffffffffff"),
    (1, pa.int16(), False, False, "008001"),
    (True, pa.bool_(), False, False, "0001"),
    (0.0, pa.float64(), False, False, "008000000000000000"),
    (-0.0, pa.float64(), False, False, "008000000000000000"),
    (1.5, pa.float64(), False, False, "00bff8000000000000"),
    (-1.5, pa.float64(), False, False, "004007ffffffffffff"),
    (math.inf, pa.float64(), False, False, "00fff0000000000000"),
    (math.nan, pa.float64(), False, False, "00fff8000000000000"),
    (-math.nan, pa.float64(), False, False, "00fff8000000000000"),
    ("", pa.string(), False, False, "0000"),
    ("a", pa.string(), False, False, "0001610000000000000001"),
    ("12345678", pa.string(), False, False, "0001313233343536373808"),
    ("123456789", pa.string(), False, False, "0001313233343536373809390000000000000001"),
    ("a", pa.string(), True, True, "fffe9efffffffffffffffe"),
    (b"\x00", pa.binary(), False, False, "0001000000000000000001"),
    (Decimal("-0.01"), pa.decimal128(12, 2), False, True, "01" + "7f" + "ff" * 15),
    (date(1970, 1, 2), pa.date32(), False, True, "0180000001"),
    (None, pa.null(), False, True, "00"),
    # Arrays, structs and maps.
    ([], pa.list_(pa.int16()), False, True, "0100"),
    (None, pa.list_(pa.int16()), False, True, "00"),
    (None, pa.list_(pa.int16()), True, False, "ff"),
    ([1, None, 2], pa.list_(pa.int16()), False, True, "01" + "01018001" + "0100" + "01018002" + "00"),
    ([1, None], pa.list_(pa.int16()), True, True, "ff" + "fefe7ffe" + "feff" + "ff"),
    ([["a"], []], pa.list_(pa.list_(pa.string())), False, True, "01" + "0101" + "0101" + "01610000000000000001" + "00"
     + "010100" + "00"),
    ({"x": 1, "y": None}, pa.struct([("x", pa.int16()), ("y", pa.string())]), False, True, "01" + "018001" + "00"),
    ({"x": None}, pa.struct([("x", pa.int16())]), True, True, "ff" + "ff"),
    ([(2, True), (1, None)], pa.map_(pa.int16(), pa.bool_()), False, True,
     "01" + "0101" + "018001" + "00" + "0101" + "018002" + "0101" + "00"),
]  # fmt: skip


@pytest.mark.parametrize(("value", "type_", "descending", "nulls_first", "expected"), GOLDEN)
def test_golden_vectors(value: Any, type_: pa.DataType, descending: bool, nulls_first: bool, expected: str) -> None:
    keys = encode([pa.array([value], type_)], [KeyColumn(type_, descending, nulls_first)], 0)
    assert keys[0].hex() == "0000" + expected


def test_golden_row_of_risingwave() -> None:
    timestamp = pa.timestamp("us")
    row = [
        (42, KeyColumn(pa.int32(), False, False)),
        (42, KeyColumn(pa.int64(), True, True)),
        (None, KeyColumn(timestamp, False, False)),
        (23.33, KeyColumn(pa.float32(), False, False)),
        ("fooooo", KeyColumn(pa.string(), True, True)),
        (b"baaaar", KeyColumn(pa.binary(), False, False)),
    ]
    keys = encode([pa.array([v], c.type) for v, c in row], [c for _, c in row], 0)
    assert list(keys[0][2:]) == [
        *(0, 128, 0, 0, 42, 255, 127, 255, 255, 255, 255, 255, 255, 213, 1, 0, 193, 186, 163, 215),
        *(255, 254, 153, 144, 144, 144, 144, 144, 255, 255, 249, 0, 1, 98, 97, 97, 97, 97, 114, 0, 0, 6),
    ]


def ints(bits: int) -> st.SearchStrategy[int]:
    return st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) | st.integers(-3, 3)


texts = st.text(st.sampled_from("ab\0é\U0001f600"), max_size=20)
blobs = st.binary(max_size=20) | st.lists(st.sampled_from([0, 1, 255]), max_size=18).map(bytes)
EPOCH = datetime(1970, 1, 1)
VALUES: list[tuple[pa.DataType, st.SearchStrategy[Any]]] = [
    (pa.bool_(), st.booleans()),
    (pa.int8(), ints(8)),
    (pa.int16(), ints(16)),
    (pa.int32(), ints(32)),
    (pa.int64(), ints(64)),
    (pa.float32(), st.floats(width=32) | st.sampled_from([0.0, -0.0])),
    (pa.float64(), st.floats() | st.sampled_from([0.0, -0.0])),
    (
        pa.decimal128(38, 3),
        st.integers(-(10**38) + 1, 10**38 - 1).map(lambda i: Decimal((i < 0, tuple(map(int, str(abs(i)))), -3))),
    ),
    (pa.string(), texts),
    (pa.large_string(), texts),
    (pa.binary(), blobs),
    (pa.large_binary(), blobs),
    (pa.date32(), st.dates()),
    (pa.timestamp("us"), st.integers(-(10**15), 10**15).map(lambda us: EPOCH + timedelta(microseconds=us))),
    (pa.null(), st.none()),
    *[
        (pa.list_(pa.int32()), st.lists(st.none() | ints(32), max_size=4)),
        (pa.list_(pa.list_(pa.string())), st.lists(st.none() | st.lists(st.none() | texts, max_size=3), max_size=3)),
        (
            pa.struct([("x", pa.float64()), ("y", pa.string())]),
            st.fixed_dictionaries({"x": st.none() | st.floats(allow_nan=False), "y": st.none() | texts}),
        ),
        (
            pa.list_(pa.struct([("d", pa.decimal128(38, 3)), ("b", pa.list_(pa.binary()))])),
            st.lists(
                st.none()
                | st.fixed_dictionaries(
                    {
                        "d": st.none() | st.integers(-99, 10**30).map(lambda i: Decimal(i).scaleb(-3)),
                        "b": st.none() | st.lists(st.none() | blobs, max_size=2),
                    }
                ),
                max_size=3,
            ),
        ),
        (
            pa.map_(pa.int8(), pa.list_(pa.string())),
            st.dictionaries(ints(8), st.none() | st.lists(texts, max_size=2), max_size=3).map(
                lambda d: sorted(d.items())
            ),
        ),
    ],
]  # fmt: skip


def rank(value: Any, type_: pa.DataType) -> Any:
    """Something that Python orders as Spark orders the values of the type."""
    if value is None:
        return (0,)
    if pa.types.is_list(type_):
        return [(1, rank(v, type_.value_type)) if v is not None else (0,) for v in value]
    if pa.types.is_struct(type_):
        return [(1, rank(value[f.name], f.type)) if value[f.name] is not None else (0,) for f in type_]
    if pa.types.is_map(type_):
        pairs = pa.struct([("k", type_.key_type), ("v", type_.item_type)])
        return [(1, rank({"k": k, "v": v}, pairs)) for k, v in value]
    if pa.types.is_floating(type_):
        return (math.isnan(value), 0.0 if math.isnan(value) else value + 0.0)
    return value.encode() if isinstance(value, str) else value


def before(left: Any, right: Any, column: KeyColumn) -> bool:
    if left is None or right is None:
        return (left is None) != (right is None) and (left is None) == column.nulls_first
    a, b = rank(left, column.type), rank(right, column.type)
    return bool(b < a if column.descending else a < b)


def row_before(left: tuple[Any, ...], right: tuple[Any, ...], layout: list[KeyColumn]) -> bool:
    for a, b, column in zip(left, right, layout):
        if before(a, b, column):
            return True
        if before(b, a, column):
            return False
    return False


def same(value: Any, decoded: Any) -> bool:
    if isinstance(value, float) and isinstance(decoded, float):
        if math.isnan(value):
            return math.isnan(decoded)
        return value == decoded and math.copysign(1, decoded) == math.copysign(1, value + 0.0)
    return bool(value == decoded)


def sliced(values: list[Any], type_: pa.DataType, offset: int) -> pa.Array:
    """An array with junk, some of it NULL, before and after the values."""
    junk = [None, *values[:1]]
    before_, after = (junk * offset)[:offset], junk
    return pa.array([*before_, *values, *after], type_).slice(offset, len(values))


@pytest.mark.parametrize(("type_", "values"), VALUES, ids=[str(t) for t, _ in VALUES])
@settings(max_examples=60, deadline=None)
@given(data=st.data(), descending=st.booleans(), nulls_first=st.booleans(), offset=st.integers(0, 9))
def test_order_and_round_trip(
    type_: pa.DataType,
    values: st.SearchStrategy[Any],
    data: st.DataObject,
    descending: bool,
    nulls_first: bool,
    offset: int,
) -> None:
    rows = data.draw(st.lists(st.none() | values, max_size=12))
    column = KeyColumn(type_, descending, nulls_first)
    keys = encode([sliced(rows, type_, offset)], [column], 0)
    encoded = [keys[i] for i in range(len(rows))]
    for i, a in enumerate(rows):
        for j, b in enumerate(rows):
            assert (encoded[i] < encoded[j]) == before(a, b, column), (a, b)
    [decoded] = decode(keys, [column])
    assert decoded.type == type_
    decoded.validate(full=True)
    assert all(map(same, rows, decoded.to_pylist())) and len(decoded) == len(rows)


@settings(max_examples=150, deadline=None)
@given(data=st.data(), offset=st.integers(0, 9))
def test_composite_keys(data: st.DataObject, offset: int) -> None:
    chosen = data.draw(st.lists(st.sampled_from(VALUES), min_size=1, max_size=4))
    layout = [KeyColumn(t, data.draw(st.booleans()), data.draw(st.booleans())) for t, _ in chosen]
    rows = data.draw(st.lists(st.tuples(*(st.none() | v for _, v in chosen)), max_size=8))
    columns = [sliced([row[i] for row in rows], t, offset) for i, (t, _) in enumerate(chosen)]
    distribution = data.draw(st.integers(0, len(chosen)))
    keys = encode(columns, layout, distribution)
    assert len(keys) == len(rows)
    for got, column in zip(decode(keys, layout), zip(*rows)):
        assert all(map(same, column, got.to_pylist()))
    routed = vnodes(columns, layout, distribution)
    assert routed.dtype == np.uint16
    assert [int.from_bytes(keys[i][:2], "big") for i in range(len(rows))] == routed.tolist()
    part = data.draw(st.integers(max(distribution, 1), len(chosen)))
    prefixes = prefix(columns[:part], layout, distribution)
    distributing = prefix(columns[:distribution], layout, distribution) if distribution else None
    for i, row in enumerate(rows):
        assert keys[i].startswith(prefixes[i])
        if distributing is not None:
            assert reference_hash(distributing[i][2:]) % VNODES == routed[i]
        for j, other in enumerate(rows):
            assert (keys[i][2:] < keys[j][2:]) == row_before(row, other, layout)


@pytest.mark.parametrize("name", KEY_VALUES)
@pytest.mark.parametrize("descending", [False, True])
def test_exact_columns_come_back_bit_by_bit(name: str, descending: bool) -> None:
    type_, values = KEY_VALUES[name]
    array = pa.array(values, type_)
    keys = encode([array], [KeyColumn(type_, descending, exact=True)], 1)
    (found,) = decode(keys, [KeyColumn(type_, descending, exact=True)])
    assert [as_bits(v) for v in found.to_pylist()] == [as_bits(v) for v in array.to_pylist()]
    assert found.type == type_
    usual = encode([array], [KeyColumn(type_, descending)], 1)
    (told_apart,) = decode(usual, [KeyColumn(type_, descending)])
    for row, value in enumerate(told_apart.to_pylist()):
        if as_bits(value) == as_bits(array[row].as_py()):
            assert keys[row] == usual[row], "only what SQL does not tell apart has other bytes"


def test_exact_columns_tell_apart_what_sql_does_not() -> None:
    other_nan = struct.unpack("<d", struct.pack("<Q", 0xFFF8000000000001))[0]
    pairs = pa.map_(pa.string(), pa.float64())
    for type_, values in (
        (pa.float32(), [-0.0, 0.0]),
        (pa.float64(), [-0.0, 0.0, math.nan, other_nan]),
        (pa.list_(pa.float64()), [[0.0], [-0.0]]),
        (pairs, [[("a", 0.0), ("b", 1.0)], [("b", 1.0), ("a", 0.0)], [("a", -0.0), ("b", 1.0)]]),
        (pa.struct([("m", pairs)]), [{"m": [("a", 0.0)]}, {"m": [("a", -0.0)]}]),
    ):
        array = pa.array(values, type_)
        layout = [KeyColumn(type_, exact=True)]
        keys = encode([array], layout, 0)
        assert len({keys[i] for i in range(len(keys))}) == len(values)
        assert list(map(as_bits, decode(keys, layout)[0].to_pylist())) == list(map(as_bits, array.to_pylist()))


def as_bits(value: Any) -> Any:
    """A value of which equal ones are the same bits."""
    if isinstance(value, float):
        return struct.pack("<d", value)
    if isinstance(value, list | tuple):
        return [as_bits(v) for v in value]
    return {k: as_bits(v) for k, v in value.items()} if isinstance(value, dict) else value


def reference_hash(key: bytes) -> int:
    """Scalar twin of ``hash64``."""
    m, top = 0xC6A4A7935BD1E995, 2**64 - 1
    state = (len(key) * m & top) ^ 0x9E3779B97F4A7C15
    for start in range(0, len(key), 8):
        [word] = struct.unpack(">Q", key[start : start + 8].ljust(8, b"\0"))
        word = word * m & top
        word = (word ^ word >> 47) * m & top
        state = (state ^ word) * m & top
        state ^= state >> 47
    state = (state ^ state >> 33) * 0xFF51AFD7ED558CCD & top
    state = (state ^ state >> 33) * 0xC4CEB9FE1A85EC53 & top
    return state ^ state >> 33


byte_lists = st.sampled_from(["uniform", "words", "any"]).flatmap(
    lambda kind: {
        "uniform": st.integers(0, 20).flatmap(lambda w: st.lists(st.binary(min_size=w, max_size=w), max_size=90)),
        "words": st.lists(
            st.lists(st.sampled_from([b"", b"\0", b"ab", b"abcdefgh"]), max_size=5).map(b"".join), max_size=90
        ),
        "any": st.lists(st.binary(max_size=12), max_size=90),
    }[kind]
)


def keys_of(items: list[bytes], offset: int = 0) -> Keys:
    array = pa.array([b"junk"] * offset + items + [b"x"], pa.large_binary())
    return Keys.from_arrow(array.slice(offset, len(items)))


@settings(max_examples=200, deadline=None)
@given(items=byte_lists, offset=st.integers(0, 3))
def test_sort_group_hash_take(items: list[bytes], offset: int) -> None:
    keys = keys_of(items, offset)
    order = sort(keys)
    assert order.dtype == np.int64
    assert order.tolist() == sorted(range(len(items)), key=lambda i: items[i])
    ids, firsts = group(keys)
    seen: dict[bytes, int] = {}
    assert ids.tolist() == [seen.setdefault(item, len(seen)) for item in items]
    assert firsts.tolist() == [items.index(item) for item in seen]
    assert hash64(keys).tolist() == [reference_hash(item) for item in items]
    assert keys.take(order).to_arrow().to_pylist() == sorted(items)


@pytest.mark.parametrize("seed", range(6))
def test_sort_many(seed: int) -> None:
    """Long segments, which the radix passes and the recursion see; duplicates test stability."""
    random = np.random.default_rng(seed)
    words = random.integers(0, [2, 50, 2**15, 2**40, 2**62, 300][seed], 5000)
    items = [int(w).to_bytes(8, "big").lstrip(b"\0" if seed % 2 else b"") for w in words]
    items = [b"same prefix of 19 b" + item + b"\0" * int(n) for item, n in zip(items, random.integers(0, 3, 5000))]
    assert sort(keys_of(items)).tolist() == sorted(range(5000), key=lambda i: items[i])


@pytest.mark.parametrize("groups", [1, 5000, 30_000])
def test_group_many(groups: int) -> None:
    """More groups than the table first has room for."""
    values = np.random.default_rng(groups).integers(0, groups, 40_000)
    ids, firsts = group(encode([pa.array(values)], [KeyColumn(pa.int64())], 1))
    assert (values[firsts][ids] == values).all()
    assert len(firsts) == len(np.unique(values)) and (firsts[ids] <= np.arange(40_000)).all()
    assert (np.diff(firsts) > 0).all()


HASHES = [0x9CA066F1A4AB2EEA, 0xA2C84AB786AA8B4A, 0xEB93B728E291F288, 0x62B594D5F3213FFF]
ROUTED = [98, 231, 202, 140]


def test_hash_and_vnode_never_change() -> None:
    keys = keys_of([b"", b"a", b"12345678", b"123456789"])
    assert hash64(keys).tolist() == HASHES
    columns = [pa.array([1, 2, 3, None]), pa.array(["x", "y", None, ""])]
    layout = [KeyColumn(pa.int64()), KeyColumn(pa.string())]
    assert vnodes(columns, layout, 2).tolist() == ROUTED


def test_vnodes_are_even() -> None:
    counts = np.bincount(vnodes([pa.array(range(256_000))], [KeyColumn(pa.int64())], 1), minlength=VNODES)
    assert len(counts) == VNODES and counts.min() > 800 and counts.max() < 1200


@given(parts=st.lists(st.lists(st.binary(max_size=9), max_size=5), max_size=4), start=st.integers(0, 5))
def test_slice_concat_arrow(parts: list[list[bytes]], start: int) -> None:
    items = [item for part in parts for item in part]
    keys = Keys.concat([keys_of(part, 2) for part in parts])
    assert keys.to_arrow().to_pylist() == items
    start = min(start, len(items))
    part = keys.slice(start, len(items))
    assert part.data is keys.data
    assert part.to_arrow().to_pylist() == items[start:]
    assert Keys.from_arrow(keys.to_arrow().slice(start)).to_arrow().to_pylist() == items[start:]
    assert Keys.concat([part, keys]).to_arrow().to_pylist() == items[start:] + items


def test_rows_out_of_range() -> None:
    keys = keys_of([b"a", b"b"])
    for rows in ([2], [-1]):
        with pytest.raises(IndexError):
            keys.take(np.array(rows))
    with pytest.raises(IndexError):
        keys.slice(0, 3)
    with pytest.raises(TypeError):
        Keys.from_arrow(pa.array([b"a", None], pa.large_binary()))


@pytest.mark.parametrize(
    "type_",
    [
        pa.list_(pa.uint64()),
        pa.struct([("x", pa.list_(pa.time64("us")))]),
        pa.timestamp("ns"),
        pa.uint8(),
        pa.time64("us"),
    ],
)
def test_types_without_order(type_: pa.DataType) -> None:
    with pytest.raises(TidemillError, match="TM1101") as error:
        encode([pa.nulls(1, type_)], [KeyColumn(type_)], 0)
    assert error.value.got in str(type_)


def test_column_that_differs_from_the_layout() -> None:
    with pytest.raises(TidemillError, match="TM1102"):
        encode([pa.array([1], pa.int32())], [KeyColumn(pa.int64())], 0)
    with pytest.raises(TidemillError, match="TM1102"):
        encode([pa.array([1]), pa.array([1, 2])], [KeyColumn(pa.int64())] * 2, 0)
    with pytest.raises(ValueError, match="2 columns"):
        encode([pa.array([1])], [KeyColumn(pa.int64())], 2)
