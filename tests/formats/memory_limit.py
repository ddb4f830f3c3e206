"""Reads a file that is made on the fly, with the memory of this process limited; prints what it took.

Run ``python tests/formats/memory_limit.py CASE MEGABYTES LIMIT_MB``. The limit is set when everything is imported and
compiled, and counts what processes keep for themselves (RLIMIT_DATA), so neither libraries nor files that are mapped.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import tempfile
import time
import zlib
from collections.abc import Iterator
from pathlib import Path

os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")

from tidemill.formats.base import RowReader, Rows
from tidemill.formats.reading.feeding import feed, file_bytes, open_split
from tidemill.formats.rows.malformed import Mode
from tidemill.formats.standalone import standalone

MEGABYTE = 1 << 20
COLUMNS = "id BIGINT, price DOUBLE, name STRING, day DATE"


class Repeated:
    """The same bytes again and again, as a file that can be read in either mode."""

    def __init__(self, block: bytes, size: int) -> None:
        self._block = block
        self.size = size - size % len(block)
        self._position = 0

    def open(self, position: int) -> None:
        self._position = position

    def fill(self) -> bytes:
        found = self.read_at(self._position, min(MEGABYTE, self.size - self._position))
        self._position += len(found)
        return found

    def read_at(self, position: int, length: int) -> bytes:
        begin = position % len(self._block)
        found = self._block[begin : begin + length]
        while len(found) < length:
            found += self._block[: length - len(found)]
        return found

    def first_bytes(self, count: int) -> bytes:
        return self.read_at(0, count)

    def close(self) -> None:
        pass


def csv_block() -> bytes:
    rows = [b'%d,%d.25,"name, %d\nof it",2024-01-%02d\n' % (i, i, i, i % 28 + 1) for i in range(25_000)]
    return b"".join(rows)


def json_block() -> bytes:
    rows = [b'{"id": %d, "price": %d.5, "name": "n%d", "day": "2024-01-01"}\n' % (i, i, i) for i in range(15_000)]
    return b"".join(rows)


def gzip_block() -> bytes:
    """A member; a file of several is as good as one."""
    packer = zlib.compressobj(1, wbits=31)
    return packer.compress(csv_block()) + packer.flush()


def fed(case: str, size: int) -> tuple[int, Iterator[Rows]]:
    """Bytes of the file, and its rows, through what reads splits."""
    format_, _, kind = case.partition("-")
    block = {"csv": csv_block, "json": json_block, "csv-gzip": gzip_block, "csv-async": csv_block}[case]()
    file = Repeated(block, size)
    options = {"gzip": {"compression": "gzip"}, "async": {"readmode": "async"}}.get(kind, {})
    opened = standalone.open_format(format_, COLUMNS)
    reader = opened.reader()
    assert isinstance(reader, RowReader)
    source = file_bytes(file, "", file.size, file.size, options)
    split = open_split(reader, source, start=0, end=file.size, size=file.size, in_quotes=False, part=False)
    return file.size, feed(split, source, Mode.PERMISSIVE)


def sparse(size: int) -> Iterator[Rows]:
    """Rows of zeros of a file without blocks, through ``OpenFormat.rows``."""
    with tempfile.NamedTemporaryFile() as file:
        os.truncate(file.name, size)
        yield from standalone.open_format("native", "id BIGINT, price DOUBLE").rows(Path(file.name))


def read(case: str, size: int) -> tuple[int, int, float]:
    """Bytes, rows, seconds."""
    begin = time.perf_counter()
    if case == "sparse":
        size -= size % 17
        parts = sparse(size)
    else:
        size, parts = fed(case, size)
    rows = 0
    for part in parts:
        rows += part.count
        assert not part.errors
    return size, rows, time.perf_counter() - begin


def peak() -> int:
    """Bytes that this process had in memory at most; what ``getrusage`` says may be of the process it is a fork of."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:")) * 1024


def main() -> None:
    """Read a little, limit memory, read it all."""
    case, megabytes, limit = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    read(case, 8 * MEGABYTE)
    before = peak()
    resource.setrlimit(resource.RLIMIT_DATA, (limit * MEGABYTE, limit * MEGABYTE))
    size, rows, seconds = read(case, megabytes * MEGABYTE)
    print(json.dumps({"bytes": size, "rows": rows, "seconds": seconds, "before": before, "peak": peak()}))


if __name__ == "__main__":
    main()
