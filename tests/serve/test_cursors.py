"""What a cursor gives when something goes wrong in the middle."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from serving import Events, Served, summed
from test_http import orders, write

ServeFactory = Callable[..., Served]


def fetched(served: Served, cursor: str, **asked: Any) -> dict[str, Any]:
    found: dict[str, Any] = served.http.post(f"/v1/cursors/{cursor}/fetch", params=asked).json()
    return found


def test_an_error_behind_some_rows_takes_none_of_them(serve: ServeFactory, tmp_path: Path) -> None:
    served = serve()
    data = orders(served, tmp_path)
    write(data, "0.csv", (1, 2.0, "I"), (2, 4.0, "I"))
    served.mill.advance()
    asked = {"views": ["spending"], "columns": "customer, 8 / CAST(amount AS INT) AS e", "durable": False}
    cursor = served.http.post("/v1/cursors", json=asked).json()["cursor"]
    write(data, "1.csv", (1, 6.0, "I"))
    served.mill.advance()
    write(data, "2.csv", (3, 0.0, "I"))
    served.mill.advance()
    first = fetched(served, cursor)
    assert summed(first["changes"]) == {(1, 1.0): 1, (2, 2.0): 1} and not first["up_to_date"]
    for _ in range(2):
        assert fetched(served, cursor)["number"] == "TM3001"
    assert fetched(served, cursor, after=first["position"])["number"] == "TM3001"


def test_a_view_of_other_columns_ends_what_asked_for_the_old_ones(serve: ServeFactory, tmp_path: Path) -> None:
    served = serve()
    data = orders(served, tmp_path)
    write(data, "0.csv", (1, 2.0, "I"))
    served.mill.advance()
    events = Events(served.http, "/v1/views/spending/changes?columns=n%2B1%20AS%20more")
    events.until(lambda found: any(e.kind == "message" for e in found))
    served.sql(
        "CREATE OR REPLACE MATERIALIZED VIEW spending AS SELECT customer, MAX(amount) AS most FROM orders GROUP BY 1"
    )
    list(served.mill.drain())
    last = events.until_over()[-1]
    assert (last.kind, last.data["number"]) == ("error", "TM1035")
    assert served.http.get("/v1/views/spending").json()["rows"] == [[1, 2.0]]


@pytest.mark.parametrize("durable", ["false", "true"])
def test_a_dropped_view_ends_followers_without_an_epoch(serve: ServeFactory, tmp_path: Path, durable: str) -> None:
    served = serve(progress_seconds=60.0)
    data = orders(served, tmp_path)
    write(data, "0.csv", (1, 2.0, "I"))
    served.mill.advance()
    served.mill.checkpoint()
    events = Events(served.http, f"/v1/views/spending/changes?durable={durable}")
    cursor = served.http.post("/v1/cursors", json={"views": ["spending"], "durable": durable == "true"}).json()
    events.until(lambda found: any(e.kind == "message" for e in found))
    assert fetched(served, cursor["cursor"])["up_to_date"]
    epoch = served.mill.epoch
    served.sql("DROP VIEW spending")
    last = events.until_over()[-1]
    assert (last.kind, last.data["number"]) == ("error", "TM2012") and served.mill.epoch == epoch
    assert fetched(served, cursor["cursor"])["number"] == "TM2012"


def test_a_subscriber_that_goes_is_not_counted(serve: ServeFactory, tmp_path: Path) -> None:
    from waiting import wait_until

    served = serve(progress_seconds=0.05)
    data = orders(served, tmp_path)
    served.mill.advance()
    for number in range(3):
        with served.http.stream("GET", "/v1/views/spending/changes") as response:
            assert response.status_code == 200
            wait_until(lambda: served.service.subscribers == 1)
        write(data, f"{number}.csv", (1, 1.0, "I"))
        served.mill.advance()
        wait_until(lambda: served.service.subscribers == 0)
