"""Rows over HTTP: each request counts once, whatever is sent again, and what is malformed is as in files."""

from __future__ import annotations

import asyncio
import json
import threading
from collections import Counter
from collections.abc import Callable
from typing import Any

import httpx
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from serving import Served

import tidemill as tm
from tidemill.errors import TidemillError
from tidemill.runtime.ingest import log
from tidemill.serve.client.async_client import AsyncClient

ServeFactory = Callable[..., Served]
NDJSON = {"Content-Type": "application/x-ndjson"}


def create(served: Served, using: str = "json", columns: str = "a INT, b STRING", more: str = "") -> None:
    served.sql(f"CREATE TABLE t ({columns}) USING {using} OPTIONS (path 'ingest://'{more})")
    served.sql("CREATE MATERIALIZED VIEW v AS SELECT a, b, COUNT(*) AS n FROM t GROUP BY a, b")


def post(served: Served, data: bytes, key: str | None = None, **headers: str) -> httpx.Response:
    given = (headers or NDJSON) | ({"Idempotency-Key": key} if key else {})
    return served.http.post("/v1/readers/t/rows", content=data, headers=given)


def rows(served: Served) -> Counter[tuple[Any, ...]]:
    """The rows of the table, after all epochs."""
    while served.mill.advance() is not None:
        pass
    return Counter({(r["a"], r["b"]): r["n"] for r in served.mill.read("v").to_pylist()})


def test_requests_that_are_sent_again(serve: ServeFactory) -> None:
    """With numbers of a sender, other keys, and none; also after a restart."""
    served = serve()
    create(served)
    for key, added in (("s:1", True), ("s:3", True), ("s:1", False), ("any text", True), ("any text", False),
                       ("s:2", True), ("t:1", True), (None, True), (None, True)):  # fmt: skip
        answer = post(served, b'{"a": 1, "b": "x"}\n{"a": 2}\n', key)
        assert (answer.status_code, answer.json()) == (200, {"ok": True, "added": added, "bytes": 28}), key
    assert rows(served) == {(1, "x"): 7, (2, None): 7}
    served.mill.checkpoint()
    served.end()
    served.mill.close()
    served = serve()
    assert post(served, b'{"a": 1, "b": "x"}', "s:3").json()["added"] is False
    assert post(served, b'{"a": 1, "b": "x"}', "any text").json()["added"] is False
    assert post(served, b'{"a": 9}', "s:4").json()["added"] is True
    assert rows(served) == {(1, "x"): 7, (2, None): 7, (9, None): 1}


def test_keys_that_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """The newest keys of one request each are kept; numbers of senders all are."""
    monkeypatch.setattr(log, "_MOST_KEYS", 3)
    given = log.Given()
    for number in range(5):
        given.add(f"{log.ONE_KEY}{number}", 0)
        given.add("sender s", number)
    given = log.Given(json.loads(json.dumps(given.to_json())))
    given.add(f"{log.ONE_KEY}5", 0)
    assert [n for n in range(6) if (f"{log.ONE_KEY}{n}", 0) in given] == [3, 4, 5]
    assert all(("sender s", n) in given for n in range(5))


@pytest.mark.parametrize("using", ["csv", "arrow", "parquet"])
def test_other_formats(serve: ServeFactory, using: str) -> None:
    served = serve()
    create(served, using, more=", header 'true'" if using == "csv" else "")
    table = pa.table({"b": ["x", None], "A": pa.array([1, 2], pa.int64())})
    if using == "csv":
        assert post(served, b"b,a\nx,1\n,2\n", **{"Content-Type": "text/csv; charset=utf-8"}).json()["added"]
    elif using == "arrow":
        with tm.connect(served.url) as client:
            assert client.add_rows("t", table, key="k")
            assert not client.add_rows("t", table, key="k")
            with pytest.raises(TidemillError, match="TM5068"):
                client.add_rows("t", table.select(["A"]))
    else:
        sink = pa.BufferOutputStream()
        pq.write_table(pa.table({"a": pa.array([1, 2], pa.int32()), "b": ["x", None]}), sink)
        assert post(served, sink.getvalue().to_pybytes(), **{"Content-Type": "application/vnd.apache.parquet"}).json()
    assert rows(served) == {(1, "x"): 1, (2, None): 1}


def test_malformed_rows_and_requests(serve: ServeFactory) -> None:
    served = serve()
    create(served, more=", mode 'DROPMALFORMED'")
    assert post(served, b'{"a": 1}\n{no}\n{"a": "x"}').status_code == 200
    assert rows(served) == {(1, None): 1}
    assert {e["raw"] for e in served.mill.read("t__errors").to_pylist()} == {b"{no}", b'{"a": "x"}'}
    served.sql("CREATE TABLE files (a INT) USING json OPTIONS (path '/tmp')")
    for path, data, headers, status, number in (
        ("t", b"", NDJSON, 415, "TM5072"),
        ("t", b"a,b", {"Content-Type": "text/csv"}, 415, "TM5072"),
        ("t", b"{}", {**NDJSON, "Idempotency-Key": "k" * 300}, 400, "TM5073"),
        ("none", b"{}", NDJSON, 404, "TM2012"),
        ("v", b"{}", NDJSON, 404, "TM2012"),
        ("files", b"{}", NDJSON, 400, "TM5064"),
    ):
        answer = served.http.post(f"/v1/readers/{path}/rows", content=data, headers=headers)
        assert (answer.status_code, answer.json()["number"]) == (status, number), answer.text
    with pytest.raises(TidemillError, match="TM5064"):
        served.mill.ingest("t")


def test_too_much_waits(serve: ServeFactory) -> None:
    """429 until an epoch has read it; nothing of what was refused is there."""
    served = serve()
    create(served, more=", maxSpoolBytes '1k'")
    line = b'{"a": 1, "b": "%s"}' % (b"x" * 600)
    assert [post(served, line).status_code for _ in range(3)] == [200, 200, 429]
    refused = post(served, line)
    assert refused.json()["number"] == "TM5070" and refused.headers["Retry-After"] == "1"
    assert sum(rows(served).values()) == 2
    assert post(served, line).status_code == 200
    assert sum(rows(served).values()) == 3


def test_many_senders(serve: ServeFactory) -> None:
    """Each sends everything twice, some over the asynchronous client, while epochs run."""
    served = serve()
    create(served)
    served.mill.start()

    def send(sender: int) -> None:
        with tm.connect(served.url) as client:
            for number in [*range(10), *range(10)]:
                client.add_rows("t", [{"a": sender, "b": str(number)}], key=f"{sender}:{number}")

    async def send_too() -> None:
        async with AsyncClient(served.url) as client:
            for number in [*range(10), *range(10)]:
                await client.add_rows("t", f'{{"a": 9, "b": "{number}"}}', key=f"nine:{number}")

    threads = [threading.Thread(target=send, args=(sender,)) for sender in range(3)]
    for thread in threads:
        thread.start()
    asyncio.run(send_too())
    for thread in threads:
        thread.join()
    served.mill.stop()
    assert rows(served) == {(sender, str(number)): 1 for sender in (0, 1, 2, 9) for number in range(10)}
