"""The input of the benchmarks: CSV files of five columns, k BIGINT, a INT, b DOUBLE, c BIGINT, e STRING."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv

DDL = "k BIGINT, a INT, b DOUBLE, c BIGINT, e STRING"


def write_numbers(path: Path, keys: np.ndarray, random: np.random.Generator) -> None:
    """Write a file with the given keys and a header. It appears whole, under its name, at once."""
    rows = len(keys)
    columns = {
        "k": keys,
        "a": random.integers(0, 1000, rows),
        "b": random.uniform(0, 100, rows).round(2),
        "c": random.integers(0, 10**6, rows),
        "e": pa.array(random.integers(0, 50, rows)).cast(pa.string()),
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    hidden = path.with_name(f".{path.name}")
    pa_csv.write_csv(pa.table(columns), hidden)
    hidden.replace(path)


def write_files(directory: Path, files: int, rows: int, groups: int, seed: int = 1) -> None:
    """Write ``files`` files of ``rows`` rows with uniform keys ``0 <= k < groups``."""
    random = np.random.default_rng(seed)
    for number in range(files):
        write_numbers(directory / f"f{number:05d}.csv", random.integers(0, groups, rows), random)
