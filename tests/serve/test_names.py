"""Views and tables of any name that SQL allows, over every protocol."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from contextlib import aclosing
from pathlib import Path
from urllib.parse import quote

import pyarrow.flight as flight
import pytest
from serving import Events, Served
from websockets.sync.client import connect as connect_socket

import tidemill as tm
from commands import here
from tidemill.errors import TidemillError
from tidemill.serve.client.async_client import AsyncClient
from tidemill.serve.http.names import names_in

ServeFactory = Callable[..., Served]

NAMES = (
    "a/b",
    "a b",
    "ü%",
    "changes",
    "first",
    "a/changes",
    "%2f",
    "a%2fb",
    "a,b",
    "?q=1&r#s",
    "a`b",
    " c",
    "..",
    "+",
    "日本/☃",
    "'\"<b>",
    "a\\b",
    "{name}",
)
"""In lower case, as views are called."""


def quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def rows(name: str) -> list[tuple[str, int]]:
    """What the view of a name has."""
    return [(name, n) for n in range(2)]


@pytest.fixture(scope="module")
def served(serve_module: ServeFactory, tmp_path_factory: pytest.TempPathFactory) -> Served:
    data = tmp_path_factory.mktemp("data")
    (data / "a.csv").write_text("0\n1\n")
    found = serve_module(flight_port=0)
    found.sql(f"CREATE TABLE `ta/ble %` (n INT) USING csv OPTIONS (path '{data}/*.csv')")
    views = [
        f"CREATE MATERIALIZED VIEW {quoted(name)} AS SELECT {literal(name)} AS name, n FROM `ta/ble %`;"
        for name in NAMES
    ]
    found.mill.script("\n".join(views))
    found.mill.advance()
    return found


def literal(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


@pytest.mark.parametrize("name", NAMES)
def test_routes(served: Served, name: str) -> None:
    path = quote(name, safe="") if name != ".." else "%2E%2E"
    got = served.http.get(f"/v1/views/{path}")
    assert got.status_code == 200 and sorted(map(tuple, got.json()["rows"])) == rows(name), got.text
    for part in ("/v1/views/{}/description", "/v1/queries/{}", "/v1/queries/{}/graph"):
        described = served.http.get(part.format(path)).json()
        assert described.get("name", described.get("view")) == name
    first = served.http.get(f"/v1/views/{path}/first?order=n&descending=true&rows=1").json()
    assert first["rows"] == [[name, 1]] and first["total"] == 2
    assert served.http.get(f"/v1/queries/{path}/plan").status_code == 200
    events = Events(served.http, f"/v1/views/{path}/changes?from=snapshot")
    begun = events.until(lambda found: any(e.kind == "message" for e in found))
    assert [(e.data["view"], len(e.data["changes"])) for e in begun if e.kind == "message"] == [(name, 2)]
    missing = served.http.get(f"/v1/views/{path}%2Fx")
    assert missing.status_code == 404 and missing.json()["number"] == "TM2012"
    assert f"{name}/x" in missing.json()["got"]


def test_parts_of_a_path_stay_apart(served: Served) -> None:
    assert served.http.get("/v1/views/a/b").json()["number"] == "TM8016"
    assert served.http.get("/v1%2Fviews").json()["number"] == "TM8016"
    assert served.http.get("/v1/views/a%2fchanges").json()["rows"], "small letters of an escape mean the same"
    assert served.http.get("/v1/views/%61%20b").json()["rows"], "so does an escape of what needs none"
    assert served.http.get("/v1/views/%FF%2F").json()["number"] == "TM2012"
    assert served.http.get("/v1/cursors/a%2Fb").json()["number"] == "TM8014"
    assert served.http.get("/v1/adaptors/a%2Fb").json()["number"] == "TM8342"
    assert served.http.get("/v1/readers/ta%2Fble%20%25").json()["name"] == "ta/ble %"


def test_readers_and_queries_are_paused_and_removed(served: Served) -> None:
    with tm.connect(served.url) as client:
        client.add_query("g/o n%e", "SELECT n FROM `ta/ble %`", readers=["ta/ble %"])
        for action in (client.pause_query, client.resume_query):
            action("g/o n%e")
        served.mill.advance()
        assert client.table("g/o n%e").to_arrow().num_rows == 2
        client.remove_query("g/o n%e")
        with pytest.raises(TidemillError, match="TM2012"):
            client.remove_query("g/o n%e")
        client.add_reader("r/1", "csv", path="/nowhere/*.csv", columns="a INT")
        client.pause_reader("r/1")
        assert "r/1" in {q["table"] for q in client.queues()}
        client.resume_reader("r/1")
        client.remove_reader("r/1")
        with pytest.raises(TidemillError, match="TM2012"):
            client.remove_reader("r/1")


@pytest.mark.parametrize("name", NAMES)
def test_clients(served: Served, name: str) -> None:
    with tm.connect(served.url) as client:
        as_rows = [tuple(r.values()) for r in client.table(name, where="n >= 0").to_pylist()]
        assert sorted(as_rows) == rows(name)
        change = next(iter(client.subscribe(name)))
        assert (change.view, change.table.num_rows) == (name, 2)
        cursor = client.cursor(name, durable=False)
        assert [c.view for c in cursor.fetch().changes] == [name]
        cursor.close()

    async def asynchronously() -> None:
        async with AsyncClient(served.url) as client:
            assert (await client.table(name)).num_rows == 2
            async with aclosing(client.subscribe(name)) as changes:
                change = await anext(changes)
                assert (change.view, change.table.num_rows) == (name, 2)

    asyncio.run(asynchronously())
    if name == name.strip():  # the command takes blanks around a name for blanks
        assert f"state view:{name}#" in here("explain", name, "--server", served.url).out


def test_several_views_at_once(served: Served) -> None:
    with tm.connect(served.url) as client:
        epoch, tables = client.tables(NAMES)
        assert {n: sorted(tuple(r.values()) for r in t.to_pylist()) for n, t in tables.items()} == {
            n: rows(n) for n in NAMES
        }
        assert epoch == served.mill.epoch
        seen: dict[str, int] = {}
        for change in client.subscribe(NAMES):
            seen[change.view] = change.table.num_rows
            if len(seen) == len(NAMES):
                break
        assert seen == dict.fromkeys(NAMES, 2)


@pytest.mark.parametrize(
    ("listed", "expected"),
    [
        ("", ()),
        (" , ,", ()),
        ("a, B ,c d", ("a", "b", "c d")),
        ("`a,b`,c", ("a,b", "c")),
        (" `A``,` , x`y ", ("a`,", "x`y")),
        ("`,`", (",",)),
        ("`` , ` `", (" ",)),
    ],
)
def test_lists_of_names(listed: str, expected: tuple[str, ...]) -> None:
    assert names_in(listed) == expected


@pytest.mark.parametrize("listed", ["`a", "a,`b`c", "`", "`a`` , b"])
def test_lists_that_are_none(served: Served, listed: str) -> None:
    for path in ("/v1/results", "/v1/changes"):
        got = served.http.get(path, params={"views": listed})
        assert got.status_code == 422 and got.json()["number"] == "TM8011" and "backtick" in got.json()["hint"]


def test_websocket_and_flight(served: Served) -> None:
    with connect_socket(served.url.replace("http", "ws") + "/v1/ws") as socket:
        for name in NAMES:
            socket.send(json.dumps({"subscribe": name, "views": [name]}))
        seen: dict[str, tuple[str, int]] = {}
        while len(seen) < len(NAMES):
            message = json.loads(socket.recv(timeout=30))
            if message["kind"] == "changes":
                seen[message["id"]] = (message["view"], len(message["changes"]))
        assert seen == {name: (name, 2) for name in NAMES}
    client = flight.connect(served.server.addresses["flight"])
    listed = {b"".join(i.descriptor.path).decode(): i for i in client.list_flights()}
    assert set(listed) == set(NAMES)
    for name, info in listed.items():
        again = client.get_flight_info(flight.FlightDescriptor.for_path(name))
        for endpoint in (*info.endpoints, *again.endpoints):
            found = client.do_get(endpoint.ticket).read_all().to_pylist()
            assert sorted(tuple(r.values()) for r in found) == rows(name)
    client.close()


def test_a_root_with_such_names_is_opened_again(serve: ServeFactory, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("0\n1\n")
    served = serve("names")
    served.sql(f"CREATE TABLE `t/%` (n INT) USING csv OPTIONS (path '{tmp_path}/*.csv')")
    served.sql("CREATE MATERIALIZED VIEW `a/b ü%` AS SELECT n FROM `t/%`")
    served.mill.advance()
    with tm.connect(served.url) as client:
        cursor = client.cursor("a/b ü%", durable=False)
    served.end()
    served.mill.close()
    again = serve("names")
    with tm.connect(again.url) as client:
        (change,) = client.open_cursor(cursor.id).fetch().changes
        assert change.view == "a/b ü%" and change.table.num_rows == 2
