"""Sinks into tables of PostgreSQL: the server has what a dictionary says, and each epoch once."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import psycopg
import pytest
from sinking import Counted
from tests.debian_postgres import PostgresServer
from tests.mill_factory import MillFactory

from tidemill.errors import TidemillError
from tidemill.sinks.postgres import PostgresTarget
from tidemill.sinks.registry import target_kind
from tidemill.sinks.target import Identity
from waiting import wait_until


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    started = PostgresServer(max_prepared_transactions="5")
    yield started
    started.close()


@pytest.fixture
def connection(server: PostgresServer) -> Iterator[psycopg.Connection[Any]]:
    """A connection; the tables of sinks are dropped behind a test."""
    with server.connect() as opened:
        yield opened
    with server.connect() as opened:
        opened.execute("DROP SCHEMA IF EXISTS s CASCADE")


def schema(connection: psycopg.Connection[Any]) -> None:
    connection.execute("CREATE SCHEMA s")


def rows(connection: psycopg.Connection[Any], table: str) -> Counter[tuple[Any, ...]]:
    return Counter(connection.execute(f"SELECT * FROM {table}".encode()).fetchall())


def weighted(connection: psycopg.Connection[Any], table: str) -> Counter[tuple[Any, ...]]:
    """The rows that weights add up to."""
    found: Counter[tuple[Any, ...]] = Counter()
    for *row, weight, _ in connection.execute(f"SELECT * FROM {table}".encode()).fetchall():
        found[tuple(row)] += weight
    return +found


def test_all_modes_until_it_is_killed(
    counted: Counted, server: PostgresServer, connection: psycopg.Connection[Any], seed: int
) -> None:
    """After every epoch; mills are killed between, and the server is stopped and started."""
    chance = random.Random(seed)
    schema(connection)
    counted.write([("a", 1)])
    counted.advance()
    counted.mill.sql(f"CREATE SINK c FROM v INTO postgres OPTIONS ({server.options('s.changed')})")
    merge = server.options("s.merged", mode="merge", keyColumns="k")
    counted.mill.sql(f"CREATE SINK m FROM n INTO postgres OPTIONS ({merge})")
    counted.mill.sql(f"CREATE SINK w FROM v INTO postgres OPTIONS ({server.options('s.whole', mode='snapshot')})")
    for turn in range(6):
        counted.change(chance)
        if turn == 2:
            server.stop()
            server.start()
            connection.close()
        if turn == 3:
            counted.kill()
            counted.open()
            for name in "cmw":
                counted.mill.sql(f"ALTER SINK {name} SET OPTIONS (user 'postgres')")
        counted.advance()
        wait_until(lambda: all(s["lag"] == 0 for s in counted.mill.sql("SHOW SINKS").collect()))
        with server.connect() as now:
            assert weighted(now, "s.changed") == counted.rows, turn
            assert rows(now, "s.merged") == counted.sums
            assert rows(now, "s.whole") == counted.rows
            (noted,) = now.execute("SELECT DISTINCT epoch FROM s.tidemill_epochs").fetchall()
            assert noted[0] == counted.mill.epoch


def test_nothing_is_cancelled_on_a_connection_that_has_ended(
    server: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when a mill ends while the server does: the connection is closed between psycopg's check and its request."""
    cancel = psycopg.Connection._cancel_gen

    def closed_first(connection: psycopg.Connection[Any], **options: Any) -> Any:
        connection.close()
        return cancel(connection, **options)

    monkeypatch.setattr(psycopg.Connection, "_cancel_gen", closed_first)
    options = {"url": f"postgresql://127.0.0.1:{server.port}/postgres", "user": "postgres", "dbtable": "s.t"}
    target = target_kind("postgres").make(Identity("1", "c", "v", "UTC"), options)
    assert isinstance(target, PostgresTarget)
    target._opened()
    target.abort()
    target.close()


def test_killed_after_a_commit(
    counted: Counted, server: PostgresServer, connection: psycopg.Connection[Any], seed: int
) -> None:
    """What was committed and not noted in a manifest is not written again."""
    chance = random.Random(seed)
    schema(connection)
    counted.mill.sql(f"CREATE SINK c FROM v INTO postgres OPTIONS ({server.options('s.changed')})")
    for _ in range(3):
        counted.change(chance)
        counted.advance()
        before = rows(connection, "s.changed")
        counted.kill()
        counted.open()
        counted.advance()
        assert rows(connection, "s.changed") == before
        assert weighted(connection, "s.changed") == counted.rows


def test_types(
    mill_factory: MillFactory, server: PostgresServer, connection: psycopg.Connection[Any], tmp_path: Any
) -> None:
    """Values that CSV, or a text, could be mistaken for others; merged also by keys that are NULL."""
    schema(connection)
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.csv").write_text("1,a,I\n2,b,I\n,c,I\n")
    mill = mill_factory(checkpoint_seconds=0.0)
    mill.sql(f"CREATE TABLE t (k INT, s STRING, op STRING) USING csv OPTIONS (path '{tmp_path}/in', opColumn 'op')")
    mill.sql(
        "CREATE MATERIALIZED VIEW v AS SELECT k, CASE k WHEN 1 THEN '' WHEN 2 THEN 'say \"so\",\\n\\\\' END AS s, "
        "k = 1 AS b, CAST(k / 3 AS DECIMAL(9, 4)) AS d, CAST('NaN' AS DOUBLE) AS f, DATE'1900-02-28' AS day, "
        "TIMESTAMP'2024-02-29 23:59:59.123456Z' AS ts, TIMESTAMP_NTZ'2024-02-29 23:59:59.5' AS ntz, X'00ff22' AS x, "
        "array(k, NULL) AS a, named_struct('y', s, 'm', map('k', 1.5D)) AS j FROM t"
    )
    mill.sql(f"CREATE SINK p FROM v INTO postgres OPTIONS ({server.options('s.typed', mode='merge', keyColumns='k')})")
    advance(mill)
    found = connection.execute(
        "SELECT k, s, b, d, f::text, day::text, extract(epoch FROM ts), ntz::text, x, a, j FROM s.typed ORDER BY k"
    ).fetchall()
    rest = ("NaN", "1900-02-28", Decimal("1709251199.123456"), "2024-02-29 23:59:59.5", b"\x00\xff\x22")
    expected = [
        (1, "", True, Decimal("0.3333"), *rest, [1, None], {"y": "a", "m": {"k": 1.5}}),
        (2, 'say "so",\n\\', False, Decimal("0.6667"), *rest, [2, None], {"y": "b", "m": {"k": 1.5}}),
        (None, None, None, None, *rest, [None, None], {"y": "c", "m": {"k": 1.5}}),
    ]
    assert found == expected
    (tmp_path / "in" / "b.csv").write_text(",c,D\n,d,I\n1,a,D\n")
    advance(mill)
    assert connection.execute("SELECT k, j ->> 'y' FROM s.typed ORDER BY k").fetchall() == [(2, "b"), (None, "d")]


def advance(mill: Any) -> None:
    while mill.advance() is not None:
        pass
    mill.checkpoint()
    assert mill.wait_for_sinks(30), mill.sql("SHOW SINKS").collect()


def test_what_is_refused(counted: Counted, server: PostgresServer, connection: psycopg.Connection[Any]) -> None:
    schema(connection)
    mill, given = counted.mill, server.options("s.x")
    for options, number in (
        (f"{given}, mode 'merge'", "TM4003"),
        (f"{given}, keyColumns 'k'", "TM4003"),
        (f"{given}, mode 'merge', keyColumns 'no'", "TM4003"),
        ("dbtable 's.x'", "TM4003"),
        (server.options("a.b.c"), "TM8207"),
        (f"{given}, path 'x'", "TM8201"),
    ):
        with pytest.raises(TidemillError) as raised:
            mill.sql(f"CREATE SINK x FROM v INTO postgres OPTIONS ({options})")
        assert raised.value.number == number, raised.value
    connection.execute("CREATE TABLE s.x (k text, x int)")
    connection.execute("INSERT INTO s.x VALUES ('not', 1)")
    mill.sql(f"CREATE SINK x FROM v INTO postgres OPTIONS ({given})")
    counted.write([("a", 1)])
    while mill.advance() is not None:
        pass
    mill.checkpoint()
    wait_until(lambda: "TM8213" in str(mill.sql("SHOW SINKS").collect()))
    assert rows(connection, "s.x") == Counter([("not", 1)])
