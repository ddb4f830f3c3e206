"""Clients reach views and the catalogue, and nothing else; who they are decides what they may do."""

from __future__ import annotations

import importlib.util
import ipaddress
import socket
import ssl
import subprocess
from pathlib import Path
from typing import Any

import psycopg
import pytest
from postgres_server import PostgresServer

from tidemill.errors import TidemillError
from tidemill.serve.running import Server

REFUSED = [
    ("SELECT * FROM read_text('/etc/passwd')", "TM8121"),
    ("SELECT * FROM read_csv('/etc/passwd')", "TM8121"),
    ("SELECT * FROM read_parquet('http://127.0.0.1/x')", "TM8121"),
    ("SELECT * FROM glob('/*')", "TM8123"),
    ("SELECT * FROM '/etc/passwd'", "TM"),
    ('SELECT * FROM "/etc/passwd"', "TM2012"),
    ("SELECT * FROM duckdb_settings()", "TM8121"),
    ("SELECT * FROM query('SELECT 1')", "TM8121"),
    ("SELECT * FROM duckdb_tables", "TM2012"),
    ("SELECT * FROM sqlite_master", "TM2012"),
    ("SELECT * FROM session", "TM2012"),
    ("SELECT * FROM views", "TM2012"),
    ("SELECT * FROM system.main.duckdb_tables", "TM2012"),
    ("SELECT getenv('HOME')", "TM8121"),
    ("SELECT write_log('x')", "TM8121"),
    ("SELECT pg_read_file('/etc/passwd')", "TM8125"),
    ("ATTACH '/tmp/tm_x.db'", "TM8123"),
    ("INSTALL httpfs", "TM8123"),
    ("LOAD httpfs", "TM8111"),
    ("COPY (SELECT 1) TO '/tmp/tm_x.csv'", "TM8110"),
    ("COPY spending FROM PROGRAM 'id'", "TM8110"),
    ("PRAGMA database_list", "TM8123"),
    ("CALL enable_logging()", "TM8110"),
    ("DO $$ BEGIN END $$", "TM8110"),
    ("SELECT 1; COPY spending TO '/tmp/tm_x'", "TM8110"),
    ("EXPLAIN COPY spending TO '/tmp/tm_x'", "TM"),
    ("SELECT * FROM spending; DROP TABLE orders", "TM"),
]


@pytest.mark.parametrize(("statement", "number"), REFUSED, ids=[r[0] for r in REFUSED])
def test_nothing_else_is_reached(server: PostgresServer, statement: str, number: str) -> None:
    with server.connect(autocommit=True) as connection:
        with pytest.raises(psycopg.Error) as error:
            connection.execute(statement.encode())
        assert number in str(error.value), error.value
    assert not Path("/tmp/tm_x").exists() and not Path("/tmp/tm_x.csv").exists() and not Path("/tmp/tm_x.db").exists()


def test_duckdb_itself_is_closed_off() -> None:
    """Also for what our own checks would let through."""
    import duckdb

    from tidemill.serve.postgres.query.duckdb_engine import DuckDBEngine

    engine = DuckDBEngine(64 << 20, 1)
    session = engine.session("UTC")
    for statement in ("SELECT * FROM read_text('/etc/passwd')", "COPY (SELECT 1) TO '/tmp/tm_x.csv'",
                      "ATTACH '/tmp/tm_x.db'",
                      "SET memory_limit = '10GB'", "SET enable_external_access = true", "INSTALL httpfs",
                      "SELECT * FROM engine", "SET temp_directory = '/tmp'"):  # fmt: skip
        with pytest.raises(duckdb.Error):
            session.connection.execute(statement)
    session.close()
    engine.close()


TOKENS = {"read": "r" * 20, "write": "w" * 20, "admin": "a" * 20}


@pytest.fixture(scope="module")
def guarded(start: Any, tmp_path_factory: pytest.TempPathFactory) -> PostgresServer:
    """A server with tokens and a certificate."""
    directory = tmp_path_factory.mktemp("identity")
    tokens, key, certificate = (directory / name for name in ("tokens", "key.pem", "certificate.pem"))
    tokens.write_text("".join(f"{role} {token}\n" for role, token in TOKENS.items()))
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost", "-addext",
         "subjectAltName=DNS:localhost,IP:127.0.0.1", "-keyout", key, "-out", certificate],
        check=True, capture_output=True,
    )  # fmt: skip
    served: PostgresServer = start(tokens=str(tokens), tls_certificate=str(certificate), tls_key=str(key))
    served.fill()
    served.given = {"sslmode": "verify-full", "sslrootcert": str(certificate)}
    return served


def test_the_password_is_a_token(guarded: PostgresServer) -> None:
    assert guarded.psql("SELECT 1 AS one", options=("-At",), password=TOKENS["read"]).stdout == "1\n"
    for password in ("", "x", "r" * 19, "r" * 21, "r" * 9_000, "ü" * 20):
        wrong = guarded.psql("SELECT 1", password=password, options=("-w",))
        assert wrong.returncode == 2 and "r" * 19 not in wrong.stderr
        assert "TM8103" in wrong.stderr or "no password supplied" in wrong.stderr, wrong.stderr
    assert "TM8101" in guarded.psql("SELECT 1", password="r" * 20_000).stderr  # more than strangers may send
    with guarded.connect(autocommit=True, password=TOKENS["read"]) as connection:
        with pytest.raises(psycopg.errors.InsufficientPrivilege, match="TM8004"):
            connection.execute("CREATE MATERIALIZED VIEW w AS SELECT 1 AS a FROM orders")
        assert connection.execute("SELECT COUNT(*) FROM spending").fetchone() == (3,)
    with guarded.connect(autocommit=True, password=TOKENS["write"]) as connection:
        connection.execute("CREATE MATERIALIZED VIEW w AS SELECT customer FROM orders")
        connection.execute("DROP VIEW w")


def test_encryption(guarded: PostgresServer) -> None:
    plain = guarded.psql("SELECT 1", password=TOKENS["read"], sslmode="disable")
    assert plain.returncode == 2 and "TM8104" in plain.stderr
    with guarded.connect(password=TOKENS["read"]) as connection:
        assert connection.pgconn.ssl_in_use
        assert connection.execute("SELECT SUM(x) FROM generate_series(1, 200000) AS g(x)").fetchone() == (20000100000,)
    trusted = ssl.create_default_context(cafile=guarded.given["sslrootcert"])
    trusted.set_alpn_protocols(["postgresql"])
    with (  # as libpq 17 begins with sslnegotiation=direct
        socket.create_connection(("127.0.0.1", guarded.port)) as raw,
        trusted.wrap_socket(raw, server_hostname="localhost") as direct,
    ):
        assert direct.selected_alpn_protocol() == "postgresql"
        direct.sendall(b"\0\0\0\x11\0\3\0\0user\0me\0\0")
        assert direct.recv(1) == b"R"


def test_without_a_certificate_nothing_is_encrypted(server: PostgresServer) -> None:
    assert "server does not support SSL" in server.psql("SELECT 1", sslmode="require").stderr
    assert server.psql("SELECT 1", sslmode="prefer").returncode == 0
    assert ipaddress.ip_address(server.server.service.settings.host).is_loopback


def test_a_cancel_request_needs_the_secret(server: PostgresServer) -> None:
    import struct

    with server.connect(autocommit=True) as connection:
        process = connection.info.backend_pid
        found = connection.execute("SELECT 1")
        for secret in (0, 1, 2**32 - 1):
            with socket.create_connection(("127.0.0.1", server.port)) as raw:
                raw.sendall(struct.pack("!iiiI", 16, 80877102, process, secret))
                assert raw.recv(1) == b""
        assert found.fetchone() == (1,) and connection.execute("SELECT 2").fetchone() == (2,)


def test_too_many_connections(start: Any) -> None:
    server = start(pg_max_connections=2)
    with server.connect(), server.connect(), pytest.raises(psycopg.OperationalError, match="TM8105"):
        server.connect()
    for _ in range(20):
        try:
            with server.connect() as connection:
                assert connection.execute("SELECT 1").fetchone() == (1,)
                return
        except psycopg.OperationalError:  # the others are being closed
            continue
    raise AssertionError("connections are not given back")


def test_without_duckdb(server: PostgresServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(TidemillError) as error:
        Server(server.service)
    assert error.value.number == "TM8100" and "tidemill[postgres]" in error.value.hint
