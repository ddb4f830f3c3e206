"""Binary formats and codecs on one core: MB/s, each beside a peer that does the same work, and the ratio.

Run ``python -m benchmarks.formats_binary [megabytes]``. Every figure is the median of five runs over data in memory.
"""

from __future__ import annotations

import bz2
import gzip
import io
import statistics
import sys
import time
from collections.abc import Callable

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


def _arrow(format_: str, schema: Schema, data: bytes, **options: str) -> int:
    """Rows of a file, fed 1 MiB at a time."""
    split = (
        lookup(format_)
        .reader(schema, options, schema.names)
        .split(  # type: ignore[union-attr]
            start=0, end=len(data), file_size=len(data), in_quotes=False, header=None
        )
    )
    view = memoryview(data)
    return sum(split.feed(view[a : a + BUFFER], a + BUFFER >= len(data)).count for a in range(0, len(data), BUFFER))


def _decoded(codec: str, data: bytes) -> int:
    source = io.BytesIO(data)
    stream = Decoded(codec, lambda: source.read(BUFFER), 1 << 40)
    while not stream.ended:
        stream.fill()
    return stream.position


def _by_arrow(codec: str, data: bytes) -> int:
    stream, total = pa.CompressedInputStream(io.BytesIO(data), codec), 0
    while piece := stream.read(BUFFER):
        total += len(piece)
    return total


def _as_arrow(rows: np.ndarray) -> None:
    """What NumPy needs for the same columns."""
    pa.table({name: pa.array(rows[name].astype(rows[name].dtype.newbyteorder("="))) for name in rows.dtype.names or ()})


def main() -> None:
    """Print a table of each group."""
    size = int(float(sys.argv[1] if len(sys.argv) > 1 else "32") * 1e6)
    heading("Native rows to Arrow; the peer is NumPy's structured array to Arrow")
    found = []
    for order, sign in (("little", "<"), ("big", ">")):
        kind = np.dtype([("a", sign + "i4"), ("b", sign + "f8"), ("c", sign + "i8"), ("d", sign + "i2")])
        rows = np.frombuffer(np.random.default_rng(1).bytes(size // kind.itemsize * kind.itemsize), kind)
        types = (pa.int32(), pa.float64(), pa.int64(), pa.int16())
        schema = Schema(tuple(Field(n, t) for n, t in zip("abcd", types, strict=True)))
        data = rows.tobytes()
        mine = _speed(lambda s=schema, d=data, o=order: _arrow("native", s, d, endianness=o, nullBitmap="false"), size)  # type: ignore[misc]
        peer = _speed(lambda r=rows: _as_arrow(r), size)  # type: ignore[misc]
        found.append([order, mine, peer, mine / peer])
    table(["endianness", "tidemill MB/s", "peer MB/s", "ratio"], found)

    heading("CSV rows, one a frame; the peer is the same rows as lines of a CSV file")
    schema = Schema((Field("a", pa.int64()), Field("b", pa.string()), Field("c", pa.float64())))
    lines = [b"%d,name %d,%d.5" % (i * 7919, i, i) for i in range(20_000)]
    copies = max(1, size // (len(b"\n".join(lines))))
    framed = b"".join(len(p).to_bytes(4, "little") + p for p in lines) * copies
    plain = (b"\n".join(lines) + b"\n") * copies
    mine = _speed(lambda: _arrow("frames", schema, framed, payload="csv"), len(framed))
    peer = _speed(lambda: _arrow("csv", schema, plain), len(plain))
    table(["payload", "tidemill MB/s", "peer MB/s", "ratio"], [["csv", mine, peer, mine / peer]])

    heading("Decoded MB/s; the peer is pyarrow.CompressedInputStream")
    found = []
    for codec, name, data in (
        ("gzip", "gzip", gzip.compress(plain, 6)),
        ("bzip2", "bz2", bz2.compress(plain[: size // 4])),
        ("lz4", "lz4", lz4.frame.compress(plain)),
        ("zstd", "zstd", bytes(pa.compress(plain, "zstd"))),
    ):
        length = _decoded(codec, data)
        mine = _speed(lambda c=codec, d=data: _decoded(c, d), length)  # type: ignore[misc]
        peer = _speed(lambda n=name, d=data: _by_arrow(n, d), length)  # type: ignore[misc]
        found.append([codec, mine, peer, mine / peer])
    table(["codec", "tidemill MB/s", "peer MB/s", "ratio"], found)

    heading("Parquet, 2 of 16 columns against all: times faster")
    wide = pa.table({f"c{i}": np.random.default_rng(i).integers(0, 2**40, size // 128) for i in range(16)})
    sink = io.BytesIO()
    pq.write_table(wide, sink)
    schema = Schema(tuple(Field(n, pa.int64()) for n in wide.column_names))

    def rows_of(*needed: str) -> int:
        reader = lookup("parquet").reader(schema, {}, needed)
        length = len(sink.getvalue())
        return sum(r.count for r in reader.rows(io.BytesIO(sink.getvalue()), start=0, end=length, file_size=length))  # type: ignore[union-attr]

    every, two = _speed(lambda: rows_of(*schema.names), size), _speed(lambda: rows_of("c3", "c9"), size)
    table(["columns", "MB/s of the file", "ratio"], [["all", every, 1.0], ["2", two, two / every]])


if __name__ == "__main__":
    main()
