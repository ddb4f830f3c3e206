"""Feeds random bytes to formats from memory with forbidden pages around it: a read outside a buffer ends the process.

Run ``python tests/formats/guarded_memory.py FORMAT SEED CASES``; prints how many cases there were. What is read must
also equal what is read of the same bytes in ordinary memory.
"""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import random
import sys
from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from tidemill.errors import FormatError
from tidemill.formats.base import RowReader, Rows
from tidemill.formats.debezium.format import OPERATION
from tidemill.formats.messages import Messages, reader_of
from tidemill.formats.registry import lookup
from tidemill.schema import TIMESTAMP, TIMESTAMP_NTZ, Field, Schema

_PAGE = mmap.PAGESIZE
_LIBC = ctypes.CDLL(None, use_errno=True)
_TYPES = (
    pa.int64(),
    pa.int8(),
    pa.float64(),
    pa.float32(),
    pa.decimal128(12, 3),
    pa.string(),
    pa.binary(),
    pa.bool_(),
    pa.date32(),
    TIMESTAMP,
    TIMESTAMP_NTZ,
)
_WORDS = (
    b"1", b"-12.5", b"123456789", b"1e-7", b"true", b"null", b"2024-02-03", b"2024-02-03 04:05:06", b"x" * 40, b"a",
    b'"', b'""', b"\\", b"\\u12", b",", b":", b"{", b"}", b"[", b"]", b"\n", b"\r\n", b" ", b"\xff", "zażółć".encode(),
    b'{"c0": 1, "c1": "x"}\n', b'"c2":', b"#", b"\0\0\0\x05", b'"before":', b'"after":{', b'"op":"u"',
)  # fmt: skip
_OPTIONS: dict[str, tuple[dict[str, str], ...]] = {
    "csv": (
        {},
        {"comment": "#"},
        {"quote": ""},
        {"escape": "\\"},
        {"sep": "::"},
        {"nullValue": "1"},
        {"mode": "DROPMALFORMED"},
    ),
    "json": ({}, {"mode": "DROPMALFORMED"}, {"rescuedDataColumn": "_rescued_data"}),
    "native": ({"nullBitmap": "true"}, {"byteOrder": "big"}),
    "debezium": ({},),
    "frames": ({"payload": "json"}, {"payload": "csv"}),
}


@contextlib.contextmanager
def guarded(data: bytes, at_end: bool) -> Iterator[memoryview]:
    """The bytes right before a forbidden page, or right behind one."""
    pages = -(-max(len(data), 1) // _PAGE)
    memory = mmap.mmap(-1, (pages + 2) * _PAGE)
    first = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    start = (pages + 1) * _PAGE - len(data) if at_end else _PAGE
    memory[start : start + len(data)] = data
    last = first + (pages + 1) * _PAGE
    try:
        for page in (first, last):
            if _LIBC.mprotect(ctypes.c_void_p(page), _PAGE, 0):
                raise OSError(ctypes.get_errno(), "mprotect")
        yield memoryview((ctypes.c_char * len(data)).from_address(first + start)).cast("B").toreadonly()
    finally:
        for page in (first, last):
            _LIBC.mprotect(ctypes.c_void_p(page), _PAGE, 3)


def _bytes_of(chance: random.Random, size: int) -> bytes:
    """Random words; half the time lines of one kind, so that the fast paths are taken."""
    if chance.random() < 0.4:
        words = [chance.choice(_WORDS[:9]) for _ in range(chance.randrange(1, 5))]
        line = b",".join(words) + b"\n"
        data = line * (size // len(line) + 1)
        return data[: chance.choice([len(data), size])]
    data = b""
    while len(data) < size:
        data += chance.choice(_WORDS)
    return data[:size]


def _read(reader: RowReader, data: bytes | memoryview) -> list[Rows] | str:
    """Everything that is read of one buffer, and no views of it."""
    header = bytes(data) if reader.header_bytes_needed() else None
    split = reader.split(start=0, end=len(data), file_size=len(data), in_quotes=False, header=header)
    if split.done:
        return []
    try:
        rows = split.feed(data, True)
        for row in range(min(rows.count, 3)):
            rows.raw(row)
        return [rows]
    except FormatError as error:
        return error.number


def _told(found: list[Rows] | str) -> object:
    if isinstance(found, str):
        return found
    return [(rows.batch, rows.positions.tolist(), rows.errors) for rows in found]


def main(name: str, seed: int, cases: int) -> None:
    """Feed the cases."""
    chance = random.Random(seed)
    for case in range(cases):
        some = [t for t in _TYPES if name != "debezium" or t != pa.binary()]
        types = [chance.choice(some) for _ in range(chance.randrange(1, 5))]
        schema = Schema(tuple(Field(f"c{i}", type_) for i, type_ in enumerate(types)))
        options = dict(chance.choice(_OPTIONS[name]))
        if "rescuedDataColumn" in options:
            schema = Schema((*schema, Field(options["rescuedDataColumn"], pa.string())))
        if name == "debezium":
            schema = Schema((*schema, Field(OPERATION, pa.string(), False)))
        options = {key.lower(): value for key, value in options.items()}
        format_ = lookup(name)
        format_.validate(schema, options)
        messages = Messages(("c0",), OPERATION, "D") if name == "debezium" else None
        reader = reader_of(format_, schema, options, schema.names, messages)
        assert isinstance(reader, RowReader)
        data = _bytes_of(chance, chance.choice([1, 7, 8, 9, 31, 63, 64, 65, 66, 127, 130, 700, 20_000]))
        expected = str(_told(_read(reader, data)))
        for at_end in (True, False):
            with guarded(data, at_end) as view:
                if str(_told(_read(reader, view))) != expected:
                    raise SystemExit(f"case {case}: {data!r} is read in another way")
    print(cases)


def touch(at_end: bool) -> None:
    """Read a byte that must not be read."""
    with guarded(b"12345678", at_end) as view:
        address = np.frombuffer(view, np.uint8).ctypes.data
        ctypes.string_at(address + 8 if at_end else address - 1, 1)


if __name__ == "__main__":
    if sys.argv[1] in ("behind", "before"):
        touch(sys.argv[1] == "behind")
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
