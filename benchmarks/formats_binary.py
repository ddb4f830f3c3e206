"""Binary formats and codecs on one core: MB/s, each beside a peer that does the same work, and the ratio.

Run ``python -m benchmarks.formats_binary [megabytes]``. Every figure is the median of five runs over data in memory.
Where a side and its peer end with other rows or bytes, it stops.
"""

from __future__ import annotations

import bz2
import gzip
import io
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial

import lz4.frame
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.measuring import heading, table
from tidemill.formats.reading.codecs import Decoded
from tidemill.formats.registry import lookup
from tidemill.schema import Field, Schema

RUNS = 5
BUFFER = 1 << 20


def _speed(work: Callable[[], object], size: int) -> float:
    work()
    times = []
    for _ in range(RUNS):
        begin = time.perf_counter()
        work()
        times.append(time.perf_counter() - begin)
    return size / 1e6 / statistics.median(times)


def _arrow(format_: str, schema: Schema, data: bytes, **options: str) -> pa.Table:
    """The rows of a file, fed 1 MiB at a time."""
    split = (
        lookup(format_)
        .reader(schema, options, schema.names)
        .split(  # type: ignore[union-attr]
            start=0, end=len(data), file_size=len(data), in_quotes=False, header=None
        )
    )
    view = memoryview(data)
    fed = (split.feed(view[a : a + BUFFER], a + BUFFER >= len(data)) for a in range(0, len(data), BUFFER))
    return pa.Table.from_batches([rows.batch for rows in fed])


def _decoded(codec: str, data: bytes) -> Iterator[bytes]:
    source = io.BytesIO(data)
    stream = Decoded(codec, lambda: source.read(BUFFER), 1 << 40)
    while not stream.ended:
        yield stream.fill()


def _by_arrow(codec: str, data: bytes) -> Iterator[bytes]:
    stream = pa.CompressedInputStream(io.BytesIO(data), codec)
    while piece := stream.read(BUFFER):
        yield piece


def _as_arrow(rows: np.ndarray) -> pa.Table:
    """What NumPy needs for the same columns."""
    return pa.table(
        {name: pa.array(rows[name].astype(rows[name].dtype.newbyteorder("="))) for name in rows.dtype.names or ()}
    )


def _ended(pieces: Iterator[bytes]) -> None:
    for _ in pieces:
        pass


def _check(what: str, same: bool) -> None:
    if not same:
        raise SystemExit(f"{what}: the sides end with other answers, so there is no ratio")


def _native(size: int) -> Iterator[list[object]]:
    for order, sign in (("little", "<"), ("big", ">")):
        kind = np.dtype([("a", sign + "i4"), ("b", sign + "f8"), ("c", sign + "i8"), ("d", sign + "i2")])
        random = np.random.default_rng(1)
        rows = np.zeros(size // kind.itemsize, kind)
        for name in "acd":
            limits = np.iinfo(kind[name])
            rows[name] = random.integers(limits.min, limits.max, len(rows), kind[name].newbyteorder("="))
        rows["b"] = random.normal(size=len(rows))
        types = (pa.int32(), pa.float64(), pa.int64(), pa.int16())
        schema = Schema(tuple(Field(n, t) for n, t in zip("abcd", types, strict=True)))
        read = partial(_arrow, "native", schema, rows.tobytes(), endianness=order, nullBitmap="false")
        _check(f"native, {order} endian", read().equals(_as_arrow(rows)))
        mine, peer = _speed(read, rows.nbytes), _speed(partial(_as_arrow, rows), rows.nbytes)
        yield [order, mine, peer, mine / peer]


def _frames(lines: list[bytes], copies: int) -> Iterator[list[object]]:
    schema = Schema((Field("a", pa.int64()), Field("b", pa.string()), Field("c", pa.float64())))
    framed = b"".join(len(p).to_bytes(4, "little") + p for p in lines) * copies
    plain = (b"\n".join(lines) + b"\n") * copies
    read = partial(_arrow, "frames", schema, framed, payload="csv")
    as_lines = partial(_arrow, "csv", schema, plain)
    _check("frames of CSV", read().combine_chunks().equals(as_lines().combine_chunks()))
    mine, peer = _speed(read, len(framed)), _speed(as_lines, len(plain))
    yield ["csv", mine, peer, mine / peer]


def _codecs(plain: bytes) -> Iterator[list[object]]:
    for codec, name, original, data in (
        ("gzip", "gzip", plain, gzip.compress(plain, 6)),
        ("bzip2", "bz2", plain[: len(plain) // 4], bz2.compress(plain[: len(plain) // 4])),
        ("lz4", "lz4", plain, lz4.frame.compress(plain)),
        ("zstd", "zstd", plain, bytes(pa.compress(plain, "zstd"))),
    ):
        for pieces in (_decoded(codec, data), _by_arrow(name, data)):
            _check(codec, b"".join(pieces) == original)
        mine = _speed(lambda c=codec, d=data: _ended(_decoded(c, d)), len(original))  # type: ignore[misc]
        peer = _speed(lambda n=name, d=data: _ended(_by_arrow(n, d)), len(original))  # type: ignore[misc]
        yield [codec, mine, peer, mine / peer]


def _parquet(size: int) -> Iterator[list[object]]:
    wide = pa.table({f"c{i}": np.random.default_rng(i).integers(0, 2**40, size // 128) for i in range(16)})
    sink = io.BytesIO()
    pq.write_table(wide, sink)
    schema = Schema(tuple(Field(n, pa.int64()) for n in wide.column_names))
    length = len(sink.getvalue())

    def read(*needed: str) -> pa.Table:
        reader = lookup("parquet").reader(schema, {}, needed)
        rows = reader.rows(io.BytesIO(sink.getvalue()), start=0, end=length, file_size=length)  # type: ignore[union-attr]
        return pa.Table.from_batches([r.batch for r in rows])

    for needed in (schema.names, ("c3", "c9")):
        _check(f"Parquet, {needed}", read(*needed).combine_chunks().select(needed).equals(wide.select(needed)))
    every, two = _speed(lambda: read(*schema.names), size), _speed(lambda: read("c3", "c9"), size)
    yield ["all", every, 1.0]
    yield ["2", two, two / every]


def main() -> None:
    """Print a table of each group."""
    given = sys.argv[1] if len(sys.argv) > 1 else "32"
    size = int((2 if given == "--small" else float(given)) * 1e6)
    lines = [b"%d,name %d,%d.5" % (i * 7919, i, i) for i in range(20_000)]
    copies = max(1, size // len(b"\n".join(lines)))
    heading("Native rows to Arrow; the peer is NumPy's structured array to Arrow")
    table(["endianness", "tidemill MB/s", "peer MB/s", "ratio"], list(_native(size)))
    heading("CSV rows, one a frame; the peer is the same rows as lines of a CSV file")
    table(["payload", "tidemill MB/s", "peer MB/s", "ratio"], list(_frames(lines, copies)))
    heading("Decoded MB/s; the peer is pyarrow.CompressedInputStream")
    table(["codec", "tidemill MB/s", "peer MB/s", "ratio"], list(_codecs((b"\n".join(lines) + b"\n") * copies)))
    heading("Parquet, 2 of 16 columns against all: times faster")
    table(["columns", "MB/s of the file", "ratio"], list(_parquet(size)))


if __name__ == "__main__":
    main()
