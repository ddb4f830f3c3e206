"""Flink: SQL through PyFlink, in streaming mode with parallelism 2 and small batches; an environment of its own.

All queries are changelogs, which are applied here. ``windows`` is a GROUP BY of the minute, updated as files come. That
is not ``TUMBLE``, whose windows end by a watermark: Flink reads the newest of waiting files first, and an answer with
all rows needs a watermark that lags by more than all files, and a last row that is read after everything else.
"""

from __future__ import annotations

import os
from importlib.metadata import version
from typing import Any

os.environ["_python_worker_execution_mode"] = "process"  # noqa: SIM112 - else PyFlink listens on all addresses

from pyflink.common import Configuration, RowKind
from pyflink.table import EnvironmentSettings, TableEnvironment

from benchmarks.peers.side import Side, run

_SETTINGS = {
    "parallelism.default": str(os.cpu_count() or 1),
    "table.local-time-zone": "UTC",
    "table.exec.mini-batch.enabled": "true",
    "table.exec.mini-batch.allow-latency": "100 ms",
    "table.exec.mini-batch.size": "50000",
    "table.optimizer.agg-phase-strategy": "TWO_PHASE",
    "rest.address": "127.0.0.1",
    "rest.bind-address": "127.0.0.1",
    "rest.bind-port": "0",
    "jobmanager.rpc.address": "127.0.0.1",
    "jobmanager.bind-host": "127.0.0.1",
    "taskmanager.host": "127.0.0.1",
    "taskmanager.bind-host": "127.0.0.1",
}
_KINDS = {"INT": "INT", "BIGINT": "BIGINT", "STRING": "STRING", "TIMESTAMP": "TIMESTAMP(3)"}
_FORMATS = {
    "csv": "'format' = 'csv', 'csv.ignore-parse-errors' = 'true'",  # the header becomes a row of NULL
    "json": "'format' = 'json'",
}
_QUERIES = {
    "groups": "SELECT k, COUNT(*) AS n, SUM(v * p) AS s FROM t WHERE k IS NOT NULL GROUP BY k",
    "windows": "SELECT k, FLOOR(ts TO MINUTE) AS begun, COUNT(*) AS n, SUM(v) AS s FROM t "
    "GROUP BY k, FLOOR(ts TO MINUTE)",
}
_ADDS = (RowKind.INSERT, RowKind.UPDATE_AFTER)


def query(side: Side) -> None:
    """Apply the changes of the query until it ends, or until the windows have all rows."""
    configuration = Configuration()
    for name, value in _SETTINGS.items():
        configuration.set_string(name, value)
    settings = EnvironmentSettings.new_instance().in_streaming_mode().with_configuration(configuration).build()
    environment = TableEnvironment.create(settings)
    if not side.job.arriving:
        side.ready()
    for table, columns in side.job.tables.items():
        fields = [f"`{name}` {_KINDS[kind]}" for name, kind in (column.split() for column in columns.split(", "))]
        more = ", 'source.monitor-interval' = '50 ms'" if side.job.arriving else ""
        source = f"'connector' = 'filesystem', 'path' = 'file://{side.directory(table)}', {_FORMATS[side.job.format]}"
        environment.execute_sql(f"CREATE TABLE {table} ({', '.join(fields)}) WITH ({source}{more})")
    kept: dict[tuple[Any, ...], int] = {}
    seen = 0
    result = environment.execute_sql(_QUERIES.get(side.job.name, side.job.query))
    if side.job.arriving:
        side.ready()
    with result.collect() as changes:
        for row in changes:
            values, weight = tuple(row), 1 if row.get_row_kind() in _ADDS else -1
            kept[values] = kept.get(values, 0) + weight
            if side.job.arriving:
                seen += weight * values[2]
                if seen == side.rows:
                    break
        side.answer((values for values, count in kept.items() for _ in range(count)), version("apache-flink"))


if __name__ == "__main__":
    run(dict.fromkeys(("groups", "top", "windows"), query))
