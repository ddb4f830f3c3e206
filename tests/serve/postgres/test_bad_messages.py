"""What is no message of the protocol ends its connection, with a numbered error, and disturbs nobody else."""

from __future__ import annotations

import contextlib
import logging
import random
import socket
import struct
import threading
import time
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from postgres_server import PostgresServer

START = b"\0\3\0\0user\0me\0database\0d\0\0"
ENDLESS = "SELECT SUM(a.x * b.x) FROM generate_series(1, 9999999) AS a(x), generate_series(1, 9999999) AS b(x)"
WITH_START = struct.pack("!i", len(START) + 4) + START


def message(kind: bytes, content: bytes = b"", length: int | None = None) -> bytes:
    return kind + struct.pack("!i", len(content) + 4 if length is None else length) + content


def talk(server: PostgresServer, *data: bytes, end: bool = True) -> bytes:
    """All that the server says until it closes the connection, or has nothing more to say."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=20) as raw:
        found = b""
        with contextlib.suppress(OSError):  # the server may have closed it already
            for part in data:
                raw.sendall(part)
            if end:
                raw.shutdown(socket.SHUT_WR)
        try:
            while part := raw.recv(1 << 16):
                found += part
        except ConnectionResetError:
            pass
        return found


@pytest.fixture(autouse=True)
def others_go_on(server: PostgresServer, caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Before and after each test the same connection answers, and no trace of an error is logged."""
    with server.connect(autocommit=True) as connection, caplog.at_level(logging.DEBUG, "tidemill.serve"):
        assert connection.execute("SELECT n FROM spending WHERE customer = 1").fetchone() == (2,)
        yield
        assert connection.execute("SELECT n FROM spending WHERE customer = 1").fetchone() == (2,)
    assert not [r for r in caplog.records if r.name == "tidemill.serve" and r.exc_info]


STARTS = {
    "nothing": b"",
    "half a length": b"\0\0",
    "http": b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
    "tls": bytes.fromhex("1603010200010001fc0303"),
    "length 0": b"\0\0\0\0\0\0\0\0",
    "length 7": b"\0\0\0\7\0\3\0\0",
    "length 2 GB": b"\x7f\xff\xff\xff\0\3\0\0",
    "length -1": b"\xff\xff\xff\xff\0\3\0\0",
    "version 2": b"\0\0\0\x08\0\2\0\0",
    "version 4": b"\0\0\0\x08\0\4\0\0",
    "no user": b"\0\0\0\x09\0\3\0\0\0",
    "odd parameters": b"\0\0\0\x0d\0\3\0\0user\0",
    "no end": b"\0\0\0\x0c\0\3\0\0user",
    "not UTF-8": b"\0\0\0\x12\0\3\0\0user\0\xff\xfe\0\0\0",
    "bytes behind SSLRequest": b"\0\0\0\x09\x04\xd2\x16\x2fx",
    "many SSLRequests": b"\0\0\0\x08\x04\xd2\x16\x2f" * 50,
    "short cancel": b"\0\0\0\x0c\x04\xd2\x16\x2e\0\0\0\1",
    "replication": struct.pack("!i", 34) + b"\0\3\0\0user\0me\0replication\0true\0\0\0",
}


@pytest.mark.parametrize("name", STARTS)
def test_wrong_starts(server: PostgresServer, name: str) -> None:
    found = talk(server, STARTS[name]).lstrip(b"N")
    assert not found or (found[:1] == b"E" and b"TM81" in found and b"FATAL" in found), found
    if name in ("http", "length 2 GB", "no end", "not UTF-8", "odd parameters"):
        assert b"TM8101" in found
    if name in ("version 2", "version 4", "replication"):
        assert b"TM8102" in found


MESSAGES = {
    "unknown kind": message(b"?"),
    "length 3": message(b"Q", length=3),
    "length -5": message(b"Q", length=-5),
    "length 1 GB": message(b"Q", length=1 << 30),
    "query without an end": message(b"Q", b"SELECT 1"),
    "query with two ends": message(b"Q", b"SELECT 1\0\0"),
    "query that is not UTF-8": message(b"Q", b"SELECT '\xff'\0"),
    "short parse": message(b"P", b"\0"),
    "parse with too many types": message(b"P", b"\0SELECT 1\0\xff\xff"),
    "bind with a wrong length": message(b"P", b"\0SELECT $1::text\0\0\0")
    + message(b"B", b"\0\0\0\0\0\1\0\0\0\x7fabc\0\0"),
    "bind with a negative length": message(b"P", b"\0SELECT $1::text\0\0\0")
    + message(b"B", b"\0\0\0\0\0\1\xff\xff\xff\xfe\0\0"),
    "bind of format 7": message(b"P", b"\0SELECT 1\0\0\0") + message(b"B", b"\0\0\0\1\0\7\0\0\0\0"),
    "three formats for one column": message(b"P", b"\0SELECT 1\0\0\0") + message(b"B", b"\0\0\0\0\0\0\0\3\0\0\0\0\0\0")
    + message(b"D", b"P\0"),
    "describe of X": message(b"D", b"X\0"),
    "short execute": message(b"E", b"\0\0"),
    "a second start": WITH_START,
    "half a message": message(b"Q", b"SELECT", length=100),
}  # fmt: skip


@pytest.mark.parametrize("name", MESSAGES)
def test_wrong_messages(server: PostgresServer, name: str) -> None:
    found = talk(server, WITH_START, MESSAGES[name])
    assert found.startswith(b"R\0\0\0\x08\0\0\0\0") and found.count(b"Z\0\0\0\5I") == 1
    assert name in ("half a message", "a second start") or (
        b"SFATAL" in found and b"C08P01" in found and b"TM8101" in found
    ), found


def test_errors_within_the_extended_protocol_wait_for_sync(server: PostgresServer) -> None:
    parse = message(b"P", b"\0SELECT * FROM nope\0\0\0")
    rest = message(b"B", b"\0\0\0\0\0\0\0\0") + message(b"D", b"P\0") + message(b"E", b"\0\0\0\0\0")
    sync = message(b"S")
    good = message(b"P", b"\0SELECT 7\0\0\0") + rest
    found = talk(server, WITH_START, parse + rest + rest + sync + good + sync + message(b"X"))
    after = found[found.index(b"Z\0\0\0\5I") + 6 :]
    assert after.count(b"TM2012") == 1 and after.index(b"TM2012") < after.index(b"Z\0\0\0\5I") < after.index(
        b"1\0\0\0\4"
    )
    assert after.endswith(b"D\0\0\0\x0b\0\1\0\0\0\0017C\0\0\0\rSELECT 1\0Z\0\0\0\5I")


def test_newer_minor_versions_and_unknown_options_are_negotiated(server: PostgresServer) -> None:
    start = b"\0\3\0\2user\0me\0_pq_.new\0x\0\0"
    found = talk(server, struct.pack("!i", len(start) + 4) + start, message(b"Q", b"SELECT 1\0"), message(b"X"))
    assert found.startswith(b"v\0\0\0\x15\0\3\0\0\0\0\0\1_pq_.new\0R") and b"SELECT 1" in found


def test_random_bytes(server: PostgresServer, seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(60):
        junk = chance.randbytes(chance.randrange(1, 80))
        if chance.random() < 0.6:
            junk = bytes([chance.choice(b"QPBDECSHXpdcf")]) + struct.pack("!i", chance.randrange(4, 60)) + junk
        talk(server, *([WITH_START] if chance.random() < 0.8 else []), junk)


def test_damaged_messages(server: PostgresServer, seed: int) -> None:
    chance = random.Random(seed)
    whole = message(b"P", b"s\0SELECT $1::int, customer FROM spending\0\0\1\0\0\0\x17") + message(b"D", b"Ss\0")
    whole += message(b"B", b"\0s\0\0\1\0\1\0\1\0\0\0\4\0\0\0\5\0\1\0\1") + message(b"E", b"\0\0\0\0\0") + message(b"S")
    assert talk(server, WITH_START, whole, message(b"X")).count(b"D\0\0\0\x16") == 3
    for _ in range(120):
        damaged = bytearray(whole)
        for _ in range(chance.randrange(1, 4)):
            damaged[chance.randrange(len(damaged))] = chance.randrange(256)
        talk(server, WITH_START, bytes(damaged[: chance.randrange(1, len(damaged) + 1)]))


@pytest.mark.slow
def test_connections_that_stall(start: Any) -> None:
    server = start(pg_stalled_seconds=0.5)
    with server.connect() as connection:
        connection.execute("SELECT 1")
        with pytest.raises(psycopg.errors.IdleInTransactionSessionTimeout, match="TM8106"):
            time.sleep(1.2)  # what is waited for is that nothing happens
            connection.execute("SELECT 1")
    assert talk(server, WITH_START, message(b"Q", b"SELECT", length=100), end=False).endswith(b"Z\0\0\0\5I")
    endless = message(b"Q", b"SELECT REPEAT('x', 100000) FROM generate_series(1, 1000000) AS g(x)\0")
    with socket.create_connection(("127.0.0.1", server.port)) as deaf:
        deaf.sendall(WITH_START + endless)
        deadline = time.monotonic() + 20
        while server.server._postgres.connections and time.monotonic() < deadline:
            time.sleep(0.05)
        assert not server.server._postgres.connections


def test_the_server_ends_while_clients_wait_read_and_are_deaf(start: Any) -> None:
    server = start()
    listener = server.server._postgres
    waiting, busy = server.connect(autocommit=True), server.connect(autocommit=True)
    with (
        socket.create_connection(("127.0.0.1", server.port)) as deaf,
        socket.create_connection(("127.0.0.1", server.port)),
    ):
        deaf.sendall(
            WITH_START + message(b"Q", b"SELECT REPEAT('x', 100000) FROM generate_series(1, 1000000) AS g(x)\0")
        )
        errors: list[str] = []

        def work() -> None:
            try:
                busy.execute(ENDLESS)
            except psycopg.Error as error:
                errors.append(str(error))

        thread = threading.Thread(target=work)
        thread.start()
        process = busy.info.backend_pid
        while not any(c.cancellation._running for c, _ in list(listener._connections.values()) if c.process == process):
            time.sleep(0.01)
        listener.close()
        thread.join(20)
        assert errors and ("TM8107" in errors[0] or "TM8112" in errors[0])
        with pytest.raises(psycopg.OperationalError):
            waiting.execute("SELECT 1")
        with pytest.raises(psycopg.OperationalError, match="refused"):
            server.connect()
    assert not listener.connections
