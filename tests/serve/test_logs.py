"""The log of a server: what happened is in it once, and neither secrets nor values of rows are."""

from __future__ import annotations

import datetime
import http.client
import io
import json
import logging
import os
import re
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pyarrow.flight as flight
import pytest
from serving import Served
from test_access import bearer
from test_http import orders, write

from commands import here
from tidemill.errors import TidemillError
from tidemill.serve.access.settings import ServerSettings
from tidemill.serve.logs.entry import Entry
from tidemill.serve.logs.events import CONNECTION_REFUSED, EVENTS, LOG_LOST, SERVER_STARTED, logs_page
from tidemill.serve.logs.redaction import message_fields, redacted
from tidemill.serve.logs.server_log import ServerLog
from tidemill.serve.logs.statement_names import named
from waiting import wait_until

ServeFactory = Callable[..., Served]

READ, WRITE, ADMIN = "r" * 16, "w" * 16, "a" * 16


def logged(served: Served, event: str = "", **asked: Any) -> list[dict[str, Any]]:
    """The entries over HTTP, of one event if it is given."""
    response = served.http.get("/v1/logs", params={"limit": 10_000, **asked})
    assert response.status_code == 200, response.text
    return [entry for entry in response.json() if event in ("", entry["event"])]


def test_the_page_of_logs_is_that_of_the_declarations() -> None:
    page = Path(__file__).parents[2] / "docs" / "logs.md"
    assert page.read_text() == logs_page()
    assert len({event.name for event in EVENTS}) == len(EVENTS)
    for event in EVENTS:
        assert set(re.findall(r"\{(\w+)\}", event.message)) <= event.fields.keys(), event.name


def test_entries_tell_what_happened(serve: ServeFactory, tmp_path: Path) -> None:
    served = serve(log_level="debug", slow_epoch_seconds=1e-6)
    data = orders(served, tmp_path)
    served.sql("CREATE OR REPLACE MATERIALIZED VIEW ratios AS SELECT 1 DIV CAST(amount AS INT) AS r FROM orders")
    write(data, "a.csv", (1, 2.5, "I"), (2, 3.0, "I"))
    (data / "b.csv").write_text("customer,amount,op\nx,1,I\n")
    served.mill.advance()
    write(data, "c.csv", (3, 0.0, "I"))
    served.mill.advance()
    served.mill.checkpoint()
    served.sql("SELECT sum(n) + 1 AS s FROM spending")
    served.http.get("/v1/views/nothing")
    served.sql("DROP VIEW nothing", 404)
    found = logged(served)
    assert [e["number"] for e in found] == list(range(found[0]["number"], found[0]["number"] + len(found)))
    times = [datetime.datetime.fromisoformat(e["time"]) for e in found]
    assert times == sorted(times) and times[0].tzinfo is not None
    executed = [(e["fields"]["kind"], e["fields"]["name"]) for e in logged(served, "statement.executed")]
    assert executed == [("CREATE TABLE", "orders"), ("CREATE VIEW", "spending"), ("CREATE VIEW", "ratios")]
    first = logged(served, "statement.executed")[0]
    assert first["fields"]["role"] == "admin" and first["fields"]["protocol"] == "http"
    assert first["fields"]["client"] == "127.0.0.1" and first["level"] == "info"
    assert first["message"].startswith("CREATE TABLE orders took ")
    sealed = [(e["fields"]["epoch"], e["fields"]["rows"]) for e in logged(served, "epoch.sealed")]
    reports = served.http.get("/v1/epochs").json()
    assert sealed == [(r["epoch"], r["rows_in"]) for r in reports]
    assert logged(served, "epoch.sealed")[0]["fields"]["malformed"] == 1
    assert [e["fields"]["epoch"] for e in logged(served, "epoch.slow")] == [r["epoch"] for r in reports]
    failed = logged(served, "view.failed")
    assert [(e["fields"]["view"], e["fields"]["epoch"], e["level"]) for e in failed] == [("ratios", 2, "error")]
    assert failed[0]["fields"]["number"].startswith("TM3") and "got" not in failed[0]["fields"]
    assert logged(served, "checkpoint.written")[-1]["fields"]["epoch"] == 2
    assert [e["fields"]["kind"] for e in logged(served, "query.executed")] == ["SELECT"]
    requests = [(e["fields"]["request"], e["fields"]["number"]) for e in logged(served, "request.failed")]
    assert requests == [("GET /v1/views/{name}", "TM2012"), ("POST /v1/sql", "TM2012")]
    assert logged(served, "request.failed")[1]["fields"]["statement"] == "DROP VIEW nothing"
    answered = {(e["fields"]["method"], e["fields"]["route"]) for e in logged(served, "request.answered")}
    assert {("GET", "/v1/epochs"), ("GET", "/v1/logs"), ("POST", "/v1/sql")} <= answered


def test_entries_are_given_by_number_level_and_count(serve: ServeFactory) -> None:
    served = serve(log_entries=50)
    for n in range(80):
        served.service.server_log.note(SERVER_STARTED, root=str(n), epoch=n)
        if n % 7 == 0:
            served.service.server_log.note(LOG_LOST, count=n)
    every = logged(served)
    assert len(every) == 50
    warnings = [e for e in every if e["level"] == "warning"]
    assert logged(served, level="warning") == warnings and logged(served, level="error") == []
    assert logged(served, limit=3) == every[-3:]
    middle = every[20]["number"]
    assert logged(served, after=middle) == every[21:]
    assert logged(served, after=middle, limit=4) == every[21:25]
    assert logged(served, after=middle, level="warning", limit=2) == [e for e in warnings if e["number"] > middle][:2]
    assert logged(served, after=every[-1]["number"]) == []
    for wrong in ("level=trace", "limit=0", "after=x", "after=-1"):
        assert served.http.get(f"/v1/logs?{wrong}").json()["number"] == "TM8011"


def test_only_an_admin_reads_the_log(serve: ServeFactory, tmp_path: Path) -> None:
    file = tmp_path / "tokens"
    file.write_text(f"read {READ}\nwrite {WRITE}\nadmin {ADMIN}\n")
    served = serve(tokens=str(file))
    statuses = [served.http.get("/v1/logs", headers=bearer(t)).status_code for t in (READ, WRITE, ADMIN)]
    assert statuses == [403, 403, 200] and served.http.get("/v1/logs").status_code == 401
    entries = served.http.get("/v1/logs", headers=bearer(ADMIN)).json()
    seen = [(e["event"], e["fields"].get("number"), e["fields"].get("role")) for e in entries]
    assert seen == [
        ("request.failed", "TM8004", "read"),
        ("request.failed", "TM8004", "write"),
        ("connection.refused", "TM8005", None),
    ]


def _wrong_requests(served: Served, planted: str, data: Path) -> None:
    """Requests over all protocols that have a secret in them, or meet a row that has."""
    http, token = served.http, bearer(ADMIN)
    http.get("/v1/views", headers=bearer(planted))
    http.get(f"/v1/views?token={planted}", headers={"Cookie": f"tidemill_token={planted}"})
    http.get(f"/nothing/{planted}", headers=token)
    http.post("/v1/sql", content=f'{{"statement": "{planted}', headers={**token, "Content-Type": "application/json"})
    sql = lambda text: http.post("/v1/sql", json={"statement": text}, headers=token)  # noqa: E731
    options = f"path 's3://b/x*.csv', endpoint 'http://127.0.0.1:9', aws_secret_access_key '{planted}'"
    sql(f"CREATE TABLE remote (a INT) USING csv OPTIONS ({options})")
    sql(f"CREATE TABLE other (a INT) USING csv OPTIONS (path 's3://user:{planted}@b/x.csv', nothing '{planted}')")
    sql(f"SELECT * FROM spending WHERE nothing = '{planted}'")
    sql(planted)
    sql(f"CREATE MATERIALIZED VIEW w AS SELECT FROM '{planted}' WHERE")
    webhook = f"url 'http://127.0.0.1:9/hook?key={planted}', bearerToken '{planted}', httpHeaders 'X-Key: {planted}'"
    made = sql(f"CREATE SINK hook FROM spending INTO webhook OPTIONS ({webhook})")
    assert made.status_code == 200, made.text
    (data / "bad.csv").write_text(f"customer,amount,op,name\n{planted},1,I,{planted}\n4,2,I,{planted}\n")
    served.mill.advance()
    served.mill.checkpoint()
    with pytest.raises(psycopg.OperationalError, match=r"TM8103|password"):
        _postgres(served, planted)
    with _postgres(served, ADMIN) as connection:
        for text in (f"SELECT '{planted}'::int", f"SELECT nothing FROM spending WHERE n = '{planted}'", planted):
            with pytest.raises(psycopg.Error):
                connection.execute(text)
    client = flight.connect(served.server.addresses["flight"])
    for given in (planted, ADMIN):
        call = flight.FlightCallOptions(headers=[(b"authorization", f"Bearer {given}".encode())])
        with pytest.raises((flight.FlightError, OSError)):
            client.do_get(flight.Ticket(json.dumps({"sql": f"SELECT '{planted}' x FROM nothing"}).encode()), call)
    client.close()


def _postgres(served: Served, password: str) -> psycopg.Connection[Any]:
    port = int(served.server.addresses["postgresql"].rpartition(":")[2].partition("/")[0])
    given = {"host": "127.0.0.1", "port": port, "user": "somebody", "dbname": "tidemill"}
    return psycopg.connect(**given, password=password, autocommit=True, connect_timeout=20)


@pytest.mark.parametrize("format_", ["text", "json"])
def test_neither_secrets_nor_rows_are_in_the_log(
    serve: ServeFactory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, format_: str
) -> None:
    planted = "p1anted5ecretValue"
    file = tmp_path / "tokens"
    file.write_text(f"admin {ADMIN}\n")
    served = serve(tokens=str(file), log_level="debug", flight_port=0, pg_port=0)
    stream = io.StringIO()
    served.service.server_log.write_to(stream, format_)
    data = tmp_path / "data"
    data.mkdir()
    table = f"CREATE TABLE orders (customer INT, amount DOUBLE, name STRING) USING csv OPTIONS (path '{data}/*.csv'"
    served.mill.sql(f"{table}, opColumn 'op', header true)")
    served.mill.sql("CREATE MATERIALIZED VIEW spending AS SELECT customer, COUNT(*) AS n FROM orders GROUP BY customer")
    served.mill.sql("CREATE MATERIALIZED VIEW failing AS SELECT CAST(name AS INT) AS n FROM orders")
    _wrong_requests(served, planted, data)

    def failing(*_: Any) -> None:
        raise ValueError(f"cannot read {planted}")

    monkeypatch.setattr(served.service, "read_all", failing)
    quiet = httpx.Client(base_url=served.url, headers=bearer(ADMIN))
    assert quiet.get("/v1/results?views=spending").status_code == 500
    logging.getLogger("uvicorn.error").error("of a library: Bearer %s", planted)
    served.mill.start()
    seen = lambda name: [e for e in served.service.server_log.entries(limit=10_000) if e.event == name]  # noqa: E731
    wait_until(lambda: seen("sink.failed"))
    text = quiet.get("/v1/logs?limit=10000").text
    served.end()
    lines = stream.getvalue()
    assert planted not in text and planted not in lines and ADMIN not in lines
    refused = [(e.fields["protocol"], e.fields["number"]) for e in seen("connection.refused")]
    assert refused == [("http", "TM8005")] * 2 + [("postgresql", "TM8103"), ("flight", "TM8005")]
    failed = [(e.fields["protocol"], e.fields["number"]) for e in seen("request.failed")]
    assert {protocol for protocol, _ in failed} == {"http", "postgresql", "flight"} and len(failed) >= 9
    assert [e.fields["view"] for e in seen("view.failed")] == ["failing"]
    broken = seen("request.broken")
    assert [(e.fields["request"], e.fields["error"]) for e in broken] == [("GET /v1/results", "ValueError")]
    assert "test_logs.py" in broken[0].fields["place"]
    assert "of a library: Bearer ***" in [e.fields["text"] for e in seen("library.message")]
    assert len(lines.splitlines()) >= len(failed) and "***" in lines
    if format_ == "json":
        assert {e["event"] for e in map(json.loads, lines.splitlines())} >= {"sink.failed", "view.failed"}


def test_a_request_that_breaks_does_not_end_its_connection(
    serve: ServeFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    served = serve()

    def failing(*_: Any) -> None:
        raise ValueError("broken")

    monkeypatch.setattr(served.service, "read_all", failing)
    address = httpx.URL(served.url)
    connection = http.client.HTTPConnection(address.host, address.port or 80, timeout=30)
    sockets = []
    for path, status in (
        ("/v1/results?views=v", 500),
        ("/v1/logs", 200),
        ("/v1/results?views=v", 500),
        ("/metrics", 200),
    ):
        connection.request("GET", path)
        sockets.append(connection.sock)  # http.client opens another where the server has ended the first
        answer = connection.getresponse()
        assert answer.status == status
        body = answer.read().decode()
    connection.close()
    assert len(set(map(id, sockets))) == 1
    assert [e["fields"]["error"] for e in logged(served, "request.broken")] == ["ValueError"] * 2
    assert not logged(served, "library.message")
    counted = 'tidemill_requests_total{method="GET",route="/v1/results",status="500"} 2.0'
    assert counted in body.splitlines()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("s3://user:se/cret@b/x", "s3://user:se/cret@b/x"),  # no URL: a slash ends user and password
        ("s3://user:se@cret@b/x y", "s3://***@b/x y"),
        ("https://b/x.csv?sig=abc#d, next", "https://b/x.csv?*** next"),
        ("Authorization: Bearer abc.def", "Authorization: Bearer ***"),
        ("password=abc, other=1", "password=***, other=1"),
        ('{"aws_secret_access_key": "abc"}', '{"aws_secret_access_key": ***}'),
        ("OPTIONS (accessToken: 'a b')", "OPTIONS (accessToken: ***)"),
        ("nothing to hide: 5 rows", "nothing to hide: 5 rows"),
    ],
)
def test_texts_are_redacted(text: str, expected: str) -> None:
    assert redacted(text) == expected


def test_errors_are_told_without_values() -> None:
    assert message_fields("TM3002: a value cannot be cast\n  got:  'abc'\n  hint: x") == {
        "number": "TM3002",
        "what": "a value cannot be cast",
    }
    error = TidemillError("TM5001", "no such file", got="/data/x\n/data/y", hint="look")
    assert message_fields(error.message()) == {"number": "TM5001", "what": "no such file", "got": "/data/x\n/data/y"}
    assert message_fields("something else\nand more") == {"what": "something else"}


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("create or replace materialized view if not exists V as select 'x'", ("CREATE VIEW", "v")),
        ("CREATE STATIC TABLE `T` (a INT) USING csv", ("CREATE TABLE", "t")),
        ("DROP MATERIALIZED VIEW IF EXISTS v", ("DROP VIEW", "v")),
        ("ALTER SINK s SET OPTIONS (bearerToken 'x')", ("ALTER SINK", "s")),
        ("CREATE TABLE 'secret' (a INT)", ("CREATE TABLE", "")),
        ("(SELECT 1)", ("SELECT", "")),
        ("secret words", ("statement", "")),
        ("", ("statement", "")),
    ],
)
def test_statements_are_named_without_their_values(statement: str, expected: tuple[str, str]) -> None:
    assert named(statement) == expected


def test_a_line_of_text_is_one_line_and_harmless() -> None:
    entry = Entry(1, 0.5, "info", "e", "m\n\x1b[31m", {"name": "a\r\n\x1b]0;x\x07b", "of": {"k": "v w"}, "n": 1.5})
    text = entry.as_text()
    assert text.isprintable() and text.startswith("1970-01-01T00:00:00.500Z INFO    e: m\\n\\x1b[31m ")
    assert 'of.k="v w" n=1.5' in text
    assert json.loads(entry.as_json()) == entry.shown() and entry.as_json().isascii()


def test_whoever_does_not_read_the_log_delays_nothing() -> None:
    reading, writing = os.pipe()
    log = ServerLog()
    log.write_to(os.fdopen(writing, "w"), "json")
    count = 12_000
    for n in range(count):  # more than the pipe and the queue hold; returns although nobody reads
        log.note(SERVER_STARTED, root="r" * 100, epoch=n)
    lines: list[dict[str, Any]] = []

    def read() -> None:
        with os.fdopen(reading) as stream:
            lines.extend(map(json.loads, stream))

    reader = threading.Thread(target=read)
    reader.start()
    writer = log._writer
    assert writer is not None
    wait_until(lambda: writer._queue.empty())
    log.note(SERVER_STARTED, root="last", epoch=count)
    log.close()
    writer._stream.close()
    reader.join(30)
    written = [e for e in lines if e["event"] == "server.started"]
    lost = sum(e["fields"]["count"] for e in lines if e["event"] == "log.lost")
    assert written[-1]["fields"]["root"] == "last" and lost > 0
    assert len(written) + lost == count + 1
    assert [e["number"] for e in written] == sorted(e["number"] for e in written)


def test_what_clients_cause_without_end_is_counted() -> None:
    log = ServerLog()
    for _ in range(500):
        log.note(CONNECTION_REFUSED, protocol="http", number="TM8005", what="this needs a token")

    def all_told() -> bool:
        log.note(CONNECTION_REFUSED, protocol="http", number="TM8005", what="last")
        return log.entries()[-1].fields["what"] == "last"

    wait_until(all_told)
    entries = [e for e in log.entries() if e.fields["what"] != "last"]
    assert len(entries) <= 2 * CONNECTION_REFUSED.per_second
    left_out = next(e for e in log.entries() if e.fields["what"] == "last").fields["suppressed"]
    assert left_out >= 500 - len(entries)
    log.close()


def test_lines_of_libraries_and_handlers_of_programs(serve: ServeFactory) -> None:
    served = serve()
    taken: list[Entry] = []

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            taken.append(record.entry)  # type: ignore[attr-defined]

    served.service.server_log.logger.addHandler(Handler())
    address = httpx.URL(served.url)
    with socket.create_connection((address.host, address.port)) as connection:
        connection.sendall(b"\x16\x03\x01 this is no HTTP\r\n\r\n")
        while connection.recv(1000):
            pass
    wait_until(lambda: taken)
    assert taken[0].event == "library.message" and taken[0].fields["logger"] == "uvicorn.error"
    assert [e["number"] for e in logged(served, "library.message")] == [taken[0].number]


def test_epochs_that_end_are_an_error(serve: ServeFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    served = serve()

    def failing() -> None:
        raise TidemillError("TM1014", "a file cannot be written", got="/full/disk")

    monkeypatch.setattr(served.mill._background, "_advance", failing)
    served.mill.start()
    wait_until(lambda: logged(served, "epochs.ended"))
    ended = logged(served, "epochs.ended")
    assert [(e["level"], e["fields"]["number"], e["fields"]["got"]) for e in ended] == [
        ("error", "TM1014", "/full/disk")
    ]
    with pytest.raises(TidemillError, match="TM1014"):
        served.mill.stop()


def test_settings_of_the_log_that_cannot_be(tmp_path: Path) -> None:
    for wrong in ({"log_level": "trace"}, {"log_format": "xml"}):
        with pytest.raises(TidemillError, match="TM8320") as error:
            ServerSettings(**wrong).check()  # type: ignore[arg-type]
        assert error.value.got in ("trace", "xml")
    found = here("serve", "--root", str(tmp_path / "root"), "--log-level", "loud")
    assert found.code == 1 and "TM8320" in found.err
