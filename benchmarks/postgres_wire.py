"""Reading a view through psycopg, against a PostgreSQL server and DuckDB: ``python -m benchmarks.postgres_wire``.

``SELECT *`` of 100,000 rows of eight columns, fetched as Python tuples, in the text and the binary format. The servers
are ``tidemill serve`` and Debian's PostgreSQL (package ``postgresql``), each a process of its own on this machine; one
client asks them in turn over TCP. DuckDB reads the same rows from a table in the client's process, without a protocol.
No ratio is printed when the rows differ.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime as dt
import os
import pwd
import random
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import psycopg

from benchmarks.measuring import heading, table, workspace

COLUMNS = {"id": "BIGINT", "customer": "INT", "amount": "DECIMAL(12,2)", "price": "DOUBLE PRECISION", "name": "TEXT",
           "day": "DATE", "local": "TIMESTAMP", "flag": "BOOLEAN"}  # fmt: skip
SPARK = {"DOUBLE PRECISION": "DOUBLE", "TEXT": "STRING", "TIMESTAMP": "TIMESTAMP_NTZ"}


def write_rows(path: Path, rows: int) -> None:
    """The rows as CSV."""
    chance, begin = random.Random(7), dt.datetime(2024, 1, 1)
    with path.open("w") as file:
        for i in range(rows):
            at = begin + dt.timedelta(seconds=chance.randrange(10**8), microseconds=chance.randrange(10**6))
            cents, price = chance.randrange(10**8), chance.random() * 1000
            words = (i, chance.randrange(10**6), f"{cents // 100}.{cents % 100:02}", repr(price), f"customer {i % 977}")
            file.write(",".join(map(str, (*words, at.date(), at, "true" if i % 3 else "false"))) + "\n")


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as found:
        return int(found.getsockname()[1])


def ready(process: subprocess.Popen[str], conninfo: str, view: str) -> psycopg.Connection[Any]:
    """A connection, once the server answers and the view has rows."""
    end = time.monotonic() + 180
    while time.monotonic() < end and process.poll() is None:
        with contextlib.suppress(psycopg.Error):
            connection = psycopg.connect(conninfo, autocommit=True)
            if connection.execute(f"SELECT COUNT(*) FROM {view}").fetchone() != (0,):
                return connection
            connection.close()
        time.sleep(0.2)
    raise SystemExit(f"{process.args} does not answer")


@contextlib.contextmanager
def tidemill(place: Path, data: Path) -> Iterator[psycopg.Connection[Any]]:
    """A connection to ``tidemill serve`` over a view of the rows."""
    columns = ", ".join(f"{n} {SPARK.get(t, t)}" for n, t in COLUMNS.items())
    script = place / "view.sql"
    script.write_text(
        f"CREATE TABLE source ({columns}) USING csv OPTIONS (path '{data}');"
        "CREATE MATERIALIZED VIEW rows_read AS SELECT * FROM source;"
    )
    port = free_port()
    arguments = ["serve", str(script), "--root", str(place / "root"), "--port", "0", "--pg-port", str(port)]
    process = subprocess.Popen(
        [sys.executable, "-m", "tidemill", *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, text=True
    )
    try:
        with ready(process, f"host=127.0.0.1 port={port} user=me dbname=tidemill", "rows_read") as connection:
            yield connection
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(60)


def postgres_programs() -> Path | None:
    """Where Debian keeps PostgreSQL's server; None when it is not installed."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"))
    return found[-1].parent if found else None


@contextlib.contextmanager
def postgresql(place: Path, data: Path, programs: Path) -> Iterator[psycopg.Connection[Any]]:
    """A connection to PostgreSQL with the rows in a table; not as root, which it refuses."""
    home = place / "postgresql"
    home.mkdir()
    user = pwd.getpwnam("postgres") if os.getuid() == 0 else pwd.getpwuid(os.getuid())
    if os.getuid() == 0:
        shutil.chown(home, "postgres")
        place.chmod(0o755)
    given: dict[str, Any] = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []} if os.getuid() == 0 else {}
    quiet: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "cwd": home, "text": True}
    subprocess.run([programs / "initdb", "-D", home / "data", "-A", "trust", "-U", "me"], check=True, **quiet, **given)
    port = free_port()
    command = [
        programs / "postgres",
        "-D",
        home / "data",
        "-p",
        str(port),
        "-k",
        home,
        "-c",
        "listen_addresses=127.0.0.1",
    ]
    process = subprocess.Popen(list(map(str, command)), **quiet, **given)
    try:
        with ready(process, f"host=127.0.0.1 port={port} user=me dbname=postgres", "pg_class") as connection:
            columns = ", ".join(f"{n} {t}" for n, t in COLUMNS.items())
            connection.execute(f"CREATE TABLE rows_read ({columns})")
            with connection.cursor().copy("COPY rows_read FROM STDIN WITH CSV") as copy:
                copy.write(data.read_bytes())
            connection.execute("VACUUM ANALYZE rows_read")
            yield connection
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(60)


def by_psycopg(connection: psycopg.Connection[Any], binary: bool) -> list[tuple[Any, ...]]:
    """All rows over the protocol."""
    return connection.cursor(binary=binary).execute("SELECT * FROM rows_read").fetchall()


def measure(sides: dict[str, Callable[[], list[tuple[Any, ...]]]], rounds: int) -> dict[str, float]:
    """Median seconds of each side, in turn. SystemExit when their rows differ."""
    expected: list[tuple[Any, ...]] | None = None
    times: dict[str, list[float]] = {name: [] for name in sides}
    for turn in range(rounds + 1):
        for name, side in sides.items():
            begin = time.perf_counter()
            rows = side()
            seconds = time.perf_counter() - begin
            if turn:
                times[name].append(seconds)
                continue
            rows.sort()
            expected = expected or rows
            if rows != expected:
                raise SystemExit(f"{name} gives other rows: no ratio")
    return {name: statistics.median(seen) for name, seen in times.items()}


def main() -> None:
    """Measure and print."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--small", action="store_true", help="under a minute; the ratios mean little")
    options.add_argument("--rows", type=int, default=100_000)
    options.add_argument("--rounds", type=int, default=9)
    given = options.parse_args()
    if given.small:
        given.rows, given.rounds = 10_000, 3
    heading(f"postgres_wire: SELECT * of {given.rows:,} rows through psycopg")
    with workspace() as place, contextlib.ExitStack() as stack:
        data = place / "rows.csv"
        write_rows(data, given.rows)
        served = stack.enter_context(tidemill(place, data))
        sides: dict[str, Callable[[], list[tuple[Any, ...]]]] = {
            "tidemill, binary": lambda: by_psycopg(served, True),
            "tidemill, text": lambda: by_psycopg(served, False),
        }
        programs = postgres_programs()
        if programs is not None:
            peer = stack.enter_context(postgresql(place, data, programs))
            sides["PostgreSQL, binary"] = lambda: by_psycopg(peer, True)
            sides["PostgreSQL, text"] = lambda: by_psycopg(peer, False)
        memory = duckdb.connect()
        columns = ", ".join(f"'{n}': '{t.replace(' PRECISION', '')}'" for n, t in COLUMNS.items())
        memory.execute(f"CREATE TABLE rows_read AS FROM read_csv('{data}', header=false, columns={{{columns}}})")
        sides["DuckDB, in process"] = lambda: memory.execute("SELECT * FROM rows_read").fetchall()
        medians = measure(sides, given.rounds)
    lines = []
    for name, seconds in medians.items():
        own = medians["tidemill, text" if name.endswith("text") else "tidemill, binary"]
        lines.append([name, int(given.rows / seconds / 1000), seconds / own])
    table(("side", "thousand rows/s", "time / tidemill's"), lines)


if __name__ == "__main__":
    main()
