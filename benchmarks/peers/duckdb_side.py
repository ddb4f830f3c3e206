"""DuckDB: the query once, over all files. Its answer is what the others are compared with."""

from __future__ import annotations

import os
import time
from pathlib import Path

import duckdb

from benchmarks.peers.jobs import WINDOW_SECONDS
from benchmarks.peers.side import Side, run

_POLL_SECONDS = 0.02
_WINDOWS = (
    f"SELECT k, time_bucket(INTERVAL {WINDOW_SECONDS} SECOND, ts) AS start, COUNT(*) AS n, SUM(v) AS s "
    "FROM t GROUP BY ALL"
)


def batch(side: Side) -> None:
    """Wait for all files, and read and evaluate in one query."""
    with duckdb.connect(config={"threads": os.cpu_count() or 1}) as connection:
        side.ready()
        while any(_missing(side, table) for table in side.job.tables):
            time.sleep(_POLL_SECONDS)
        for table, columns in side.job.tables.items():
            kinds = ", ".join(f"{name}: '{kind}'" for name, kind in (c.split() for c in columns.split(", ")))
            given = {"csv": "header = true", "json": "format = 'newline_delimited'"}[side.job.format]
            files = f"{side.directory(table)}/*.{side.job.format}"
            reader = f"read_{side.job.format}('{files}', {given}, columns = {{{kinds}}})"
            connection.execute(f"CREATE VIEW {table} AS SELECT * FROM {reader}")
        query = _WINDOWS if side.job.arriving else side.job.query
        side.answer(connection.execute(query).fetchall(), duckdb.__version__)


def _missing(side: Side, table: str) -> bool:
    return side.job.arriving and sum(1 for _ in Path(side.directory(table)).glob("f*")) < side.files


if __name__ == "__main__":
    run(dict.fromkeys(("groups", "top", "windows"), batch))
