"""Queues and pauses over HTTP and from Python clients; Python adds up the files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from serving import Events, Served, summed
from test_http import orders, rows_of, write

import tidemill as tm
from tidemill.errors import TidemillError

ServeFactory = Callable[..., Served]


def test_queries_and_readers_are_paused_over_http(serve: ServeFactory, tmp_path: Path) -> None:
    served = serve()
    data = orders(served, tmp_path)
    served.sql("CREATE MATERIALIZED VIEW large AS SELECT customer FROM spending WHERE amount > 5")
    served.sql("CREATE MATERIALIZED VIEW counted AS SELECT count(*) AS n FROM orders")
    write(data, "a.csv", (1, 2.0, "I"), (2, 9.0, "I"))
    served.mill.advance()
    with tm.connect(served.url) as client:
        client.pause_query("spending")
        assert {v["name"]: v["status"] for v in client.status()["views"]} == {
            "spending": "paused",
            "large": "paused",
            "counted": "fresh",
        }
        write(data, "b.csv", (1, 4.0, "I"))
        served.mill.advance()
        problem = served.http.get("/v1/views/large")
        assert problem.status_code == 409 and problem.json()["number"] == "TM1041"
        assert served.http.get("/v1/views/spending?epoch=1").json()["epoch"] == 1
        assert set(rows_of(served, "/v1/views/spending?epoch=1")) == {(1, 1, 2.0), (2, 1, 9.0)}
        client.resume_query("spending")
        while served.mill.advance() is not None:
            pass
        client.wait_until_fresh("large")
        assert set(rows_of(served)) == {(1, 2, 6.0), (2, 1, 9.0)}
        client.pause_reader("orders")
        write(data, "c.csv", (1, 1.0, "I"))
        while served.mill.advance() is not None:
            pass
        served.mill.backlog()
        shown = {(q["table"], q["view"]): q for q in client.queues()}["orders", "spending"]
        assert (shown["state"], shown["waiting_files"], shown["waiting_bytes"]) == (
            "paused",
            1,
            (data / "c.csv").stat().st_size,
        )
        (source,) = served.http.get("/v1/sources").json()["sources"]
        assert (source["waiting_files"], source["waiting_bytes"]) == (shown["waiting_files"], shown["waiting_bytes"])
        client.resume_reader("orders")
        while served.mill.advance() is not None:
            pass
        assert set(rows_of(served)) == {(1, 3, 7.0), (2, 1, 9.0)}
        with pytest.raises(TidemillError, match="TM2012"):
            client.pause_reader("spending")


def test_a_subscriber_gets_what_changed_over_a_pause(serve: ServeFactory, tmp_path: Path) -> None:
    served = serve()
    data = orders(served, tmp_path)
    served.sql("CREATE MATERIALIZED VIEW counted AS SELECT count(*) AS n FROM orders")
    write(data, "a.csv", (1, 2.0, "I"), (2, 9.0, "I"))
    served.mill.advance()
    events = Events(served.http, "/v1/views/spending/changes")
    events.until(lambda found: any(e.kind == "message" for e in found))
    served.sql("ALTER VIEW spending PAUSE")
    write(data, "b.csv", (1, 4.0, "I"), (2, 9.0, "D"))
    served.mill.advance()
    events.until(lambda found: any(e.kind == "trouble" and e.data["number"] == "TM1041" for e in found))
    served.sql("ALTER VIEW spending RESUME")
    while served.mill.advance() is not None:
        pass
    expected = {(1, 2, 6.0): 1}
    events.until(lambda found: summed([e.data for e in found if e.kind == "message"]) == expected)
