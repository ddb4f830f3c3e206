"""JSON to Arrow on one core: MB/s of Tidemill, and of pyarrow.json, polars and duckdb with one thread each.

Run ``python -m benchmarks.formats_json [megabytes]``. Every figure is the median of five runs, the sides in turn, over
data in memory (for duckdb a file in /dev/shm), in processor time of the process, so that what else runs on the machine
counts little. The last columns are Tidemill's: the share of time in phase 1 (tokens, and where values are) and in phase
2 (parsing them).
"""

from __future__ import annotations

import os

os.environ["POLARS_MAX_THREADS"] = "1"

import io
import json
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.json as pa_json

from tidemill.formats.json import rows as json_rows
from tidemill.formats.registry import lookup
from tidemill.schema import TIMESTAMP_NTZ, Field, Schema, type_to_ddl

RUNS = 5
BUFFER = 1 << 20


@dataclass(frozen=True)
class Case:
    """A file and the columns to read."""

    title: str
    data: bytes
    path: str
    schema: Schema
    needed: tuple[str, ...]


def make_lines(record: Callable[[random.Random], dict[str, Any]], size: int) -> bytes:
    """Lines of records until there are ``size`` bytes; the records repeat after 20,000 lines."""
    random_ = random.Random(7)
    block = "".join(
        json.dumps(record(random_), separators=(",", ":"), ensure_ascii=False) + "\n" for _ in range(20_000)
    ).encode()
    return block * max(1, size // len(block))


def cases(size: int, directory: Path) -> list[Case]:
    """The files measured, each of about ``size`` bytes."""

    def flat(r: random.Random) -> dict[str, Any]:
        return {
            "id": r.randrange(10**9),
            "name": f"name {r.randrange(10**6)}",
            "price": round(r.random() * 100, 2),
            "kind": r.choice(["apple", "banana", "cherry", "dragon fruit"]),
            "count": r.randrange(1000),
            "score": r.random(),
            "at": f"2024-01-{r.randrange(1, 29):02}T{r.randrange(24):02}:{r.randrange(60):02}:{r.randrange(60):02}",
            "note": "some text of a usual length " * r.randrange(3),
        }

    def nested(r: random.Random) -> dict[str, Any]:
        return {
            "id": r.randrange(10**9),
            "user": {"name": f"user {r.randrange(10**5)}", "address": {"city": "Lyon", "zip": r.randrange(10**5)}},
            "tags": [r.choice(["red", "green", "blue"]) for _ in range(r.randrange(5))],
            "items": [
                {"sku": f"s{r.randrange(10**4)}", "price": round(r.random() * 50, 2), "n": r.randrange(9)}
                for _ in range(r.randrange(4))
            ],
            "ok": r.random() < 0.5,
        }

    flat_schema = Schema(
        (
            Field("id", pa.int64()),
            Field("name", pa.string()),
            Field("price", pa.float64()),
            Field("kind", pa.string()),
            Field("count", pa.int32()),
            Field("score", pa.float64()),
            Field("at", TIMESTAMP_NTZ),
            Field("note", pa.string()),
        )
    )
    address = pa.struct([("city", pa.string()), ("zip", pa.int64())])
    item = pa.struct([("sku", pa.string()), ("price", pa.float64()), ("n", pa.int64())])
    nested_schema = Schema(
        (
            Field("id", pa.int64()),
            Field("user", pa.struct([("name", pa.string()), ("address", address)])),
            Field("tags", pa.list_(pa.string())),
            Field("items", pa.list_(item)),
            Field("ok", pa.bool_()),
        )
    )
    found = []
    for name, record, schema in (("flat", flat, flat_schema), ("nested", nested, nested_schema)):
        data = make_lines(record, size)
        path = directory / f"{name}.json"
        path.write_bytes(data)
        found.append(Case(f"{name}, all", data, str(path), schema, schema.names))
        found.append(Case(f"{name}, 2 columns", data, str(path), schema, (schema.names[0], schema.names[3])))
    return found


def read_tidemill(case: Case) -> int:
    """Rows read by Tidemill, fed 1 MiB at a time."""
    size = len(case.data)
    reader = lookup("json").reader(case.schema, {"multiLine": "false"}, case.needed)
    split = reader.split(start=0, end=size, file_size=size, in_quotes=False, header=None)
    view = memoryview(case.data)
    rows = 0
    for at in range(0, size, BUFFER):
        rows += split.feed(view[at : at + BUFFER], at + BUFFER >= size).count
    return rows


def read_pyarrow(case: Case) -> int:
    """Rows read by pyarrow.json."""
    schema = pa.schema([(f.name, f.type) for f in case.schema if f.name in case.needed])
    table = pa_json.read_json(
        pa.BufferReader(case.data),
        read_options=pa_json.ReadOptions(use_threads=False, block_size=BUFFER),
        parse_options=pa_json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore"),
    )
    return int(table.num_rows)


def polars_type(type_: pa.DataType) -> Any:
    """The type of polars."""
    if pa.types.is_struct(type_):
        return pl.Struct({f.name: polars_type(f.type) for f in type_})
    if pa.types.is_list(type_):
        return pl.List(polars_type(type_.value_type))
    return {
        pa.int32(): pl.Int32,
        pa.int64(): pl.Int64,
        pa.float64(): pl.Float64,
        pa.string(): pl.String,
        pa.bool_(): pl.Boolean,
        TIMESTAMP_NTZ: pl.Datetime("us"),
    }[type_]


def read_polars(case: Case) -> int:
    """Rows read by polars; it is given the schema, so that it does not infer one."""
    schema = {f.name: polars_type(f.type) for f in case.schema}
    frame = pl.scan_ndjson(io.BytesIO(case.data), schema=schema).select(case.needed).collect()
    return frame.height


def duckdb_type(type_: pa.DataType) -> str:
    """The type of duckdb."""
    if pa.types.is_struct(type_):
        return "STRUCT(" + ", ".join(f'"{f.name}" {duckdb_type(f.type)}' for f in type_) + ")"
    if pa.types.is_list(type_):
        return duckdb_type(type_.value_type) + "[]"
    return "TIMESTAMP" if type_ == TIMESTAMP_NTZ else type_to_ddl(type_)


def read_duckdb(case: Case) -> int:
    """Rows read by duckdb into an Arrow table."""
    types = ", ".join(f"'{f.name}': '{duckdb_type(f.type)}'" for f in case.schema)
    names = ", ".join(f'"{name}"' for name in case.needed)
    source = f"read_json('{case.path}', columns = {{{types}}}, format = 'newline_delimited')"
    with duckdb.connect(config={"threads": 1}) as session:
        return int(session.sql(f"SELECT {names} FROM {source}").to_arrow_table().num_rows)


def shares(case: Case) -> tuple[float, float]:
    """Seconds in phase 1 and in all of one run."""
    spent = 0.0
    plain = json_rows.index_values

    def timed(*arguments: Any) -> Any:
        nonlocal spent
        begin = time.process_time()
        try:
            return plain(*arguments)
        finally:
            spent += time.process_time() - begin

    json_rows.index_values = timed  # type: ignore[attr-defined]
    try:
        begin = time.process_time()
        read_tidemill(case)
        return spent, time.process_time() - begin
    finally:
        json_rows.index_values = plain  # type: ignore[attr-defined]


def main() -> None:
    """Print one line per case."""
    given = sys.argv[1] if len(sys.argv) > 1 else "32"
    size = int((2 if given == "--small" else float(given)) * 1e6)
    sides = {"tidemill": read_tidemill, "pyarrow": read_pyarrow, "polars": read_polars, "duckdb": read_duckdb}
    memory = Path("/dev/shm")
    print(f"{'case':18}" + "".join(f"{name:>10}" for name in sides) + "   MB/s; ratio to each; share of phases 1, 2")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as directory:
        for case in cases(size, Path(directory)):
            expected = read_tidemill(case)
            times: dict[str, list[float]] = {name: [] for name in sides}
            for _ in range(RUNS):
                for name, read in sides.items():
                    begin = time.process_time()
                    rows = read(case)
                    times[name].append(time.process_time() - begin)
                    if rows != expected:
                        raise SystemExit(f"{name} read {rows} rows of {expected}")
            speeds = {name: len(case.data) / 1e6 / statistics.median(found) for name, found in times.items()}
            ratios = " ".join(f"{speeds['tidemill'] / speeds[name]:.2f}" for name in list(sides)[1:])
            first, whole = shares(case)
            print(
                f"{case.title:18}"
                + "".join(f"{speed:10.0f}" for speed in speeds.values())
                + f"   {ratios}   {first / whole:.0%} {1 - first / whole:.0%}"
            )


if __name__ == "__main__":
    main()
