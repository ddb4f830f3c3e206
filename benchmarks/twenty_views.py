"""Twenty views on one table in one mill, against twenty streaming queries over the same files in one session.

Wall time from the moment views (or queries) begin to be created until all of them have seen all rows. Both
sides first warm up with another table and two queries, so neither pays for starting.
"""

from __future__ import annotations

import argparse
import statistics
import time
from pathlib import Path
from typing import Any

from benchmarks import streaming_peer as peer
from benchmarks.answers import keep, unlike
from benchmarks.measuring import heading, run_side, table, verdict, workspace
from benchmarks.number_files import write_files
from benchmarks.tidemill_side import create_table, open_mill

GOAL = 20.0
QUERIES = (
    "SELECT k, COUNT(*) AS n FROM {t} GROUP BY k",
    "SELECT k, SUM(b) AS s FROM {t} GROUP BY k",
    "SELECT k, AVG(a) AS x FROM {t} GROUP BY k",
    "SELECT k, MAX(c) AS m FROM {t} GROUP BY k",
    "SELECT k, MIN(b) AS m FROM {t} GROUP BY k",
    "SELECT e, COUNT(*) AS n, SUM(b) AS s FROM {t} GROUP BY e",
    "SELECT e, AVG(b) AS x FROM {t} WHERE a > 500 GROUP BY e",
    "SELECT e, MAX(a) AS m FROM {t} WHERE c % 7 = 0 GROUP BY e",
    "SELECT a, COUNT(*) AS n FROM {t} GROUP BY a",
    "SELECT a, SUM(c) AS s FROM {t} WHERE b < 50 GROUP BY a",
    "SELECT a % 10 AS d, SUM(b * 2) AS s FROM {t} GROUP BY a % 10",
    "SELECT a % 100 AS d, AVG(c) AS x FROM {t} WHERE e = '7' GROUP BY a % 100",
    "SELECT COUNT(*) AS n, SUM(b) AS s FROM {t}",
    "SELECT COUNT(*) AS n FROM {t} WHERE b > 99",
    "SELECT MIN(b) AS l, MAX(b) AS h FROM {t}",
    "SELECT e, a % 10 AS d, COUNT(*) AS n FROM {t} GROUP BY e, a % 10",
    "SELECT e, SUM(a) AS s FROM {t} WHERE k < 100 GROUP BY e",
    "SELECT k % 50 AS d, SUM(b) AS s, COUNT(*) AS n FROM {t} GROUP BY k % 50",
    "SELECT c % 1000 AS d, MAX(b) AS m FROM {t} GROUP BY c % 1000",
    "SELECT e, SUM(b * a) AS s FROM {t} WHERE a BETWEEN 100 AND 200 GROUP BY e",
)


def tidemill(work: str, files: str, warm: str) -> dict[str, Any]:
    """Seconds to create the views, and to bring them up to date; ``epochs`` is a number."""
    with open_mill(Path(work)) as mill:
        create_table(mill, "w", warm)
        for number, query in enumerate(QUERIES[:2]):
            mill.sql(f"CREATE MATERIALIZED VIEW w{number} AS " + query.format(t="w"))
        list(mill.drain())
        for number in range(2):
            mill.sql(f"DROP VIEW w{number}")
        create_table(mill, "t", files)
        started = time.perf_counter()
        for number, query in enumerate(QUERIES):
            mill.sql(f"CREATE MATERIALIZED VIEW v{number} AS " + query.format(t="t"))
        created = time.perf_counter()
        epochs = sum(1 for _ in mill.drain())
        run = time.perf_counter() - created
        answers = [keep(work, f"v{number}", mill.read(f"v{number}")) for number in range(len(QUERIES))]
        return {"create": created - started, "run": run, "epochs": epochs, "answers": answers}


def spark(work: str, files: str, warm: str, store: str) -> dict[str, Any]:
    """Seconds from the start of the first query to the end of the last. Answers are those of Spark's batch: those of
    the streams go nowhere."""
    session, place = peer.session(store), Path(work)
    peer.read_files(session, warm).createOrReplaceTempView("w")
    for number, query in enumerate(QUERIES[:2]):
        frame = session.sql(query.format(t="w"))
        peer.start(frame, place / f"w{number}", available_now=True).awaitTermination()
    started = time.perf_counter()
    peer.read_files(session, files).createOrReplaceTempView("t")
    frames = [session.sql(query.format(t="t")) for query in QUERIES]
    queries = [peer.start(frame, place / f"q{i}", available_now=True) for i, frame in enumerate(frames)]
    for query in queries:
        query.awaitTermination()
    run = time.perf_counter() - started
    session.read.schema(peer.DDL).csv(files, header=True).createOrReplaceTempView("t")
    answers = [keep(work, f"v{i}", session.sql(query.format(t="t")).toArrow()) for i, query in enumerate(QUERIES)]
    epochs = sum(len(peer.batch_seconds(q)) for q in queries)
    return {"create": 0.0, "run": run, "epochs": epochs, "answers": answers}


def main() -> None:
    """Measure and print."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--small", action="store_true", help="under a minute; the ratio means little")
    options.add_argument("--rounds", type=int, default=1)
    given = options.parse_args()
    files, rows = (1, 2_000) if given.small else (8, 100_000)
    heading(f"twenty_views: {len(QUERIES)} queries, {files} files of {rows:,} rows, {given.rounds} rounds")
    found: dict[str, list[dict[str, Any]]] = {"tidemill": [], "Spark": []}
    with workspace() as place:
        write_files(place / "in", files, rows, 10_000)
        write_files(place / "warm", 2, min(rows, 20_000), 1_000)
        inputs = {"files": str(place / "in"), "warm": str(place / "warm")}
        for number in range(given.rounds):
            mine = run_side("benchmarks.twenty_views", "tidemill", work=str(place / f"m{number}"), **inputs)
            work = str(place / f"s{number}")
            theirs = run_side("benchmarks.twenty_views", "spark", work=work, store="default", **inputs)
            found["tidemill"].append(mine)
            found["Spark"].append(theirs)
        pairs = zip(QUERIES, found["tidemill"][0]["answers"], found["Spark"][0]["answers"], strict=True)
        differ = [f"{query}: {said}" for query, own, other in pairs if (said := unlike(own, other))]
    totals = {name: statistics.median(r["create"] + r["run"] for r in runs) for name, runs in found.items()}
    shown = [
        (name, runs[0]["create"], runs[0]["run"], totals[name], int(runs[0]["epochs"])) for name, runs in found.items()
    ]
    table(("", "create s", "run s", "total s", "epochs or batches"), shown)
    for said in differ:
        print(f"the answers differ, so there is no ratio: {said}")
    if not differ:
        verdict("twenty_views", totals["Spark"] / totals["tidemill"], GOAL)


if __name__ == "__main__":
    main()
