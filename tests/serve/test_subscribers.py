"""Many subscribers of the same views: what an epoch changed is computed once, and each gets all of it."""

from __future__ import annotations

import gc
import json
import random
import socket
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest
from benchmarks.server_process import listening_port
from serving import Events, Served, summed
from test_http import orders, write

import tidemill as tm
from tidemill.runtime.read.snapshot import Snapshot
from tidemill.serve.service.place import Place
from waiting import wait_until

ServeFactory = Callable[..., Served]


def test_subscribers_of_one_view_share_what_is_computed(
    serve: ServeFactory, tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    served, chance = serve(), random.Random(seed)
    data = orders(served, tmp_path)
    write(data, "0.csv", (0, 1.0, "I"))
    served.mill.advance()
    computed: Counter[int] = Counter()
    change_tables = Snapshot.change_tables

    def counted(snapshot: Snapshot, name: str, epoch: int) -> object:
        computed[epoch] += 1
        return change_tables(snapshot, name, epoch)

    monkeypatch.setattr(Snapshot, "change_tables", counted)
    paths = ("?where=customer %25 2 = 0", "?columns=amount", "")
    subscribers = [(path, Events(served.http, f"/v1/views/spending/changes{path}")) for path in paths * 8]
    for _, events in subscribers:
        events.until(lambda found: any(e.kind == "message" for e in found))
    kept = [(0, 1.0)]
    for number in range(1, 13):
        new = [(chance.randrange(6), float(chance.randrange(100))) for _ in range(5)]
        gone = [kept.pop(chance.randrange(len(kept))) for _ in range(2) if kept]
        kept += new
        write(data, f"{number}.csv", *((k, a, "I") for k, a in new), *((k, a, "D") for k, a in gone))
        assert served.mill.advance() is not None
    n, amount = Counter(k for k, _ in kept), Counter[int]()
    for k, a in kept:
        amount[k] += a
    expected = {
        "": Counter({(k, n[k], amount[k]): 1 for k in n}),
        "?columns=amount": Counter(amount[k] for k in n),
        "?where=customer %25 2 = 0": Counter({(k, n[k], amount[k]): 1 for k in n if k % 2 == 0}),
    }
    expected["?columns=amount"] = Counter({(a,): times for a, times in expected["?columns=amount"].items()})
    for path, events in subscribers:
        events.until(
            lambda found, path=path: summed([e.data for e in found if e.kind == "message"]) == expected[path], 60
        )
    assert {times for epoch, times in computed.items() if epoch > 1} == {len(paths)}, computed


def test_statements_reach_subscribers_while_no_epoch_runs(serve: ServeFactory, tmp_path: Path) -> None:
    served = serve(progress_seconds=600.0)
    data = orders(served, tmp_path)
    served.sql("CREATE MATERIALIZED VIEW other AS SELECT customer FROM orders")
    write(data, "a.csv", (1, 2.5, "I"))
    served.mill.advance()
    ended, going_on = (Events(served.http, f"/v1/views/{v}/changes") for v in ("other", "spending"))
    for events in (ended, going_on):
        events.until(lambda found: any(e.kind == "message" for e in found))
    served.sql("DROP VIEW other")
    assert ended.until_over()[-1].data["number"] == "TM2012"
    assert [e.kind for e in going_on.events] == ["message"]


def test_the_same_selection_of_a_replaced_view(serve: ServeFactory, tmp_path: Path) -> None:
    served = serve()
    data = orders(served, tmp_path)
    served.sql("CREATE MATERIALIZED VIEW v AS SELECT customer, amount FROM orders")
    write(data, "a.csv", (1, 2.5, "I"))
    served.mill.advance()
    before = Events(served.http, "/v1/views/v/changes?columns=amount %2B 1 AS more&where=customer > 0")
    before.until(lambda found: any(e.kind == "message" for e in found))
    served.sql("CREATE OR REPLACE MATERIALIZED VIEW v AS SELECT customer, CAST(amount AS FLOAT) AS amount FROM orders")
    while served.mill.advance() is not None:
        pass
    assert before.until_over()[-1].data["number"] == "TM1035"
    after = Events(served.http, "/v1/views/v/changes?columns=amount %2B 1 AS more&where=customer > 0")
    write(data, "b.csv", (2, 4.0, "I"), (-1, 1.0, "I"))
    served.mill.advance()
    after.until(lambda found: summed([e.data for e in found if e.kind == "message"]) == {(3.5,): 1, (5.0,): 1})


def test_rows_that_wait_in_a_socket_have_no_age(serve: ServeFactory) -> None:
    served = serve()
    served.sql("CREATE TABLE pushed (a INT) USING csv OPTIONS (path 'tcp+listen://127.0.0.1:0')")
    served.sql("CREATE MATERIALIZED VIEW v AS SELECT a FROM pushed")
    with tm.connect(served.url) as client:
        port = listening_port(client, "pushed")
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.sendall(b"1\n2\n")

        def waiting() -> list[dict[str, object]]:
            served.mill.backlog()
            found: list[dict[str, object]] = served.http.get("/v1/queues").json()["queues"]
            return found

        wait_until(lambda: waiting()[0]["waiting_bytes"] == 4)
        assert waiting()[0]["lag_seconds"] is None


@pytest.mark.parametrize(
    ("columns", "expected", "after"),
    [
        ("customer", [[1], [2]], [{"weight": 1, "customer": 3}]),
        (
            "n, customer",
            [[1, 1], [1, 2]],
            [{"n": 1, "customer": 2, "weight": -1}, {"n": 2, "customer": 2, "weight": 1}],
        ),
        ("amount", [[2.5], [4.0]], [{"weight": -1, "amount": 4.0}, {"weight": 1, "amount": 6.0}]),
        ("map('c', customer) AS m", [[{"c": 1}], [{"c": 2}]], [{"weight": 1, "m": {"c": 3}}]),
        ("array(customer) AS a", [[[1]], [[2]]], [{"weight": 1, "a": [3]}]),
        ("1 AS one", [[1], [1]], [{"weight": 1, "one": 1}]),
    ],
)
def test_columns_of_a_view(
    serve: ServeFactory, tmp_path: Path, columns: str, expected: list[list[object]], after: list[dict[str, object]]
) -> None:
    served = serve()
    data = orders(served, tmp_path)
    write(data, "a.csv", (1, 2.5, "I"), (2, 4.0, "I"))
    served.mill.advance()
    asked = {"columns": columns}
    found = served.http.get("/v1/views/spending", params=asked).json()["rows"]
    assert sorted(found, key=str) == expected
    epoch = str(served.mill.epoch)
    events = Events(served.http, "/v1/views/spending/changes", params={"from": epoch, **asked})
    write(data, "b.csv", (2, 2.0, "I"), (3, 2.5, "I"))
    served.mill.advance()
    events.until(lambda found: any(e.kind == "message" for e in found))
    (event,) = events.changes()
    assert [row for row in after if row not in event.data["changes"]] == []
    new = [row for row in event.data["changes"] if row not in after]
    assert all(3 in row.values() or row.get("amount") == 2.5 for row in new), new


def test_no_more_subscribers_than_allowed_however_many_come_at_once(serve: ServeFactory, tmp_path: Path) -> None:
    served = serve(max_subscribers=5)
    orders(served, tmp_path)
    url = f"{served.http.base_url}/v1/views/spending/changes"
    answers: Counter[str] = Counter()
    go_on, begun = threading.Event(), threading.Barrier(30)

    def subscribe() -> None:
        begun.wait(30)
        with httpx.Client(timeout=30) as client, client.stream("GET", url) as answer:
            if answer.status_code == 200:
                answers["subscribed"] += 1
                go_on.wait(60)
            else:
                answers[json.loads(answer.read())["number"]] += 1

    threads = [threading.Thread(target=subscribe) for _ in range(30)]
    for thread in threads:
        thread.start()
    wait_until(lambda: answers.total() == 30)
    assert answers == {"subscribed": 5, "TM8024": 25}
    assert served.server.service.subscribers == 5
    go_on.set()
    for thread in threads:
        thread.join()
    wait_until(lambda: served.server.service.subscribers == 0)


def test_a_place_is_given_back_once() -> None:
    given: list[int] = []
    place = Place(lambda: given.append(1))
    with place:
        pass
    place.close()
    assert given == [1]
    del place
    Place(lambda: given.append(2))  # nobody holds it
    gc.collect()
    assert given == [1, 2]
