"""Subscriptions over a WebSocket, with the package ``websockets``."""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from socket import SHUT_RDWR
from typing import Any

import pytest
from serving import Served, summed
from test_http import orders, write
from websockets.sync.client import ClientConnection, connect

from tidemill.serve.http.changes import _Connection

ServeFactory = Callable[..., Served]


def address(served: Served) -> str:
    return served.url.replace("http", "ws") + "/v1/ws"


def ask(socket: ClientConnection, **message: Any) -> None:
    socket.send(json.dumps(message))


def until(socket: ClientConnection, found: Callable[[list[dict[str, Any]]], bool]) -> list[dict[str, Any]]:
    """Messages until a condition on all of them holds."""
    taken: list[dict[str, Any]] = []
    deadline = time.monotonic() + 60  # for all of them: progress comes without end
    while not found(taken):
        taken.append(json.loads(socket.recv(timeout=max(0.0, deadline - time.monotonic()))))
    return taken


def test_several_subscriptions_over_one_connection(serve: ServeFactory, tmp_path: Path) -> None:
    served = serve()
    data = orders(served, tmp_path)
    served.sql("CREATE MATERIALIZED VIEW large AS SELECT * FROM spending WHERE amount > 5")
    write(data, "0.csv", (1, 1.0, "I"), (2, 7.0, "I"))
    served.mill.advance()
    with connect(address(served)) as socket:
        ask(socket, subscribe=1, views=["spending"])
        ask(socket, subscribe="b", views=["large"], columns="customer", where="customer > 0")
        first = until(socket, lambda taken: {m["id"] for m in taken if m["kind"] == "changes"} == {1, "b"})
        write(data, "1.csv", (1, 9.0, "I"))
        served.mill.advance()
        newest = served.mill.epoch
        rest = until(socket, lambda taken: {m["id"] for m in taken if m.get("epoch") == newest} == {1, "b"})
        changes = [m for m in (*first, *rest) if m["kind"] == "changes"]
        spending = Counter(tuple(r.values()) for r in served.mill.read("spending").to_pylist())
        assert summed([m for m in changes if m["id"] == 1]) == spending
        assert summed([m for m in changes if m["id"] == "b"]) == {(1,): 1, (2,): 1}
        ask(socket, unsubscribe=1)
        until(socket, lambda taken: any(m == {"id": 1, "kind": "unsubscribed"} for m in taken))
        write(data, "2.csv", (3, 9.0, "I"))
        served.mill.advance()
        last = until(socket, lambda taken: any(m["kind"] == "changes" for m in taken))
        assert {m["id"] for m in last} == {"b"}


@pytest.mark.parametrize(
    ("message", "number"),
    [
        ('{"subscribe": 2, "views": ["\\ud800"]}', "TM8018"),
        ('{"subscribe": "\\udfff", "views": ["spending"]}', "TM8018"),
        ("[" * 100_000, "TM8018"),
        ('{"subscribe": ' + "9" * 10_000 + "}", "TM8018"),
        (b'{"subscribe": 2, "views": ["spending"]}', "TM8018"),
        ("no json", "TM8018"),
        ("[]", "TM8018"),
        ('{"subscribe": 1}', "TM8018"),
        ('{"subscribe": {}, "views": ["spending"]}', "TM8018"),
        ('{"subscribe": 1, "unsubscribe": 1}', "TM8018"),
        ('{"subscribe": 1, "views": ["spending"], "colour": 1}', "TM8018"),
        ('{"subscribe": 1, "views": "spending"}', "TM8018"),
        ('{"subscribe": 1, "views": ["nothing"]}', "TM2012"),
        ('{"subscribe": 1, "views": []}', "TM8015"),
        ('{"subscribe": 1, "views": ["spending"], "from": "x"}', "TM8013"),
        ('{"subscribe": 1, "views": ["spending"], "where": "nothing > 1"}', "TM2004"),
    ],
)
def test_wrong_messages_are_answered_and_the_connection_goes_on(
    serve: ServeFactory, tmp_path: Path, message: str | bytes, number: str
) -> None:
    served = serve()
    orders(served, tmp_path)
    served.mill.advance()
    with connect(address(served)) as socket:
        ask(socket, subscribe=6, views=["spending"], **{"from": "now"})
        socket.send(message)
        answer = until(socket, lambda taken: bool(taken) and taken[-1]["kind"] == "error")[-1]
        assert (answer["kind"], answer["number"]) == ("error", number)
        ask(socket, subscribe=7, views=["spending"], **{"from": str(served.mill.epoch)})  # `now` may be after the epoch
        write(tmp_path / "data", "0.csv", (1, 1.0, "I"))
        served.mill.advance()
        found = until(socket, lambda taken: {m["id"] for m in taken if m["kind"] == "changes"} == {6, 7})
        assert not [m for m in found if m["kind"] == "error"]


def test_a_client_that_goes_leaves_nothing(serve: ServeFactory, tmp_path: Path) -> None:
    from waiting import wait_until

    served = serve()
    orders(served, tmp_path)
    served.mill.advance()
    for _ in range(3):
        socket = connect(address(served))
        ask(socket, subscribe=1, views=["spending"])
        wait_until(lambda: served.service.subscribers == 1)
        socket.socket.shutdown(SHUT_RDWR)  # close() alone would wait for the thread that reads
        wait_until(lambda: served.service.subscribers == 0)


def test_a_subscription_that_is_cancelled_before_it_begins_leaves_nothing(serve: ServeFactory, tmp_path: Path) -> None:
    """As when its client goes at once."""
    served = serve()
    orders(served, tmp_path)

    async def subscribe_and_go() -> int:
        connection = _Connection(served.service, served.server._app.state.signal, None)  # type: ignore[arg-type]
        await connection._subscribe("a", {"subscribe": "a", "views": ["spending"]})
        assert served.service.subscribers == 1
        await connection.close()
        return len(connection._tasks)

    assert asyncio.run(subscribe_and_go()) == 0
    assert served.service.subscribers == 0


def test_another_origin_gets_no_connection(serve: ServeFactory) -> None:
    from websockets.exceptions import InvalidStatus

    served = serve()
    with pytest.raises(InvalidStatus), connect(address(served), additional_headers={"Origin": "http://evil.example"}):
        pass


def test_many_rows_come_in_messages_that_clients_take(serve: ServeFactory, tmp_path: Path) -> None:
    served = serve()
    (tmp_path / "texts").mkdir()
    lengths = [(i * 7919) % 97 if i % 50 else 9_000 for i in range(12_000)]
    text = "\n".join(f"{i},{'é' * (n // 2)}{chr(9) * (n % 2)}x" for i, n in enumerate(lengths))
    (tmp_path / "texts" / "0.csv").write_text(f"{text}\n")
    served.sql(f"CREATE TABLE texts (i INT, s STRING) USING csv OPTIONS (path '{tmp_path}/texts')")
    served.sql("CREATE MATERIALIZED VIEW all_texts AS SELECT i, s, i + 1 AS j FROM texts")
    served.mill.advance()
    with connect(address(served)) as socket:  # takes at most 1 MiB, by default
        ask(socket, subscribe=1, views=["all_texts"])
        taken = until(socket, lambda taken: any(m["kind"] == "progress" for m in taken))
    changes = [m for m in taken if m["kind"] == "changes"]
    assert max(len(json.dumps(m, ensure_ascii=False).encode()) for m in changes) < 600_000
    assert summed(changes) == Counter(tuple(r.values()) for r in served.mill.read("all_texts").to_pylist())
    assert sum(len(m["changes"]) for m in changes) == len(lengths)
    assert len({m["position"] for m in changes}) == len(changes) > 5
