"""Native rows against struct and numpy, and against the plain reader over random bytes."""

from __future__ import annotations

import math
import random
import struct
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from binary_reading import read_binary
from csv_reading import columns
from long_form import times
from tests.formats.native_reference import plain_native

import tidemill.formats
from tidemill.errors import FormatError, TidemillError
from tidemill.formats.registry import lookup
from tidemill.schema import TIMESTAMP, TIMESTAMP_NTZ, Field, Schema

TYPES: dict[str, pa.DataType] = {
    "b": pa.bool_(),
    "i1": pa.int8(),
    "i2": pa.int16(),
    "i4": pa.int32(),
    "i8": pa.int64(),
    "f4": pa.float32(),
    "f8": pa.float64(),
    "d": pa.date32(),
    "t": TIMESTAMP,
    "n": TIMESTAMP_NTZ,
    "c4": pa.decimal128(9, 2),
    "c8": pa.decimal128(18, 0),
    "c16": pa.decimal128(38, 4),
    "s": pa.string(),
    "x": pa.binary(),
}
ORDERS = ["little", "big"]


@pytest.mark.parametrize("order", ORDERS)
def test_rows_that_struct_packs(order: str) -> None:
    schema = Schema(tuple(Field(n, t) for n, t in TYPES.items()))
    sign = "<" if order == "little" else ">"
    body = struct.pack(
        sign + "?bhiqfdiqqiq",
        True,
        -128,
        -300,
        2**31 - 1,
        -(2**63),
        1.5,
        -0.1,
        19782,
        -1,
        1_700_000_000_000_000,
        -123,
        10**17,
    )
    body += (-12345).to_bytes(16, order, signed=True) + "é".encode().ljust(6, b"\0") + b"\0\1\0"  # type: ignore[arg-type]
    row = b"\0\0" + body
    nulls = b"\xff\x7f" + body
    for size in (1, 7, 1000):
        found = read_binary(
            "native",
            row + nulls,
            schema,
            {"widths": "s:6, X:3", "endianness": order},
            size=lambda size=size: size,  # type: ignore[misc]
        )
        assert found.rows[1] == (None,) * 15
        assert found.rows[0] == (
            True, -128, -300, 2**31 - 1, -(2**63), 1.5, -0.1, date(2024, 2, 29),
            datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=UTC), datetime(2023, 11, 14, 22, 13, 20),
            Decimal("-1.23"), Decimal(10**17), Decimal("-1.2345"), "é", b"\0\1\0",
        )  # fmt: skip
        assert found.positions == (0, len(row))
        assert not found.errors


@pytest.mark.parametrize("order", ORDERS)
def test_rows_of_a_numpy_array_without_a_bitmap(order: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    sign = "<" if order == "little" else ">"
    count = 5000
    rows = np.empty(count, np.dtype([("a", sign + "i4"), ("b", sign + "f8"), ("c", "S5"), ("d", sign + "i2")]))
    rows["a"], rows["d"] = rng.integers(-(2**31), 2**31, count), rng.integers(-(2**15), 2**15, count)
    rows["b"] = rng.normal(size=count)
    rows["c"] = rng.choice([b"", b"x", b"abcde", b"a\0b"], count)
    schema = columns(a=pa.int32(), b=pa.float64(), c=pa.string(), d=pa.int16())
    options = {"nullBitmap": "false", "widths": "c:5", "endianness": order}
    cuts = sorted(rng.integers(0, rows.nbytes, 9).tolist())
    random_ = random.Random(seed)
    found = read_binary(
        "native", rows.tobytes(), schema, options, ["d", "c", "b", "a"], cuts, lambda: random_.randrange(1, 3000)
    )
    assert found.rows == tuple((d, c.decode(), b, a) for a, b, c, d in rows.tolist())
    assert found.positions == tuple(range(0, rows.nbytes, 19))


def sized(order: str, bitmap: int, numbers: tuple[int, int], values: list[tuple[int, int]], tail: bytes) -> bytes:
    """A row of (int, string, binary, smallint): values as (offset, length)."""
    sign = "<" if order == "little" else ">"
    body = struct.pack(sign + "BiIIIIh", bitmap, numbers[0], *values[0], *values[1], numbers[1]) + tail
    return struct.pack(sign + "I", len(body)) + body


VARIABLE = columns(a=pa.int32(), s=pa.string(), x=pa.binary(), h=pa.int16())
FIXED = 1 + 4 + 8 + 8 + 2


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("size", [1, 2, 5, 30, 1000])
def test_values_without_a_fixed_width(order: str, size: int) -> None:
    data = sized(order, 0, (7, -1), [(FIXED, 3), (FIXED + 3, 2)], "aé".encode() + b"\xff\0")
    data += sized(order, 0b0110, (8, 2), [(0, 2**32 - 1), (2**32 - 1, 2**32 - 1)], b"")
    data += sized(order, 0, (9, 3), [(FIXED, 0), (FIXED, 4)], b"wxyz" + bytes(100))
    data += sized(order, 0, (10, 4), [(FIXED + 1, 2), (FIXED, 4)], b"wxyz")
    found = read_binary("native", data, VARIABLE, {"endianness": order}, size=lambda: size)
    assert found.rows == ((7, "aé", b"\xff\0", -1), (8, None, None, 2), (9, "", b"wxyz", 3), (10, "xy", b"wxyz", 4))
    assert not found.errors
    assert read_binary("native", data, VARIABLE, {"endianness": order}, [], cuts=[3, 40]).rows == ((),) * 4


def test_offsets_outside_the_row() -> None:
    good = sized("little", 0, (1, 1), [(FIXED, 1), (FIXED, 1)], b"k")
    bad = [(FIXED - 1, 1), (FIXED, 2), (FIXED + 2, 0), (2**32 - 1, 1), (FIXED, 2**32 - 1)]
    data = b"".join(good + sized("little", 0, (2, 2), [b, (FIXED, 1)], b"k") for b in bad) + good
    found = read_binary("native", data, VARIABLE)
    assert found.rows == ((1, "k", b"k", 1), (2, None, b"k", 2)) * 5 + ((1, "k", b"k", 1),)
    assert found.reasons == [("s", "bad_offset")] * 5
    assert found.errors[0].raw == sized("little", 0, (2, 2), [bad[0], (FIXED, 1)], b"k")
    dropping = read_binary("native", data, VARIABLE, {"mode": "DROPMALFORMED"}, ["a"])
    assert dropping.rows == ((1,),) * 6
    with pytest.raises(FormatError, match="TM4020"):
        read_binary("native", data, VARIABLE, {"mode": "FAILFAST"}, ["a"])


@pytest.mark.parametrize("size", [b"\0\0\0\0", (FIXED - 1).to_bytes(4, "little"), b"\xff\xff\xff\xff", b"\1\0\0\1"])
def test_behind_a_bad_size_nothing_is_read(size: bytes) -> None:
    good = sized("little", 0, (1, 1), [(FIXED, 1), (FIXED, 1)], b"k")
    data = good + size + good * 2000
    for step in (1, 100, 1 << 20):
        found = read_binary("native", data, VARIABLE, size=lambda step=step: step)  # type: ignore[misc]
        assert found.rows == ((1, "k", b"k", 1),)
        (error,) = found.errors
        assert (error.position, error.column, error.reason, error.dropped) == (len(good), None, "bad_size", True)
        assert error.raw == size
    with pytest.raises(FormatError, match="TM4020"):
        read_binary("native", data, VARIABLE, {"mode": "FAILFAST"}, [])


def test_bad_values() -> None:
    schema = Schema((Field("b", pa.bool_()), Field("c", pa.decimal128(3, 1)), Field("s", pa.string(), False)))
    pack = lambda b, c, s: struct.pack("<BBi2s", 0, b, c, s)  # noqa: E731
    data = pack(1, 999, b"ok") + pack(2, -1000, b"\xc3\0") + pack(0, 1000, b"a") + b"\4" + pack(0, -999, b"a")[1:]
    data += pack(255, -999, b"\0\0") + b"rest"
    found = read_binary("native", data, schema, {"widths": "s:2"})
    assert found.rows == ((True, Decimal("99.9"), "ok"), (False, None, "a"), (None, Decimal("-99.9"), ""))
    assert [(e.position, e.column, e.reason, e.dropped) for e in found.errors] == [
        (8, "b", "bad_bool", True),
        (8, "c", "bad_decimal", True),
        (8, "s", "null_in_not_null", True),
        (16, "c", "bad_decimal", False),
        (24, "s", "null_in_not_null", True),
        (32, "b", "bad_bool", False),
        (40, None, "truncated_row", True),
    ]
    assert found.errors[-1].raw == b"rest"
    assert read_binary("native", data, schema, {"widths": "s:2"}, ["b"]).positions == (0, 16, 32)


def _equal(one: Any, other: Any) -> bool:
    if isinstance(one, float) and isinstance(other, float) and math.isnan(one):
        return math.isnan(other)
    return one == other and str(one) == str(other)


def _random_file(random_: random.Random, layout_bytes: int, sized_: bool, order: str) -> bytes:
    rows = []
    for _ in range(random_.randrange(40)):
        body = bytearray(random_.randbytes(layout_bytes + (random_.randrange(30) if sized_ else 0)))
        for at in range(len(body)):
            if random_.random() < 0.6:
                body[at] = random_.choice((0, 0, 0, 1, 2, 97, layout_bytes % 256))
        rows.append((len(body).to_bytes(4, order) if sized_ else b"") + bytes(body))  # type: ignore[arg-type]
    data = b"".join(rows)
    if random_.random() < 0.3:
        data = data[: random_.randrange(len(data) + 1)]
    if random_.random() < 0.1:
        data += random_.randbytes(random_.randrange(20))
    return data


def test_random_bytes_equal_the_plain_reader(seed: int) -> None:
    random_ = random.Random(f"native {seed}")
    kinds = [n for n in TYPES if n not in ("d", "t", "n")]  # Python has no dates of arbitrary integers
    for _ in range(times(150)):
        chosen = [random_.choice(kinds) for _ in range(random_.randrange(1, 11))]
        schema = Schema(tuple(Field(f"{k}_{i}", TYPES[k], random_.random() < 0.9) for i, k in enumerate(chosen)))
        widths = [f"{f.name}:{random_.randrange(1, 9)}" for f in schema if f.name[0] in "sx" and random_.random() < 0.6]
        order = random_.choice(ORDERS)
        options = {
            "widths": ",".join(widths),
            "endianness": order,
            "nullBitmap": random_.choice(("true", "false")),
            "mode": random_.choice(("PERMISSIVE", "DROPMALFORMED")),
            "maxRowBytes": "200",
        }
        layout = lookup("native").reader(schema, options, [])._layout  # type: ignore[union-attr]
        data = _random_file(random_, layout.fixed, layout.sized, order)
        expected = plain_native(data, schema, options)
        cuts = sorted(random_.randrange(len(data)) for _ in range(random_.choice((0, 3)))) if data else []
        largest = random_.choice((1, 10, 500))
        found = read_binary(
            "native", data, schema, options, cuts=cuts, size=lambda n=largest: random_.randrange(1, n + 1)
        )  # type: ignore[misc]
        assert found.positions == expected.positions
        assert found.errors == expected.errors
        for one, other in zip(found.rows, expected.rows, strict=True):
            assert all(map(_equal, one, other)), (one, other)
        needed = random_.sample(schema.names, random_.randrange(len(schema) + 1))
        assert read_binary("native", data, schema, options, needed).positions == expected.positions


@pytest.mark.parametrize(
    ("options", "number"),
    [
        ({"endianness": "middle"}, "TM4003"),
        ({"widths": "s"}, "TM4003"),
        ({"widths": "zz:4"}, "TM4003"),
        ({"widths": "i:4"}, "TM4003"),
        ({"widths": "s:4,S:5"}, "TM4003"),
        ({"widths": "s:0"}, "TM4003"),
        ({"nullBitmap": "yes"}, "TM4003"),
        ({"maxRowBytes": "3"}, "TM4003"),
        ({"mode": "x"}, "TM4003"),
    ],
)
def test_bad_options(options: dict[str, str], number: str) -> None:
    with pytest.raises(TidemillError, match=number):
        lookup("native").validate(columns(i=pa.int64(), s=pa.string()), options)


def test_types_without_a_width() -> None:
    with pytest.raises(TidemillError, match="TM4004"):
        lookup("native").validate(columns(i=pa.list_(pa.int64())), {})


def test_times_beyond_the_years_1_to_9999():
    errors = []
    days = [-719_162, 2_932_896, -719_163, 2_932_897, 2**31 - 1]
    data = b"".join(d.to_bytes(4, "little", signed=True) for d in days)
    opened = tidemill.formats.open("native", "d DATE NOT NULL", nullBitmap=False)
    assert [str(v) for v in opened.read(data, errors=errors).column("d").to_pylist()] == ["0001-01-01", "9999-12-31"]
    assert [e.reason for e in errors] == 3 * ["null_in_not_null"]
    micros = [2_932_897 * 86_400_000_000 - 1, 2_932_897 * 86_400_000_000]
    data = b"".join(m.to_bytes(8, "little", signed=True) for m in micros)
    errors.clear()
    tidemill.formats.open("native", "t TIMESTAMP NOT NULL", nullBitmap=False).read(data, errors=errors)
    assert [(e.position, e.column) for e in errors] == [(8, "t")]
