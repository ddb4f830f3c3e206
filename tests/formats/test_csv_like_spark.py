"""Quotes and NULLs are read as by Spark's own CSV reader, with newlines in quotes and doubled quotes."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from csv_reading import columns, read, read_in_splits
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


def test_one_line_a_row(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    """``multiLine 'false'``, which is Spark's default: with quotes that lines leave open, and in every dialect."""
    rng = random.Random(f"{seed} lines")
    dialects = [
        {},
        {"sep": ";"},
        {"escape": "\\"},
        {"sep": "||"},
        {"lineSep": "|"},
        {"comment": "#"},
        {"header": "true"},
    ]
    compared = malformed = 0
    for given in dialects:
        options = {"escape": '"', "multiLine": "false", **given}
        separator, row_end = options.get("sep", ","), options.get("lineSep", "\n")
        folder = tmp_path / f"{compared}"
        folder.mkdir()
        found: dict[str, Any] = {}
        for i in range(12):
            lines = [separator.join(("a", "n", "b"))] if "header" in given else []
            for _ in range(30):
                first, last = (field(rng).replace("\n", "") for _ in range(2))
                if len(separator) > 1 and not last.startswith('"'):
                    last = last.replace('"', "")  # Spark doubles a quote at the end of such a text
                line = separator.join((first, rng.choice(("7", '"8"', "")), last))
                at_end = rng.random() < 0.1 and len(separator) == 1
                lines.append(line + '"' if at_end else '"' + line if rng.random() < 0.1 else line)
            data = row_end.join(line.replace("#", "") for line in lines) + rng.choice(("", row_end))
            (folder / f"{i:02}.csv").write_text(data, newline="")
            cuts = sorted(rng.randrange(len(data)) for _ in range(3))
            ours = {key: value for key, value in options.items() if key != "escape" or value != '"'}
            found[f"{i:02}.csv"] = read(data.encode(), SCHEMA, ours)
            assert read_in_splits(data.encode(), SCHEMA, ours, cuts) == found[f"{i:02}.csv"]
        frame = spark.read.options(**options).schema("a string, n int, b string").csv(str(folder))
        theirs: dict[str, list[Any]] = {name: [] for name in found}
        for row in frame.selectExpr("_metadata.file_name", "a", "n", "b").collect():
            theirs[row[0]].append(tuple(row)[1:])
        for name, table in found.items():
            wrong = {error.position for error in table.errors}
            assert len(table.rows) == len(theirs[name]), (given, name)
            for position, row, expected in zip(table.positions, table.rows, theirs[name], strict=True):
                if position in wrong:
                    malformed += 1
                else:
                    compared += 1
                    assert row == expected, (given, (folder / name).read_bytes()[position:][:99])
    assert compared > 1000 and malformed > 100
