"""Sides that any benchmark over a stream of changes has: Tidemill, Spark again, and Structured Streaming.

A side runs all queries one after another, each alone: a mill or a session's views of its own. Each returns for each
query the seconds of every measured epoch, after ``WARM_UP`` epochs that are not counted. ``queries`` has, by name, the
SQL and the tables it reads; ``columns`` the columns of each table. All but Structured Streaming, whose sink keeps
nothing, keep the answer after the last epoch in a file below ``work``; that one counts the rows that it was given.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from benchmarks import streaming_peer as peer
from benchmarks.answers import keep
from benchmarks.tidemill_side import open_mill
from benchmarks.tpch.changes import OPERATION
from tidemill.mill import Mill
from tidemill.runtime.epoch.report import EpochReport

WARM_UP = 2
"""The first epoch loads all but the last rows; the second is the first small one."""


Queries: TypeAlias = dict[str, tuple[str, list[str]]]
"""By name: SQL, and the tables it reads. From JSON, so that the pairs are lists."""


def appear(source: str, target: Path, names: Sequence[str], epoch: int) -> None:
    """Let the files of an epoch appear."""
    for name in names:
        file = Path(source) / name / f"e{epoch:06d}.csv"
        (target / name).mkdir(parents=True, exist_ok=True)
        if file.exists() and not (target / name / file.name).exists():
            os.link(file, target / name / file.name)


def tidemill(
    work: str, files: str, columns: dict[str, str], queries: Queries, epochs: int, deletes: bool = True
) -> dict[str, Any]:
    """Seconds of each epoch as its report has them, the load in rows/s, and where the time of tasks went.

    What appears at once may be admitted in several epochs, such as the files of a small table before others: their
    seconds are added up.
    """
    found = {}
    for name, (sql, used) in queries.items():
        place = Path(work) / name
        with open_mill(place / "root", epoch_bytes=1 << 50, listing_seconds=0.0) as mill:
            appear(files, place / "in", used, 1)
            for table in used:
                options = f"path '{place / 'in' / table}', header true" + f", opColumn '{OPERATION}'" * deletes
                mill.sql(f"CREATE TABLE {table} ({columns[table]}) USING csv OPTIONS ({options})")
            mill.sql(f"CREATE MATERIALIZED VIEW {name} AS {sql}")
            reports = []
            for epoch in range(1, epochs + 1):
                if epoch > 1:
                    appear(files, place / "in", used, epoch)
                taken = list(_all_that_is_there(mill))
                if taken:  # an epoch that changes none of the query's tables costs nothing
                    reports.append(taken)
            counted = reports[WARM_UP:]
            steps: dict[str, float] = {}
            for step in (step for taken in counted for report in taken for step in report.operators):
                label = f"{step.operation} #{step.step}"
                steps[label] = steps.get(label, 0.0) + step.milliseconds
            found[name] = {
                "seconds": [_seconds(taken) for taken in counted],
                "rows": [_rows(taken) for taken in counted],
                "given": sum(map(_rows, reports)),
                "load": _rows(reports[0]) / _seconds(reports[0]),
                "supersteps": 1 + max(s.depth for s in counted[0][-1].operators),
                "steps": {label: milliseconds / len(counted) for label, milliseconds in steps.items()},
                "answer": keep(work, name, mill.read(name)),
            }
    return found


def _all_that_is_there(mill: Mill) -> Iterator[EpochReport]:
    while (report := mill.advance()) is not None:
        assert not report.failed, report.failed
        yield report


def _seconds(taken: Sequence[EpochReport]) -> float:
    return sum(report.milliseconds["total"] for report in taken) / 1e3


def _rows(taken: Sequence[EpochReport]) -> int:
    return sum(report.rows_in for report in taken)


def spark(work: str, parquet: str, queries: Queries, epochs: int) -> dict[str, Any]:
    """Seconds to evaluate the query over all rows as Parquet files; keeping those up to date is not counted."""
    session = peer.session("default")
    for file in Path(parquet).glob("*.parquet"):
        session.read.parquet(str(file)).createOrReplaceTempView(file.stem)
    found = {}
    for name, (sql, _) in queries.items():
        seconds = []
        for _ in range(min(epochs, 6)):
            started = time.perf_counter()
            answer = session.sql(sql).toArrow()
            seconds.append(time.perf_counter() - started)
        found[name] = {"seconds": seconds[WARM_UP:], "answer": keep(work, name, answer)}
    return found


def streaming(
    work: str,
    files: str,
    columns: dict[str, str],
    queries: Queries,
    epochs: int,
    watermarks: dict[str, tuple[str, str]] | None = None,
    static: Sequence[str] = (),
) -> dict[str, Any]:
    """Seconds of each batch of Structured Streaming over the inserts alone, or why it cannot run the query.

    ``watermarks`` has the column and the delay of tables with one; ``static`` tables are read as they are at first.
    """
    session = peer.session("rocksdb")
    found: dict[str, Any] = {}
    for name, (sql, used) in queries.items():
        place = Path(work) / name
        for table in used:
            appear(files, place / "in", [table], 1)
            if table in static:
                frame = session.read.schema(columns[table]).csv(str(place / "in" / table), header=True)
            else:
                reader = session.readStream.schema(columns[table]).options(header="true", maxFilesPerTrigger="1")
                frame = reader.csv(str(place / "in" / table))
            if watermarks and table in watermarks:
                frame = frame.withWatermark(*watermarks[table])
            frame.createOrReplaceTempView(table)
        errors = []
        for mode, text in _attempts(sql):
            try:
                batches = _batches(session, text, mode, place / mode, files, place / "in", used, epochs)
            except Exception as error:  # whatever Spark says about the query
                errors.append(f"{mode}: {_first_line(error)}")
                continue
            found[name] = {"seconds": batches[0][WARM_UP:], "given": batches[1], "mode": mode}
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
) -> tuple[list[float], int]:
    """Seconds of each batch, and the rows of all of them; those of static tables are not among them."""
    writer = session.sql(sql).writeStream.format("noop").outputMode(mode).trigger(processingTime="0 seconds")
    running = writer.option("checkpointLocation", str(checkpoint)).start()
    try:
        running.processAllAvailable()
        for epoch in range(2, epochs + 1):
            appear(files, target, used, epoch)
            running.processAllAvailable()
        return peer.batch_seconds(running), sum(progress.numInputRows for progress in running.recentProgress)
    finally:
        running.stop()


def _first_line(error: Exception) -> str:
    text = str(error).strip().splitlines()[0]
    return re.sub(r"\s+", " ", text)[:160]
