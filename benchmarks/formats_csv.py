"""CSV to Arrow on one core, bytes in memory: against pyarrow.csv, Polars, DuckDB and Spark's reader.

Run ``python -m benchmarks.formats_csv [--megabytes N] [--runs N] [--spark]``. A case's sides take turns in one process,
each with one thread; "lines" is Tidemill with ``multiLine 'false'``. What counts is the time of the processor, of which
others on the machine take less away than of the clock. Spark reads the same bytes from a file with ``local[1]``, by
the clock, and so does Tidemill beside it.
"""

from __future__ import annotations

import os

os.environ["POLARS_MAX_THREADS"] = "1"

import argparse
import io
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.csv as pa_csv

import tidemill.formats
from benchmarks.measuring import heading, table, verdict, workspace
from tidemill.formats.csv.format import CsvFormat
from tidemill.formats.csv.rows import RowBuilder
from tidemill.formats.reading.read_modes import DEFAULT_BUFFER
from tidemill.formats.text.line_ends import NO_BYTE, scan_row_ends
from tidemill.formats.values.field_text import TextRules
from tidemill.schema import TIMESTAMP_NTZ, Field, Schema

BUFFER = DEFAULT_BUFFER
WIDE = 10_000
"""Columns of the widest table."""


@dataclass(frozen=True)
class Case:
    """A file and the columns to read; ``goal`` says whether the goals are about it."""

    title: str
    data: bytes
    schema: Schema
    needed: tuple[str, ...]
    goal: bool = False


def make_rows(cells: Callable[[random.Random], list[str]], size: int) -> bytes:
    """Lines of cells until there are ``size`` bytes; the cells repeat after 20,000 lines."""
    random_ = random.Random(7)
    block = "".join(",".join(cells(random_)) + "\n" for _ in range(20_000)).encode()
    return block * max(1, size // len(block))


def lineitem(size: int) -> tuple[bytes, Schema]:
    """TPC-H's lineitem at scale factor 0.01 as its generator writes it; decimals are read as doubles, as all sides
    can."""
    program = Path(sys.executable).with_name("tpchgen-cli")
    with workspace() as place:
        command = [program, "csv", "--scale-factor", "0.01", "--tables", "lineitem", "--output-dir", place]
        subprocess.run(command, check=True, capture_output=True)
        text = (place / "lineitem.csv").read_bytes()
    header, _, block = text.partition(b"\n")
    types = [pa.int64()] * 3 + [pa.int32()] + [pa.float64()] * 4 + [pa.string()] * 2 + [pa.date32()] * 3
    names = header.decode().split(",")
    schema = Schema(tuple(map(Field, names, [*types, *[pa.string()] * (len(names) - len(types))])))
    return block * max(1, size // len(block)), schema


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

    number_schema = Schema(tuple(Field(f"c{i}", pa.float64() if i % 2 else pa.int64()) for i in range(16)))
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
    wide_schema = Schema(tuple(Field(f"c{i}", pa.int32()) for i in range(WIDE)))
    wide_random = random.Random(7)
    wide_lines = [",".join(str(wide_random.randrange(10_000)) for _ in range(WIDE)) + "\n" for _ in range(100)]
    wide_data = "".join(wide_lines * max(1, size // (490 * WIDE))).encode()
    number_data = make_rows(numbers, size)
    item_data, item_schema = lineitem(size)
    return [
        Case("16 numbers", number_data, number_schema, number_schema.names, True),
        Case("16 numbers, 2 of them", number_data, number_schema, ("c3", "c10")),
        Case("16 numbers, row count", number_data, number_schema, ()),
        Case("lineitem", item_data, item_schema, item_schema.names, True),
        Case("lineitem, 2 of 16", item_data, item_schema, ("l_quantity", "l_shipdate")),
        Case("quoted strings", make_rows(quoted, size), quoted_schema, quoted_schema.names, True),
        Case("mixed types", make_rows(mixed, size), mixed_schema, mixed_schema.names),
        Case(f"{WIDE:,} integers", wide_data, wide_schema, wide_schema.names),
        Case("17-digit floats", make_rows(long_floats, size), float_schema, float_schema.names),
    ]


def read_tidemill(case: Case) -> int:
    """Rows read by Tidemill."""
    return tidemill.formats.open("csv", case.schema).read(case.data, case.needed).num_rows


def read_lines(case: Case) -> int:
    """Rows read by Tidemill, one line a row."""
    return tidemill.formats.open("csv", case.schema, multiLine=False).read(case.data, case.needed).num_rows


def read_pyarrow(case: Case) -> int:
    """Rows read by pyarrow.csv."""
    read = pa_csv.read_csv(
        pa.BufferReader(case.data),
        read_options=pa_csv.ReadOptions(use_threads=False, column_names=list(case.schema.names)),
        convert_options=pa_csv.ConvertOptions(
            column_types={f.name: f.type for f in case.schema},
            include_columns=list(case.needed or case.schema.names[:1]),
            timestamp_parsers=[pa_csv.ISO8601],
            null_values=[""],
        ),
    )
    return int(read.num_rows)


def read_polars(case: Case) -> int:
    """Rows read by Polars."""
    empty = pl.from_arrow(case.schema.to_arrow().empty_table())
    assert isinstance(empty, pl.DataFrame)
    scan = pl.scan_csv(io.BytesIO(case.data), has_header=False, schema=dict(empty.schema))
    return scan.select(case.needed or case.schema.names[:1]).collect().height


def peers() -> dict[str, Callable[[Case], int]]:
    """The sides of a case, Tidemill first."""
    connection = duckdb.connect(config={"threads": 1})

    def read_duckdb(case: Case) -> int:
        """Rows read by DuckDB, from a file in memory."""
        columns = {f.name: _duckdb_type(f.type) for f in case.schema}
        path = Path("/dev/shm") / f"tidemill-bench-{os.getpid()}.csv"
        path.write_bytes(case.data)
        names = ", ".join(f'"{name}"' for name in case.needed) or "count(*) AS rows"
        try:
            return int(
                connection.sql(
                    f"SELECT {names} FROM read_csv('{path}', header = false, auto_detect = false, delim = ',', "
                    f"quote = '\"', escape = '\"', columns = {columns})"
                )
                .to_arrow_table()
                .num_rows
            )
        finally:
            path.unlink()

    sides = {"tidemill": read_tidemill, "lines": read_lines}
    return sides | {"pyarrow": read_pyarrow, "polars": read_polars, "duckdb": read_duckdb}


def _duckdb_type(type_: pa.DataType) -> str:
    if pa.types.is_decimal128(type_):
        return f"DECIMAL({type_.precision}, {type_.scale})"
    names = {"int64": "BIGINT", "int32": "INTEGER", "double": "DOUBLE", "string": "VARCHAR", "date32[day]": "DATE"}
    return names.get(str(type_), "TIMESTAMP")


def speeds(case: Case, sides: dict[str, Callable[[Case], int]], runs: int) -> dict[str, float]:
    """MB/s of each side by the processor's time, median of runs in turn; a first run of each is not counted."""
    expected = read_tidemill(case)
    times: dict[str, list[float]] = {name: [] for name in sides}
    for run in range(runs + 1):
        for name, read in sides.items():
            begin = time.process_time()
            rows = read(case)
            if run:
                times[name].append(time.process_time() - begin)
            if rows != expected and case.needed:
                raise SystemExit(f"{name} read {rows} rows of {expected} in {case.title!r}")
    return {name: len(case.data) / 1e6 / statistics.median(seconds) for name, seconds in times.items()}


def shares(case: Case) -> tuple[float, float, float]:
    """Which part of the time of kernels goes into row ends, the field index, and values."""
    reader = CsvFormat().reader(case.schema, {}, case.needed)
    size = len(case.data)
    split: Any = reader.split(start=0, end=size, file_size=size, in_quotes=False, header=None)
    builder = split.builder
    assert isinstance(builder, RowBuilder)
    spent = np.zeros(3)
    for run in range(3):
        if run == 1:
            spent[:] = 0
        at = 0
        while at < size:
            stop = case.data.rfind(b"\n", at, min(size, at + BUFFER)) + 1
            data = np.frombuffer(case.data, np.uint8, stop - at, at)
            begin = time.process_time()
            lines, _, _, quotes, _ = scan_row_ends(data, 0, ord(","), ord('"'), 0, 0)
            scanned = time.process_time()
            fields = builder.index(data, at, lines, quotes > 0)
            indexed = time.process_time()
            rules = TextRules(ord('"') if quotes else NO_BYTE, 0, np.empty(0, np.uint8))
            builder.parse(data, fields, rules)
            spent += scanned - begin, indexed - scanned, time.process_time() - indexed
            at = stop
    share = spent / spent.sum()
    return float(share[0]), float(share[1]), float(share[2])


def against_spark(case: Case, runs: int) -> tuple[float, float]:
    """MB/s of Tidemill and of Spark's reader over one file, by the clock, in turn."""
    from pyspark.sql import SparkSession

    spark = (
        SparkSession.builder.master("local[1]")
        .appName("formats_csv")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    times: dict[str, list[float]] = {"tidemill": [], "spark": []}
    with workspace() as place:
        path = place / "data.csv"
        path.write_bytes(case.data)
        frame = spark.read.schema(case.schema.to_ddl()).csv(str(path)).select(*case.needed)
        ours = tidemill.formats.open("csv", case.schema)
        for run in range(runs + 2):
            for name, read in (
                ("tidemill", lambda: ours.read(path, case.needed)),
                ("spark", lambda: frame.write.format("noop").mode("overwrite").save()),
            ):
                begin = time.perf_counter()
                read()
                if run > 1:
                    times[name].append(time.perf_counter() - begin)
    speed = [len(case.data) / 1e6 / statistics.median(times[name]) for name in ("tidemill", "spark")]
    return speed[0], speed[1]


def main() -> None:
    """Print one line per case, then how the goals are reached."""
    options = argparse.ArgumentParser(prog="python -m benchmarks.formats_csv", description=__doc__)
    options.add_argument("--megabytes", type=float, default=32)
    options.add_argument("--runs", type=int, default=7)
    options.add_argument("--spark", action="store_true", help="also Spark's reader, over the cases with a goal")
    options.add_argument("--small", action="store_true", help="to see that it works")
    given = options.parse_args()
    heading("CSV to Arrow, one thread, MB/s by the processor's time")
    found = cases(int((2 if given.small else given.megabytes) * 1e6))
    sides = peers()
    rows: list[list[Any]] = []
    results: dict[str, dict[str, float]] = {}
    for case in found:
        speed = speeds(case, sides, 2 if given.small else given.runs)
        results[case.title] = speed
        ratios = [speed["tidemill"] / speed[name] for name in ("lines", "pyarrow", "polars", "duckdb")]
        rows.append([case.title, *(round(s) for s in speed.values()), *ratios, *shares(case)])
    table(
        ["case", *sides, "/ lines", "/ pyarrow", "/ polars", "/ duckdb", "row ends", "index", "values"],
        rows,
    )
    for case in found:
        if case.goal:
            speed = results[case.title]
            verdict(f"{case.title} / pyarrow", speed["tidemill"] / speed["pyarrow"], 3)
            verdict(f"{case.title} / polars", speed["tidemill"] / speed["polars"], 1.5)
            if given.spark:
                ours, theirs = against_spark(case, 2 if given.small else given.runs)
                print(f"{case.title}: {ours:.0f} MB/s by the clock, Spark {theirs:.0f}")
                verdict(f"{case.title} / Spark", ours / theirs, 10)
    wide = results[f"{WIDE:,} integers"]
    verdict(f"{WIDE:,} integers / pyarrow", wide["tidemill"] / wide["pyarrow"], 1)
    for few, all_ in (("16 numbers, 2 of them", "16 numbers"), ("lineitem, 2 of 16", "lineitem")):
        verdict(f"{few} / all", results[few]["tidemill"] / results[all_]["tidemill"], 3)


if __name__ == "__main__":
    main()
