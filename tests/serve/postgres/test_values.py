"""Random values of all types, as psycopg's own loaders read them from both formats, and back as parameters."""

from __future__ import annotations

import datetime as dt
import decimal
import math
import random
import string
import struct
from decimal import Decimal
from typing import Any

import psycopg
import pyarrow as pa
import pytest
from psycopg.adapt import PyFormat, Transformer

from tidemill.serve.postgres.values.binary_cells import binary_cells
from tidemill.serve.postgres.values.data_rows import data_rows
from tidemill.serve.postgres.values.parameter_values import parameter_value
from tidemill.serve.postgres.values.pg_types import BY_OID, INT8, INTERVAL, TEXT, of_arrow
from tidemill.serve.postgres.values.text_cells import text_cells

ROWS = 300
decimal.getcontext().prec = 60


def number(chance: random.Random, bits: int) -> int:
    return chance.choice(
        (0, 1, -1, 2 ** (bits - 1) - 1, -(2 ** (bits - 1)), chance.randrange(-(2 ** (bits - 1)), 2**15))
    )


def fraction(chance: random.Random, form: str) -> float:
    raw = chance.randbytes(struct.calcsize(form))
    plain = float(chance.randrange(-100, 100)) * 10.0 ** chance.randrange(-8, 20)
    plain = struct.unpack(form, struct.pack(form, plain))[0]
    return chance.choice((struct.unpack(form, raw)[0], plain, 0.0, -0.0, math.inf, -math.inf, math.nan))


def digits(chance: random.Random, precision: int, scale: int) -> Decimal:
    return Decimal(chance.choice((1, -1)) * chance.randrange(10 ** chance.randrange(precision + 1))).scaleb(-scale)


def text(chance: random.Random) -> str:
    return "".join(chance.choice(string.printable + "äöü€😀") for _ in range(chance.randrange(12)))


def moment(chance: random.Random) -> dt.datetime:
    found = dt.datetime(1, 1, 3) + dt.timedelta(days=chance.randrange(3_652_000), microseconds=chance.randrange(86_400))
    return found + dt.timedelta(seconds=chance.choice((0, 0.5, chance.randrange(86_000))))


MAKERS: dict[str, tuple[pa.DataType, Any]] = {
    "bool": (pa.bool_(), lambda c: c.random() < 0.5),
    "tinyint": (pa.int8(), lambda c: number(c, 8) % 128),
    "smallint": (pa.int16(), lambda c: number(c, 16) % 2**15),
    "int": (pa.int32(), lambda c: number(c, 32)),
    "bigint": (pa.int64(), lambda c: number(c, 64)),
    "float": (pa.float32(), lambda c: fraction(c, "f")),
    "double": (pa.float64(), lambda c: fraction(c, "d")),
    "string": (pa.string(), text),
    "binary": (pa.binary(), lambda c: c.randbytes(c.randrange(6))),
    "date": (pa.date32(), lambda c: moment(c).date()),
    "timestamp": (pa.timestamp("us", "UTC"), lambda c: moment(c).replace(tzinfo=dt.UTC)),
    "timestamp_ntz": (pa.timestamp("us"), moment),
    "ints": (pa.list_(pa.int64()), lambda c: [c.choice((None, number(c, 64))) for _ in range(c.randrange(4))]),
    "texts": (pa.list_(pa.string()), lambda c: [c.choice((None, text(c))) for _ in range(c.randrange(4))]),
    "doubles": (pa.list_(pa.float64()), lambda c: [c.choice((None, fraction(c, "d"))) for _ in range(c.randrange(3))]),
    "times": (pa.list_(pa.timestamp("us")), lambda c: [c.choice((None, moment(c))) for _ in range(c.randrange(3))]),
    "decimals": (pa.list_(pa.decimal128(20, 3)), lambda c: [digits(c, 20, 3) for _ in range(c.randrange(3))]),
} | {
    f"decimal{p}_{s}": (pa.decimal128(p, s), lambda c, p=p, s=s: digits(c, p, s))
    for p, s in ((1, 0), (4, 4), (5, 2), (10, 1), (18, 9), (38, 0), (38, 38), (38, 7))
}


def same(left: Any, right: Any) -> bool:
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, float) and isinstance(right, float):
        return repr(left) == repr(right)  # NaN is NaN, and zero has a sign
    return type(left) is type(right) and left == right


@pytest.mark.parametrize("kind", MAKERS)
def test_values_come_back(kind: str, seed: int) -> None:
    chance = random.Random(f"{seed} {kind}")
    type_, make = MAKERS[kind]
    values = [None if chance.random() < 0.1 else make(chance) for _ in range(ROWS)]
    array = pa.concat_arrays([pa.array([values[0]], type_), pa.array(values, type_)])[1:]  # with an offset
    pg_type = of_arrow(type_)
    cells = {0: text_cells(array, "UTC"), 1: binary_cells(array, pg_type, "UTC")}
    transformer = Transformer()
    for form, column in cells.items():
        loader = transformer.get_loader(pg_type.oid, psycopg.pq.Format(form))
        for value, cell in zip(array.to_pylist(), column.cast(pa.binary()).to_pylist(), strict=True):
            assert (cell is None) == (value is None)
            if cell is not None:
                found = loader.load(cell)
                if type_ == pa.float32() and not form:
                    found = struct.unpack("f", struct.pack("f", found))[0]  # psycopg takes its digits for a double
                assert same(found, value), (form, cell, value)
            found = parameter_value(cell, bool(form), BY_OID[pg_type.oid])
            again = parameter_value(cells[1 - form].cast(pa.binary())[0].as_py(), not form, BY_OID[pg_type.oid])
            assert (found is None) == (value is None) and (again is None) == (values[0] is None)
            if isinstance(value, int | str | Decimal) and not isinstance(value, bool) and found is not None:
                assert type(value)(found) == value


def test_both_formats_say_the_same(seed: int) -> None:
    chance = random.Random(seed)
    for type_, make in MAKERS.values():
        pg_type = BY_OID[of_arrow(type_).oid]
        array = pa.array([make(chance) for _ in range(50)], type_)
        texts = text_cells(array, "UTC").cast(pa.binary()).to_pylist()
        binaries = binary_cells(array, pg_type, "UTC").to_pylist()
        for left, right in zip(texts, binaries, strict=True):
            first, second = parameter_value(left, False, pg_type), parameter_value(right, True, pg_type)
            if type_ in (pa.float32(), pa.float64()):
                assert struct.pack("f", float(str(first))) == struct.pack("f", float(str(second)))
            elif pa.types.is_timestamp(type_):
                assert dt.datetime.fromisoformat(str(first)) == dt.datetime.fromisoformat(str(second))
            elif not pa.types.is_nested(type_):
                assert first == second, (type_, left, right)


def test_intervals() -> None:
    parts = [(1, 2, 3_000_000_000), (-13, 0, 0), (0, 0, 0), (0, -1, 3_600_000_000_000), (25, 3, -14_706_700_000_000),
             None, (-1, 1, 5_000_000)]  # fmt: skip
    array = pa.array(parts, pa.month_day_nano_interval())
    assert text_cells(array, "UTC").to_pylist() == [
        "1 mon 2 days 00:00:03", "-1 years -1 mons", "00:00:00", "-1 days +01:00:00",
        "2 years 1 mon 3 days -04:05:06.7", None, "-1 mons +1 day 00:00:00.005",
    ]  # fmt: skip
    cells = binary_cells(array, INTERVAL, "UTC").to_pylist()
    assert [None if c is None else struct.unpack("!qii", c) for c in cells] == [
        None if p is None else (p[2] // 1000, p[1], p[0]) for p in parts
    ]


def test_years_before_1_and_after_9999() -> None:
    days = pa.array([-719_163, 2_932_897, -1_000_000], pa.date32())
    assert text_cells(days, "UTC").to_pylist() == ["0001-12-31 BC", "10000-01-01", "0769-02-04 BC"]
    instants = pa.array([253_402_300_800_000_000, -62_135_596_800_000_001], pa.timestamp("us", "UTC"))
    assert text_cells(instants, "UTC").to_pylist() == ["10000-01-01 00:00:00+00", "0001-12-31 23:59:59.999999+00 BC"]


def test_rows_as_messages() -> None:
    batch = pa.record_batch({"a": pa.array([1, None, 3]), "b": pa.array(["x", None, ""])}).slice(0, 2)
    (found,) = data_rows(batch, [INT8, TEXT], [True, False], "UTC")
    assert bytes(found) == b"D\0\0\0\x17\0\2\0\0\0\x08\0\0\0\0\0\0\0\1\0\0\0\1xD\0\0\0\x0e\0\2" + b"\xff" * 8
    wide = pa.record_batch({"a": pa.array(["x" * 3_000_000] * 20)})
    parts = data_rows(wide, [TEXT], [False], "UTC")
    assert len(parts) > 1 and max(map(len, parts)) < 20_000_000 and sum(map(len, parts)) == 20 * (3_000_000 + 11)


@pytest.mark.parametrize(
    ("oid", "binary", "data"),
    [
        (23, True, b"\0"), (23, False, b"1x"), (16, False, b"maybe"), (1700, True, b"\0\1\0\0\xee\xee\0\0\0\1"),
        (1700, False, b"--1"), (17, False, b"\\xzz"), (1007, False, b"{1"), (1007, False, b"{{1}}"),
        (1007, True, b"\0\0\0\1\0\0\0\0\0\0\0\x17\x7f\xff\xff\xff\0\0\0\1"), (1184, True, b""), (701, True, b"\0" * 7),
        (25, True, b"\xff"), (25, False, b"a\0b"), (1009, False, b'{"a'), (1186, True, b"1"),
    ],
)  # fmt: skip
def test_what_is_no_value(oid: int, binary: bool, data: bytes) -> None:
    from tidemill.errors import TidemillError

    with pytest.raises(TidemillError, match="TM8118"):
        parameter_value(data, binary, BY_OID[oid])


def test_psycopg_dumps_are_understood(seed: int) -> None:
    chance = random.Random(seed)
    transformer = Transformer()
    for value in [
        number(chance, 64),
        fraction(chance, "d"),
        text(chance).replace("\0", ""),
        moment(chance),
        digits(chance, 30, 4),
    ]:
        for form in (PyFormat.TEXT, PyFormat.BINARY):
            dumper = transformer.get_dumper(value, form)
            data = dumper.dump(value)
            oid = dumper.oid or TEXT.oid
            assert parameter_value(bytes(data or b""), form is PyFormat.BINARY, BY_OID[oid]) is not None
