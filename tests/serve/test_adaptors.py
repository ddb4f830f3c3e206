"""Adaptors of a server: created over HTTP, used by readers of files and sockets, kept across restarts.

The oracle is the same function called here, and Spark's own answer over its rows.
"""

from __future__ import annotations

import json
import random
import socket
import struct
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from serving import Served
from test_access import bearer

import tidemill as tm
from tidemill.errors import TidemillError
from waiting import wait_until

ServeFactory = Callable[..., Served]

TRADES = '''
import json

def decode(size, data):
    """One row for each fill of a trade."""
    if data[:1] == b"#":
        return None
    trade = json.loads(data)
    if trade["side"] not in ("B", "S"):
        raise ValueError("no such side: " + trade["side"])
    sign = 1 if trade["side"] == "B" else -1
    return [{"symbol": trade["symbol"], "n": sign * n} for n in trade["fills"]]
'''
QUERY = "SELECT symbol, COUNT(*) AS fills, SUM(n) AS net FROM trades GROUP BY symbol"


def decoded(message: bytes) -> list[tuple[str, int]]:
    """The twin of ``TRADES``."""
    if message[:1] == b"#":
        return []
    trade = json.loads(message)
    return [(trade["symbol"], n if trade["side"] == "B" else -n) for n in trade["fills"]]


def trade(chance: random.Random) -> bytes:
    fills = [chance.randrange(1, 100) for _ in range(chance.randrange(4))]
    return json.dumps({"symbol": f"S{chance.randrange(5)}", "side": chance.choice("BS"), "fills": fills}).encode()


def framed(messages: list[bytes]) -> bytes:
    return b"".join(struct.pack("<I", len(m)) + m for m in messages)


def upload(served: Served, source: str = TRADES, name: str = "trades_feed", **more: Any) -> dict[str, Any]:
    response = served.http.post("/v1/adaptors", json={"name": name, "source": source, **more})
    assert response.status_code == 201, response.text
    found: dict[str, Any] = response.json()
    return found


def reader(served: Served, path: Path | str, name: str = "trades", **options: str) -> None:
    body = {"name": name, "format": "trades_feed", "path": str(path), "columns": "symbol STRING, n INT"}
    response = served.http.post("/v1/readers", json={**body, "options": options})
    assert response.status_code == 201, response.text


def view(served: Served, name: str) -> Counter[tuple[Any, ...]]:
    return Counter(map(tuple, served.http.get(f"/v1/views/{name}").json()["rows"]))


def by_spark(served: Served, rows: list[tuple[str, int]], query: str = QUERY) -> Counter[tuple[Any, ...]]:
    """What Spark answers over decoded rows."""
    frame = served.mill.spark.createDataFrame(rows, "symbol STRING, n INT")
    return Counter(map(tuple, served.mill.spark.sql(query.replace("FROM trades", "FROM {t}"), t=frame).collect()))


def test_files_decoded_by_an_adaptor_equal_spark(serve: ServeFactory, tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    served = serve(adaptors=True, mill={"partitions": 2, "small_epoch_bytes": 0, "split_bytes": 4096})
    data = tmp_path / "data"
    data.mkdir()
    assert "memory" in upload(served)["kept_from"]
    reader(served, data / "*.bin")
    reader(served, data / "*.txt", "lines", messageFraming="lines")
    served.sql(f"CREATE MATERIALIZED VIEW net AS {QUERY}")
    served.sql("CREATE MATERIALIZED VIEW net_lines AS " + QUERY.replace("FROM trades", "FROM lines"))
    every: list[bytes] = []
    for epoch in range(3):
        messages = [trade(chance) for _ in range(400)] + [b"# a comment"]
        chance.shuffle(messages)
        every += messages
        (data / f"{epoch}.bin").write_bytes(framed(messages))
        (data / f"{epoch}.txt").write_bytes(b"\n".join(messages) + b"\n")
        while served.mill.advance() is not None:
            pass
        expected = by_spark(served, [row for m in every for row in decoded(m)])
        assert view(served, "net") == view(served, "net_lines") == expected
    served.sql("CREATE MATERIALIZED VIEW later AS SELECT symbol, MAX(n) AS n FROM trades GROUP BY symbol")
    while served.mill.advance() is not None:
        pass
    most = "SELECT symbol, MAX(n) AS n FROM trades GROUP BY symbol"
    assert view(served, "later") == by_spark(served, [row for m in every for row in decoded(m)], most)


def test_a_socket_is_read_with_an_adaptor(serve: ServeFactory, seed: int) -> None:
    chance = random.Random(seed)
    served = serve(adaptors=True)
    upload(served)
    reader(served, "tcp+listen://127.0.0.1:0")
    served.sql(f"CREATE MATERIALIZED VIEW net AS {QUERY}")
    status = served.mill.read("trades__status").to_pylist()
    port = next(int(r["peer"].rpartition(":")[2]) for r in status if r["state"] == "listening")
    messages = [trade(chance) for _ in range(200)]
    data = framed(messages)
    served.mill.start()
    with socket.create_connection(("127.0.0.1", port)) as connection:
        while data:
            size = chance.randrange(1, 700)
            connection.sendall(data[:size])
            data = data[size:]
    expected = by_spark(served, [row for m in messages for row in decoded(m)])
    wait_until(lambda: view(served, "net") == expected)
    served.mill.stop()


def test_malformed_messages_disturb_no_other_table(serve: ServeFactory, tmp_path: Path) -> None:
    served = serve(adaptors=True)
    good, bad = b'{"symbol": "A", "side": "B", "fills": [1, 2]}', b'{"symbol": "A", "side": "Q", "fills": [1]}'
    wide = b'{"symbol": "A", "side": "B", "fills": [5000000000]}'
    upload(served, TRADES.replace("    trade =", "    while data == b'loop':\n        pass\n    trade ="))
    for name, mode in (("permissive", "PERMISSIVE"), ("dropping", "DROPMALFORMED")):
        reader(served, tmp_path / "*.bin", name, mode=mode, adaptorTimeout="500ms")
        served.sql(f"CREATE MATERIALIZED VIEW of_{name} AS SELECT * FROM {name}")
    served.sql(f"CREATE TABLE other (a INT) USING csv OPTIONS (path '{tmp_path}/*.csv')")
    served.sql("CREATE MATERIALIZED VIEW of_other AS SELECT * FROM other")
    (tmp_path / "a.bin").write_bytes(framed([good, bad, b"loop", wide, b"not JSON", good]))
    (tmp_path / "a.csv").write_text("1\n2\n")
    report = served.mill.advance()
    assert report is not None and view(served, "of_other") == Counter([(1,), (2,)])
    rows = Counter([("A", 1), ("A", 2)] * 2)
    assert view(served, "of_permissive") == rows + Counter([("A", None)]) and view(served, "of_dropping") == rows
    for name in ("permissive", "dropping"):
        errors = served.sql(f"SELECT column, reason FROM {name}__errors ORDER BY position")["rows"]
        assert [column for column, _ in errors] == [None, None, "n", None]
        reasons = [reason for _, reason in errors]
        assert reasons[0] == "adaptor_raised: ValueError: no such side: Q (line 12 of the adaptor)"
        assert reasons[1:3] == ["adaptor_timeout", "bad_int32"] and "JSONDecodeError" in reasons[3]


def test_an_error_with_half_a_surrogate_pair_ends_no_epoch(serve: ServeFactory, tmp_path: Path) -> None:
    served = serve(adaptors=True)
    upload(
        served,
        "def decode(size, data):\n    if data == b'b':\n        raise ValueError(chr(0xd800))\n    return [('a', 1)]",
    )
    reader(served, tmp_path / "*.bin")
    served.sql(f"CREATE MATERIALIZED VIEW net AS {QUERY}")
    (tmp_path / "a.bin").write_bytes(framed([b"a", b"b", b"c"]))
    served.mill.advance()
    assert view(served, "net") == Counter([("a", 2, 2)])
    (reason,) = served.sql("SELECT reason FROM trades__errors")["rows"]
    assert reason == ["adaptor_raised: ValueError: \\ud800 (line 3 of the adaptor)"]


def test_tables_keep_the_source_that_they_were_created_with(serve: ServeFactory, tmp_path: Path) -> None:
    served = serve("kept", adaptors=True)
    first = upload(served)
    reader(served, tmp_path / "*.bin")
    served.sql(f"CREATE MATERIALIZED VIEW net AS {QUERY}")
    (tmp_path / "a.bin").write_bytes(framed([b'{"symbol": "A", "side": "B", "fills": [1, 2]}']))
    served.mill.advance()
    again = served.http.post("/v1/adaptors", json={"name": "TRADES_FEED", "source": "def decode(s, d): return []"})
    assert (again.status_code, again.json()["number"]) == (409, "TM8343")
    second = upload(served, "def decode(size, data):\n    return [('new', size)]", replace=True)
    assert second["version"] != first["version"]
    shown = served.http.get("/v1/adaptors/trades_feed").json()
    assert shown["version"] == second["version"] and shown["tables"] == {"trades": first["version"]}
    assert served.http.delete("/v1/adaptors/trades_feed").json()["number"] == "TM8344"
    (tmp_path / "b.bin").write_bytes(framed([b'{"symbol": "A", "side": "S", "fills": [5]}']))
    served.mill.advance()
    assert view(served, "net") == Counter([("A", 3, -2)])
    served.end()
    served.mill.close()
    served = serve("kept")  # adaptors are off: what is there goes on
    (tmp_path / "c.bin").write_bytes(framed([b'{"symbol": "B", "side": "B", "fills": [7]}']))
    served.mill.advance()
    assert view(served, "net") == Counter([("A", 3, -2), ("B", 1, 7)])
    reader(served, tmp_path / "*.bin", "newer")
    served.sql("CREATE MATERIALIZED VIEW sizes AS SELECT * FROM newer")
    served.mill.advance()
    assert {symbol for symbol, _ in view(served, "sizes")} == {"new"}
    for table, its_view in (("trades", "net"), ("newer", "sizes")):
        served.sql(f"DROP VIEW {its_view}")
        served.sql(f"DROP TABLE {table}")
    assert served.http.delete("/v1/adaptors/trades_feed").json()["number"] == "TM8346"
    served.mill.drop_adaptor("trades_feed")
    assert served.http.get("/v1/adaptors").json() == {"adaptors": []}


def test_only_admins_create_adaptors_and_only_where_they_are_on(serve: ServeFactory, tmp_path: Path) -> None:
    file = tmp_path / "tokens"
    tokens = {role: role[0] * 16 for role in ("read", "write", "admin")}
    file.write_text("".join(f"{role} {token}\n" for role, token in tokens.items()))
    served = serve("off", tokens=str(file))
    body = {"name": "a", "source": "def decode(size, data): return []"}
    ask = lambda role: served.http.post("/v1/adaptors", json=body, headers=bearer(tokens[role]))  # noqa: E731
    assert [(r.status_code, r.json()["number"]) for r in map(ask, tokens)] == [
        (403, "TM8004"),
        (403, "TM8004"),
        (403, "TM8346"),
    ]
    served.end()
    served = serve("on", tokens=str(file), adaptors=True)
    assert [ask(role).status_code for role in tokens] == [403, 403, 201]
    for role in ("read", "write"):
        for method, path in (("GET", "/v1/adaptors"), ("GET", "/v1/adaptors/a"), ("DELETE", "/v1/adaptors/a")):
            assert served.http.request(method, path, headers=bearer(tokens[role])).status_code == 403
    made = {"name": "t", "format": "adaptor", "path": f"{tmp_path}/*.bin", "columns": "a INT"}
    headers = bearer(tokens["write"])
    given = served.http.post(
        "/v1/readers", json={**made, "options": {"adaptor": "a", "adaptorSource": body["source"]}}, headers=headers
    )
    assert given.json()["number"] == "TM4003"  # a source comes from an admin alone
    for options in ({}, {"adaptor": "b"}):
        found = served.http.post("/v1/readers", json={**made, "options": options}, headers=headers)
        assert (found.status_code, found.json()["number"]) == (404, "TM8342")
    assert (
        served.http.post("/v1/readers", json={**made, "options": {"adaptor": "A"}}, headers=headers).status_code == 201
    )


def test_sources_and_names_that_are_wrong(serve: ServeFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    served = serve(adaptors=True)
    for body, number, line in (
        ({"name": "a", "source": "import json\ndef decode(:\n  pass"}, "TM8340", 2),
        ({"name": "a", "source": "x = 1"}, "TM8340", None),
        ({"name": "a", "source": "raise ValueError(chr(0xd800))"}, "TM8340", 1),
        ({"name": "csv", "source": TRADES}, "TM8341", None),
        ({"name": "a b", "source": TRADES}, "TM8341", None),
        ({"name": "a"}, "TM8011", None),
        ({"name": "a", "source": "#" * 100_000}, "TM8011", None),
    ):
        found = served.http.post("/v1/adaptors", json=body)
        assert found.status_code in (400, 422) and found.json()["number"] == number, found.text
        assert found.json().get("line") == line
    monkeypatch.setattr("tidemill.formats.adaptor.process._START_SECONDS", 1.0)
    endless = served.http.post("/v1/adaptors", json={"name": "a", "source": "while True: pass"})
    assert (endless.status_code, endless.json()["number"]) == (400, "TM8345")
    assert served.http.get("/v1/adaptors/a").json()["number"] == "TM8342"
    assert served.http.delete("/v1/adaptors/a").status_code == 404


def test_the_client_and_scripts_use_adaptors(serve: ServeFactory, tmp_path: Path) -> None:
    served = serve(adaptors=True)
    statement = f"CREATE TABLE trades (symbol STRING, n INT) USING trades_feed OPTIONS (path '{tmp_path}/*.bin')"
    with tm.connect(served.url) as client:
        created = client.create_adaptor("trades_feed", TRADES)
        assert len(created["version"]) == 64
        client.sql(statement)
        served.mill.script(statement)  # word for word what is there
        with pytest.raises(TidemillError, match="TM8344"):
            client.drop_adaptor("trades_feed")
        client.create_adaptor("trades_feed", TRADES + "# changed\n", replace=True)
        with pytest.raises(TidemillError, match="TM2010"):
            served.mill.script(statement)  # it would be another table now
        client.sql("DROP TABLE trades")
        client.drop_adaptor("trades_feed")
        with pytest.raises(TidemillError, match="TM4001"):
            client.sql(statement)
