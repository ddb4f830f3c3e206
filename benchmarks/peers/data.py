"""The input of the jobs, as files; the same for the same sizes."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv

from benchmarks.peers.jobs import EPOCH, JOBS, WINDOW_SECONDS

KEYS, CUSTOMERS, WINDOW_KEYS = 1000, 20_000, 100
REGIONS = ("north", "east", "south", "west")
FILES = 10
MINUTES = 3
"""Minutes of event time that a file of ``windows`` begins after the one before; its rows are of one minute more."""


def write(directory: Path, rows: int) -> dict[str, int]:
    """Write the input of all jobs, a directory for each and in it one for each table.

    Returns
    -------
    dict
        Rows of each job over all its tables.
    """
    random = np.random.default_rng(1)
    for job in JOBS.values():
        for table in job.tables:
            (directory / job.name / table).mkdir(parents=True)
    each = max(1, rows // FILES)
    for number in range(FILES):
        _groups(directory / "groups" / "t" / f"f{number:03d}.csv", each, random)
        _orders(directory / "top" / "orders" / f"f{number:03d}.json", number * each, each, random)
        _events(directory / "windows" / "t" / f"f{number:03d}.json", number, each, random)
    _customers(directory / "top" / "customers" / "f000.json", random)
    return {"groups": FILES * each, "top": FILES * each + CUSTOMERS, "windows": FILES * each}


def _groups(path: Path, rows: int, random: np.random.Generator) -> None:
    columns = {
        "k": random.integers(0, KEYS, rows),
        "v": random.integers(1, 1000, rows),
        "p": random.integers(1, 10**6, rows),
    }
    pa_csv.write_csv(pa.table(columns), path, pa_csv.WriteOptions(quoting_header="none"))  # type: ignore[call-arg]


def _orders(path: Path, first: int, rows: int, random: np.random.Generator) -> None:
    customers, amounts = random.integers(0, CUSTOMERS, rows).tolist(), random.integers(1, 10**4, rows).tolist()
    _lines(
        path,
        [
            f'{{"number":{first + n},"customer":{customer},"amount":{amount}}}'
            for n, (customer, amount) in enumerate(zip(customers, amounts))
        ],
    )


def _customers(path: Path, random: np.random.Generator) -> None:
    regions = random.integers(0, len(REGIONS), CUSTOMERS).tolist()
    _lines(path, [json.dumps({"customer": n, "region": REGIONS[region]}) for n, region in enumerate(regions)])


def _events(path: Path, number: int, rows: int, random: np.random.Generator) -> None:
    begin = number * MINUTES * WINDOW_SECONDS
    seconds = begin + random.integers(0, (MINUTES + 1) * WINDOW_SECONDS, rows)
    times = np.datetime_as_string(np.datetime64(EPOCH.replace(tzinfo=None), "s") + seconds, unit="s")
    keys, values = random.integers(0, WINDOW_KEYS, rows).tolist(), random.integers(1, 10**6, rows).tolist()
    lines = [
        f'{{"k":{key},"ts":"{time.replace("T", " ")}","v":{value}}}'
        for key, time, value in zip(keys, times.tolist(), values)
    ]
    _lines(path, lines)


def _lines(path: Path, lines: list[str]) -> None:
    path.write_text("\n".join([*lines, ""]))
