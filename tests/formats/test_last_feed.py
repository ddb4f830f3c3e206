"""A stream may end with an empty buffer: nobody knew before that the one before it was the last."""

from __future__ import annotations

import struct

import pyarrow as pa
import pytest
from csv_reading import Table, as_table, columns

from tidemill.formats.base import RowReader
from tidemill.formats.registry import lookup

SCHEMA = columns(a=pa.int64(), b=pa.string())
CSV = b'1,x\n2,"y\nz"\n3,w'
JSON = b'{"a": 1, "b": "x"}\n{"a": 2, "b": "y"}'
NATIVE = b"".join(struct.pack("<BqII", 0, k, 17, 1) + b"x" for k in (1, 2))
FRAMES = b"".join(len(p).to_bytes(4, "little") + p for p in (b"1,x", b"2,y\n3,z"))
CASES = {
    "csv": ("csv", CSV, {}),
    "open quote": ("csv", CSV + b'\n4,"open', {}),
    "json": ("json", JSON, {}),
    "array": ("json", b"[" + JSON.replace(b"\n", b",") + b"]", {}),
    "open array": ("json", b"[" + JSON.replace(b"\n", b",\n"), {}),
    "half a record": ("json", b"[" + JSON.replace(b"\n", b",\n") + b', {"a": 3', {}),
    "frames": ("frames", FRAMES, {"payload": "csv"}),
    "half a frame": ("frames", FRAMES[:-2], {"payload": "csv"}),
}


def read(reader: RowReader, data: bytes, pieces: list[bytes]) -> Table:
    header = data if reader.header_bytes_needed() else None
    split = reader.split(start=0, end=len(data), file_size=len(data), in_quotes=False, header=header)
    return as_table([split.feed(piece, i == len(pieces) - 1) for i, piece in enumerate(pieces)])


@pytest.mark.parametrize("case", CASES)
def test_an_empty_buffer_at_the_end(case: str) -> None:
    name, data, options = CASES[case]
    reader = lookup(name).reader(SCHEMA, options, SCHEMA.names)
    whole = read(reader, data, [data])
    assert whole.rows
    for at in range(len(data) + 1):
        assert read(reader, data, [data[:at], data[at:]]) == whole, at
        assert read(reader, data, [data[:at], data[at:], b""]) == whole, at


def test_only_the_first_bytes_of_a_file_are_a_byte_order_mark() -> None:
    data = b'p,q\n\xef\xbb\xbf"x,"abc\nd'
    reader = lookup("csv").reader(columns(a=pa.string(), b=pa.string()), {}, ["a", "b"])
    whole = read(reader, data, [data])
    for at in range(len(data) + 1):
        found = read(reader, data, [data[:at], data[at:]])
        assert (found.rows, found.positions, found.errors) == (whole.rows, whole.positions, whole.errors), at
