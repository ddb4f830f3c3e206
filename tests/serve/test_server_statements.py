"""Statements beside readers: what they answer for, and that many of them stop nobody."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from serving import Served
from test_http import orders, write

from waiting import wait_until

ServeFactory = Callable[..., Served]


def test_the_epoch_of_an_answer_is_that_of_its_rows(
    serve: ServeFactory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    served = serve()
    data = orders(served, tmp_path)
    write(data, "0.csv", (1, 1.0, "I"))
    served.mill.advance()
    query = served.mill.query

    def later(*arguments: Any) -> Any:
        write(data, "1.csv", (2, 5.0, "I"))
        served.mill.advance()
        return query(*arguments)

    monkeypatch.setattr(served.mill, "query", later)
    found = served.sql("SELECT SUM(amount) AS s FROM spending")
    assert served.mill.epoch == 2 and (found["epoch"], found["rows"]) == (1, [[1.0]])


def test_statements_that_wait_stop_no_reader(serve: ServeFactory, tmp_path: Path) -> None:
    served = serve(max_statements=2)
    data = orders(served, tmp_path)
    write(data, "0.csv", (1, 1.0, "I"))
    served.mill.advance()
    answers: list[httpx.Response] = []

    def create(name: str) -> None:
        body = {"statement": f"CREATE MATERIALIZED VIEW {name} AS SELECT COUNT(*) AS n FROM orders"}
        answers.append(served.http.post("/v1/sql", json=body))

    threads = [threading.Thread(target=create, args=(name,)) for name in ("a", "b", "c")]
    with served.mill.declaring():  # holds the turn
        for thread in threads:
            thread.start()
        wait_until(lambda: len(answers) == 1)
        assert (answers[0].status_code, answers[0].json()["number"]) == (429, "TM8024")
        assert served.http.get("/v1/views/spending").json()["rows"] == [[1, 1, 1.0]]
        assert served.http.post("/v1/sql", json={"statement": "SELECT n FROM spending"}).json()["rows"] == [[1]]
    for thread in threads:
        thread.join(60)
    assert sorted(r.status_code for r in answers) == [200, 200, 429]


@pytest.mark.parametrize(
    ("statement", "number", "place"),
    [
        ("SELECT customer,\n  nothing FROM spending", "TM2004", (2, 3)),
        ("SELECT customer FROM spending\nWHERE nothing(customer) > 1", "TM2004", (2, 7)),
        ("SELECT customer FROM\n spending WHERE (1", "TM2001", (2, 19)),
        ("CREATE MATERIALIZED VIEW v AS\nSELECT nothing FROM orders", "TM2004", (2, 8)),
    ],
)
def test_errors_have_the_place_in_the_statement(
    serve: ServeFactory, tmp_path: Path, statement: str, number: str, place: tuple[int, int]
) -> None:
    served = serve()
    orders(served, tmp_path)
    found = served.sql(statement, 400)
    assert (found["number"], (found["line"], found["column"])) == (number, place), found
