"""``kill -9`` while sinks deliver: afterwards every target has each change, and those that can have it once."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from deltalake import DeltaTable
from psycopg.rows import dict_row
from pyiceberg.catalog import load_catalog
from sinking import Counted, weighted
from test_delta import check_epochs
from test_file_sinks import parquet_rows
from test_webhook import Hook, hook
from tests.debian_postgres import PostgresServer

from tidemill.runtime.read.snapshot import Snapshot

__all__ = ["hook"]


POINTS = {"before file": 4, "after commit": 2, "after message": 3, "after append": 1, "after note": 2, "after rows": 1}
"""After a note the transaction of PostgreSQL is still open."""


@pytest.fixture
def server() -> Iterator[PostgresServer]:
    started = PostgresServer()
    yield started
    started.close()


@pytest.mark.slow
@pytest.mark.parametrize("kill", range(min(len(POINTS), int(os.environ.get("TIDEMILL_CHAOS", "1")))))
def test_killed_while_delivering(
    counted: Counted, hook: Hook, server: PostgresServer, seed: int, tmp_path: Path, kill: int
) -> None:
    """At one of the points; ``make chaos`` takes them all."""
    chance = random.Random(seed)
    point, calls = list(POINTS.items())[(seed + kill) % len(POINTS)]
    counted.mill.close()
    for _ in range(12):
        counted.change(chance)
    uri, warehouse = f"sqlite:///{tmp_path}/c.db", f"file://{tmp_path}/lake"
    iceberg = f"table 'n.i', 'catalog.uri' '{uri}', 'catalog.warehouse' '{warehouse}'"
    script = f"""
        {counted.script}
        CREATE SINK p FROM v INTO parquet OPTIONS (path '{tmp_path}/p');
        CREATE SINK d FROM v INTO delta OPTIONS (path '{tmp_path}/d');
        CREATE SINK i FROM v INTO iceberg OPTIONS ({iceberg});
        CREATE SINK g FROM v INTO postgres OPTIONS ({server.options("public.g")});
        CREATE SINK w FROM v INTO webhook OPTIONS (url '{hook.url}');
    """
    (tmp_path / "script.sql").write_text(script)
    command = [sys.executable, str(Path(__file__).parent / "killed_process.py"), str(tmp_path / "root")]
    done = subprocess.run(
        [*command, str(tmp_path / "script.sql"), point, str(calls)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == -signal.SIGKILL, done.stderr[-3000:]
    stored = {r["name"]: r["epoch"] for r in Snapshot.open(tmp_path / "root").show("sinks").to_pylist()}
    assert set(stored) == {"p", "d", "i", "g", "w"}
    counted.open()
    counted.mill.script(script)
    counted.advance()
    assert weighted(parquet_rows(tmp_path / "p")) == counted.rows
    assert weighted(DeltaTable(tmp_path / "d").to_pyarrow_table().to_pylist()) == counted.rows
    check_epochs(tmp_path / "d")
    table = load_catalog("default", type="sql", uri=uri, warehouse=warehouse).load_table("n.i")
    assert weighted(table.scan().to_arrow().to_pylist()) == counted.rows
    epochs = [s.summary.additional_properties["tidemill.epoch"] for s in table.metadata.snapshots if s.summary]
    assert len(epochs) == len(set(epochs))
    with server.connect() as connection:
        assert weighted(connection.cursor(row_factory=dict_row).execute("SELECT * FROM g").fetchall()) == counted.rows
    once = {headers["Idempotency-Key"]: json.loads(body) for headers, body in hook.posted}
    assert weighted(row for message in once.values() for row in message["rows"]) == counted.rows
    repeats = Counter(headers["Idempotency-Key"] for headers, _ in hook.posted)
    assert point != "after message" or max(repeats.values()) == 2, "the message was sent and not noted"
    bodies = {(headers["Idempotency-Key"], body) for headers, body in hook.posted}
    assert len(bodies) == len(once), "a message that is sent again is the same"
