"""The jobs: what each is called, the columns of its input and its query. Only the standard library: peers import it.

All numbers are integers, so that sums are exact and answers can be compared as they are.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
"""The earliest event time."""
WINDOW_SECONDS = 60
PLACES = 10
"""Customers of a region in the answer of ``top``."""


@dataclass(frozen=True)
class Job:
    """A job: ``tables`` has the columns of each input directory, ``query`` the SQL where an engine runs it as it is."""

    name: str
    title: str
    format: str
    tables: dict[str, str]
    query: str
    arriving: bool = field(default=False)
    """Whether files come one at a time while the side runs; else all are there when it starts."""


JOBS = {
    job.name: job
    for job in (
        Job(
            "groups",
            "rows of CSV by key",
            "csv",
            {"t": "k INT, v BIGINT, p BIGINT"},
            "SELECT k, COUNT(*) AS n, SUM(v * p) AS s FROM t GROUP BY k",
        ),
        Job(
            "top",
            "JSON lines joined, the first ten of each region",
            "json",
            {"orders": "number BIGINT, customer INT, amount BIGINT", "customers": "customer INT, region STRING"},
            "SELECT region, customer, total FROM (SELECT region, customer, total, ROW_NUMBER() OVER "
            "(PARTITION BY region ORDER BY total DESC, customer) AS place FROM (SELECT c.region, c.customer, "
            "SUM(o.amount) AS total FROM orders o JOIN customers c ON o.customer = c.customer "
            f"GROUP BY c.region, c.customer) sums) places WHERE place <= {PLACES}",
        ),
        Job(
            "windows",
            "minutes of each key over files of JSON lines that arrive one at a time",
            "json",
            {"t": "k INT, ts TIMESTAMP, v BIGINT"},
            "SELECT k, window.start AS start, COUNT(*) AS n, SUM(v) AS s FROM t "
            f"GROUP BY k, window(ts, '{WINDOW_SECONDS} seconds')",
            arriving=True,
        ),
    )
}
