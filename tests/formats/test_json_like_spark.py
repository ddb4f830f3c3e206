"""Rows are those of Spark's own JSON reader, malformed ones among them, wherever the format does not say otherwise."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
from csv_reading import columns
from json_reading import comparable, read
from pyspark.sql import SparkSession

from tidemill.schema import TIMESTAMP_NTZ

DDL = (
    "a bigint, b double, s struct<x:int,y:string>, l array<int>, ls array<struct<x:int,y:string>>, "
    "m map<string,int>, t string, d decimal(5,2), day date, ts timestamp_ntz, ok boolean, bin binary"
)
POINT = pa.struct([("x", pa.int32()), ("y", pa.string())])
SCHEMA = columns(
    a=pa.int64(), b=pa.float64(), s=POINT, l=pa.list_(pa.int32()), ls=pa.list_(POINT),
    m=pa.map_(pa.string(), pa.int32()), t=pa.string(), d=pa.decimal128(5, 2), day=pa.date32(), ts=TIMESTAMP_NTZ,
    ok=pa.bool_(), bin=pa.binary(),
)  # fmt: skip
SCALARS = [
    "1", "-7", "9007199254740993", "9223372036854775808", "1.5", "1e3", "0.125", "true", "false", "null", "NaN",
    "-Infinity", '"NaN"', '"Infinity"', '"1"', '"text"', '""', '"\\ud83d\\ude00 \\u00e9"', '"aGk="', '"2024-02-03"',
    '"2024-02-03 04:05:06.789"', '"12.345"', "999.995", "123.456",
]  # fmt: skip
TIMES = ['"2024-02-03"', "null", "5", "true", '"text"', '"2024-02-03T04:05:06.789"']
"""Spark reads more texts as dates than the format does: ``"5"`` as a day since 1970, times as their day."""
PARTICULAR = ("day", "ts", "bin")
BROKEN = ['{"a":1,"b":tru}', '{"a":01}', '{"a":1,}', '{"a":"\\q"}', "null", '{"t":"tab\there"}', '{"a":1', '{"l":[1}']


def value(rng: random.Random, depth: int = 0) -> str:
    kind = rng.random()
    if depth > 2 or kind < 0.6:
        return rng.choice(SCALARS)
    if kind < 0.8:
        return "[" + ", ".join(value(rng, depth + 1) for _ in range(rng.randrange(4))) + "]"
    names = rng.sample(["x", "y", "z"], rng.randrange(4))
    return "{" + ",".join(f'"{n}" : {value(rng, depth + 1)}' for n in names) + "}"


def typical(rng: random.Random, name: str) -> str:
    """A value that fits its column, most of the time."""
    point = '{"y":"p","x":' + rng.choice(["1", "null", '"bad"', "2.5"]) + "}"
    return {
        "s": point,
        "ls": f"[{point}, null, {{}}]",
        "l": rng.choice(["[1, null, 3]", "[]", '[1,"x"]']),
        "m": rng.choice(['{"k":1,"j":null}', "{}", '{"k":"x"}']),
        "a": rng.choice(["1", "-7", "9007199254740993", "null"]),
        "b": rng.choice(["1", "1.5", "1e3", "NaN", "-Infinity", '"NaN"', '"Infinity"']),
        "d": rng.choice(["12.345", '"12.345"', "7", "999.995", "1e1"]),
        "ok": rng.choice(["true", "false", "null"]),
        "day": rng.choice(TIMES[:5]),
        "ts": rng.choice(TIMES),
        # A text that is no base64 makes Spark lose its place in the record.
        "bin": rng.choice(['"aGk="', '""', "null", "5", "[1]"]),
    }.get(name) or value(rng)


def any_value(rng: random.Random, name: str) -> str:
    return value(rng) if rng.random() < 0.1 else typical(rng, name)


def record(rng: random.Random) -> str:
    if rng.random() < 0.1:
        return rng.choice(BROKEN)
    names = rng.sample([*SCHEMA.names, "A", "other"], rng.randrange(14))
    return "{" + ", ".join(f'"{n}":{typical(rng, n) if n in PARTICULAR else any_value(rng, n)}' for n in names) + "}"


def plain(found: Any) -> Any:
    """Rows of Spark's as Arrow gives them."""
    if isinstance(found, dict):
        return sorted(found.items())
    if isinstance(found, tuple) and hasattr(found, "asDict"):
        return {name: plain(held) for name, held in found.asDict().items()}
    if isinstance(found, list):
        return [plain(part) for part in found]
    return bytes(found) if isinstance(found, bytearray) else found


def test_random_files(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    lines = [record(rng) for _ in range(600)]
    path = tmp_path / "t.json"
    path.write_text("\n".join(lines) + "\n")
    expected = [tuple(plain(v) for v in row) for row in spark.read.schema(DDL).json(str(path)).collect()]
    table = read(path.read_bytes(), SCHEMA)
    place = SCHEMA.names.index("m")
    found = [(*row[:place], row[place] and sorted(row[place]), *row[place + 1 :]) for row in table.rows]
    assert len(found) == len(lines) == len(expected)
    for line, ours, theirs in zip(lines, found, expected, strict=True):
        assert comparable(ours) == comparable(theirs), line
    dropping = spark.read.schema(DDL).option("mode", "DROPMALFORMED").json(str(path)).collect()
    assert len(read(path.read_bytes(), SCHEMA, {"mode": "DROPMALFORMED"}).rows) == len(dropping)
    assert 60 < len({e.position for e in table.errors}) < 540


def test_an_array_over_lines(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    records = [record(rng) for _ in range(60)]
    path = tmp_path / "t.json"
    path.write_text("[\n" + ",\n ".join(r for r in records if r not in BROKEN).replace(", ", ",\n") + "\n]\n")
    reader = spark.read.schema("a bigint, t boolean").option("multiLine", "true")
    expected = [tuple(row) for row in reader.json(str(path)).collect()]
    assert read(path.read_bytes(), columns(a=pa.int64(), t=pa.bool_())).rows == tuple(expected)
    assert len(expected) > 40
