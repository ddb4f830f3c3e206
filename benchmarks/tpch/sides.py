"""The side of the benchmark that is its own: DuckDB, which applies the changes and evaluates each query again."""

from __future__ import annotations

import os
import re
import time
from pathlib import Path
from typing import Any

from benchmarks.answers import keep
from benchmarks.change_sides import WARM_UP, Queries
from benchmarks.tpch.changes import OPERATION
from benchmarks.tpch.queries import KEYS


def duckdb(work: str, files: str, columns: dict[str, str], queries: Queries, epochs: int) -> dict[str, Any]:
    """Seconds to read an epoch's files, apply their changes to tables, and run the query."""
    import duckdb as database

    found = {}
    for name, (sql, used) in queries.items():
        seconds = []
        with database.connect(config={"threads": os.cpu_count() or 1}) as connection:
            for table in used:
                connection.execute(f"CREATE TABLE {table} ({columns[table]})")
            for epoch in range(1, epochs + 1):
                changed = [t for t in used if (Path(files) / t / f"e{epoch:06d}.csv").exists()]
                if not changed:
                    continue
                started = time.perf_counter()
                for table in changed:
                    _apply(connection, table, columns[table], Path(files) / table / f"e{epoch:06d}.csv")
                answer = connection.execute(sql).to_arrow_table()
                seconds.append(time.perf_counter() - started)
        found[name] = {"seconds": seconds[WARM_UP:], "answer": keep(work, name, answer)}
    return found


def _apply(connection: Any, table: str, columns: str, file: Path) -> None:
    kinds = ", ".join(
        f"'{c.split()[0]}': '{c.split()[1]}'" for c in re.split(r", (?=\w+ )", f"{columns}, {OPERATION} VARCHAR")
    )
    weight = f"CASE {OPERATION} WHEN 'I' THEN 1 ELSE -1 END"
    names = ", ".join(c.split()[0] for c in re.split(r", (?=\w+ )", columns))
    connection.execute(
        f"CREATE OR REPLACE TEMP TABLE changed AS SELECT {names}, sum({weight}) AS weight "
        f"FROM read_csv('{file}', header = true, columns = {{{kinds}}}) GROUP BY ALL HAVING sum({weight}) <> 0"
    )
    same = " AND ".join(f"{table}.{k} = changed.{k}" for k in KEYS[table])
    connection.execute(f"DELETE FROM {table} USING changed WHERE weight < 0 AND {same}")
    connection.execute(f"INSERT INTO {table} SELECT {names} FROM changed WHERE weight > 0")
