"""The Python clients against a real server, and the views against Spark's own answers."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from serving import Served
from test_http import orders, write

import tidemill as tm
from tidemill.serve.client.async_client import AsyncClient
from tidemill.serve.client.protocol import Change
from tidemill.serve.client.tables import RemoteTable
from waiting import wait_until

ServeFactory = Callable[..., Served]


def added(changes: list[Change]) -> Counter[tuple[Any, ...]]:
    """The rows that changes add up to."""
    found: Counter[tuple[Any, ...]] = Counter()
    for change in changes:
        if change.kind == "changes":
            for *row, weight in zip(*(c.to_pylist() for c in change.table.columns), strict=True):
                found[tuple(row)] += weight
    return +found


def rows(table: pa.Table) -> Counter[tuple[Any, ...]]:
    return Counter(zip(*(c.to_pylist() for c in table.columns), strict=True))


def test_what_a_client_can_do(serve: ServeFactory, tmp_path: Path) -> None:
    served = serve()
    data = tmp_path / "data"
    data.mkdir()
    write(data, "a.csv", (1, 2.5, "I"), (2, 3.0, "I"), (1, 4.0, "I"))
    with tm.connect(served.url) as client:
        client.add_reader(
            "orders",
            "csv",
            path=f"{data}/*.csv",
            columns="customer INT, amount DOUBLE",
            options={"header": "true", "opColumn": "op"},
        )
        client.add_query(
            "spending", "SELECT customer, SUM(amount) AS amount FROM orders GROUP BY customer", readers=["orders"]
        )
        assert client.sql("CREATE MATERIALIZED VIEW dear AS SELECT * FROM spending WHERE amount > 5") is None
        served.mill.advance()
        client.wait_until_fresh("dear", timeout=30)
        expected = {(1, 6.5): 1, (2, 3.0): 1}
        table = client.table("spending")
        assert rows(table.to_arrow()) == expected and table.epoch == served.mill.epoch
        assert Counter(table.to_pandas().itertuples(index=False, name=None)) == expected
        assert Counter(table.to_polars().rows()) == expected
        assert rows(client.table("spending", columns="amount", where="customer = 1").to_arrow()) == {(6.5,): 1}
        epoch, both = client.tables(["dear", "spending"])
        assert epoch == served.mill.epoch and rows(both["dear"]) == {(1, 6.5): 1} and rows(both["spending"]) == expected
        found = client.sql("SELECT COUNT(*) AS n FROM spending")
        assert isinstance(found, RemoteTable) and found.to_pylist() == [{"n": 2}]
        assert "O(" in str(client.sql("EXPLAIN INCREMENTAL SELECT customer, COUNT(*) FROM orders GROUP BY customer"))
        with pytest.raises(tm.TidemillError, match="TM8021"):
            client.add_query("wrong", "SELECT * FROM spending", readers=["orders"])
        with pytest.raises(tm.TidemillError, match="TM2004"):
            client.sql("CREATE MATERIALIZED VIEW wrong AS SELECT nothing FROM orders")
        client.remove_query("dear")
        with pytest.raises(tm.TidemillError, match="TM2012"):
            client.table("dear").to_arrow()
        client.remove_query("spending")
        client.remove_reader("orders")
        assert client.sql("SHOW TABLES").to_pylist() == []  # type: ignore[union-attr]


def test_a_subscription_outlives_the_server(serve: ServeFactory, tmp_path: Path) -> None:
    served = serve()
    data = orders(served, tmp_path)
    served.sql("CREATE MATERIALIZED VIEW large AS SELECT * FROM spending WHERE amount > 5")
    write(data, "0.csv", (1, 1.0, "I"), (2, 7.0, "I"))
    served.mill.advance()
    port = int(served.url.rsplit(":", 1)[1])
    client = tm.connect(served.url)
    taken: list[Change] = []

    def follow() -> None:
        for change in client.subscribe(["spending", "large"], progress=True):
            taken.append(change)
            if change.epoch >= 4 and change.kind == "progress":
                return

    thread = threading.Thread(target=follow)
    thread.start()
    wait_until(lambda: any(c.epoch == 1 for c in taken))
    for number in range(1, 3):
        write(data, f"{number}.csv", (number, 5.0, "I"))
        served.mill.advance()
    wait_until(lambda: any(c.epoch == 3 for c in taken))
    served.end()
    served.mill.close()
    again = serve(port=port)
    write(data, "9.csv", (1, 1.0, "I"), (2, 7.0, "D"))
    again.mill.advance()
    thread.join(60)
    assert not thread.is_alive()
    for view in ("spending", "large"):
        assert added([c for c in taken if c.view == view]) == rows(again.mill.read(view))
    epochs = [(c.epoch, c.view) for c in taken if c.kind == "changes"]
    assert len(set(epochs)) == len(epochs) and [e for e, _ in epochs] == sorted(e for e, _ in epochs)
    assert again.mill.epoch == 4
    client.close()


def test_a_cursor_of_a_client(serve: ServeFactory, tmp_path: Path) -> None:
    served = serve()
    data = orders(served, tmp_path)
    write(data, "0.csv", *((c, 1.0, "I") for c in range(5)))
    served.mill.advance()
    client = tm.connect(served.url)
    cursor = client.cursor("spending", columns="customer", where="customer <> 2", durable=False)
    first = cursor.fetch(3)
    second = client.open_cursor(cursor.id).fetch(3, after=first.position)
    assert not first.up_to_date and second.up_to_date
    assert added([*first.changes, *second.changes]) == {(c,): 1 for c in (0, 1, 3, 4)}
    assert cursor.fetch().changes == ()
    cursor.close()
    with pytest.raises(tm.TidemillError, match="TM8014"):
        cursor.fetch()


def test_an_asynchronous_client(serve: ServeFactory, tmp_path: Path) -> None:
    served = serve()
    data = orders(served, tmp_path)
    write(data, "0.csv", (1, 1.0, "I"))
    served.mill.advance()

    async def use() -> list[Change]:
        taken: list[Change] = []
        async with AsyncClient(served.url) as client:
            assert rows(await client.table("spending")) == {(1, 1, 1.0): 1}
            assert await client.sql("CREATE MATERIALIZED VIEW c AS SELECT COUNT(*) AS n FROM orders") is None
            cursor = await client.cursor(["spending"], durable=False)
            assert added(list((await client.fetch(cursor)).changes)) == {(1, 1, 1.0): 1}
            write(data, "1.csv", (2, 2.0, "I"))
            await asyncio.to_thread(served.mill.advance)
            async for change in client.subscribe("spending"):
                taken.append(change)
                break
            with pytest.raises(tm.TidemillError, match="TM2012"):
                async for _ in client.subscribe("nothing"):
                    break
        return taken

    assert added(asyncio.run(use())) == rows(served.mill.read("spending"))


def test_nobody_answers() -> None:
    with pytest.raises(tm.TidemillError, match="TM8031"):
        tm.connect("http://127.0.0.1:9")


@pytest.mark.parametrize("url", ["ftp://x", "127.0.0.1:8320", "localhost:8320", "http://", "http://[x", ""])
def test_what_is_no_url_of_a_server(url: str) -> None:
    for kind in (tm.connect, AsyncClient):
        with pytest.raises(tm.TidemillError, match="TM8030") as error:
            kind(url)
        assert "http://" in error.value.got


def test_a_client_needs_no_spark() -> None:
    """Importing it brings neither PySpark nor Numba."""
    code = "import sys, tidemill; tidemill.connect; print('pyspark' in sys.modules, 'numba' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.split() == ["False", "False"]


def test_years_that_python_lacks() -> None:
    days = pa.array([2_932_897], pa.int32()).cast(pa.date32())
    times = pa.array([253_402_300_800_000_000]).cast(pa.timestamp("us", "UTC"))
    for column in (days, times):
        remote = RemoteTable(lambda column=column: (1, pa.table({"c": column})))  # type: ignore[misc]
        with pytest.raises(tm.TidemillError, match=r"TM8032[^\n]*\n.*\n.*to_arrow"):
            remote.to_pylist()
        assert remote.to_arrow().column("c").combine_chunks() == column
    with pytest.raises(tm.TidemillError, match="TM8032"):
        RemoteTable(lambda: (1, pa.table({"c": days}))).to_pandas()
