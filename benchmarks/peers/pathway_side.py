"""Pathway: tables from files, static where all are there at the start; two threads, in an environment of its own."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

os.environ.setdefault("PATHWAY_THREADS", str(os.cpu_count() or 1))

import pathway as pw

from benchmarks.peers.jobs import PLACES, WINDOW_SECONDS
from benchmarks.peers.side import Side, run

_KINDS = {"INT": int, "BIGINT": int, "STRING": str, "TIMESTAMP": str}


def _table(side: Side, name: str) -> Any:
    columns = (column.split() for column in side.job.tables[name].split(", "))
    schema = pw.schema_from_types(**{column: _KINDS[kind] for column, kind in columns})
    mode = "streaming" if side.job.arriving else "static"
    if side.job.format == "csv":
        return pw.io.csv.read(side.directory(name), schema=schema, mode=mode)
    return pw.io.jsonlines.read(side.directory(name), schema=schema, mode=mode, autocommit_duration_ms=100)


def groups(side: Side) -> None:
    """Group and reduce."""
    t = _table(side, "t")
    found = t.groupby(t.k).reduce(t.k, n=pw.reducers.count(), s=pw.reducers.sum(t.v * t.p))
    _run(side, found, lambda row: [(row["k"], row["n"], row["s"])])


def top(side: Side) -> None:
    """Sums of the join; each region's in order, of which the first are taken."""
    orders, customers = _table(side, "orders"), _table(side, "customers")
    joined = orders.join(customers, orders.customer == customers.customer)
    rows = joined.select(pw.right.region, pw.right.customer, pw.left.amount)
    sums = rows.groupby(pw.this.region, pw.this.customer).reduce(
        pw.this.region, pw.this.customer, total=pw.reducers.sum(pw.this.amount)
    )
    ordered = sums.groupby(pw.this.region).reduce(
        pw.this.region, all=pw.reducers.sorted_tuple(pw.make_tuple(-pw.this.total, pw.this.customer))
    )
    first = ordered.select(pw.this.region, places=pw.apply(lambda found: found[:PLACES], pw.this.all))
    _run(side, first, lambda row: [(row["region"], customer, -total) for total, customer in row["places"]])


def windows(side: Side) -> None:
    """Windows that nothing closes: each change of one is told."""
    t = _table(side, "t")
    timed = t.with_columns(ts=t.ts.dt.strptime("%Y-%m-%d %H:%M:%S"))
    length = pw.temporal.tumbling(duration=timedelta(seconds=WINDOW_SECONDS), origin=datetime(2026, 1, 1))
    found = timed.windowby(timed.ts, window=length, instance=timed.k).reduce(
        k=pw.this._pw_instance, start=pw.this._pw_window_start, n=pw.reducers.count(), s=pw.reducers.sum(pw.this.v)
    )
    _run(side, found, lambda row: [(row["k"], row["start"], row["n"], row["s"])])


def _run(side: Side, found: Any, rows: Callable[[dict[str, Any]], list[tuple[Any, ...]]]) -> None:
    """Run until the input ends, or until the windows have all rows.

    ``rows`` gives the rows of the answer that are in a row of the table.
    """
    kept: dict[Any, dict[str, Any]] = {}

    def change(key: Any, row: dict[str, Any], time: int, is_addition: bool) -> None:
        if is_addition:
            kept[key] = row
        elif kept.get(key) == row:
            del kept[key]

    def tell() -> None:
        side.answer((one for row in kept.values() for one in rows(row)), pw.__version__)

    def end_of_time(time: int) -> None:
        if side.job.arriving and sum(row["n"] for row in kept.values()) == side.rows:
            tell()
            os._exit(0)  # a stream of files has no end, nor a way to be ended from within

    side.ready()
    pw.io.subscribe(found, on_change=change, on_time_end=end_of_time)
    pw.run(monitoring_level=pw.MonitoringLevel.NONE)
    tell()


if __name__ == "__main__":
    run({"groups": groups, "top": top, "windows": windows})
