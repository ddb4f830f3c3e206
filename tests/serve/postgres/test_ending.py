"""Connections and statements end when they have to, whatever clients do."""

from __future__ import annotations

import socket
import threading
from typing import Any

import psycopg
import pytest
from postgres_server import PostgresServer
from test_bad_messages import ENDLESS, WITH_START, message

from tidemill.serve.postgres import connection as connections
from tidemill.serve.postgres.query.duckdb_engine import DuckDBEngine, EngineSession
from tidemill.serve.postgres.session.cancellation import Cancellation


@pytest.fixture(scope="module")
def served(start: Any) -> PostgresServer:
    """A server without views."""
    found: PostgresServer = start()
    return found


def ended(server: PostgresServer) -> bool:
    """Whether all connections end within some seconds."""
    waiting, listener = threading.Event(), server.server._postgres
    for _ in range(400):
        if not listener.connections:
            return True
        waiting.wait(0.05)
    return False


def test_a_session_that_was_closed_is_not_interrupted() -> None:
    """DuckDB raises an error then, which would end the thread that cancels statements of all connections."""
    engine = DuckDBEngine(64 << 20, 1)
    session = engine.session("UTC")
    session.interrupt()
    session.close()
    session.interrupt()
    session.close()
    engine.close()


def test_clients_that_go_as_soon_as_they_have_come(served: PostgresServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """A socket that was reset has no address: that is no error, and the connection ends."""
    failed: list[threading.ExceptHookArgs] = []
    monkeypatch.setattr(threading, "excepthook", failed.append)
    listener = served.server._postgres
    near, far = socket.socketpair()
    far.close()
    with socket.socket() as unconnected:
        for gone in (near, unconnected):
            listener._begin(gone, "127.0.0.1")
            assert ended(served) and gone.fileno() == -1
    assert not failed


def test_statements_are_cancelled_after_an_error_of_another_one(
    served: PostgresServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def failing(_: Any) -> None:
        monkeypatch.undo()
        raise ConnectionError("the engine has gone")

    monkeypatch.setattr(EngineSession, "interrupt", failing)
    for _ in range(2):
        with (
            served.connect(autocommit=True, options="-c statement_timeout=200ms") as client,
            pytest.raises(psycopg.errors.QueryCanceled, match="TM8112"),
        ):
            client.execute("SELECT SUM(x) FROM generate_series(1, 3000000000) AS g(x)")
    assert [r.exc_info is not None for r in caplog.records if "interrupted" in r.message] == [True]


def test_an_interrupt_that_fails_is_not_repeated() -> None:
    calls = []

    def interrupt() -> None:
        calls.append(1)
        raise ConnectionError

    cancellation = Cancellation()
    with cancellation.statement(0):
        cancellation.use(interrupt)
        with pytest.raises(ConnectionError):
            cancellation.cancel("a test")
        cancellation.tick()
    assert calls == [1]


def test_a_client_that_goes_on_sending_after_an_error(served: PostgresServer) -> None:
    """It is cut off: what it sends is not read for ever."""
    stop = threading.Event()
    with socket.create_connection(("127.0.0.1", served.port), timeout=20) as raw:
        raw.sendall(WITH_START + message(b"?"))

        def send() -> None:
            try:
                while not stop.is_set():
                    raw.sendall(b"x" * 1000)
            except OSError:
                return  # it was cut off

        thread = threading.Thread(target=send)
        thread.start()
        try:
            assert ended(served)
        finally:
            stop.set()
            thread.join()


def test_a_start_that_comes_byte_by_byte(served: PostgresServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever is not known yet has a limit on the whole start, not on each byte."""
    monkeypatch.setattr(connections, "START_SECONDS", 0.5)
    waiting = threading.Event()
    with socket.create_connection(("127.0.0.1", served.port), timeout=20) as raw:
        raw.sendall(b"\0\0\x20\0\0\3\0\0")
        with pytest.raises(OSError):
            for _ in range(400):
                raw.sendall(b"u")
                waiting.wait(0.05)
    assert ended(served)


def test_the_server_stops_although_an_engine_forgets_interrupts(start: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """As DuckDB does when it has not begun yet."""
    server = start()
    calls, interrupt = [], EngineSession.interrupt

    def forgetting(session: EngineSession) -> None:
        calls.append(1)
        if len(calls) > 3:
            interrupt(session)

    monkeypatch.setattr(EngineSession, "interrupt", forgetting)
    client = server.connect(autocommit=True)

    def work() -> None:
        with pytest.raises(psycopg.Error):
            client.execute(ENDLESS)

    thread = threading.Thread(target=work)
    thread.start()
    listener = server.server._postgres
    waiting = threading.Event()
    while not any(c.cancellation._interrupt for c, _ in list(listener._connections.values())):
        waiting.wait(0.01)
    closing = threading.Thread(target=listener.close)
    closing.start()
    closing.join(25)
    assert not closing.is_alive() and not listener.connections
    thread.join()
    client.close()


def test_a_connection_without_a_thread_is_closed(served: PostgresServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """The others go on, and new ones are taken when there can be threads again."""
    with monkeypatch.context() as patched:

        def failing(_: threading.Thread) -> None:
            patched.undo()
            raise RuntimeError("can't start new thread")

        patched.setattr("tidemill.serve.postgres.listener.threading.Thread.start", failing)
        with socket.create_connection(("127.0.0.1", served.port), timeout=20) as raw:
            assert raw.recv(1) == b""
    with served.connect(autocommit=True) as client:
        assert client.execute("SELECT 1").fetchone() == (1,)
