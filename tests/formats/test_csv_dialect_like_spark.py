"""Escapes, separators of several bytes and NULL markers are read as by Spark's own CSV reader."""

from __future__ import annotations

import random
from pathlib import Path

import pyarrow as pa
import pytest
from csv_reading import columns, read
from pyspark.sql import SparkSession

SCHEMA = columns(a=pa.string(), n=pa.int32(), b=pa.string())


def field(rng: random.Random, separator: str, escape: str) -> str:
    """Text with quotes and escapes that do not begin it, or a quoted text; nothing behind the closing quote."""
    kind = rng.randrange(5)
    if kind == 0:
        return rng.choice(("", '""', "NA", '"NA"'))
    letters = [*"a\" b|'", escape]
    if kind < 3:
        text = rng.choice("ab ") + "".join(rng.choices(letters, k=rng.randrange(6)))
        return text.replace(separator, "").rstrip("|:")
    letters += [separator, "\n", escape + '"', escape * 2, escape + "n"]
    text = "".join(rng.choices([x for x in letters if x not in ('"', escape)], k=rng.randrange(7)))
    return f'"{text}"'


@pytest.mark.parametrize(
    "options",
    [
        {"escape": "\\"},
        {"escape": "\\", "sep": "||"},
        {"escape": "'", "sep": "::", "nullValue": "NA"},
        {"escape": "\\", "sep": "|:|", "comment": "#"},
        {"escape": "\\", "lineSep": "\r"},
        {"escape": "\\", "sep": "\x01"},
    ],
    ids=str,
)
def test_random_files(spark: SparkSession, tmp_path: Path, seed: int, options: dict[str, str]) -> None:
    rng = random.Random(f"{seed} {options}")
    path = tmp_path / "t.csv"
    separator = options.get("sep", ",")
    end = options.get("lineSep", "\n")
    quoted = 0
    for _ in range(6):
        lines = []
        for _ in range(40):
            fields = [field(rng, separator, options["escape"]) for _ in range(2)]
            fields.insert(1, rng.choice(("7", '"8"', "")))
            lines.append(separator.join(fields) + end)
        path.write_text("".join(lines), newline="")
        reader = spark.read.options(multiLine="true", **options).schema("a string, n int, b string")
        expected = [tuple(row) for row in reader.csv(str(path)).collect()]
        found = read(path.read_bytes(), SCHEMA, options)
        assert list(found.rows) == expected, "".join(lines)
        assert found.errors == ()
        quoted += sum('"' in (row[0] or "") for row in expected)
    assert quoted > 20
