"""Which connections keep the files of an epoch, and how many statements run at the same time."""

from __future__ import annotations

import gc
import socket
import weakref
from typing import Any

import psycopg
import pytest
from postgres_server import PostgresServer
from test_bad_messages import WITH_START, message


def newest(server: PostgresServer) -> weakref.ref[Any]:
    return weakref.ref(server.mill.snapshot())


def go_on(server: PostgresServer, name: str) -> None:
    server.order(name, (1, "1.00"))
    server.mill.advance()
    gc.collect()


def test_prepared_statements_keep_no_epoch(start: Any) -> None:
    """They may be there for days; their views may be replaced meanwhile."""
    server = start()
    server.fill()
    with server.connect(autocommit=True) as connection:
        query = "SELECT tidemill_epoch(), SUM(n) FROM spending WHERE n > %s"
        before = connection.execute(query, (0,), prepare=True).fetchone()
        first = newest(server)
        go_on(server, "b")
        assert first() is None
        after = connection.execute(query, (0,), prepare=True).fetchone()
        assert before is not None and after == (before[0] + 1, before[1] + 1)
        connection.execute("BEGIN")
        assert connection.execute(query, (0,), prepare=True).fetchone() == after
        second = newest(server)
        go_on(server, "c")
        assert second() is not None
        assert connection.execute(query, (0,), prepare=True).fetchone() == after
        connection.execute("COMMIT")
        gc.collect()
        assert second() is None


def test_a_client_that_ends_no_statement(start: Any) -> None:
    """It is cut off: what it has begun to read keeps the files of its epoch."""
    server = start(pg_stalled_seconds=0.5)
    server.fill()
    with socket.create_connection(("127.0.0.1", server.port), timeout=20) as raw:
        raw.sendall(WITH_START + message(b"P", b"\0SELECT * FROM spending\0\0\0") + message(b"H"))
        found = b""
        while part := raw.recv(1 << 16):
            found += part
    assert b"TM8106" in found


def test_spark_has_a_limit(start: Any) -> None:
    """The same as for statements over HTTP; what DuckDB answers does not count."""
    server = start(pg_duckdb_bytes=0, max_statements=1)
    server.fill()
    query = "SELECT COUNT(*) FROM spending"
    with server.connect() as first, server.connect(autocommit=True) as second:
        cursor = first.cursor("c")
        cursor.execute("SELECT DISTINCT customer FROM spending")
        assert cursor.fetchone() is not None
        for statement in (query, "DROP VIEW customers"):
            with pytest.raises(psycopg.errors.ConfigurationLimitExceeded, match="TM8024"):
                second.execute(statement)
        assert len(second.execute("SELECT * FROM spending").fetchall()) == 3
        first.rollback()
        assert second.execute(query).fetchone() == (3,)
        with pytest.raises(psycopg.Error, match="TM2016"):
            second.execute("SELECT SUM(1 / (n - n)) FROM spending")
        with pytest.raises(psycopg.Error, match="TM2004"):
            second.execute("SELECT SUM(nope) FROM spending")
        second.execute("DROP VIEW customers")
