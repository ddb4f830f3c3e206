"""CSV to Arrow on one core: MB/s of Tidemill, of pyarrow.csv without threads, and of polars with one thread.

Run ``python -m benchmarks.formats_csv [megabytes]``. Every figure is the median of five runs over data in
memory.
"""

from __future__ import annotations

import os

os.environ["POLARS_MAX_THREADS"] = "1"

import io
import random
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

import polars as pl
import pyarrow as pa
import pyarrow.csv as pa_csv

from tidemill.formats.registry import lookup
from tidemill.schema import TIMESTAMP_NTZ, Field, Schema

RUNS = 5
BUFFER = 1 << 20
POLARS_TYPES = {
    pa.int32(): pl.Int32,
    pa.int64(): pl.Int64,
    pa.float64(): pl.Float64,
    pa.string(): pl.String,
    pa.date32(): pl.Date,
    TIMESTAMP_NTZ: pl.Datetime("us"),
}


@dataclass(frozen=True)
class Case:
    """A file and the columns to read."""

    title: str
    data: bytes
    schema: Schema
    needed: tuple[str, ...]


def make_rows(cells: Callable[[random.Random], list[str]], size: int) -> bytes:
    """Lines of cells until there are ``size`` bytes; the cells repeat after 20,000 lines."""
    random_ = random.Random(7)
    block = "".join(",".join(cells(random_)) + "\n" for _ in range(20_000)).encode()
    return block * max(1, size // len(block))


def cases(size: int) -> list[Case]:
    """The files measured, each of about ``size`` bytes."""

    def numbers(r: random.Random) -> list[str]:
        return [f"{r.random() * 1000:.3f}" if i % 2 else str(r.randrange(10 ** r.randrange(1, 10))) for i in range(16)]

    def mixed(r: random.Random) -> list[str]:
        return [
            str(r.randrange(10**9)),
            f"name {r.randrange(10**6)}",
            f"{r.random() * 100:.2f}",
            r.choice(["apple", "banana", "cherry", "dragon fruit"]),
            f"20{r.randrange(10, 30)}-{r.randrange(1, 13):02}-{r.randrange(1, 29):02}",
            f"2024-01-{r.randrange(1, 29):02} {r.randrange(24):02}:{r.randrange(60):02}:{r.randrange(60):02}",
        ]

    def quoted(r: random.Random) -> list[str]:
        return [
            str(r.randrange(10**6)),
            f'"text, {r.randrange(10**9)} with commas"',
            '"plain"',
            '"a ""b"" c"',
        ]

    def long_floats(r: random.Random) -> list[str]:
        return [repr(r.random() * 100) for _ in range(8)]

    number_schema = Schema(
        tuple(Field(f"c{i}", pa.float64() if i % 2 else pa.int64()) for i in range(16)),
    )
    mixed_schema = Schema(
        (
            Field("id", pa.int64()),
            Field("name", pa.string()),
            Field("price", pa.float64()),
            Field("kind", pa.string()),
            Field("day", pa.date32()),
            Field("at", TIMESTAMP_NTZ),
        )
    )
    quoted_schema = Schema(
        (Field("id", pa.int32()), *(Field(name, pa.string()) for name in ("long", "short", "doubled")))
    )
    float_schema = Schema(tuple(Field(f"f{i}", pa.float64()) for i in range(8)))
    number_data = make_rows(numbers, size)
    return [
        Case("16 numbers, all", number_data, number_schema, number_schema.names),
        Case("16 numbers, 2 of them", number_data, number_schema, ("c3", "c10")),
        Case("16 numbers, row count", number_data, number_schema, ()),
        Case("mixed types", make_rows(mixed, size), mixed_schema, mixed_schema.names),
        Case("quoted strings", make_rows(quoted, size), quoted_schema, quoted_schema.names),
        Case("17-digit floats", make_rows(long_floats, size), float_schema, float_schema.names),
    ]


def read_tidemill(case: Case) -> int:
    """Rows read by Tidemill, fed 1 MiB at a time."""
    size = len(case.data)
    reader = lookup("csv").reader(case.schema, {}, case.needed)
    split = reader.split(start=0, end=size, file_size=size, in_quotes=False, header=None)
    view = memoryview(case.data)
    rows = 0
    for at in range(0, size, BUFFER):
        rows += split.feed(view[at : at + BUFFER], at + BUFFER >= size).count
    return rows


def read_pyarrow(case: Case) -> int:
    """Rows read by pyarrow.csv."""
    table = pa_csv.read_csv(
        pa.BufferReader(case.data),
        read_options=pa_csv.ReadOptions(use_threads=False, column_names=list(case.schema.names)),
        convert_options=pa_csv.ConvertOptions(
            column_types={f.name: f.type for f in case.schema},
            include_columns=list(case.needed or case.schema.names[:1]),
            timestamp_parsers=[pa_csv.ISO8601],
            null_values=[""],
        ),
    )
    return int(table.num_rows)


def read_polars(case: Case) -> int:
    """Rows read by polars."""
    frame = (
        pl.scan_csv(
            io.BytesIO(case.data),
            has_header=False,
            schema={f.name: POLARS_TYPES[f.type] for f in case.schema},
        )
        .select(case.needed or case.schema.names[:1])
        .collect()
    )
    return frame.height


def main() -> None:
    """Print one line per case."""
    given = sys.argv[1] if len(sys.argv) > 1 else "32"
    size = int((2 if given == "--small" else float(given)) * 1e6)
    print(f"{'case':24} {'tidemill':>9} {'pyarrow':>9} {'polars':>9}   MB/s; ratio to pyarrow, to polars")
    for case in cases(size):
        speeds = {}
        expected = read_tidemill(case)
        for name, read in (("tidemill", read_tidemill), ("pyarrow", read_pyarrow), ("polars", read_polars)):
            times = []
            for _ in range(RUNS):
                begin = time.perf_counter()
                rows = read(case)
                times.append(time.perf_counter() - begin)
                if rows != expected:
                    raise SystemExit(f"{name} read {rows} rows of {expected}")
            speeds[name] = len(case.data) / 1e6 / statistics.median(times)
        print(
            f"{case.title:24} {speeds['tidemill']:9.0f} {speeds['pyarrow']:9.0f} {speeds['polars']:9.0f}"
            f"   {speeds['tidemill'] / speeds['pyarrow']:.2f} {speeds['tidemill'] / speeds['polars']:.2f}"
        )


if __name__ == "__main__":
    main()
