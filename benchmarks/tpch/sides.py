"""The side of the benchmark that is its own: DuckDB, which applies the changes and evaluates each query again."""

from __future__ import annotations

import os
import re
import time
from pathlib import Path
from typing import Any

from benchmarks.change_sides import WARM_UP, Queries
from benchmarks.tpch.changes import OPERATION
from benchmarks.tpch.queries import KEYS


<<<<<<< HEAD
def duckdb(work: str, files: str, columns: dict[str, str], queries: Queries, epochs: int) -> dict[str, Any]:
=======
def appear(source: str, target: Path, names: Sequence[str], epoch: int) -> None:
    """Let the files of an epoch appear."""
    for name in names:
        file = Path(source) / name / f"e{epoch:06d}.csv"
        (target / name).mkdir(parents=True, exist_ok=True)
        if file.exists():
            os.link(file, target / name / file.name)


def tidemill(work: str, files: str, columns: dict[str, str], names: list[str], epochs: int) -> dict[str, Any]:
    """Seconds of each epoch as its report has them, the load in rows/s, and where the time of tasks went."""
    found = {}
    for name in names:
        sql, place = query(name), Path(work) / name
        used = tables(sql)
        with open_mill(place / "root", epoch_bytes=1 << 50, listing_seconds=0.0) as mill:
            appear(files, place / "in", used, 1)
            for table in used:
                options = f"path '{place / 'in' / table}', header true, opColumn '{OPERATION}'"
                mill.sql(f"CREATE TABLE {table} ({columns[table]}) USING csv OPTIONS ({options})")
            mill.sql(f"CREATE MATERIALIZED VIEW {name} AS {sql}")
            reports = []
            for epoch in range(1, epochs + 1):
                if epoch > 1:
                    appear(files, place / "in", used, epoch)
                report = mill.advance()
                if report is not None:  # an epoch that changes none of the query's tables costs nothing
                    assert not report.failed, report.failed
                    reports.append(report)
            counted = reports[WARM_UP:]
            steps: dict[str, list[float]] = {}
            for report in counted:
                for step in report.operators:
                    label = f"{step.operation} #{step.step}"
                    steps.setdefault(label, []).append(step.milliseconds)
            found[name] = {
                "seconds": [r.milliseconds["total"] / 1e3 for r in counted],
                "rows": [r.rows_in for r in counted],
                "load": reports[0].rows_in / (reports[0].milliseconds["total"] / 1e3),
                "supersteps": 1 + max(s.depth for s in counted[0].operators),
                "steps": {k: sum(ms) / len(counted) for k, ms in steps.items()},
                "answer": mill.read(name).num_rows,
            }
    return found


def duckdb(work: str, files: str, columns: dict[str, str], names: list[str], epochs: int) -> dict[str, Any]:
>>>>>>> bench
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
        found[name] = {"seconds": seconds[WARM_UP:], "answer": answer.num_rows}
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
<<<<<<< HEAD
=======


def spark(parquet: str, names: list[str], epochs: int) -> dict[str, Any]:
    """Seconds to evaluate the query over all rows as Parquet files; keeping those up to date is not counted."""
    session = peer.session("default")
    for table in KEYS:
        session.read.parquet(f"{parquet}/{table}.parquet").createOrReplaceTempView(table)
    found = {}
    for name in names:
        sql, seconds = query(name), []
        for _ in range(min(epochs, 6)):
            started = time.perf_counter()
            answer = session.sql(sql).toArrow()
            seconds.append(time.perf_counter() - started)
        found[name] = {"seconds": seconds[WARM_UP:], "answer": answer.num_rows}
    return found


def streaming(work: str, files: str, columns: dict[str, str], names: list[str], epochs: int) -> dict[str, Any]:
    """Seconds of each batch of Structured Streaming over the inserts alone, or why it cannot run the query."""
    session = peer.session("rocksdb")
    found: dict[str, Any] = {}
    for name in names:
        place = Path(work) / name
        used = tables(query(name))
        for table in used:
            appear(files, place / "in", [table], 1)
            reader = session.readStream.schema(columns[table]).options(header="true", maxFilesPerTrigger="1")
            reader.csv(str(place / "in" / table)).createOrReplaceTempView(table)
        errors = []
        for mode, sql in _attempts(query(name)):
            try:
                seconds = list(_batches(session, sql, mode, place / mode, files, place / "in", used, epochs))
            except Exception as error:  # whatever Spark says about the query
                errors.append(f"{mode}: {_first_line(error)}")
                continue
            found[name] = {"seconds": seconds[WARM_UP:], "mode": mode}
            break
        else:
            found[name] = {"error": "; ".join(errors)}
    return found


def _attempts(sql: str) -> Iterator[tuple[str, str]]:
    """Output modes with the query as each may run it: a view has no order, so ORDER BY without LIMIT is left out."""
    unordered = sql if re.search(r"\nLIMIT \d+$", sql) else re.sub(r"\nORDER BY [^()]*$", "", sql)
    yield "update", unordered
    yield "append", unordered
    yield "complete", unordered


def _batches(
    session: Any, sql: str, mode: str, checkpoint: Path, files: str, target: Path, used: Sequence[str], epochs: int
) -> Iterator[float]:
    writer = session.sql(sql).writeStream.format("noop").outputMode(mode).trigger(processingTime="0 seconds")
    running = writer.option("checkpointLocation", str(checkpoint)).start()
    try:
        running.processAllAvailable()
        for epoch in range(2, epochs + 1):
            appear(files, target, used, epoch)
            running.processAllAvailable()
        yield from peer.batch_seconds(running)
    finally:
        running.stop()


def _first_line(error: Exception) -> str:
    text = str(error).strip().splitlines()[0]
    return re.sub(r"\s+", " ", text)[:160]
>>>>>>> bench
