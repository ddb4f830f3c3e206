"""Who is let in, and what one request may take."""

from __future__ import annotations

import contextlib
import http.client
import json
import re
import shutil
import socket
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest
from pyarrow import flight
from serving import Served
from test_http import orders, write
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

import tidemill as tm
from tidemill.errors import TidemillError
from tidemill.serve.access.settings import ServerSettings
from tidemill.serve.access.tokens import Role, Tokens
from tidemill.serve.http.middleware import patience
from tidemill.serve.stored.state_store import CursorRecord, StateStore
from waiting import wait_until

ServeFactory = Callable[..., Served]

READ, WRITE, ADMIN = "r" * 16, "w" * 16, "a" * 16


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


@pytest.fixture
def tokens(tmp_path: Path) -> str:
    file = tmp_path / "tokens"
    file.write_text(f"# three of them\n\nread {READ}\nwrite {WRITE}\nadmin {ADMIN}\n")
    return str(file)


def test_roles_decide_what_a_caller_may_do(serve: ServeFactory, tokens: str, tmp_path: Path) -> None:
    served = serve(tokens=tokens)
    statement = {"statement": f"CREATE TABLE t (a INT) USING csv OPTIONS (path '{tmp_path}/*.csv')"}
    post = lambda token: served.http.post("/v1/sql", json=statement, headers=bearer(token))  # noqa: E731
    assert (post("x" * 16).status_code, post("x" * 16).json()["number"]) == (401, "TM8005")
    assert served.http.post("/v1/sql", json=statement).headers["www-authenticate"] == "Bearer"
    assert (post(READ).status_code, post(READ).json()["number"]) == (403, "TM8004")
    assert served.mill.snapshot().show("tables").num_rows == 0
    assert post(WRITE).status_code == 200
    shown = served.http.post("/v1/sql", json={"statement": "SHOW TABLES"}, headers=bearer(READ)).json()
    assert shown["rows"][0][0] == "t"
    for method, path in (("DELETE", "/v1/readers/t"), ("POST", "/v1/readers"), ("POST", "/v1/queries")):
        body = (
            {"name": "x", "format": "csv", "path": "/x"} if path == "/v1/readers" else {"name": "x", "sql": "SELECT 1"}
        )
        found = served.http.request(method, path, json=body if method == "POST" else None, headers=bearer(READ))
        assert found.status_code == 403, found.text
    assert served.http.get("/healthz").status_code == served.http.get("/readyz").status_code == 200
    for path in ("/metrics", "/openapi.json", "/v1/views", "/v1/cursors", "/v1/epochs"):
        assert served.http.get(path).status_code == 401, path
        assert served.http.get(path, headers=bearer(READ)).status_code == 200, path
    assert READ not in served.http.get("/metrics", headers=bearer(READ)).text


def test_sinks_need_an_admin(serve: ServeFactory, tokens: str, tmp_path: Path) -> None:
    """They write files and send rows to other places, over every protocol."""
    served = serve(tokens=tokens, flight_port=0, pg_port=0)
    served.mill.sql(f"CREATE TABLE t (a INT) USING csv OPTIONS (path '{tmp_path}/*.csv')")
    served.mill.sql("CREATE MATERIALIZED VIEW v AS SELECT a FROM t")
    create = f"CREATE SINK s FROM v INTO json OPTIONS (path '{tmp_path}/s')"
    flight_client = flight.FlightClient(served.server.addresses["flight"])
    address = served.server.addresses["postgresql"].replace("postgresql://", "postgresql://me@")

    def over_http(statement: str, token: str) -> str:
        return served.http.post("/v1/sql", json={"statement": statement}, headers=bearer(token)).text

    def over_flight(statement: str, token: str) -> str:
        options = flight.FlightCallOptions(headers=[(b"authorization", f"Bearer {token}".encode())])
        try:
            return str(list(flight_client.do_action(flight.Action("sql", statement.encode()), options)))
        except flight.FlightError as error:
            return str(error)

    def over_postgresql(statement: str, token: str) -> str:
        with psycopg.connect(address, password=token, autocommit=True) as connection:
            try:
                return str(connection.execute(statement.encode()).statusmessage)
            except psycopg.Error as error:
                return str(error)

    for ask in (over_http, over_flight, over_postgresql):
        for token in (READ, WRITE):
            assert "TM8004" in ask(create, token) and not served.mill.snapshot().catalog.sinks
        assert "TM" not in ask(create, ADMIN)
        for statement in ("ALTER SINK s PAUSE", "/* a */ DROP SINK s", "DROP SINK IF EXISTS s"):
            for token in (READ, WRITE):
                assert "TM8004" in ask(statement, token)
        assert "TM" not in ask("DROP SINK s", ADMIN)
        shutil.rmtree(tmp_path / "s", ignore_errors=True)
    flight_client.close()


def test_cursors_belong_to_the_token_that_opened_them(serve: ServeFactory, tmp_path: Path) -> None:
    file, second = tmp_path / "tokens", "s" * 16
    file.write_text(f"read {READ}\nread {second}\nadmin {ADMIN}\n")
    served = serve(tokens=str(file))
    served.http.headers.update(bearer(ADMIN))
    orders(served, tmp_path)
    served.mill.advance()

    def ask(token: str, method: str, path: str = "", **more: Any) -> httpx.Response:
        return served.http.request(method, f"/v1/cursors{path}", headers=bearer(token), **more)

    def listed(token: str) -> list[str]:
        return [c["cursor"] for c in ask(token, "GET").json()["cursors"]]

    body = {"views": ["spending"], "durable": False}
    mine, its, old = (ask(t, "POST", json=body).json()["cursor"] for t in (READ, ADMIN, ADMIN))
    served.service.store._run("UPDATE cursors SET owner = NULL WHERE id = ?", (old,))  # of a server of before
    assert (listed(READ), listed(second), set(listed(ADMIN))) == ([mine], [], {mine, its, old})
    for token, cursor in ((READ, its), (second, mine)):
        for method, path in (("GET", ""), ("POST", "/fetch"), ("DELETE", "")):
            refused = ask(token, method, f"/{cursor}{path}")
            assert (refused.status_code, refused.json()["number"]) == (404, "TM8014")
    assert ask(READ, "POST", f"/{mine}/fetch").status_code == 200
    assert ask(READ, "POST", f"/{old}/fetch").status_code == ask(READ, "DELETE", f"/{old}").status_code == 200
    assert ask(ADMIN, "DELETE", f"/{mine}").status_code == 200 and listed(READ) == []


def test_databases_of_before_cursors_had_owners_are_opened(tmp_path: Path) -> None:
    database = sqlite3.connect(tmp_path / "clients.db")
    database.execute("CREATE TABLE cursors (id TEXT PRIMARY KEY, asked TEXT, position TEXT, created REAL, used REAL)")
    database.execute("INSERT INTO cursors VALUES ('a', '{}', '1.0.0.0', 1, 2)")
    database.commit()
    database.close()
    for _ in range(2):
        store = StateStore(tmp_path)
        assert store.cursors()[0] == CursorRecord("a", "{}", "1.0.0.0", 1, 2, None)
        store.close()


@pytest.mark.parametrize(
    ("text", "got"),
    [
        ("", "no token"),
        ("read short\n", "fewer than 16"),
        ("king " + "x" * 20, "is not `role token`"),
        ("read a b", "is not `role token`"),
    ],
)
def test_files_of_tokens_that_cannot_be_used(tmp_path: Path, text: str, got: str) -> None:
    file = tmp_path / "tokens"
    file.write_text(text)
    with pytest.raises(TidemillError, match="TM8003") as error:
        Tokens.read(str(file))
    assert got in error.value.got and "x" * 20 not in error.value.message()
    with pytest.raises(TidemillError, match="TM8003"):
        Tokens.read(str(tmp_path / "nothing"))


def test_without_tokens_everybody_is_an_admin() -> None:
    assert Tokens().role(None) is Role.ADMIN


def test_settings_that_would_let_strangers_in() -> None:
    with pytest.raises(TidemillError, match="TM8001"):
        ServerSettings(host="0.0.0.0").check()
    with pytest.raises(TidemillError, match="TM8001"):
        ServerSettings(host="example.com").check()
    with pytest.raises(TidemillError, match="TM8002"):
        ServerSettings(tls_key="key.pem").check()
    for host in ("127.0.0.1", "127.9.9.9", "::1", "localhost"):
        ServerSettings(host=host).check()


def test_other_hosts_and_origins_are_refused(serve: ServeFactory) -> None:
    served = serve(hosts=("views.example",))
    other = served.http.get("/v1/views", headers={"Host": "evil.example"})
    assert (other.status_code, other.json()["number"]) == (421, "TM8007")
    assert served.http.get("/v1/views", headers={"Host": "views.example:8320"}).status_code == 200
    body = {"statement": "SHOW VIEWS"}
    crossed = served.http.post("/v1/sql", json=body, headers={"Origin": "http://evil.example"})
    assert (crossed.status_code, crossed.json()["number"]) == (403, "TM8008")
    assert served.http.post("/v1/sql", json=body, headers={"Origin": served.url}).status_code == 200
    for origin in ("http://evil.example", "null"):
        for path in ("/v1/views", "/metrics", "/healthz"):
            crossed = served.http.get(path, headers={"Origin": origin})
            assert (crossed.status_code, crossed.json()["number"]) == (403, "TM8008")
    answer = served.http.get("/v1/views", headers={"Origin": served.url})
    assert answer.status_code == 200 and "access-control-allow-origin" not in answer.headers
    assert answer.headers["x-content-type-options"] == "nosniff"


def test_limits_of_bodies_rows_rates_and_subscribers(serve: ServeFactory, tmp_path: Path) -> None:
    served = serve(max_body_bytes=2000, max_rows=50, max_cursors=2, max_subscribers=0)
    data = orders(served, tmp_path)
    write(data, "a.csv", *((c, 1.0, "I") for c in range(60)))
    served.mill.advance()
    number = lambda response: (response.status_code, response.json()["number"])  # noqa: E731
    assert number(served.http.post("/v1/sql", json={"statement": "SELECT " + "1" * 3000})) == (413, "TM8017")

    def parts() -> Any:
        for _ in range(3):
            yield b" " * 1000

    assert number(served.http.post("/v1/sql", content=parts())) == (413, "TM8017")
    for path in ("/v1/views/spending", "/v1/views/spending?format=csv", "/v1/results?views=spending"):
        assert number(served.http.get(path)) == (400, "TM8012")
    assert served.http.get("/v1/results?views=spending&format=arrow").status_code == 200
    assert served.http.get("/v1/views/spending?format=arrow").status_code == 200
    for _ in range(2):
        assert served.http.post("/v1/cursors", json={"views": ["spending"], "durable": False}).status_code == 200
    assert number(served.http.post("/v1/cursors", json={"views": ["spending"]})) == (429, "TM8024")
    assert number(served.http.get("/v1/views/spending/changes")) == (429, "TM8024")


def test_columns_and_conditions_are_no_longer_than_statements(serve: ServeFactory, tmp_path: Path) -> None:
    served = serve(max_statement_length=500)
    orders(served, tmp_path)
    for long in ({"where": f"customer > 0 -- {'x' * 500}"}, {"columns": f"customer AS {'x' * 500}"}):
        refused = [served.http.get(f"/v1/views/spending{end}", params=long) for end in ("", "/changes")]
        refused.append(served.http.post("/v1/cursors", json={"views": ["spending"], **long}))
        assert {(r.status_code, r.json()["number"]) for r in refused} == {(400, "TM8012")}


def answer_on(connection: socket.socket) -> bytes:
    """A whole response: it may come in parts."""
    found = b""
    while b"\r\n\r\n" not in found:
        part = connection.recv(65536)
        assert part, found
        found += part
    head, _, body = found.partition(b"\r\n\r\n")
    length = int(re.search(rb"(?i)content-length: (\d+)", head)[1])  # type: ignore[index]
    while len(body) < length:
        part = connection.recv(65536)
        assert part, found
        body += part
    return head + body


def test_requests_that_do_not_arrive_are_ended(serve: ServeFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patience, "HEAD_SECONDS", 0.3)
    monkeypatch.setattr(patience, "BODY_SECONDS", 0.3)
    served = serve()
    address = ("127.0.0.1", int(served.url.rpartition(":")[2]))
    whole = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    post = b"POST /v1/sql HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    chunk = b"Transfer-Encoding: chunked\r\n\r\n1\r\n{\r\n"
    for begun, slow in (
        (b"", False), (whole[:20], False), (post[:60], False), (post + b"Content-Length: 9\r\n\r\n{", True),
        (post + chunk, True),
    ):  # fmt: skip
        for before in (b"", whole):
            with socket.create_connection(address, timeout=30) as connection:
                connection.sendall(before)
                if before:
                    assert b"200 OK" in answer_on(connection)
                if before and not begun:
                    continue  # kept for 75 seconds
                connection.sendall(begun)
                if slow:
                    found = answer_on(connection)
                    assert b"408" in found and b"TM8023" in found
                else:
                    assert not connection.recv(65536)
    assert served.http.get("/healthz").status_code == 200


def test_connections_beyond_the_limit_are_told(serve: ServeFactory) -> None:
    served = serve(max_connections=3)
    address = ("127.0.0.1", int(served.url.rpartition(":")[2]))
    whole = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    with contextlib.ExitStack() as held:
        another = lambda: held.enter_context(socket.create_connection(address, timeout=30))  # noqa: E731
        for _ in range(3):
            first = another()
            first.sendall(whole)
            assert b"200 OK" in first.recv(65536)
        for _ in range(2):
            refused = http.client.HTTPConnection(*address, timeout=30)
            refused.request("GET", "/healthz")
            answer = refused.getresponse()
            problem = json.loads(answer.read())
            assert (answer.status, problem["number"], answer.getheader("connection")) == (429, "TM8105", "close")
            assert problem["got"] == "3 are open"
        silent = [another() for _ in range(3)]
        beyond = another()
        with contextlib.suppress(ConnectionResetError):
            assert beyond.recv(100) == b""
        first.sendall(whole)  # those that were let in go on
        assert b"200 OK" in first.recv(65536)
        for connection in silent:
            connection.close()
        first.close()
        wait_until(lambda: served.http.get("/healthz").status_code == 200)


def test_a_query_of_spark_is_no_larger_than_an_answer(serve: ServeFactory, tmp_path: Path) -> None:
    served = serve(max_rows=1000)
    orders(served, tmp_path)
    query = "SELECT a.id FROM range({}) AS a CROSS JOIN range(1000) ORDER BY 1"
    for format_ in ("json", "arrow"):
        few = served.http.post(f"/v1/sql?format={format_}", json={"statement": query.format(1)})
        assert few.status_code == 200
        many = served.http.post(f"/v1/sql?format={format_}", json={"statement": query.format(10**6)[:-11]})
        assert (many.status_code, many.json()["number"]) == (400, "TM8012")
        assert served.http.get("/readyz").status_code == 200


def test_epochs_that_have_ended_leave_everything_else(serve: ServeFactory, tmp_path: Path) -> None:
    served = serve()
    orders(served, tmp_path)

    def fail() -> None:
        raise TidemillError("TM1020", "the Spark job of an epoch failed", got="planted")

    served.mill._background._advance = fail
    served.mill.start(0.01)
    wait_until(lambda: served.http.get("/readyz").status_code == 503)
    with tm.connect(served.url) as client:
        assert [v["status"] for v in client.status()["views"]] == ["stopped"]
        assert served.http.get("/v1/queries/spending").status_code == 200
        assert client.table("spending").to_pylist() == []
    with pytest.raises(TidemillError, match="TM1020"):
        served.mill.stop()


def test_a_rate_is_held_for_each_address(serve: ServeFactory) -> None:
    served = serve(requests_per_second=5)
    statuses = [served.http.get("/v1/views").status_code for _ in range(40)]
    assert statuses[:5] == [200] * 5 and 429 in statuses
    refused = next(r for _ in range(40) if (r := served.http.get("/v1/views")).status_code == 429)
    assert refused.json()["number"] == "TM8009" and refused.headers["retry-after"] == "1"
    with pytest.raises(InvalidStatus) as over_socket:
        for _ in range(40):
            with connect(served.url.replace("http", "ws") + "/v1/ws"):
                pass
    answer = over_socket.value.response
    assert (answer.status_code, answer.headers["retry-after"]) == (429, "1")
    assert json.loads(answer.body)["number"] == "TM8009"


def test_everything_is_encrypted_with_a_certificate(serve: ServeFactory, tmp_path: Path) -> None:
    import subprocess

    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"]
    command += ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(certificate)]
    subprocess.run(command, check=True, capture_output=True)
    served = serve(tls_certificate=str(certificate), tls_key=str(key))
    assert served.url.startswith("https://")
    assert httpx.get(f"{served.url}/healthz", verify=str(certificate)).json()["status"] == "ok"
    with pytest.raises(httpx.HTTPError):
        httpx.get(f"{served.url}/healthz")
