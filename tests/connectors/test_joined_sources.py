"""A topic, a table of a lake and one of PostgreSQL in one view: after every epoch it is what Spark's batch says.

What has been admitted by an epoch is known from views of each source alone, which the sources themselves confirm when
all is read.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Protocol

import psycopg
import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from pyiceberg.catalog import load_catalog
from pyiceberg.expressions import EqualTo
from pyspark.sql import SparkSession
from tests.connectors.test_delta_tables import FEED
from tests.debian_postgres import PostgresServer
from tests.kafka_broker import Broker
from tests.mill_factory import MillFactory

from tidemill.mill import Mill
from tidemill.testing import assert_same_rows

QUERIES = {
    "joined": "SELECT o.k, c.city, p.price * o.n AS amount FROM orders o JOIN customers c ON o.k = c.k "
    "LEFT JOIN prices p ON p.item = o.item",
    "totals": "SELECT c.city, COUNT(*) AS orders, SUM(p.price * o.n) AS amount FROM orders o "
    "JOIN customers c ON o.k = c.k JOIN prices p ON p.item = o.item GROUP BY c.city",
    "without": "SELECT k, city FROM customers c WHERE NOT EXISTS (SELECT 1 FROM orders o WHERE o.k = c.k)",
}
COLUMNS = {"orders": "k INT, item INT, n BIGINT", "customers": "k INT, city STRING", "prices": "item INT, price BIGINT"}
CITIES = ("Ulm", "Århus", None)


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    started = PostgresServer()
    with started.connect() as connection:
        connection.execute("CREATE TABLE customers (k int, city text)")
        connection.execute("ALTER TABLE customers REPLICA IDENTITY FULL")
    yield started
    started.close()


def change_customers(connection: psycopg.Connection[Any], chance: random.Random) -> None:
    with connection.transaction(), connection.cursor() as cursor:
        cursor.execute("DELETE FROM customers WHERE k %% 6 = %s", (chance.randrange(6),))
        cursor.execute("UPDATE customers SET city = %s WHERE k %% 4 = %s", (chance.choice(CITIES), chance.randrange(4)))
        rows = [(chance.randrange(30), chance.choice(CITIES)) for _ in range(chance.randrange(8))]
        cursor.executemany("INSERT INTO customers VALUES (%s, %s)", rows)


class Prices(Protocol):
    """A table of a lake, and what its own library reads of it."""

    using: str

    def change(self, chance: random.Random) -> None: ...

    def rows(self) -> pa.Table: ...


class DeltaPrices:
    """With a change data feed."""

    def __init__(self, place: Path, chance: random.Random) -> None:
        self._path = place / "prices"
        self.using = f"delta OPTIONS (path '{self._path}')"
        write_deltalake(self._path, prices(chance), configuration=FEED)

    def change(self, chance: random.Random) -> None:
        match chance.randrange(3):
            case 0:
                DeltaTable(self._path).update({"price": "price + 1"}, predicate=f"item % 3 = {chance.randrange(3)}")
            case 1:
                DeltaTable(self._path).delete(f"item = {chance.randrange(8)}")
            case _:
                write_deltalake(self._path, prices(chance), mode="append")

    def rows(self) -> pa.Table:
        return DeltaTable(self._path).to_pyarrow_table()


class IcebergPrices:
    def __init__(self, place: Path, chance: random.Random) -> None:
        uri = f"sqlite:///{place}/catalogue.db"
        self.using = f"iceberg OPTIONS (table 'n.prices', 'catalog.uri' '{uri}')"
        catalogue = load_catalog("default", type="sql", uri=uri, warehouse=f"file://{place}/warehouse")
        catalogue.create_namespace("n")
        first = prices(chance)
        self._table = catalogue.create_table("n.prices", first.schema)
        self._table.append(first)

    def change(self, chance: random.Random) -> None:
        item = EqualTo("item", chance.randrange(8))
        match chance.randrange(3):
            case 0:
                self._table.overwrite(prices(chance), item)
            case 1:
                self._table.delete(item)
            case _:
                self._table.append(prices(chance))

    def rows(self) -> pa.Table:
        return self._table.scan().to_arrow()


def prices(chance: random.Random) -> pa.Table:
    items = [chance.randrange(8) for _ in range(chance.randrange(1, 5))]
    columns = {"item": pa.array(items, pa.int32()), "price": pa.array([chance.randrange(1, 99) for _ in items])}
    return pa.table(columns)


def rows(mill: Mill, view: str) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in mill.read(view).to_pylist()]


def check(mill: Mill, spark: SparkSession) -> None:
    """Each view is what Spark says of the rows that the sources have given so far."""
    for name in COLUMNS:
        frame = spark.createDataFrame(mill.read(f"{name}_rows")).coalesce(1)  # one task for the few rows
        frame.createOrReplaceTempView(f"now_{name}")
    for name, query in QUERIES.items():
        asked = query
        for table in COLUMNS:
            asked = asked.replace(f" {table} ", f" now_{table} ")
        assert_same_rows(mill.read(name), spark.sql(asked).toArrow())


@pytest.mark.slow
@pytest.mark.parametrize("lake", [DeltaPrices, IcebergPrices])
def test_three_sources_in_one_view(
    server: PostgresServer,
    mill_factory: MillFactory,
    spark: SparkSession,
    seed: int,
    tmp_path: Path,
    lake: Callable[[Path, random.Random], Prices],
) -> None:
    """Random changes at all three, epochs of limited size, and a restart."""
    chance = random.Random(seed)
    broker = Broker()
    broker.create("orders", 2)
    priced = lake(tmp_path, chance)
    sent: Counter[tuple[Any, ...]] = Counter()
    mill = mill_factory(epoch_bytes=4000)
    options = broker.options(subscribe="orders", startingOffsets="earliest", **{"value.format": "json"})
    mill.sql(f"CREATE TABLE orders ({COLUMNS['orders']}) USING kafka OPTIONS ({options})")
    mill.sql(f"CREATE TABLE customers USING postgres OPTIONS ({server.options('customers')})")
    mill.sql(f"CREATE TABLE prices USING {priced.using}")
    for name in COLUMNS:
        mill.sql(f"CREATE MATERIALIZED VIEW {name}_rows AS SELECT * FROM {name}")
    for name, query in QUERIES.items():
        mill.sql(f"CREATE MATERIALIZED VIEW {name} AS {query}")
    with server.connect() as connection:
        for turn in range(5):
            for partition in range(2):
                new = [
                    (chance.randrange(30), chance.randrange(8), chance.randrange(9))
                    for _ in range(chance.randrange(40))
                ]
                broker.send("orders", [{"k": k, "item": item, "n": n} for k, item, n in new], partition)
                sent.update(new)
            change_customers(connection, chance)
            priced.change(chance)
            if turn == 3:
                mill.close()
                mill = mill_factory(epoch_bytes=4000)
            for _ in mill.drain():
                check(mill, spark)
        there = connection.execute("SELECT * FROM customers").fetchall()
    assert Counter(rows(mill, "customers_rows")) == Counter(there)
    now = [tuple(row.values()) for row in priced.rows().to_pylist()]
    assert Counter(rows(mill, "prices_rows")) == Counter(now)
    assert Counter(rows(mill, "orders_rows")) == sent
    mill.close()
    broker.close()
