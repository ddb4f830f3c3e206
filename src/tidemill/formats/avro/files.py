"""Avro's object container files: a schema, then blocks of values.

Facts are from Avro's specification, https://avro.apache.org/docs/1.12.0/specification/#object-container-files.
"""

from __future__ import annotations

import bz2
import lzma
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import IO

import numpy as np
import pyarrow as pa

from tidemill.formats.avro.columns import BadValueError, Decoder
from tidemill.formats.avro.schema import Node, parse_schema
from tidemill.formats.avro.values import decoder_of
from tidemill.formats.base import Rows
from tidemill.formats.columnar.rows import ColumnChoice, in_bounds, unreadable
from tidemill.formats.rows.checked_columns import make_batch

_MAGIC = b"Obj\x01"
_SYNC = 16
_TOGETHER = 1 << 20
"""Bytes of blocks that are read together at least."""
_MOST_BLOCK = (1 << 31) - 1
_MOST_EMPTY = 1 << 24
"""Values without bytes that a block may have."""
_HINT = "an object container file of Avro; write it again, or leave it out with a glob"


def _snappy(data: bytes) -> bytes:
    size, _ = _number(data, 0, signed=False)
    plain: bytes = pa.Codec("snappy").decompress(data[:-4], size, asbytes=True)
    if zlib.crc32(plain) != int.from_bytes(data[-4:], "big"):
        raise ValueError("the checksum of a block is wrong")
    return plain


def _zstandard(data: bytes) -> bytes:
    with pa.input_stream(pa.py_buffer(data), compression="zstd") as stream:
        return stream.read()


_CODECS: Mapping[str, Callable[[bytes], bytes]] = {
    "null": lambda data: data,
    "deflate": lambda data: zlib.decompress(data, -15),
    "snappy": _snappy,
    "zstandard": _zstandard,
    "bzip2": bz2.decompress,
    "xz": lzma.decompress,
}


@dataclass(frozen=True)
class _Head:
    root: Node
    plain: Callable[[bytes], bytes]
    sync: bytes


class AvroReader:
    """See :class:`tidemill.formats.base.FileRowReader`."""

    def __init__(self, choice: ColumnChoice) -> None:
        self._choice = choice

    def rows(self, file: IO[bytes], *, start: int, end: int, file_size: int) -> Iterator[Rows]:
        """See :meth:`tidemill.formats.base.FileRowReader.rows`; a split from byte 0 on owns all rows.

        Raises
        ------
        FormatError
            TM4041 for a damaged file, TM4042 to TM4044 for columns that do not fit, TM4020 in mode FAILFAST.
        """
        if start > 0 or end <= 0 < file_size:
            return
        with unreadable("avro", _HINT):
            head = _head(file)
            decoder, columns = decoder_of(head.root, self._choice)
        needed = list(self._choice.needed)
        first = 0
        blocks = _blocks(file, head)
        while True:
            with unreadable("avro", _HINT):
                found = next(blocks, None)
                if found is None:
                    return
                batch = _decoded(decoder, *found)
            for part in in_bounds(batch):
                rows = columns.rows(part, first)
                batch = rows.batch.select(needed) if needed else make_batch([], [], rows.count)
                yield replace(rows, batch=batch)
                first += part.num_rows


def file_schema(file: IO[bytes]) -> pa.Schema:
    """The columns of a file, from its head. TM4041 for a damaged file."""
    with unreadable("avro", _HINT):
        return _head(file).root.schema


def _decoded(decoder: Decoder, counts: list[int], ends: list[int], data: bytes) -> pa.RecordBatch:
    try:
        batch, wrong = decoder.of_blocks(
            np.frombuffer(data, np.uint8), np.array(counts, np.int64), np.array(ends, np.int64)
        )
    except BadValueError as error:
        raise ValueError(f"a value is malformed: {error.reason}") from error
    if wrong:
        raise ValueError(f"a value is malformed: {wrong}")
    return batch


def _head(file: IO[bytes]) -> _Head:
    """Schema, codec and mark of a file, which is behind them then. ValueError for another file."""
    file.seek(0)
    if file.read(4) != _MAGIC:
        raise ValueError("it does not begin as one")
    given: dict[str, bytes] = {}
    while count := _read_number(file):
        if count < 0:
            count = -count
            _read_number(file)
        for _ in range(count):
            name = _read(file, _read_number(file)).decode()
            given[name] = _read(file, _read_number(file))
    codec = given.get("avro.codec", b"null").decode()
    if codec not in _CODECS:
        raise ValueError(f"the codec {codec} is not known")
    root = parse_schema(given.get("avro.schema", b"").decode())
    return _Head(root, _CODECS[codec], _read(file, _SYNC))


def _blocks(file: IO[bytes], head: _Head) -> Iterator[tuple[list[int], list[int], bytes]]:
    """Blocks, several small ones together: how many values each has, where it ends, and the bytes of all."""
    counts: list[int] = []
    ends: list[int] = []
    held = bytearray()
    while True:
        byte = file.read(1)
        if not byte:
            break
        count = _read_number(file, byte)
        size = _read_number(file)
        if count < 0 or not 0 <= size <= _MOST_BLOCK:
            raise ValueError("a block has no size")
        plain = _decompressed(head, _read(file, size))
        if count > (len(plain) // head.root.fewest if head.root.fewest else _MOST_EMPTY):
            raise ValueError("a block has more values than bytes")
        held += plain
        counts.append(count)
        ends.append(len(held))
        if _read(file, _SYNC) != head.sync:
            raise ValueError("there is no mark behind a block")
        if len(held) >= _TOGETHER:
            yield counts, ends, bytes(held)
            counts, ends, held = [], [], bytearray()
    if counts:
        yield counts, ends, bytes(held)


def _decompressed(head: _Head, data: bytes) -> bytes:
    """The bytes of a block. ValueError where they are damaged."""
    try:
        return head.plain(data)
    except (zlib.error, lzma.LZMAError, EOFError) as error:
        raise ValueError(f"a block cannot be decompressed: {error}") from error


def _read(file: IO[bytes], size: int) -> bytes:
    """So many bytes. ValueError where there are fewer."""
    data = file.read(size) if 0 <= size <= _MOST_BLOCK else b""
    if len(data) != size:
        raise ValueError("it is truncated")
    return data


def _read_number(file: IO[bytes], begun: bytes = b"") -> int:
    data = begun
    while not data or data[-1] >= 0x80:
        if len(data) == 10:
            raise ValueError("a number has too many bytes")
        data += _read(file, 1)
    return _number(data, 0)[0]


def _number(data: bytes, at: int, signed: bool = True) -> tuple[int, int]:
    """A number of seven bits a byte, zigzag if signed, and where it ends. IndexError where it does not."""
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return ((value >> 1) ^ -(value & 1) if signed else value), at
