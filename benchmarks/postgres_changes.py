"""A table of PostgreSQL grouped by key, and its changes: Tidemill, and the server's own tools that throw them away.

The server is a process beside the sides. First all rows: Tidemill from CREATE TABLE to the view of all of them, beside
``COPY`` of the same columns by ``psql`` into ``/dev/null``, and the server's own GROUP BY. Then updates of one row in
five: Tidemill until its view has them, beside ``pg_recvlogical`` that receives the same changes from a slot of its own
and throws them away. The updates are committed before either begins. No ratio is printed unless the view is what the
server says of its table after both.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import time
from pathlib import Path
from typing import Any

from tests.debian_postgres import PostgresServer

from benchmarks.measuring import heading, run_side, table, verdict, workspace
from benchmarks.tidemill_side import open_mill

GOAL = 2.0
KEYS = 1000
_QUERY = "SELECT k, COUNT(*) AS n, SUM(v) AS s FROM big GROUP BY k"
_PROGRAMS = sorted(Path("/usr/lib/postgresql").glob("*/bin"))[-1]


def fill(server: PostgresServer, rows: int) -> None:
    """A table of some columns, and slots of a peer for each round."""
    with server.connect() as connection:
        connection.execute("CREATE TABLE big (id int, k int, v bigint, name text, at timestamptz)")
        connection.execute("ALTER TABLE big REPLICA IDENTITY FULL")
        values = f"i, i % {KEYS}, i * 7 % 1000003, 'item ' || i % {KEYS}, now() + i * interval '1 second'"
        connection.execute(f"INSERT INTO big SELECT {values} FROM generate_series(1, {rows}) i".encode())
        connection.execute("CREATE TABLE warm AS SELECT * FROM big LIMIT 1000")
        connection.execute("ALTER TABLE warm REPLICA IDENTITY FULL")
        connection.execute("CREATE PUBLICATION peer FOR TABLE big")


def _answer(server: PostgresServer) -> str:
    with server.connect() as connection:
        rows = connection.execute(_QUERY.encode()).fetchall()
    return json.dumps(sorted([k, n, int(s)] for k, n, s in rows))


def tidemill(work: str, options: str, warm: str, url: str) -> dict[str, Any]:
    """Seconds from CREATE TABLE to a view of all rows; then, told to by a file, until it has the changes."""
    place = Path(work)
    with open_mill(place, listing_seconds=0.0, checkpoint_seconds=1e9) as mill:
        mill.sql(f"CREATE TABLE warm USING postgres OPTIONS ({warm})")
        mill.sql(f"CREATE MATERIALIZED VIEW w AS {_QUERY.replace('big', 'warm')}")
        list(mill.drain())
        begin = time.perf_counter()
        mill.sql(f"CREATE TABLE big USING postgres OPTIONS ({options})")
        mill.sql(f"CREATE MATERIALIZED VIEW g AS {_QUERY}")
        list(mill.drain())
        rows = time.perf_counter() - begin
        subprocess.run(
            ["psql", url, "-qc", f"UPDATE big SET v = v + 1 WHERE id % 5 = {len(place.name) % 5}"], check=True
        )
        begin = time.perf_counter()
        list(mill.drain())
        changes = time.perf_counter() - begin
        found = sorted([k, n, int(s)] for k, n, s in (tuple(r.values()) for r in mill.read("g").to_pylist()))
        mill.script("DROP MATERIALIZED VIEW g; DROP MATERIALIZED VIEW w; DROP TABLE big; DROP TABLE warm")
        return {"rows": rows, "changes": changes, "answer": json.dumps(found)}


def copied(url: str) -> float:
    """Seconds of ``psql`` that copies the columns of the view into nothing."""
    begin = time.perf_counter()
    statement = "COPY big TO STDOUT (FORMAT csv)"
    with Path("/dev/null").open("wb") as nothing:
        subprocess.run(["psql", url, "-qc", statement], stdout=nothing, check=True)
    return time.perf_counter() - begin


def grouped(server: PostgresServer) -> float:
    """Seconds of the server's own GROUP BY."""
    with server.connect() as connection:
        begin = time.perf_counter()
        connection.execute(_QUERY.encode()).fetchall()
        return time.perf_counter() - begin


def received(url: str, slot: str, until: str) -> float:
    """Seconds of ``pg_recvlogical`` from its slot up to a position."""
    begin = time.perf_counter()
    given = ["--start", "--no-loop", "-f", "-", "-o", "proto_version=1", "-o", "publication_names=peer"]
    command = [str(_PROGRAMS / "pg_recvlogical"), "-d", url, "--slot", slot, "--endpos", until, *given]
    with Path("/dev/null").open("wb") as nothing:
        subprocess.run(command, stdout=nothing, check=True)
    return time.perf_counter() - begin


def main() -> None:
    """All sides, in turn."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--small", action="store_true")
    given = parser.parse_args()
    rows, rounds = (20_000, 1) if given.small else (given.rows, given.rounds)
    heading(f"A table of PostgreSQL with {rows:,} rows, and updates of {rows // 5:,}: medians of {rounds}")
    server = PostgresServer()
    url = f"postgresql://postgres@127.0.0.1:{server.port}/postgres"
    found: dict[str, list[float]] = {}
    equal = True
    try:
        fill(server, rows)
        with workspace() as work:
            for number in range(rounds):
                slot = f"peer{number}"
                with server.connect() as connection:
                    connection.execute("SELECT pg_create_logical_replication_slot(%s, 'pgoutput')", (slot,))
                options = {"options": server.options("big"), "warm": server.options("warm"), "url": url}
                side = run_side(_HERE, "tidemill", work=str(work / f"t{'x' * number}"), **options)
                equal = equal and side["answer"] == _answer(server)
                with server.connect() as connection:
                    until = str(connection.execute("SELECT pg_current_wal_lsn()::text").fetchall()[0][0])
                figures = {
                    "rows: Tidemill": side["rows"],
                    "rows: COPY to nothing": copied(url),
                    "rows: the server's GROUP BY": grouped(server),
                    "changes: Tidemill": side["changes"],
                    "changes: pg_recvlogical to nothing": received(url, slot, until),
                }
                for name, seconds in figures.items():
                    found.setdefault(name, []).append(seconds)
                with server.connect() as connection:
                    connection.execute("SELECT pg_drop_replication_slot(%s)", (slot,))
    finally:
        server.close()
    medians = {name: statistics.median(seconds) for name, seconds in found.items()}
    counts = {name: rows if name.startswith("rows") else rows // 5 for name in medians}
    table(["side", "seconds", "rows/s"], [[name, s, round(counts[name] / s)] for name, s in medians.items()])
    if not equal:
        print("the answers differ, so there is no ratio")
        return
    verdict("as fast as COPY to nothing", medians["rows: COPY to nothing"] / medians["rows: Tidemill"], 1 / GOAL)
    peer = medians["changes: pg_recvlogical to nothing"]
    verdict("as fast as pg_recvlogical to nothing", peer / medians["changes: Tidemill"], 1 / GOAL)


_HERE = "benchmarks.postgres_changes"

if __name__ == "__main__":
    main()
