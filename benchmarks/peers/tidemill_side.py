"""Tidemill: views over tables of files. All files that are there are one epoch."""

from __future__ import annotations

import time

import tidemill as tm
from benchmarks.peers.side import Side, run
from benchmarks.tidemill_side import open_mill

_POLL_SECONDS = 0.02


def views(side: Side) -> None:
    """Epochs until all rows have been read; without a watermark, as no query needs one."""
    with open_mill(side.work / "root", listing_seconds=0.0) as mill:
        if not side.job.arriving:
            side.ready()
        for table, columns in side.job.tables.items():
            header = ", header true" if side.job.format == "csv" else ""
            options = f"path '{side.directory(table)}'{header}"
            mill.sql(f"CREATE TABLE {table} ({columns}) USING {side.job.format} OPTIONS ({options})")
        mill.sql(f"CREATE MATERIALIZED VIEW answer AS {side.job.query}")
        if side.job.arriving:
            side.ready()
        left = side.rows
        while left > 0:
            report = mill.advance()
            if report is None:
                time.sleep(_POLL_SECONDS)
                continue
            left -= report.rows_in
        side.answer((row.values() for row in mill.read("answer").to_pylist()), tm.__version__)


if __name__ == "__main__":
    run(dict.fromkeys(("groups", "top", "windows"), views))
