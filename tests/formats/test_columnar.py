"""Parquet and Arrow files: columns by name, lossless casts, splits, projection, damage."""

from __future__ import annotations

import io
import random
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from columnar_reading import read_file
from csv_reading import columns
from long_form import times

from tidemill.errors import FormatError, TidemillError
from tidemill.formats.columnar.lossless import lossless
from tidemill.formats.registry import lookup
from tidemill.formats.standalone.standalone import open_format
from tidemill.schema import TIMESTAMP, TIMESTAMP_NTZ, Field, Schema

FORMATS = ["parquet", "arrow"]


def parquet(table: pa.Table, **options: Any) -> bytes:
    sink = io.BytesIO()
    pq.write_table(table, sink, **options)
    return sink.getvalue()


def arrow(table: pa.Table, rows: int = 1000, codec: str | None = None) -> bytes:
    sink = io.BytesIO()
    with pa.ipc.new_file(sink, table.schema, options=pa.ipc.IpcWriteOptions(compression=codec)) as writer:
        writer.write_table(table, max_chunksize=rows)
    return sink.getvalue()


WRITE: dict[str, Callable[[pa.Table], bytes]] = {"parquet": parquet, "arrow": arrow}

DAY = datetime(2024, 2, 29, 12, 30, 1, 123456)
VALUES: list[tuple[pa.DataType, list[Any]]] = [
    (pa.bool_(), [True, None, False]),
    (pa.int8(), [-128, None, 127]),
    (pa.int16(), [-(2**15), None, 5]),
    (pa.int32(), [-(2**31), None, 5]),
    (pa.int64(), [-(2**63), None, 2**63 - 1]),
    (pa.float32(), [-0.0, None, 1.5]),
    (pa.float64(), [float("inf"), None, 0.1]),
    (pa.string(), ["", None, "é\0x"]),
    (pa.binary(), [b"", None, b"\xff\0"]),
    (pa.date32(), [date(1, 1, 1), None, date(9999, 12, 31)]),
    (TIMESTAMP, [DAY.replace(tzinfo=UTC), None, DAY.replace(year=4, tzinfo=UTC)]),
    (TIMESTAMP_NTZ, [DAY, None, DAY]),
    (pa.decimal128(38, 10), [Decimal("-1.0000000001"), None, Decimal(0)]),
    (pa.list_(pa.int32()), [[1, None], None, []]),
    (pa.struct([("a", pa.int64()), ("b", pa.string())]), [{"a": 1, "b": None}, None, {"a": None, "b": "x"}]),
    (pa.map_(pa.string(), pa.int32()), [[("k", 1)], None, []]),
]


@pytest.mark.parametrize("format_", FORMATS)
def test_every_type_comes_back(format_: str) -> None:
    table = pa.table({f"c{i}": pa.array(values, type_) for i, (type_, values) in enumerate(VALUES)})
    schema = Schema(tuple(Field(f"c{i}", type_) for i, (type_, _) in enumerate(VALUES)))
    found = read_file(format_, WRITE[format_](table), schema)
    assert found.rows == tuple(zip(*(c.to_pylist() for c in table.columns), strict=True))
    assert found.positions == (0, 1, 2)
    reader = lookup(format_).reader(schema, {}, schema.names)
    (rows,) = reader.rows(io.BytesIO(WRITE[format_](table)), start=0, end=10**9, file_size=10**9)  # type: ignore[union-attr]
    assert rows.batch.schema.types == list(schema.types)


@pytest.mark.parametrize("format_", FORMATS)
def test_columns_are_matched_by_name_in_any_case(format_: str) -> None:
    data = WRITE[format_](pa.table({"B": [1, 2], "extra": ["x", "y"], "a": ["p", None]}))
    schema = columns(a=pa.string(), b=pa.int64(), missing=pa.date32())
    assert read_file(format_, data, schema).rows == (("p", 1, None), (None, 2, None))
    assert read_file(format_, data, schema, ["b"]).rows == ((1,), (2,))
    assert read_file(format_, data, schema, []).rows == ((), ())
    assert read_file(format_, data, schema, ["missing"]).rows == ((None,), (None,))
    assert read_file(format_, data, columns(other=pa.int8())).rows == ((None,), (None,))


@pytest.mark.parametrize("format_", FORMATS)
def test_a_name_twice_is_an_error(format_: str) -> None:
    data = WRITE[format_](pa.table([pa.array([1]), pa.array([2])], names=["a", "A"]))
    with pytest.raises(FormatError, match="TM4044"):
        read_file(format_, data, columns(a=pa.int64()))


@pytest.mark.parametrize(
    ("held", "declared"),
    [
        (pa.int64(), pa.int32()),
        (pa.uint64(), pa.int64()),
        (pa.uint32(), pa.int32()),
        (pa.int64(), pa.float64()),
        (pa.int32(), pa.float32()),
        (pa.int32(), pa.decimal128(10, 1)),
        (pa.float64(), pa.float32()),
        (pa.float64(), pa.int64()),
        (pa.decimal128(10, 2), pa.decimal128(10, 3)),
        (pa.decimal128(10, 2), pa.decimal128(11, 1)),
        (pa.timestamp("us"), TIMESTAMP),
        (TIMESTAMP, TIMESTAMP_NTZ),
        (TIMESTAMP, pa.date32()),
        (pa.string(), pa.int32()),
        (pa.int32(), pa.string()),
        (pa.list_(pa.int64()), pa.list_(pa.int32())),
        (pa.struct([("a", pa.string())]), pa.struct([("a", pa.int64())])),
        (pa.struct([("a", pa.int8()), ("A", pa.int8())]), pa.struct([("a", pa.int64())])),
        (pa.map_(pa.string(), pa.int64()), pa.map_(pa.string(), pa.int8())),
        (pa.bool_(), pa.int32()),
        (pa.time64("us"), pa.int64()),
        (pa.duration("us"), pa.int64()),
    ],
)
def test_types_that_could_change_values_are_refused_whatever_is_needed(
    held: pa.DataType, declared: pa.DataType
) -> None:
    assert lossless(held, declared) is None
    data = arrow(pa.table({"a": pa.nulls(1, held), "b": [1]}))
    with pytest.raises(FormatError, match="TM4042") as caught:
        read_file("arrow", data, columns(a=declared, b=pa.int64()), ["b"])
    assert str(held) in caught.value.got


@pytest.mark.parametrize(
    ("held", "declared"),
    [
        (pa.array([1, None, -128], pa.int8()), pa.int64()),
        (pa.array([1, None, 255], pa.uint8()), pa.int16()),
        (pa.array([1, None, 2**32 - 1], pa.uint32()), pa.float64()),
        (pa.array([1, None, 2**64 - 1], pa.uint64()), pa.decimal128(20, 0)),
        (pa.array([1.5, None, 2], pa.float32()), pa.float64()),
        (pa.array([np.float16(1.5), None, np.float16(2)], pa.float16()), pa.float32()),
        (pa.array([Decimal("1.5"), None, Decimal("-9.9")], pa.decimal128(2, 1)), pa.decimal128(12, 3)),
        (pa.array([date(2024, 1, 1), None, None], pa.date64()), pa.date32()),
        (pa.array([DAY, None, DAY], pa.timestamp("us")), TIMESTAMP_NTZ),
        (pa.array([DAY, None, DAY], pa.timestamp("us", "Europe/Berlin")), TIMESTAMP),
        (pa.array(["a", None, "é"], pa.large_string()), pa.string()),
        (pa.array(["a", None, "é"], pa.string_view()), pa.binary()),
        (pa.array([b"ab", None, b"cd"], pa.binary(2)), pa.string()),
        (pa.array(["a", None, "a"]).dictionary_encode(), pa.string()),
        (pa.array([[1], None, [2, 3]], pa.large_list(pa.int8())), pa.list_(pa.int64())),
        (pa.array([[1, 2], None, [3, 4]], pa.list_(pa.int8(), 2)), pa.list_(pa.int64())),
        (pa.nulls(3), pa.map_(pa.string(), pa.int8())),
    ],
)
def test_wider_types_hold_the_same_values(held: pa.Array, declared: pa.DataType) -> None:
    cast = lossless(held.type, declared)
    assert cast is not None
    for part in (held, held.slice(1), held.slice(2, 1), held.slice(1, 0)):
        found = cast(part)
        found.validate(full=True)
        assert found.type == declared
        for old, new in zip(part.to_pylist(), found.to_pylist(), strict=True):
            if isinstance(new, bytes) and isinstance(old, str):
                new = new.decode()
            elif isinstance(new, str) and isinstance(old, bytes):
                new = new.encode()
            assert old == new


def test_nested_fields_by_name() -> None:
    held = pa.struct([("B", pa.int16()), ("a", pa.list_(pa.struct([("y", pa.int8()), ("x", pa.string())])))])
    declared = pa.struct(
        [("a", pa.list_(pa.struct([("x", pa.string()), ("y", pa.int32())]))), ("b", pa.int64()), ("c", pa.date32())]
    )
    values = [{"B": 1, "a": [{"y": 2, "x": "p"}, None]}, None, {"B": None, "a": None}, {"B": 4, "a": []}]
    data = parquet(
        pa.table(
            {
                "s": pa.array(values, held),
                "m": pa.array([[("k", {"B": 1, "a": None})], None, [], [("l", None)]], pa.map_(pa.string(), held)),
            }
        )
    )
    found = read_file("parquet", data, columns(s=declared, m=pa.map_(pa.string(), declared)))
    one = {"a": [{"x": "p", "y": 2}, None], "b": 1, "c": None}
    assert [row[0] for row in found.rows] == [
        one,
        None,
        {"a": None, "b": None, "c": None},
        {"a": [], "b": 4, "c": None},
    ]
    assert [row[1] for row in found.rows] == [[("k", {"a": None, "b": 1, "c": None})], None, [], [("l", None)]]


@pytest.mark.parametrize(
    ("held", "declared"),
    [
        (pa.array([1001], pa.timestamp("ns")), TIMESTAMP_NTZ),
        (pa.array([2**62], pa.timestamp("s", "UTC")), TIMESTAMP),
        (pa.array([b"\xff"]), pa.string()),
        (pa.array([b"\xff"], pa.binary(1)), pa.string()),
    ],
)
def test_values_that_the_type_cannot_hold(held: pa.Array, declared: pa.DataType) -> None:
    with pytest.raises(FormatError, match="TM4043"):
        read_file("arrow", arrow(pa.table({"a": held})), columns(a=declared))


def test_whole_microseconds_in_nanoseconds() -> None:
    data = parquet(pa.table({"a": pa.array([1_000_001_000], pa.timestamp("ns"))}), version="2.6")
    found = read_file("parquet", data, columns(a=TIMESTAMP_NTZ))
    assert found.rows == ((datetime(1970, 1, 1) + timedelta(seconds=1, microseconds=1),),)


def test_int96_is_an_instant() -> None:
    data = parquet(pa.table({"a": pa.array([DAY], pa.timestamp("us"))}), use_deprecated_int96_timestamps=True)
    assert read_file("parquet", data, columns(a=TIMESTAMP)).rows == ((DAY.replace(tzinfo=UTC),),)


@pytest.mark.parametrize("format_", FORMATS)
def test_null_in_a_not_null_column(format_: str) -> None:
    data = WRITE[format_](pa.table({"a": [1, None, 3], "b": ["x", None, "z"]}))
    schema = Schema((Field("a", pa.int64(), False), Field("b", pa.string(), False), Field("c", pa.string())))
    for needed in (["b"], ["c", "a"], []):
        found = read_file(format_, data, schema, needed)
        assert found.positions == (0, 2)
        assert [(e.position, e.column, e.reason, e.dropped) for e in found.errors if e.column == "a"] == [
            (1, "a", "null_in_not_null", True)
        ]
        assert len(found.errors) == 2
    with pytest.raises(FormatError, match="TM4020"):
        read_file(format_, data, schema, [], options={"mode": "FAILFAST"})
    missing = Schema((Field("z", pa.int64(), False),))
    assert read_file(format_, data, missing).rows == ()
    assert len(read_file(format_, data, missing).errors) == 3


@pytest.mark.parametrize("format_", FORMATS)
def test_splits_give_each_row_once(format_: str, seed: int) -> None:
    random_ = random.Random(seed)
    count = 5000
    table = pa.table(
        {"i": list(range(count)), "s": [random_.choice("abc") * random_.randrange(30) for _ in range(count)]}
    )
    data = parquet(table, row_group_size=370) if format_ == "parquet" else arrow(table, 370)
    schema = columns(s=pa.string(), i=pa.int64())
    expected = tuple(zip(table["s"].to_pylist(), table["i"].to_pylist(), strict=True))
    for cuts in (0, 1, 3, 30):
        at = sorted(random_.randrange(1, len(data)) for _ in range(cuts))
        found = read_file(format_, data, schema, cuts=at)
        assert found.rows == expected
        assert found.positions == tuple(range(count))
        assert len(read_file(format_, data, schema, [], at).rows) == count


def test_each_parquet_split_owns_the_row_groups_that_begin_in_it() -> None:
    data = parquet(pa.table({"i": list(range(100))}), row_group_size=10)
    groups = pq.ParquetFile(io.BytesIO(data)).metadata
    begins = [
        min(c.data_page_offset, c.dictionary_page_offset or c.data_page_offset)
        for c in (groups.row_group(g).column(0) for g in range(10))
    ]
    reader = lookup("parquet").reader(columns(i=pa.int64()), {}, ["i"])
    for group, begin in enumerate(begins):
        (rows,) = reader.rows(io.BytesIO(data), start=begin, end=begin + 1, file_size=len(data))  # type: ignore[union-attr]
        assert rows.positions.tolist() == list(range(group * 10, group * 10 + 10))
        assert rows.batch.column(0).to_pylist() == rows.positions.tolist()


@pytest.mark.parametrize("format_", FORMATS)
def test_only_needed_columns_are_read(format_: str) -> None:
    wide = pa.table({f"c{i}": np.random.default_rng(i).integers(0, 2**60, 20_000) for i in range(16)})
    data = WRITE[format_](wide)

    class Counting(io.BytesIO):
        count = 0

        def read(self, size: int | None = -1) -> bytes:
            found = super().read(size)
            Counting.count += len(found)
            return found

    schema = Schema(tuple(Field(f"c{i}", pa.int64()) for i in range(16)))
    reader = lookup(format_).reader(schema, {}, ["c3"])
    rows = sum(r.count for r in reader.rows(Counting(data), start=0, end=len(data), file_size=len(data)))  # type: ignore[union-attr]
    assert rows == 20_000
    assert Counting.count < len(data) / 5


@pytest.mark.parametrize("format_", FORMATS)
def test_damaged_files_are_numbered_errors_or_the_right_number_of_rows(format_: str, seed: int) -> None:
    random_ = random.Random(f"{format_} {seed}")
    table = pa.table(
        {"i": list(range(300)), "s": [str(i) * 3 for i in range(300)], "l": [[i] * (i % 3) for i in range(300)]}
    )
    data = parquet(table, row_group_size=100, compression="none") if format_ == "parquet" else arrow(table, 100)
    schema = columns(i=pa.int64(), s=pa.string(), l=pa.list_(pa.int64()))
    failed = 0
    for _ in range(times(300)):
        changed = bytearray(data)
        for _ in range(random_.randrange(1, 5)):
            back = random_.random() < 0.5
            place = random_.randrange(min(len(data), 900))
            changed[-1 - place if back else place] = random_.randrange(256)
        if random_.random() < 0.2:
            del changed[random_.randrange(len(changed)) :]
        try:
            read_file(format_, bytes(changed), schema, random_.choice([None, ["l"], []]))
        except FormatError as error:
            failed += 1
            assert error.number in ("TM4041", "TM4042", "TM4043", "TM4044", "TM4020")
    assert failed > 50


@pytest.mark.parametrize("format_", FORMATS)
@pytest.mark.parametrize("data", [b"", b"x", b"PAR1", b"PAR1PAR1", b"ARROW1\0\0ARROW1", b"i,s\n1,2\n" * 100])
def test_files_of_another_format(format_: str, data: bytes) -> None:
    with pytest.raises(FormatError, match="TM4041"):
        read_file(format_, data, columns(i=pa.int64()))


def test_bad_mode() -> None:
    with pytest.raises(TidemillError, match="TM4003"):
        lookup("parquet").validate(columns(i=pa.int64()), {"mode": "LOUD"})


@pytest.mark.parametrize("format_", FORMATS)
def test_files_without_rows_or_columns(format_: str) -> None:
    schema = columns(i=pa.int64())
    assert read_file(format_, WRITE[format_](pa.table({"i": pa.array([], pa.int64())})), schema).rows == ()
    assert read_file(format_, WRITE[format_](pa.table({})), schema).rows == ()


@pytest.mark.parametrize("format_", FORMATS)
def test_without_a_mill(format_: str, tmp_path: Path) -> None:
    data = WRITE[format_](pa.table({"b": [1, 2], "a": ["x", None]}))
    (tmp_path / "file").write_bytes(data)
    opened = open_format(format_, "a STRING, b BIGINT")
    for source in (data, tmp_path / "file"):
        assert opened.read(source, ["b", "a"]).to_pydict() == {"b": [1, 2], "a": ["x", None]}


@pytest.mark.parametrize("format_", FORMATS)
def test_files_do_not_depend_on_what_a_view_needs(format_: str) -> None:
    """A value that its column cannot hold is an error of the file, also where another column is needed."""
    table = pa.table({"a": [1, 2], "b": pa.array([b"x", b"\xff"]), "t": pa.array([0, 1], pa.timestamp("ns"))})
    for name, type_ in (("b", pa.string()), ("t", TIMESTAMP_NTZ)):
        schema = Schema((Field("a", pa.int64()), Field(name, type_)))
        for needed in (["a"], [], [name]):
            reader = lookup(format_).reader(schema, {}, needed)
            data = WRITE[format_](table)
            with pytest.raises(FormatError, match="TM4043"):
                list(reader.rows(io.BytesIO(data), start=0, end=len(data), file_size=len(data)))
        good = WRITE[format_](table.slice(0, 1))
        reader = lookup(format_).reader(schema, {}, ["a"])
        (rows,) = reader.rows(io.BytesIO(good), start=0, end=len(good), file_size=len(good))
        assert rows.batch.to_pylist() == [{"a": 1}]
