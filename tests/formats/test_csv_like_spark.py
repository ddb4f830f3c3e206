"""Quotes and NULLs are read as by Spark's own CSV reader, with newlines in quotes and doubled quotes."""

from __future__ import annotations

import random
from pathlib import Path

import pyarrow as pa
import pytest
from csv_reading import columns, read
from pyspark.sql import SparkSession

SCHEMA = columns(a=pa.string(), n=pa.int32(), b=pa.string())


def field(rng: random.Random) -> str:
    """Text with quotes that do not begin it, or a quoted text; never with anything behind the closing quote."""
    kind = rng.randrange(5)
    if kind == 0:
        return rng.choice(("", '""', "NA", '"NA"'))
    text = "".join(rng.choice('a"" b') for _ in range(rng.randrange(6)))
    if kind < 3:
        return rng.choice("ab ") + text
    return '"' + (text + rng.choice(("", ",", "\n", ",x\n"))).replace('"', '""') + '"'


@pytest.mark.parametrize("options", [{}, {"nullValue": "NA"}], ids=str)
def test_random_files(spark: SparkSession, tmp_path: Path, seed: int, options: dict[str, str]) -> None:
    rng = random.Random(f"{seed} {options}")
    path = tmp_path / "t.csv"
    with_quotes = 0
    for _ in range(12):
        number = rng.choice(("7", '"8"', "", '""' if not options else "NA"))
        lines = [f"{field(rng)},{number},{field(rng)}\n" for _ in range(30)]
        path.write_text("".join(lines), newline="")
        reader = spark.read.options(multiLine="true", escape='"', **options).schema("a string, n int, b string")
        expected = [tuple(row) for row in reader.csv(str(path)).collect()]
        found = read(path.read_bytes(), SCHEMA, options)
        assert list(found.rows) == expected, "".join(lines)
        assert found.errors == ()
        with_quotes += sum('"' in (row[0] or "") for row in expected)
    assert with_quotes > 20
