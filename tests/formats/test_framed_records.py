"""Frames of CSV and native rows: each frame is read as a file of its own would be."""

from __future__ import annotations

import random
import struct
from collections.abc import Sequence

import pyarrow as pa
import pytest
from binary_reading import read_binary
from csv_reading import columns, read
from long_form import times

from tidemill.errors import FormatError, TidemillError
from tidemill.formats.base import RowError
from tidemill.formats.registry import lookup
from tidemill.schema import Field, Schema

SCHEMA = columns(k=pa.int64(), s=pa.string())
CSV = {"payload": "csv"}


def framed(payloads: Sequence[bytes], width: int = 4, order: str = "little") -> bytes:
    return b"".join(len(p).to_bytes(width, order) + p for p in payloads)  # type: ignore[arg-type]


@pytest.mark.parametrize("order", ["little", "big"])
@pytest.mark.parametrize("width", [1, 2, 4, 8])
@pytest.mark.parametrize("size", [1, 3, 8, 1000])
def test_rows_in_frames(order: str, width: int, size: int) -> None:
    data = framed([b"1,a", b"", b"2,b\n3,c\n", b'4,"x\ny"', b"5,e\r\n"], width, order)
    options = {**CSV, "sizeBytes": str(width), "endianness": order}
    found = read_binary("frames", data, SCHEMA, options, size=lambda: size)
    assert found.rows == ((1, "a"), (2, "b"), (3, "c"), (4, "x\ny"), (5, "e"))
    assert [data[p : p + 1] for p in found.positions] == [b"1", b"2", b"3", b"4", b"5"]
    assert read_binary("frames", data, SCHEMA, options, ["s"], cuts=[1, 7]).rows == tuple((s,) for _, s in found.rows)
    assert read_binary("frames", data, SCHEMA, options, []).positions == found.positions


def test_what_a_frame_leaves_open_concerns_no_other() -> None:
    data = framed([b'1,"open', b"2,b", b'3,"c"', b"x,d", b"\xef\xbb\xbf4,e", b"\n\n", b"5"])
    found = read_binary("frames", data, SCHEMA, CSV)
    assert found.rows == ((None, None), (2, "b"), (3, "c"), (None, "d"), (4, "e"), (5, None))
    assert found.reasons == [(None, "unterminated_quote"), ("k", "bad_int64"), (None, "too_few_fields")]
    assert [e.raw for e in found.errors] == [b'1,"open', b"x,d", b"5"]
    assert [data[e.position :].startswith(e.raw) for e in found.errors] == [True] * 3


@pytest.mark.parametrize("mode", ["DROPMALFORMED", "FAILFAST"])
def test_modes(mode: str) -> None:
    data = framed([b"1,a", b"x,b", b"3,c"])
    options = {**CSV, "mode": mode}
    if mode == "FAILFAST":
        with pytest.raises(FormatError, match="TM4020") as caught:
            read_binary("frames", data, SCHEMA, options, ["s"])
        assert caught.value.got.startswith("byte 11, column 'k'")
    else:
        assert read_binary("frames", data, SCHEMA, options, ["s"]).rows == (("a",), ("c",))


def test_native_rows_in_frames() -> None:
    row = lambda k, s: struct.pack(">BqII", 0, k, 17, len(s)) + s  # noqa: E731
    one = lambda k, s: struct.pack(">I", len(row(k, s))) + row(k, s)  # noqa: E731
    data = framed([one(1, b"a") + one(2, b"bb"), one(3, b"c")[:-1], one(4, b"d"), one(5, b"") + b"\0"], 2, "big")
    found = read_binary("frames", data, SCHEMA, {"payload": "native", "sizeBytes": "2", "endianness": "BIG"})
    assert found.rows == ((1, "a"), (2, "bb"), (4, "d"), (5, ""))
    assert found.reasons == [(None, "truncated_record")] * 2


def test_fixed_native_rows_do_not_shift() -> None:
    data = framed(
        [struct.pack("<Bi", 0, 1), b"\0\1", struct.pack("<BiBi", 0, 2, 0, 3), b"\0\0\0", struct.pack("<Bi", 0, 4)]
    )
    found = read_binary("frames", data, columns(i=pa.int32()), {"payload": "native"})
    assert found.rows == ((1,), (2,), (3,), (4,))
    assert found.reasons == [(None, "truncated_row")] * 2


@pytest.mark.parametrize("end", [b"\xff\xff\xff\x7f", b"\xff\xff\xff\xff", b"\x01\x00\x00\x01"])
def test_behind_a_bad_size_nothing_is_read(end: bytes) -> None:
    data = framed([b"1,a", b"2,b"]) + end + framed([b"3,c"]) * 1000
    for size in (1, 5, 1 << 20):
        found = read_binary("frames", data, SCHEMA, CSV, size=lambda size=size: size)  # type: ignore[misc]
        assert found.rows == ((1, "a"), (2, "b"))
        assert found.errors == (RowError(14, None, "bad_size", end, True),)


@pytest.mark.parametrize("kept", [1, 4, 6])
def test_a_file_that_ends_within_a_frame(kept: int) -> None:
    data = framed([b"1,a", b"2,b"])[: 7 + kept]
    found = read_binary("frames", data, SCHEMA, CSV, size=lambda: 2)
    assert found.rows == ((1, "a"),)
    assert found.errors == (RowError(7, None, "truncated_record", data[7:], True),)


@pytest.mark.parametrize("size", [1, 9, 1000])
def test_json_in_frames(size: int) -> None:
    payloads = [
        b'{"k": 1, "s": "a"}',
        b'{"k": 2, "s": "op',
        b'{"s": "c", "k": 3}\n{"k": 4}\n',
        b"[]",
        b'{"k": 5,\n "s": "e"}',
    ]
    data = framed(payloads)
    found = read_binary("frames", data, SCHEMA, {"payload": "json"}, size=lambda: size)
    assert [row for row in found.rows if row[0] in (1, 3, 4)] == [(1, "a"), (3, "c"), (4, None)]
    assert len(found.errors) == 4
    assert all(data[e.position :].startswith(e.raw) for e in found.errors)
    found = read_binary("frames", data, SCHEMA, {"payload": "json", "multiLine": "true"}, size=lambda: size)
    assert [row for row in found.rows if row[0]] == [(1, "a"), (3, "c"), (4, None), (5, "e")]


@pytest.mark.parametrize(
    "dialect",
    [{}, {"escape": "1", "sep": ",,"}, {"sep": "2,", "lineSep": "a"}, {"lineSep": "1\n"}, {"lineSep": "\r"}],
    ids=str,
)
def test_random_frames_equal_files_of_their_own(seed: int, dialect: dict[str, str]) -> None:
    random_ = random.Random(f"frames {seed} {dialect}")
    schema = Schema((Field("k", pa.int64(), False), Field("s", pa.string())))
    for _ in range(times(150)):
        alphabet = random_.choice([b'12,,\n"a\r', b"12,a\n", b'1,"\n', b"12,\xef\xbb\xbf\n#"])
        payloads = [
            bytes(random_.choice(alphabet) for _ in range(random_.randrange(random_.choice((1, 9, 60)))))
            for _ in range(random_.randrange(30))
        ]
        options = {"mode": random_.choice(("PERMISSIVE", "DROPMALFORMED")), "comment": random_.choice(("", "#"))}
        options |= dialect
        ends = b"\r" if dialect.get("lineSep", "\n") == "\n" else b""
        rows, positions, errors = [], [], []
        at = 0
        for payload in payloads:
            at += 4
            alone = read(payload.removesuffix(ends), schema, options)
            rows += alone.rows
            positions += [p + at for p in alone.positions]
            errors += [(e.position + at, e.column, e.reason, e.dropped) for e in alone.errors]
            at += len(payload)
        data = framed(payloads)
        largest = random_.choice((1, 20, 1000))
        found = read_binary(
            "frames",
            data,
            schema,
            {**CSV, **options},
            size=lambda n=largest: random_.randrange(1, n + 1),  # type: ignore[misc]
        )
        assert list(found.rows) == rows
        assert list(found.positions) == positions
        assert [(e.position, e.column, e.reason, e.dropped) for e in found.errors] == errors


@pytest.mark.parametrize(
    ("options", "number"),
    [
        ({}, "TM4003"),
        ({"payload": "parquet"}, "TM4003"),
        ({"payload": "frames"}, "TM4003"),
        ({"payload": "nothing"}, "TM4001"),
        ({"payload": "csv", "header": "true"}, "TM4003"),
        ({"payload": "csv", "sizeBytes": "3"}, "TM4003"),
        ({"payload": "csv", "maxFrameBytes": "0"}, "TM4003"),
        ({"payload": "csv", "endianness": "up"}, "TM4003"),
        ({"payload": "csv", "widths": "s:3"}, "TM4005"),
        ({"payload": "native", "widths": "k:3"}, "TM4003"),
    ],
)
def test_bad_options(options: dict[str, str], number: str) -> None:
    with pytest.raises(TidemillError, match=number):
        lookup("frames").validate(SCHEMA, options)
    assert {"payload", "sep", "widths"} <= lookup("frames").option_names
