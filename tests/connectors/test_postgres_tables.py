"""Tables USING postgres, over a real server: after each epoch a view is what the server itself says of its table."""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import psycopg
import pyarrow as pa
import pytest
from psycopg import sql
from pyspark.sql import SparkSession
from tests.debian_postgres import PostgresServer
from tests.mill_factory import MillFactory

from tidemill.errors import TidemillError
from tidemill.mill import Mill
from tidemill.testing import assert_same_rows
from waiting import wait_until

_FULL = "ALTER TABLE {} REPLICA IDENTITY FULL"
Connection = psycopg.Connection[Any]
TEXTS = ("", "a,b", 'say "so"', "two\nlines", "\\N", "naïve ↯", None, "x" * 5000)


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    started = PostgresServer()
    yield started
    started.close()


@pytest.fixture
def table(request: pytest.FixtureRequest, server: PostgresServer) -> Iterator[str]:
    """A name that no other test has; the table is dropped, and what follows it."""
    name = "".join(c if c.isalnum() else "_" for c in request.node.name.lower())[:50]
    yield name
    with server.connect() as connection:
        connection.execute(sql.SQL("DROP TABLE IF EXISTS {}").format(sql.Identifier(name)))


def create(connection: Connection, table: str, columns: str = "id int, v bigint, s text") -> None:
    """A table whose changes say the whole old row."""
    connection.execute(f"CREATE TABLE {table} ({columns})".encode())
    connection.execute(f"ALTER TABLE {table} REPLICA IDENTITY FULL".encode())


def follow(mill: Mill, server: PostgresServer, table: str, columns: str = "", **options: str) -> None:
    mill.sql(f"CREATE TABLE t {columns} USING postgres OPTIONS ({server.options(table, **options)})")
    mill.sql("CREATE MATERIALIZED VIEW rows AS SELECT * FROM t")


def drain(mill: Mill) -> list[str]:
    """Read all that is committed; the warnings of the epochs."""
    return [warning for report in mill.drain() for warning in report.warnings]


def counted(rows: list[tuple[Any, ...]] | pa.Table) -> Counter[tuple[Any, ...]]:
    return Counter(tuple(r.values()) for r in rows.to_pylist()) if isinstance(rows, pa.Table) else Counter(rows)


def there(connection: Connection, table: str) -> Counter[tuple[Any, ...]]:
    return counted(connection.execute(f"SELECT * FROM {table}".encode()).fetchall())


def change(connection: Connection, table: str, chance: random.Random) -> None:
    """Some transactions, of which some are taken back."""
    for _ in range(chance.randrange(1, 5)):
        with connection.transaction() as transaction:
            for _ in range(chance.randrange(1, 4)):
                one(connection, table, chance)
            if chance.randrange(5) == 0:
                raise psycopg.Rollback(transaction)


def one(connection: Connection, table: str, chance: random.Random) -> None:
    some = chance.randrange(20)
    match chance.randrange(6):
        case 0:
            connection.execute(f"DELETE FROM {table} WHERE id % 20 = {some}".encode())
        case 1:
            connection.execute(f"UPDATE {table} SET v = v + 1 WHERE id % 20 = {some}".encode())
        case 2:
            connection.execute(f"UPDATE {table} SET id = id + 1, s = NULL WHERE id % 20 = {some}".encode())
        case _:
            rows = [(chance.randrange(40), chance.randrange(-9, 9), chance.choice(TEXTS)) for _ in range(some)]
            with connection.cursor() as cursor:
                cursor.executemany(f"INSERT INTO {table} VALUES (%s, %s, %s)".encode(), rows)


def refused(mill: Mill, statement: str) -> TidemillError:
    with pytest.raises(TidemillError) as raised:
        mill.sql(statement)
    return raised.value


def test_changes_equal_the_server(
    server: PostgresServer, table: str, mill_factory: MillFactory, spark: SparkSession, seed: int
) -> None:
    """Random transactions, restarts of mill and server, and a view that comes later, against Spark and the server."""
    chance = random.Random(seed)
    query = "SELECT id % 5 AS k, COUNT(*) AS n, SUM(v) AS v, MAX(length(s)) AS l FROM t GROUP BY id % 5"
    with server.connect() as connection:
        create(connection, table)
        change(connection, table, chance)
    mill = mill_factory()
    follow(mill, server, table)
    mill.sql(f"CREATE MATERIALIZED VIEW before AS {query}")
    for turn in range(8):
        with server.connect() as connection:
            change(connection, table, chance)
            if turn == 2:
                mill.sql(f"CREATE MATERIALIZED VIEW later AS {query}")
            if turn in (3, 6):
                mill.close()
                change(connection, table, chance)
                mill = mill_factory()
        if turn == 4:
            server.stop()
            server.start()
        with server.connect() as connection:
            drained(mill)
            expected = there(connection, table)
        assert counted(mill.read("rows")) == expected, f"turn {turn}"
        frame = spark.createDataFrame([*expected.elements(), (0, 0, "")], "id INT, v BIGINT, s STRING")
        frame.limit(expected.total()).createOrReplaceTempView("now_t")
        result = spark.sql(query.replace(" t ", " now_t ")).toArrow()
        for view in ["before", "later"] if turn >= 2 else ["before"]:
            assert_same_rows(mill.read(view), result)


def drained(mill: Mill) -> None:
    """Read all that is committed, also when the server was away for a moment."""
    until = time.monotonic() + 60
    while True:
        try:
            drain(mill)
        except TidemillError as error:
            assert error.number == "TM5110", error
            assert time.monotonic() < until, error
            time.sleep(0.2)
        else:
            return


def test_types(server: PostgresServer, table: str, mill_factory: MillFactory) -> None:
    """Inferred columns; what PostgreSQL says of the values, in rows that were there and in changes."""
    columns = (
        "b bool, i2 smallint, i4 int, i8 bigint, f4 real, f8 double precision, n numeric(12,3), m numeric, d date, "
        "ts timestamp, tz timestamptz, s varchar(9), c char(5), u uuid, j jsonb, x bytea, a int[]"
    )
    row = (
        "true, -7, 8, 9007199254740993, 0.1, 1e-300, -123456789.125, 0.000000000000000001, '1900-02-28', "
        "'2024-02-29 23:59:59.123456', '2024-02-29 23:59:59.5-08', 'ä,', 'ab', "
        "'c0ffee00-0000-4000-8000-000000000000', '{\"a\": [1, null]}', '\\xfF00', '{1,NULL}'"
    )
    special = (
        "false, NULL, NULL, NULL, 'NaN', '-Infinity', NULL, NULL, NULL, NULL, NULL, '', NULL, NULL, NULL, '', '{}'"
    )
    with server.connect() as connection:
        create(connection, table, columns)
        connection.execute(f"INSERT INTO {table} VALUES ({row}), ({special})".encode())
        mill = mill_factory()
        follow(mill, server, table)
        assert drain(mill) == []
        types = [str(f.type) for f in mill.read("rows").schema]
        timestamps = ["timestamp[us]", "timestamp[us, tz=UTC]"]
        numbers = ["bool", "int16", "int32", "int64", "float", "double", "decimal128(12, 3)", "decimal128(38, 18)"]
        assert types == [*numbers, "date32[day]", *timestamps, *["string"] * 6]
        shown = (
            "SELECT b, i2, i4, i8, f4, f8, n, m, d, ts, tz AT TIME ZONE 'UTC', s, c, "
            f"u::text, j::text, x::text, a::text FROM {table}"
        )
        first = texts(connection.execute(shown.encode()).fetchall())
        assert texts(plain(mill.read("rows"))) == first
        connection.execute(f"INSERT INTO {table} SELECT * FROM {table}".encode())
        connection.execute(f"UPDATE {table} SET s = s || '.'".encode())
        assert drain(mill) == []
        assert texts(plain(mill.read("rows"))) == texts(connection.execute(shown.encode()).fetchall())
        connection.execute(f"DELETE FROM {table}".encode())
        drain(mill)
        assert mill.read("rows").num_rows == 0


def plain(rows: pa.Table) -> list[tuple[Any, ...]]:
    """Rows with times as the server shows them in UTC."""
    return [tuple(v.replace(tzinfo=None) if hasattr(v, "tzinfo") else v for v in r.values()) for r in rows.to_pylist()]


def texts(rows: list[tuple[Any, ...]]) -> Counter[str]:
    """Rows as texts: NaN is equal to itself there; a numeric without a scale may have zeros behind its point."""
    return Counter(" ".join(map(text, row)) for row in rows)


def text(value: Any) -> str:
    if isinstance(value, float):
        return str(np.float32(value)) if value == np.float32(0.1) else repr(value)
    return f"{value.normalize():f}" if isinstance(value, Decimal) else repr(value)


def test_domains(server: PostgresServer, table: str, mill_factory: MillFactory) -> None:
    """A domain, also over another one, is what it is over; an enum is a text."""
    with server.connect() as connection:
        connection.execute(
            "CREATE DOMAIN price AS numeric(9, 2) CHECK (value > 0); CREATE DOMAIN dear AS price CHECK (value > 9); "
            "CREATE DOMAIN small AS int; CREATE DOMAIN smaller AS small; CREATE TYPE mood AS ENUM ('sad'); "
            "CREATE DOMAIN moods AS mood"
        )
        columns = "a price, b dear, c smaller, d smaller, e mood, f moods, g numeric(5, 1)"
        connection.execute(f"CREATE TABLE {table} ({columns})".encode())
        connection.execute(f"ALTER TABLE {table} REPLICA IDENTITY FULL".encode())
        connection.execute(f"INSERT INTO {table} VALUES (1.5, 10, 7, NULL, 'sad', 'sad', 2.5)".encode())
    mill = mill_factory()
    mill.sql(f"CREATE TABLE t USING postgres OPTIONS ({server.options(table)})")
    mill.sql("CREATE MATERIALIZED VIEW rows AS SELECT * FROM t")
    drain(mill)
    decimal, number, text = pa.decimal128(9, 2), pa.int32(), pa.string()
    assert mill.read("rows").schema.types == [decimal, decimal, number, number, text, text, pa.decimal128(5, 1)]
    expected = (Decimal("1.50"), Decimal("10.00"), 7, None, "sad", "sad", Decimal("2.5"))
    assert counted(mill.read("rows")) == Counter([expected])


def test_names_in_quotes_and_declared_columns(server: PostgresServer, mill_factory: MillFactory) -> None:
    """Some of the columns, in another order, with other types; a column that comes later does not matter."""
    with server.connect() as connection:
        connection.execute('CREATE SCHEMA "Sp ace"')
        connection.execute(
            'CREATE TABLE "Sp ace"."T""x" ("The Id" int, "b" text, gone int, g int GENERATED ALWAYS AS (1) STORED)'
        )
        connection.execute('ALTER TABLE "Sp ace"."T""x" REPLICA IDENTITY FULL')
        connection.execute('INSERT INTO "Sp ace"."T""x" VALUES (1, \'one\', 5)')
        mill = mill_factory()
        follow(mill, server, '"Sp ace"."T""x"', "(B STRING, `The Id` BIGINT)")
        drain(mill)
        connection.execute('ALTER TABLE "Sp ace"."T""x" DROP COLUMN gone')
        connection.execute('ALTER TABLE "Sp ace"."T""x" ADD COLUMN more int DEFAULT 7')
        connection.execute('INSERT INTO "Sp ace"."T""x" VALUES (2, \'two\')')
        connection.execute('UPDATE "Sp ace"."T""x" SET "b" = \'eins\' WHERE "The Id" = 1')
        drain(mill)
        assert counted(mill.read("rows")) == Counter([("eins", 1), ("two", 2)])
        connection.execute('ALTER TABLE "Sp ace"."T""x" DROP COLUMN "b"')
        connection.execute('INSERT INTO "Sp ace"."T""x" VALUES (3)')
        with pytest.raises(TidemillError) as raised:
            drain(mill)
        assert (raised.value.number, "b" in raised.value.got) == ("TM5112", True)
        connection.execute('DROP SCHEMA "Sp ace" CASCADE')


def test_slots_come_and_go(server: PostgresServer, table: str, mill_factory: MillFactory) -> None:
    """A table has a slot and a publication until it is dropped; positions move on also when nothing changes."""
    with server.connect() as connection:
        create(connection, table)
        connection.execute(f"INSERT INTO {table} VALUES (1, 1, 'a')".encode())
        mill = mill_factory()
        follow(mill, server, table)
        drain(mill)
        ((slot,),) = connection.execute("SELECT slot_name FROM pg_replication_slots WHERE active").fetchall()
        before = confirmed(connection, slot)
        create(connection, f"{table}_other", "filler text")
        for _ in range(20):
            connection.execute(
                f"INSERT INTO {table}_other SELECT repeat(md5(i::text), 50) FROM generate_series(1, 1000) i".encode()
            )
        until = time.monotonic() + 60
        while confirmed(connection, slot) - before < 16 << 20:
            assert time.monotonic() < until
            time.sleep(0.1)
        connection.execute(f"DROP TABLE {table}_other".encode())
        mill.close()
        mill = mill_factory()
        connection.execute(f"UPDATE {table} SET v = 2".encode())
        drain(mill)
        assert counted(mill.read("rows")) == Counter([(1, 2, "a")])
        mill.sql("DROP MATERIALIZED VIEW rows")
        mill.sql("DROP TABLE t")
        mill.sql("CREATE TABLE others (a INT) USING generator")
        assert connection.execute("SELECT 1 FROM pg_replication_slots WHERE slot_name = %s", (slot,)).fetchall() == []
        assert connection.execute("SELECT 1 FROM pg_publication WHERE pubname = %s", (slot,)).fetchall() == []
        follow(mill, server, table)
        drain(mill)
        assert counted(mill.read("rows")) == Counter([(1, 2, "a")])


def test_a_server_that_is_slow_to_notice_who_has_gone(
    server: PostgresServer, table: str, mill_factory: MillFactory
) -> None:
    """The slot is dropped when it is nobody's any more."""
    with server.connect() as connection:
        create(connection, table)
        mill = mill_factory()
        follow(mill, server, table)
        drain(mill)
        active = "SELECT active_pid, slot_name FROM pg_replication_slots WHERE active"
        ((sender, slot),) = connection.execute(active).fetchall()
        mill.sql("DROP MATERIALIZED VIEW rows")
        os.kill(sender, signal.SIGSTOP)
        resumed = threading.Timer(1.5, os.kill, (sender, signal.SIGCONT))
        resumed.start()
        mill.sql("DROP TABLE t")
        resumed.join()
        mill.sql("CREATE TABLE others (a INT) USING generator")
        assert connection.execute("SELECT 1 FROM pg_replication_slots WHERE slot_name = %s", (slot,)).fetchall() == []


def confirmed(connection: Connection, slot: str) -> int:
    found = connection.execute(
        "SELECT (confirmed_flush_lsn - '0/0')::bigint FROM pg_replication_slots WHERE slot_name = %s", (slot,)
    ).fetchone()
    assert found is not None
    return int(found[0])


def test_what_is_gone(server: PostgresServer, table: str, mill_factory: MillFactory) -> None:
    """A slot that was dropped or moved on by others: no rows are silently missing."""
    with server.connect() as connection:
        create(connection, table)
        mill = mill_factory()
        follow(mill, server, table, slot="mine")
        connection.execute(f"INSERT INTO {table} VALUES (1, 1, 'a')".encode())
        drain(mill)
        mill.close()
        connection.execute(f"INSERT INTO {table} VALUES (2, 2, 'b')".encode())
        connection.execute("SELECT pg_replication_slot_advance('mine', pg_current_wal_lsn())")
        mill = mill_factory()
        with pytest.raises(TidemillError) as raised:
            drain(mill)
        assert raised.value.number == "TM5113"
        assert counted(mill.read("rows")) == Counter([(1, 1, "a")])
        mill.close()
        connection.execute("SELECT pg_drop_replication_slot('mine')")
        mill = mill_factory()
        with pytest.raises(TidemillError) as raised:
            drain(mill)
        assert (raised.value.number, "dropped" in raised.value.got) == ("TM5113", True)
        mill.sql("DROP MATERIALIZED VIEW rows")
        mill.sql("DROP TABLE t")
        follow(mill, server, table, slot="mine")
        drain(mill)
        assert counted(mill.read("rows")) == Counter([(1, 1, "a"), (2, 2, "b")])


def test_truncated(server: PostgresServer, table: str, mill_factory: MillFactory) -> None:
    """An error that stays; other tables go on."""
    with server.connect() as connection:
        create(connection, table)
        connection.execute(f"INSERT INTO {table} VALUES (1, 1, 'a')".encode())
        mill = mill_factory()
        follow(mill, server, table)
        drain(mill)
        connection.execute(f"TRUNCATE {table}".encode())
        with pytest.raises(TidemillError) as raised:
            drain(mill)
        assert raised.value.number == "TM5114"
        mill.sql("CREATE TABLE g (a INT) USING generator OPTIONS (numberOfRows '3')")
        mill.sql("CREATE MATERIALIZED VIEW n AS SELECT COUNT(*) AS n FROM g")
        while mill.advance() is not None:
            pass
        assert mill.read("n").to_pylist() == [{"n": 3}]


def test_bad_values_are_counted(server: PostgresServer, table: str, mill_factory: MillFactory) -> None:
    """What no column holds is NULL and in the table of errors, and goes when its row does."""
    with server.connect() as connection:
        create(connection, table, "id int, d date, n numeric(5, 2)")
        connection.execute(f"INSERT INTO {table} VALUES (1, 'infinity', 'NaN'), (2, '2024-01-01', 1)".encode())
        mill = mill_factory()
        follow(mill, server, table)
        drain(mill)
        rows = {(r["id"], r["d"] is None, r["n"] is None) for r in mill.read("rows").to_pylist()}
        assert rows == {(1, True, True), (2, False, False)}
        assert {e["column"] for e in mill.read("t__errors").to_pylist()} == {"d", "n"}
        connection.execute(f"DELETE FROM {table} WHERE id = 1".encode())
        drain(mill)
        assert [r["id"] for r in mill.read("rows").to_pylist()] == [2]


def test_what_is_refused(server: PostgresServer, table: str, mill_factory: MillFactory) -> None:
    """Each with what to do."""
    mill = mill_factory()
    create_table = "CREATE TABLE t {} USING postgres OPTIONS ({})"
    with server.connect() as connection:
        connection.execute(f"CREATE TABLE {table} (id int PRIMARY KEY)".encode())
        connection.execute("DROP ROLE IF EXISTS nobody")
        connection.execute("CREATE ROLE nobody LOGIN")
        slots = "SELECT slot_name FROM pg_replication_slots ORDER BY slot_name"
        before = connection.execute(slots).fetchall()
        given = server.options(table)
        cases = [
            ("", given, "TM5112", "old row"),
            ("", server.options("no_such"), "TM5112", "no such table"),
            ("", server.options("pg_catalog.pg_tables"), "TM5112", "plain table"),
            ("", "dbtable 'x'", "TM4003", "none"),
            ("", "url 'mysql://h/d', dbtable 'x'", "TM4003", "mysql"),
            ("", "url 'postgresql://u:hunter2@h/d', dbtable 'x'", "TM4003", "password"),
            ("", "url 'postgresql://h/d?passfile=/etc/x', dbtable 'x'", "TM4003", "passfile"),
            ("", "url 'postgresql://127.0.0.1:1/d', dbtable 'x'", "TM5110", "refused"),
            ("", given.replace("user 'postgres'", "user 'nobody_else'"), "TM5111", "nobody_else"),
            ("", f"{given}, path 'x'", "TM4003", "x"),
            ("", f"{given}, slot 'Not this'", "TM4003", "Not this"),
        ]
        for columns, options, number, said in cases:
            error = refused(mill, create_table.format(columns, options))
            assert (error.number, said in error.message(), "hunter2" in error.message()) == (number, True, False), error
        connection.execute(f"ALTER TABLE {table} REPLICA IDENTITY FULL".encode())
        error = refused(mill, create_table.format("(id INT, other INT)", given))
        assert (error.number, "other" in error.got) == ("TM5112", True)
        error = refused(mill, create_table.format("(id INT, PRIMARY KEY (id))", given))
        assert error.number == "TM5112"
        assert connection.execute(slots).fetchall() == before
        limited = mill_factory("limited", allowed_paths="postgresql://127.0.0.1:1/")
        assert refused(limited, create_table.format("", given)).number == "TM5045"
        mill.sql(create_table.format("", given.replace("user 'postgres'", "user 'nobody'")))
        mill.sql("CREATE MATERIALIZED VIEW v AS SELECT * FROM t")
        with pytest.raises(TidemillError) as raised:
            drain(mill)
        assert raised.value.number == "TM5111", raised.value
        mill.sql("ALTER TABLE t SET OPTIONS (user 'postgres')")
        connection.execute(f"INSERT INTO {table} VALUES (5)".encode())
        until = time.monotonic() + 60
        while mill.read("v").to_pylist() != [{"id": 5}]:
            assert time.monotonic() < until
            mill.advance()
            time.sleep(0.1)
        mill.sql("DROP MATERIALIZED VIEW v")
        mill.sql("DROP TABLE t")


def test_slots_of_others_stay(server: PostgresServer, table: str, mill_factory: MillFactory) -> None:
    """Names that are taken are refused, and nothing of others is dropped; a slot of the table's own is made anew."""
    mill = mill_factory()
    with server.connect() as connection:
        create(connection, table)
        connection.execute("SELECT pg_create_logical_replication_slot('theirs', 'pgoutput')")
        connection.execute(f"CREATE PUBLICATION theirs2 FOR TABLE {table}".encode())
        for slot in ("theirs", "theirs2"):
            statement = f"CREATE TABLE t USING postgres OPTIONS ({server.options(table, slot=slot)})"
            assert refused(mill, statement).number == "TM5112"
        assert connection.execute("SELECT 1 FROM pg_publication WHERE pubname = 'theirs2'").fetchall() == [(1,)]
        follow(mill, server, table, slot="ours")
        wait_until(lambda: list((mill_path(mill) / "spool").glob("*/*.segment")) != [])
        mill.close()
        spool = next((mill_path(mill) / "spool").iterdir())
        for segment in spool.glob("*.segment"):  # as if it had been killed while rows were copied
            segment.unlink()
            segment.with_suffix(".marks").unlink(missing_ok=True)
        connection.execute(f"INSERT INTO {table} VALUES (1, 1, 'a')".encode())
        mill = mill_factory()
        drain(mill)
        assert counted(mill.read("rows")) == Counter([(1, 1, "a")])
        mill.sql("DROP MATERIALIZED VIEW rows")
        mill.sql("DROP TABLE t")
        slots = connection.execute("SELECT slot_name FROM pg_replication_slots WHERE slot_name IN ('theirs', 'ours')")
        assert slots.fetchall() == [("theirs",)]
        connection.execute("SELECT pg_drop_replication_slot('theirs')")
        connection.execute("DROP PUBLICATION theirs2")


def mill_path(mill: Mill) -> Path:
    return Path(str(mill.root))


@pytest.mark.parametrize(
    ("statements", "said"),
    [
        (["ALTER TABLE {} RENAME TO {}_old", "CREATE TABLE {} (LIKE {}_old)", _FULL], "another table"),
        (["ALTER TABLE {} RENAME TO {}_old"], "no such table"),
        (["ALTER TABLE {} DROP COLUMN v, ADD COLUMN w bigint", "ALTER TABLE {} RENAME w TO v"], "column v"),
        (["ALTER TABLE {} ALTER v TYPE int"], "column v"),
        (["ALTER TABLE {} ALTER id TYPE numeric(10, 2)"], "column id"),
        (["ALTER TABLE {} REPLICA IDENTITY DEFAULT"], "old row"),
        (["ALTER PUBLICATION p_{} DROP TABLE {}"], "publication"),
        (["ALTER PUBLICATION p_{} SET (publish = 'insert')"], "publication"),
    ],
)
def test_tables_that_change_at_the_server(
    server: PostgresServer, table: str, mill_factory: MillFactory, statements: list[str], said: str
) -> None:
    """An error that stays, and no wrong rows; other tables go on."""
    mill = mill_factory()
    with server.connect() as connection:
        create(connection, table)
        connection.execute(f"INSERT INTO {table} VALUES (1, 1, 'a')".encode())
        connection.execute(f"CREATE PUBLICATION p_{table} FOR TABLE {table}".encode())
        follow(mill, server, table, publication=f"p_{table}")
        drain(mill)
        for statement in statements:
            connection.execute(statement.replace("{}", table).encode())
        with pytest.raises(TidemillError) as raised:
            for _ in range(20):  # a publication is looked at every five seconds
                drain(mill)
                time.sleep(0.5)
        assert (raised.value.number, said in raised.value.message()) == ("TM5112", True), raised.value
        assert counted(mill.read("rows")) == Counter([(1, 1, "a")])
        connection.execute(f"DROP PUBLICATION p_{table}".encode())
        connection.execute(f"DROP TABLE IF EXISTS {table}_old".encode())


def test_a_full_spool(table: str, mill_factory: MillFactory) -> None:
    """The server can be stopped meanwhile, and in the end all is read, by one drain."""
    server = PostgresServer()
    mill = mill_factory()
    with server.connect() as connection:
        create(connection, table)
        statement = f"CREATE TABLE t USING postgres OPTIONS ({server.options(table, maxSpoolBytes='1m')})"
        mill.sql(statement)
        for _ in range(6):
            more = f"INSERT INTO {table} SELECT i, i, repeat('z', 100) FROM generate_series(1, 10000) i"
            connection.execute(more.encode())
        time.sleep(1.5)
    server.stop()
    server.start()
    mill.sql("CREATE MATERIALIZED VIEW n AS SELECT COUNT(*) AS n, COUNT(DISTINCT id) AS d FROM t")
    drained(mill)
    assert mill.read("n").to_pylist() == [{"n": 60000, "d": 10000}]
    mill.close()
    mill = mill_factory()  # whose spool retains more than may wait
    with server.connect() as connection:
        connection.execute(f"DELETE FROM {table} WHERE id > 9999".encode())
    drained(mill)
    assert mill.read("n").to_pylist() == [{"n": 59994, "d": 9999}]
    mill.close()
    server.close()


def test_what_else_is_refused(server: PostgresServer, table: str, mill_factory: MillFactory) -> None:
    """Tables whose rows, or changes, would not be all there."""
    mill = mill_factory()
    with server.connect() as connection:
        connection.execute(f'CREATE TABLE {table} (id int, "__op" text)'.encode())
        connection.execute(f"ALTER TABLE {table} REPLICA IDENTITY FULL".encode())
        statement = f"CREATE TABLE t USING postgres OPTIONS ({server.options(table)})"
        assert refused(mill, statement).number == "TM5112"
        connection.execute(f"ALTER TABLE {table} DROP COLUMN __op, SET UNLOGGED".encode())
        assert refused(mill, statement).number == "TM5112"
        connection.execute(f"ALTER TABLE {table} SET LOGGED, ENABLE ROW LEVEL SECURITY".encode())
        connection.execute("DROP ROLE IF EXISTS reader")
        connection.execute("CREATE ROLE reader LOGIN REPLICATION")
        connection.execute(f"GRANT SELECT ON {table} TO reader".encode())
        connection.execute(f"CREATE POLICY few ON {table} USING (id < 3)".encode())
        connection.execute(f"CREATE PUBLICATION p_{table} FOR TABLE {table}".encode())
        options = server.options(table, publication=f"p_{table}").replace("user 'postgres'", "user 'reader'")
        mill.sql(f"CREATE TABLE t USING postgres OPTIONS ({options})")
        mill.sql("CREATE MATERIALIZED VIEW rows AS SELECT * FROM t")
        with pytest.raises(TidemillError) as raised:
            drain(mill)
        assert raised.value.number == "TM5111"
        mill.sql("DROP MATERIALIZED VIEW rows")
        mill.sql("DROP TABLE t")
        connection.execute(f"DROP PUBLICATION p_{table}".encode())
        connection.execute(b"DROP OWNED BY reader")
        connection.execute("DROP ROLE reader")
