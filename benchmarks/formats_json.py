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

from tidemill.ddl import parse_columns
from tidemill.formats.json import rows as json_rows
from tidemill.formats.reading.read_modes import DEFAULT_BUFFER
from tidemill.formats.registry import lookup
from tidemill.schema import TIMESTAMP_NTZ, Schema, type_to_ddl

RUNS = 5
BUFFER = DEFAULT_BUFFER


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


COMMENTS = (
    "carefully final deposits detect slyly agai", "furiously regular ideas. ironic", "nag blithely; quickly even",
    "ual requests are \"special\" accounts", "ts haggle across the pending theodolites", "pinto beans",
)  # fmt: skip


def lineitem(r: random.Random) -> dict[str, Any]:
    """A record as TPC-H's largest table has them: 16 columns, much of it text."""

    def day() -> str:
        return f"199{r.randrange(2, 9)}-{r.randrange(1, 13):02}-{r.randrange(1, 29):02}"

    return {
        "l_orderkey": r.randrange(6 * 10**6),
        "l_partkey": r.randrange(2 * 10**5),
        "l_suppkey": r.randrange(10**4),
        "l_linenumber": r.randrange(1, 8),
        "l_quantity": r.randrange(1, 51),
        "l_extendedprice": round(r.random() * 10**5, 2),
        "l_discount": r.randrange(11) / 100,
        "l_tax": r.randrange(9) / 100,
        "l_returnflag": r.choice("ANR"),
        "l_linestatus": r.choice("OF"),
        "l_shipdate": day(),
        "l_commitdate": day(),
        "l_receiptdate": day(),
        "l_shipinstruct": r.choice(["DELIVER IN PERSON", "COLLECT COD", "NONE", "TAKE BACK RETURN"]),
        "l_shipmode": r.choice(["REG AIR", "AIR", "RAIL", "SHIP", "TRUCK", "MAIL", "FOB"]),
        "l_comment": r.choice(COMMENTS),
    }


def numeric(r: random.Random) -> dict[str, Any]:
    """Integers and floats only."""
    return {
        "id": r.randrange(10**9),
        "sensor": r.randrange(5000),
        "count": r.randrange(1000),
        "price": round(r.random() * 1000, 2),
        "low": round(r.random() * 1000, 2),
        "high": round(r.random() * 1000, 2),
        "score": r.random(),
        "time": 1_700_000_000_000 + r.randrange(10**10),
    }


def flat(r: random.Random) -> dict[str, Any]:
    """Some of everything, in one level."""
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
    """Objects in objects, arrays of texts and of objects."""
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


NESTED = (
    "id BIGINT, user STRUCT<name: STRING, address: STRUCT<city: STRING, zip: BIGINT>>, tags ARRAY<STRING>, "
    "items ARRAY<STRUCT<sku: STRING, price: DOUBLE, n: BIGINT>>, ok BOOLEAN"
)
FLAT = "id BIGINT, name STRING, price DOUBLE, kind STRING, count INT, score DOUBLE, at TIMESTAMP_NTZ, note STRING"
NUMERIC = "id BIGINT, sensor INT, count INT, price DOUBLE, low DOUBLE, high DOUBLE, score DOUBLE, time BIGINT"
LINEITEM = (
    "l_orderkey BIGINT, l_partkey BIGINT, l_suppkey BIGINT, l_linenumber INT, l_quantity DOUBLE, "
    "l_extendedprice DOUBLE, l_discount DOUBLE, l_tax DOUBLE, l_returnflag STRING, l_linestatus STRING, "
    "l_shipdate DATE, l_commitdate DATE, l_receiptdate DATE, l_shipinstruct STRING, l_shipmode STRING, "
    "l_comment STRING"
)


def cases(size: int, directory: Path) -> list[Case]:
    """The files measured, each of about ``size`` bytes."""
    found = []
    for name, record, ddl, pair in (
        ("numbers", numeric, NUMERIC, None),
        ("lineitem", lineitem, LINEITEM, ("l_orderkey", "l_shipmode")),
        ("flat", flat, FLAT, ("id", "kind")),
        ("nested", nested, NESTED, ("id", "items")),
    ):
        schema = parse_columns(ddl)
        data = make_lines(record, size)
        path = directory / f"{name}.json"
        path.write_bytes(data)
        found.append(Case(f"{name}, all", data, str(path), schema, schema.names))
        if pair:
            found.append(Case(f"{name}, 2 columns", data, str(path), schema, pair))
    return found


def read_tidemill(case: Case) -> pa.Table:
    """By Tidemill, fed 2 MiB at a time."""
    size = len(case.data)
    reader = lookup("json").reader(case.schema, {"multiLine": "false"}, case.needed)
    split = reader.split(start=0, end=size, file_size=size, in_quotes=False, header=None)
    view = memoryview(case.data)
    batches = [split.feed(view[at : at + BUFFER], at + BUFFER >= size).batch for at in range(0, size, BUFFER)]
    return pa.Table.from_batches([b for b in batches if b.num_rows])


def read_pyarrow(case: Case) -> pa.Table:
    """By pyarrow.json, in blocks of 2 MiB. It reads no dates from texts: these are timestamps of whole seconds."""
    whole = pa.timestamp("s")
    types = {f.name: whole if f.type == pa.date32() else f.type for f in case.schema if f.name in case.needed}
    return pa_json.read_json(
        pa.BufferReader(case.data),
        read_options=pa_json.ReadOptions(use_threads=False, block_size=BUFFER),
        parse_options=pa_json.ParseOptions(
            explicit_schema=pa.schema(list(types.items())), unexpected_field_behavior="ignore"
        ),
    )


def polars_type(type_: pa.DataType) -> Any:
    """The type to read with."""
    if pa.types.is_struct(type_):
        return pl.Struct({f.name: polars_type(f.type) for f in type_})
    if pa.types.is_list(type_):
        return pl.List(polars_type(type_.value_type))
    return {
        pa.int32(): pl.Int32,
        pa.int64(): pl.Int64,
        pa.float64(): pl.Float64,
        pa.bool_(): pl.Boolean,
    }.get(type_, pl.String)


def read_polars(case: Case) -> pl.DataFrame:
    """By polars. It is given the schema, so that it does not infer one, and the layout of times, as that costs less
    than to read them as times at once: 320 MB/s instead of 45."""
    types = {f.name: f.type for f in case.schema}
    frame = pl.scan_ndjson(io.BytesIO(case.data), schema={n: polars_type(t) for n, t in types.items()})
    times = {
        pa.date32(): lambda name: pl.col(name).str.to_date("%Y-%m-%d"),
        TIMESTAMP_NTZ: lambda name: pl.col(name).str.to_datetime("%Y-%m-%dT%H:%M:%S", time_unit="us"),
    }
    columns = [times[types[n]](n) if types[n] in times else pl.col(n) for n in case.needed]
    return frame.select(columns).collect()


def duckdb_type(type_: pa.DataType) -> str:
    """The type of duckdb."""
    if pa.types.is_struct(type_):
        return "STRUCT(" + ", ".join(f'"{f.name}" {duckdb_type(f.type)}' for f in type_) + ")"
    if pa.types.is_list(type_):
        return duckdb_type(type_.value_type) + "[]"
    return "TIMESTAMP" if type_ == TIMESTAMP_NTZ else type_to_ddl(type_)


def read_duckdb(case: Case) -> pa.Table:
    """By duckdb."""
    types = ", ".join(f"'{f.name}': '{duckdb_type(f.type)}'" for f in case.schema)
    names = ", ".join(f'"{name}"' for name in case.needed)
    source = f"read_json('{case.path}', columns = {{{types}}}, format = 'newline_delimited')"
    with duckdb.connect(config={"threads": 1}) as session:
        return session.sql(f"SELECT {names} FROM {source}").to_arrow_table()


SIDES: dict[str, Callable[[Case], Any]] = {
    "tidemill": read_tidemill,
    "pyarrow": read_pyarrow,
    "polars": read_polars,
    "duckdb": read_duckdb,
}


def check(case: Case) -> None:
    """Stop unless all sides read the same number of rows, and the same values in those at the beginning and end."""
    expected = read_tidemill(case)
    for name, read in SIDES.items():
        found = read(case)
        table = found.to_arrow() if isinstance(found, pl.DataFrame) else found
        if table.num_rows != expected.num_rows:
            raise SystemExit(f"{name} read {table.num_rows} rows of {expected.num_rows}")
        table = table.select(expected.column_names)
        for at in (0, expected.num_rows - 500):
            part = table.slice(at, 500)
            if part.schema.types != expected.schema.types:
                part = part.cast(expected.schema)
            if part.to_pylist() != expected.slice(at, 500).to_pylist():
                raise SystemExit(f"{name} read other values in {case.title}")


def shares(case: Case) -> tuple[float, float]:
    """Seconds in phase 1 and in all of one run."""
    spent = 0.0
    plain = json_rows.index_values  # type: ignore[attr-defined]

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
    memory = Path("/dev/shm")
    print(f"{'case':20}" + "".join(f"{name:>10}" for name in SIDES) + "   MB/s; ratio to each; share of phases 1, 2")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as directory:
        for case in cases(size, Path(directory)):
            check(case)
            times: dict[str, list[float]] = {name: [] for name in SIDES}
            for _ in range(RUNS):
                for name, read in SIDES.items():
                    begin = time.process_time()
                    read(case)
                    times[name].append(time.process_time() - begin)
            speeds = {name: len(case.data) / 1e6 / statistics.median(found) for name, found in times.items()}
            ratios = " ".join(f"{speeds['tidemill'] / speeds[name]:.2f}" for name in list(SIDES)[1:])
            first, whole = map(statistics.median, zip(*(shares(case) for _ in range(3)), strict=True))
            print(
                f"{case.title:20}"
                + "".join(f"{speed:10.0f}" for speed in speeds.values())
                + f"   {ratios}   {first / whole:.0%} {1 - first / whole:.0%}",
                flush=True,
            )


if __name__ == "__main__":
    main()
