"""A view written into a Delta and an Iceberg table by sinks, and the same rows by the libraries alone.

The sides of a target run in processes of their own, in turn, and import libraries before they begin. First all rows of
a view: Tidemill from CREATE SINK until they are delivered, beside the library that writes the same rows, which it has
in memory, in one commit. Then changes, some epochs of equal size: Tidemill from when its files are there until all are
delivered, with parsing, state and checkpoints, beside the library that appends them one by one. No ratio is printed
unless both tables have equal sums.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv

from benchmarks.measuring import heading, run_side, table, verdict, workspace
from benchmarks.tidemill_side import open_mill

GOAL = 0.5
EPOCHS = 5
_NAMES = {"delta": "deltalake", "iceberg": "pyiceberg"}


def rows_of(number: int, rows: int) -> pa.Table:
    """The rows of a file or epoch."""
    chance = np.random.default_rng(number)
    k = chance.integers(0, 1 << 40, rows)
    return pa.table(
        {
            "k": k,
            "v": chance.random(rows),
            "name": pa.array(k % 1000).cast(pa.string()),
            "at": pa.array(k // 1000, pa.int64()).cast(pa.timestamp("us", "UTC")),
        }
    )


def tidemill(work: str, target: str, rows: int) -> dict[str, Any]:
    """Seconds until all rows of a view are delivered, and then until some epochs of changes are."""
    place = Path(work)
    files = place / "in"
    files.mkdir(parents=True)
    part = rows // EPOCHS
    _import(target)
    for number in range(EPOCHS):
        pa.csv.write_csv(rows_of(number, part), files / f"{number}.csv")
    columns = "k BIGINT, v DOUBLE, name STRING, at TIMESTAMP"
    with open_mill(place / "root", listing_seconds=0.0, checkpoint_seconds=0.0) as mill:
        options = f"path '{files}', header true, maxFilesPerTrigger 1"
        mill.sql(f"CREATE TABLE t ({columns}) USING csv OPTIONS ({options})")
        mill.sql("CREATE MATERIALIZED VIEW w AS SELECT * FROM t")
        list(mill.drain())
        mill.checkpoint()
        begin = time.perf_counter()
        mill.sql(f"CREATE SINK s FROM w INTO {target} OPTIONS ({_options(target, place)})")
        mill.wait_for_sinks()
        whole = time.perf_counter() - begin
        for number in range(EPOCHS, 2 * EPOCHS):
            pa.csv.write_csv(rows_of(number, part), files / f"{number}.csv")
        begin = time.perf_counter()
        list(mill.drain())
        mill.checkpoint()
        folded = time.perf_counter() - begin
        mill.wait_for_sinks()
        changes = time.perf_counter() - begin
        failed = [s for s in mill.sql("SHOW SINKS").collect() if "TM" in str(s)]
        assert not failed, failed
    return {"all": whole, "changes": changes, "folded": folded, "answer": _answer(target, place)}


def library(work: str, target: str, rows: int) -> dict[str, Any]:
    """Seconds of the library for the same tables, from memory."""
    place, part = Path(work), rows // EPOCHS
    place.mkdir(parents=True)
    _import(target)
    parts = [_change(rows_of(number, part), number) for number in range(2 * EPOCHS)]
    append = _appender(target, place, parts[0].schema)
    first = pa.concat_tables(parts[:EPOCHS])
    begin = time.perf_counter()
    append(first)
    whole = time.perf_counter() - begin
    begin = time.perf_counter()
    for rows_ in parts[EPOCHS:]:
        append(rows_)
    return {"all": whole, "changes": time.perf_counter() - begin, "answer": _answer(target, place)}


def _change(rows: pa.Table, epoch: int) -> pa.Table:
    ones = pa.array(np.ones(rows.num_rows, np.int64))
    return rows.append_column("__weight", ones).append_column("__epoch", pa.array(np.full(rows.num_rows, epoch)))


def _options(target: str, place: Path) -> str:
    if target == "delta":
        return f"path '{place}/lake'"
    return f"table 'n.t', 'catalog.uri' 'sqlite:///{place}/c.db', 'catalog.warehouse' 'file://{place}/lake'"


def _import(target: str) -> None:
    """Import what a library imports when it is first used, which takes pyiceberg 1.5 s."""
    if target == "delta":
        pass
    else:
        import pyiceberg.catalog.sql
        import pyiceberg.io.pyarrow  # noqa: F401


def _appender(target: str, place: Path, schema: pa.Schema) -> Callable[[pa.Table], Any]:
    if target == "delta":
        from deltalake import write_deltalake

        return lambda rows: write_deltalake(f"{place}/lake", rows, mode="append")
    catalogue = _catalogue(place)
    catalogue.create_namespace("n")
    made: Callable[[pa.Table], Any] = catalogue.create_table("n.t", schema).append
    return made


def _catalogue(place: Path) -> Any:
    from pyiceberg.catalog import load_catalog

    return load_catalog("default", type="sql", uri=f"sqlite:///{place}/c.db", warehouse=f"file://{place}/lake")


def _answer(target: str, place: Path) -> list[float]:
    """Sums over the table that was written, by its library."""
    if target == "delta":
        from deltalake import DeltaTable

        found = DeltaTable(f"{place}/lake").to_pyarrow_table()
    else:
        found = _catalogue(place).load_table("n.t").scan().to_arrow()
    k, v = (np.asarray(found.column(name)) for name in ("k", "v"))
    digits = np.asarray(found.column("name").cast(pa.int64()))
    times = np.asarray(found.column("at").cast(pa.int64()))
    return [found.num_rows, int(k.sum()), round(float(np.sort(v).sum()), 3), int(digits.sum()), int(times.sum())]


def main() -> None:
    """All sides, in turn."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--small", action="store_true")
    given = parser.parse_args()
    rows, rounds = (20_000, 1) if given.small else (given.rows, given.rounds)
    heading(f"{rows:,} rows of a view into a table, then {EPOCHS} epochs of {rows // EPOCHS:,}: medians of {rounds}")
    for target, name in _NAMES.items():
        found: dict[str, list[float]] = {}
        equal = True
        with workspace() as work:
            for number in range(rounds):
                ours = run_side(_HERE, "tidemill", work=str(work / f"t{number}"), target=target, rows=rows)
                alone = run_side(_HERE, "library", work=str(work / f"l{number}"), target=target, rows=rows)
                equal = equal and ours["answer"] == alone["answer"]
                figures = {
                    f"all rows: sink INTO {target}": ours["all"],
                    f"all rows: {name} alone": alone["all"],
                    "changes: epochs until they are durable": ours["folded"],
                    f"changes: epochs and sink INTO {target}": ours["changes"],
                    f"changes: {name} alone": alone["changes"],
                }
                for what, seconds in figures.items():
                    found.setdefault(what, []).append(seconds)
        medians = {what: statistics.median(seconds) for what, seconds in found.items()}
        table(["side", "seconds", "rows/s"], [[what, s, round(rows / s)] for what, s in medians.items()])
        if not equal:
            print("the tables differ, so there is no ratio")
            continue
        figures = list(medians.values())
        verdict(f"all rows, as fast as {name} alone", figures[1] / figures[0], GOAL)
        verdict(f"changes, as fast as {name} alone", figures[4] / figures[3], GOAL)


_HERE = "benchmarks.lake_sinks"

if __name__ == "__main__":
    main()
