"""Statements, views, changes and cursors over HTTP, against Spark's own answers and what was written into files."""

from __future__ import annotations

import http.client
import select
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from serving import Events, Served, summed

from tidemill.errors import TidemillError
from waiting import wait_until

ServeFactory = Callable[..., Served]

ORDERS = "CREATE TABLE orders (customer INT, amount DOUBLE, op STRING) USING csv OPTIONS (path '{path}/*.csv', {more})"
SPENDING = "SELECT customer, COUNT(*) AS n, SUM(amount) AS amount FROM orders GROUP BY customer"


def orders(served: Served, tmp_path: Path) -> Path:
    """A served table of orders, with deletions, and a view of what customers spend."""
    data = tmp_path / "data"
    data.mkdir()
    served.sql(ORDERS.format(path=data, more="opColumn 'op', header true").replace(", op STRING", ""))
    served.sql(f"CREATE MATERIALIZED VIEW spending AS {SPENDING}")
    return data


def write(data: Path, name: str, *rows: tuple[int, float, str]) -> None:
    """A file of orders: customer, amount, I or D."""
    lines = [",".join(map(str, row)) for row in rows]
    (data / name).write_text("\n".join(["customer,amount,op", *lines]) + "\n")


def rows_of(served: Served, path: str = "/v1/views/spending") -> Counter[tuple[Any, ...]]:
    return Counter(map(tuple, served.http.get(path).json()["rows"]))


def test_a_view_is_created_and_read(serve: ServeFactory, tmp_path: Path) -> None:
    served = serve()
    data = orders(served, tmp_path)
    write(data, "a.csv", (1, 2.5, "I"), (2, 3.0, "I"), (1, 4.0, "I"))
    served.mill.advance()
    found = served.http.get("/v1/views/spending").json()
    assert (found["epoch"], found["columns"]) == (1, ["customer", "n", "amount"])
    assert found["types"] == ["int", "bigint", "double"]
    assert sorted(found["rows"]) == [[1, 2, 6.5], [2, 1, 3.0]]
    csv = served.http.get("/v1/views/spending?format=csv")
    assert sorted(csv.text.splitlines()[1:]) == ["1,2,6.5", "2,1,3"]
    arrow = served.http.get("/v1/views/spending?format=arrow")
    table = pa.ipc.open_stream(arrow.content).read_all()
    assert table.equals(served.mill.read("spending")) and arrow.headers["x-tidemill-epoch"] == "1"
    assert served.sql("SELECT amount FROM spending WHERE customer = 1")["rows"] == [[6.5]]
    assert served.sql("SELECT sum(n) + 1 AS s FROM spending")["rows"] == [[4]]
    selected = served.http.get("/v1/views/spending", params={"columns": "customer * 2 AS c", "where": "amount > 4"})
    assert selected.json()["rows"] == [[2]] and selected.json()["columns"] == ["c"]


def test_changes_add_up_to_the_view(serve: ServeFactory, tmp_path: Path, seed: int) -> None:
    import random

    chance = random.Random(seed)
    served = serve()
    data = orders(served, tmp_path)
    write(data, "0.csv", (1, 1.0, "I"))
    served.mill.advance()
    events = Events(served.http, "/v1/views/spending/changes")
    there: list[tuple[int, float]] = [(1, 1.0)]
    for number in range(1, 8):
        rows = [(chance.randrange(4), float(chance.randrange(10)), "I") for _ in range(5)]
        there += [row[:2] for row in rows]
        gone = there.pop(chance.randrange(len(there)))
        write(data, f"{number}.csv", *rows, (*gone, "D"))
        served.mill.advance()
    newest = served.mill.epoch
    events.until(lambda found: any(e.data.get("epoch") == newest for e in found))
    changes = [e.data for e in events.changes()]
    expected = Counter(
        (c, len(amounts), float(sum(amounts)))
        for c in {c for c, _ in there}
        if (amounts := [a for k, a in there if k == c])
    )
    assert summed(changes) == rows_of(served) == expected
    assert [c["epoch"] for c in changes] == sorted({c["epoch"] for c in changes})
    middle = next(e for e in events.changes() if e.data["epoch"] == newest - 2)
    rest = Events(served.http, "/v1/views/spending/changes", headers={"Last-Event-ID": middle.id})
    rest.until(lambda found: any(e.data.get("epoch") == newest for e in found))
    assert [e.data for e in rest.changes()] == changes[-len(rest.changes()) :]
    assert {e.data["epoch"] for e in rest.changes()} <= {newest - 1, newest}


def test_a_cursor_gives_each_change_once_across_a_restart(serve: ServeFactory, tmp_path: Path) -> None:
    served = serve()
    data = orders(served, tmp_path)
    write(data, "a.csv", *((c, float(c), "I") for c in range(10)))
    served.mill.advance()
    served.mill.checkpoint()
    cursor = served.http.post("/v1/cursors", json={"views": ["spending"]}).json()["cursor"]
    first = served.http.post(f"/v1/cursors/{cursor}/fetch?rows=4").json()
    again = served.http.post(f"/v1/cursors/{cursor}/fetch?rows=3").json()
    taken = [*first["changes"], *again["changes"]]
    assert sum(len(c["changes"]) for c in taken) == 7 and not again["up_to_date"]
    write(data, "b.csv", (3, 1.0, "I"))
    served.mill.advance()
    served.end()
    served.mill.close()
    served = serve()
    repeated = served.http.post(f"/v1/cursors/{cursor}/fetch?rows=3&after={first['position']}").json()
    assert repeated["changes"] == again["changes"]
    while True:
        found = served.http.post(f"/v1/cursors/{cursor}/fetch?rows=2").json()
        taken += found["changes"]
        if found["up_to_date"]:
            break
    assert summed(taken) == rows_of(served)
    served.mill.checkpoint()
    assert served.http.post(f"/v1/cursors/{cursor}/fetch").json()["changes"] == []
    assert served.http.delete(f"/v1/cursors/{cursor}").json() == {"ok": True}
    assert served.http.post(f"/v1/cursors/{cursor}/fetch").json()["number"] == "TM8014"


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "number"),
    [
        ("GET", "/v1/views/nope", None, 404, "TM2012"),
        ("GET", "/v1/views/orders", None, 400, "TM2036"),
        ("GET", "/v1/views/spending?epoch=77", None, 410, "TM1031"),
        ("GET", "/v1/views/spending?format=xml", None, 400, "TM7002"),
        ("GET", "/v1/views/spending?where=nope%3D1", None, 400, "TM2004"),
        ("GET", "/v1/views/spending?where=1%3D1+GROUP+BY+customer", None, 400, "TM2004"),
        ("GET", "/v1/views/spending?columns=count(*)", None, 400, "TM2060"),
        ("GET", "/v1/views/spending/changes?from=xx", None, 400, "TM8013"),
        ("GET", "/nope", None, 404, "TM8016"),
        ("DELETE", "/v1/sql", None, 405, "TM8016"),
        ("POST", "/v1/sql", {"statement": "SELEC 1"}, 400, "TM2001"),
        ("POST", "/v1/sql", {"statement": "INSERT INTO spending VALUES (1)"}, 400, "TM2003"),
        ("POST", "/v1/sql", {"statement": "SELECT 1; SELECT 2"}, 400, "TM7001"),
        ("POST", "/v1/sql", {"statment": "SELECT 1"}, 422, "TM8011"),
        ("POST", "/v1/sql", {"statement": "x" * 200_000}, 400, "TM8012"),
        ("POST", "/v1/cursors", {"views": []}, 422, "TM8011"),
        ("POST", "/v1/cursors", {"views": ["nope"]}, 404, "TM2012"),
        ("POST", "/v1/cursors", {"views": ["spending", "SPENDING"]}, 400, "TM8015"),
        ("POST", "/v1/cursors/nope/fetch", None, 404, "TM8014"),
    ],
)
def test_what_is_wrong_has_a_number(
    serve: ServeFactory, tmp_path: Path, method: str, path: str, body: Any, status: int, number: str
) -> None:
    served = serve()
    orders(served, tmp_path)
    write(tmp_path / "data", "a.csv", (1, 1.0, "I"))
    served.mill.advance()
    response = served.http.request(method, path, json=body)
    found = response.json()
    assert (response.status_code, found["number"]) == (status, number), found
    assert found["what"] and found["hint"] is not None


@pytest.mark.parametrize(
    ("query", "got"),
    [
        ("SELECT " + "(" * 12_000 + "1" + ")" * 12_000, "more than 400 levels"),
        ("SELECT " + "CASE WHEN true THEN " * 3000 + "1" + " END" * 3000, "more than 400 levels"),
        ("SELECT CAST(NULL AS " + "ARRAY<" * 3000 + "INT" + ">" * 3000 + ")", "more than 400 levels"),
        ("SELECT " + "1 + " * 3000 + "1", "the stack of Spark overflowed"),
    ],
)
def test_statements_that_are_too_deeply_nested_have_one_number(serve: ServeFactory, query: str, got: str) -> None:
    served = serve()
    named, explained = {"name": "v", "sql": query}, {"statement": f"EXPLAIN INCREMENTAL {query}"}
    for path, body in (("sql", {"statement": query}), ("sql", explained), ("queries", named)):
        response = served.http.post(f"/v1/{path}", json=body)
        found = response.json()
        assert (response.status_code, found["number"]) == (400, "TM2901"), found
        assert found["got"] == got and found["hint"]
    for call in (served.mill.sql, served.mill.query, served.mill.explain, served.mill.script):
        with pytest.raises(TidemillError, match="TM2901"):
            call(query)


def test_what_looks_nested_and_is_not(serve: ServeFactory) -> None:
    served = serve()
    for query, expected in (
        ("SELECT " + " AND ".join(f"({i} < {i + 1})" for i in range(500)), True),
        ("SELECT length('" + "(" * 1000 + "')", 1000),
        ("SELECT 1 /* " + "(" * 1000 + " */ -- " + "[" * 1000, 1),
        ("SELECT " + " + ".join("CASE WHEN 1 < 2 THEN 1 END" for _ in range(450)), 450),
    ):
        assert served.sql(query)["rows"] == [[expected]]


def test_head_is_get_without_a_body(serve: ServeFactory, tmp_path: Path) -> None:
    served = serve()
    orders(served, tmp_path)
    served.mill.advance()
    for path in (
        "/healthz",
        "/v1/views",
        "/v1/views/spending",
        "/metrics",
        "/v1/views/nothing",
        "/v1/views/spending/changes",
    ):
        found = served.http.head(path)
        assert (found.status_code, found.content) == (404 if path.endswith("nothing") else 200, b"")
    wait_until(lambda: served.service.subscribers == 0)
    assert served.http.head("/v1/sql").status_code == 405


def test_names_once_and_options_as_sql_writes_them(serve: ServeFactory, tmp_path: Path) -> None:
    served = serve()
    orders(served, tmp_path)
    served.mill.advance()
    twice = served.http.get("/v1/results", params={"views": "spending,SPENDING"})
    assert (twice.status_code, twice.json()["number"]) == (400, "TM8015")
    reader = {"name": "more", "format": "csv", "path": f"{tmp_path}/more/*.csv", "columns": "a INT"}
    reader["options"] = {"header": True, "maxFilesPerTrigger": 5}
    assert served.http.post("/v1/readers", json=reader).status_code == 201
    again = served.http.post("/v1/readers", json=reader).json()
    assert again["number"] == "TM2010" and "REPLACE" not in again["hint"]


def test_a_body_that_cannot_be_read_has_not_the_right_form(serve: ServeFactory) -> None:
    served, headers = serve(), {"Content-Type": "application/json"}
    deep = (b"[" * 100_000, b'{"statement": ' * 10_000, b'{"statement": ' + b"9" * 100_000 + b"}")
    for body in (b"\xff", b'{"statement": "SELECT 1', b'{"statement": "\xff"}', b'{"\\ud800": 1}', *deep):
        response = served.http.post("/v1/sql", content=body, headers=headers)
        assert (response.status_code, response.json()["number"]) == (422, "TM8011"), body


def test_a_durable_cursor_of_a_view_that_is_not_durable_yet(serve: ServeFactory, tmp_path: Path) -> None:
    served = serve(mill={"checkpoint_seconds": 1e6})
    data = orders(served, tmp_path)
    write(data, "a.csv", (1, 2.5, "I"))
    served.mill.advance()
    assert served.mill.durable_epoch < served.mill.epoch
    cursor = served.http.post("/v1/cursors", json={"views": ["spending"]}).json()["cursor"]
    waiting = served.http.post(f"/v1/cursors/{cursor}/fetch").json()
    assert waiting["changes"] == []
    served.mill.checkpoint()
    found = served.http.post(f"/v1/cursors/{cursor}/fetch").json()
    assert summed(found["changes"]) == rows_of(served) == {(1, 1, 2.5): 1}


def test_places_of_errors_count_in_what_was_sent(serve: ServeFactory, tmp_path: Path) -> None:
    """A statement is made of it, which the client has not seen."""
    served = serve()
    orders(served, tmp_path)
    view, queries, readers = "/v1/views/spending", "/v1/queries", "/v1/readers"
    long = "  n,\n  amount, kk"
    reader = {"name": "r", "format": "csv", "path": str(tmp_path / "r.csv")}
    cases: list[tuple[str, dict[str, Any], tuple[int, int] | None, str]] = [
        (queries, {"name": "q", "sql": "SELECT kk FROM orders"}, (1, 8), "TM2004"),
        (queries, {"name": "q", "sql": "SELECT customer,\n\n  kk AS x FROM orders"}, (3, 3), "TM2004"),
        (
            queries,
            {"name": "q" * 40, "sql": "\n SELECT kk FROM orders", "properties": {"priority": "1"}},
            (2, 9),
            "TM2004",
        ),
        (queries, {"name": "q", "sql": "SELEC 1"}, (1, 1), "TM2001"),
        (queries, {"name": "q", "sql": "SELECT (1"}, (1, 10), "TM2001"),
        (queries, {"name": "q", "sql": "SELECT 1 +"}, (1, 11), "TM2001"),
        (readers, {**reader, "columns": "a INT, b INTT"}, (1, 10), "TM2001"),
        (readers, {**reader, "columns": "a INT,"}, (1, 7), "TM2001"),
        (readers, {**reader, "columns": "a INT", "format": "csv 1"}, None, ""),
        (view, {"where": "n>"}, (1, 3), "TM2001"),
        (view, {"where": "n > 1 AND kk = 2"}, (1, 11), "TM2004"),
        (view, {"columns": "n, amount, n", "where": "kk = 2"}, (1, 1), "TM2004"),
        (view, {"columns": "customer, kk"}, (1, 11), "TM2004"),
        (view, {"columns": long}, (2, 11), "TM2004"),
        (view, {"columns": "n n n n n"}, (1, 5), "TM2001"),
    ]
    for path, given, place, number in cases:
        response = served.http.get(path, params=given) if path == view else served.http.post(path, json=given)
        found = response.json()
        assert response.status_code >= 400, (given, found)
        assert (found.get("line"), found.get("column")) == (place or (None, None)), (given, found)
        assert not number or found["number"] == number, (given, found)
        assert (
            "of the query" not in f"{found}" and "of the script" not in f"{found}" and "MATERIALIZED" not in f"{found}"
        )


def test_empty_columns_and_conditions(serve: ServeFactory, tmp_path: Path) -> None:
    served = serve()
    orders(served, tmp_path)
    for name, text in (("columns", ""), ("columns", " /* none */ "), ("where", ""), ("where", "\n")):
        found = served.http.get("/v1/views/spending", params={name: text}).json()
        assert (found["number"], found["got"]) == ("TM2060", f"`{name}` is {text!r}"), found
        assert "empty" in found["what"] and "line" not in found
        body = {"views": ["spending"], name: text}
        assert served.http.post("/v1/cursors", json=body).json()["number"] == "TM2060"


def test_a_connection_stays_open_longer_than_clients_keep_it(serve: ServeFactory) -> None:
    served = serve()
    connection = http.client.HTTPConnection(served.url.removeprefix("http://"))
    connection.request("GET", "/healthz")
    assert connection.getresponse().read()
    readable, _, _ = select.select([connection.sock], [], [], 6.0)  # httpx keeps a connection for five seconds
    assert not readable, "the server has ended the connection"
    connection.request("GET", "/healthz")
    assert connection.getresponse().status == 200
    connection.close()
