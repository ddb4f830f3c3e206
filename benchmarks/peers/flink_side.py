"""Flink: SQL through PyFlink, in streaming mode with parallelism 2 and small batches; an environment of its own.

``groups`` and ``top`` are changelogs whose input ends. ``windows`` is ``TUMBLE``, whose windows end by the watermark:
files that wait are not read in order, so it lags by more than all of them, and the last row ends them all.
"""

from __future__ import annotations

import os
from importlib.metadata import version
from typing import Any

from pyflink.common import Configuration, RowKind
from pyflink.table import EnvironmentSettings, TableEnvironment

from benchmarks.peers.jobs import WINDOW_SECONDS
from benchmarks.peers.side import Side, run

_SETTINGS = {
    "parallelism.default": str(os.cpu_count() or 1),
    "table.local-time-zone": "UTC",
    "table.exec.mini-batch.enabled": "true",
    "table.exec.mini-batch.allow-latency": "500 ms",
    "table.exec.mini-batch.size": "50000",
    "table.exec.source.idle-timeout": "200 ms",
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
    "windows": "SELECT k, window_start, COUNT(*) AS n, SUM(v) AS s FROM "
    f"TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '{WINDOW_SECONDS}' SECONDS)) "
    "WHERE k >= 0 GROUP BY k, window_start, window_end",
}


def query(side: Side) -> None:
    """Apply the changes of the query until it ends, or until the windows that have come have all rows but the last."""
    configuration = Configuration()
    for name, value in _SETTINGS.items():
        configuration.set_string(name, value)
    settings = EnvironmentSettings.new_instance().in_streaming_mode().with_configuration(configuration).build()
    environment = TableEnvironment.create(settings)
    side.ready()
    for table, columns in side.job.tables.items():
        fields = [f"`{name}` {_KINDS[kind]}" for name, kind in (column.split() for column in columns.split(", "))]
        more = ""
        if side.job.arriving:
            fields.append("WATERMARK FOR ts AS ts - INTERVAL '1' DAY")
            more = ", 'source.monitor-interval' = '50 ms'"
        source = f"'connector' = 'filesystem', 'path' = 'file://{side.directory(table)}', {_FORMATS[side.job.format]}"
        environment.execute_sql(f"CREATE TABLE {table} ({', '.join(fields)}) WITH ({source}{more})")
    kept: dict[tuple[Any, ...], int] = {}
    seen = 0
    result = environment.execute_sql(_QUERIES.get(side.job.name, side.job.query))
    with result.collect() as changes:
        for row in changes:
            values = tuple(row)
            if row.get_row_kind() in (RowKind.INSERT, RowKind.UPDATE_AFTER):
                kept[values] = kept.get(values, 0) + 1
            else:
                kept[values] = kept.get(values, 0) - 1
            seen += values[2] if side.job.arriving else 0
            if side.job.arriving and seen == side.rows - 1:
                break
        side.answer((values for values, count in kept.items() for _ in range(count)), version("apache-flink"))


if __name__ == "__main__":
    run(dict.fromkeys(("groups", "top", "windows"), query))
