"""What DBeaver, JDBC, SQLAlchemy, BI tools and drivers ask of the catalogue."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import psycopg
import pytest
import sqlalchemy as sa
from postgres_server import PostgresServer
from psycopg.types import TypeInfo

QUESTIONS = [
    text
    for part in Path(__file__).with_name("catalogue_questions.sql").read_text().split("\n\n")
    if (text := part.strip()) and not text.startswith("--")
]
EMPTY = ("key_column_usage", "_pg_expandarray", "pg_constraint c", "pg_index i", "pg_extension", "table_constraints",
         "pg_stat_activity")  # fmt: skip
"""Questions about what a mill has not."""


@pytest.mark.parametrize("query", QUESTIONS, ids=lambda q: q[:60])
@pytest.mark.parametrize("prepare", [False, True])
def test_questions_have_an_answer(connection: psycopg.Connection[Any], query: str, prepare: bool) -> None:
    cursor = connection.execute(query.encode(), prepare=prepare)
    assert cursor.fetchall() is not None
    assert cursor.rowcount > 0 or any(word in query for word in EMPTY)


def test_answers_of_the_information_schema(server: PostgresServer, connection: psycopg.Connection[Any]) -> None:
    found = connection.execute(
        "SELECT column_name, ordinal_position, is_nullable, data_type, udt_name, numeric_precision, numeric_scale, "
        "datetime_precision FROM information_schema.columns WHERE table_schema = %s AND table_name = %s ORDER BY 2",
        ("public", "everything"),
    ).fetchall()
    assert [row[0] for row in found] == server.mill.read("everything").column_names
    by_name = {row[0]: row[1:] for row in found}
    assert by_name["price"] == (8, "YES", "numeric", "numeric", 20, 4, None)
    assert by_name["at"] == (13, "YES", "timestamp with time zone", "timestamptz", None, None, 6)
    assert by_name["words"][2:4] == ("ARRAY", "_text") and by_name["tags"][2:4] == ("json", "json")
    tables = connection.execute(
        "SELECT table_name, table_type FROM information_schema.tables WHERE table_schema = 'public'"
    )
    assert sorted(tables.fetchall()) == [("customers", "VIEW"), ("everything", "VIEW"), ("orders", "BASE TABLE"),
                                         ("spending", "VIEW"), ("things", "BASE TABLE")]  # fmt: skip


@pytest.mark.parametrize("name", ["INFORMATION_SCHEMA.COLUMNS", "Pg_Catalog.PG_CLASS", 'PUBLIC."Spending"'])
def test_schemas_in_any_case(connection: psycopg.Connection[Any], name: str) -> None:
    """dbt asks ``INFORMATION_SCHEMA.columns``."""
    rows, as_usual = (connection.execute(f"SELECT * FROM {n}".encode()).fetchall() for n in (name, name.lower()))
    assert rows and rows == as_usual


def test_a_new_view_is_seen_and_keeps_its_number(start: Any) -> None:
    server = start()
    server.fill()
    with server.connect(autocommit=True) as connection:
        query = "SELECT relname, oid FROM pg_class WHERE relkind = 'v' AND pg_table_is_visible(oid)"
        before = dict(connection.execute(query).fetchall())
        connection.execute("CREATE MATERIALIZED VIEW added AS SELECT customer FROM orders")
        after = dict(connection.execute(query).fetchall())
        assert set(after) == {*before, "added"} and all(after[name] == oid for name, oid in before.items())
        with pytest.raises(psycopg.errors.ObjectNotInPrerequisiteState, match="TM1030"):
            connection.execute("SELECT * FROM added")
        server.mill.advance()
        assert len(connection.execute("SELECT * FROM added").fetchall()) == 4


def test_sqlalchemy_reflects_views(server: PostgresServer) -> None:
    engine = sa.create_engine(f"postgresql+psycopg://somebody@127.0.0.1:{server.port}/tidemill")
    inspector = sa.inspect(engine)
    assert sorted(inspector.get_view_names()) == ["customers", "everything", "spending"]
    assert sorted(inspector.get_table_names()) == ["orders", "things"]
    columns = {c["name"]: str(c["type"]) for c in inspector.get_columns("everything")}
    assert columns["price"] == "NUMERIC(20, 4)" and columns["words"] == "ARRAY" and columns["at"] == "TIMESTAMP"
    assert inspector.get_pk_constraint("spending")["constrained_columns"] == []
    assert "COUNT(*) AS n" in (inspector.get_view_definition("spending") or "")
    spending = sa.Table("spending", sa.MetaData(), autoload_with=engine)
    with engine.connect() as connection:
        query = sa.select(spending.c.customer, sa.func.sum(spending.c.amount)).where(spending.c.n > 0)
        assert len(connection.execute(query.group_by(spending.c.customer)).all()) == 3
    engine.dispose()


def test_psycopg_looks_up_types(connection: psycopg.Connection[Any]) -> None:
    found = TypeInfo.fetch(connection, "numeric")
    assert found is not None and (found.oid, found.array_oid) == (1700, 1231)
    assert TypeInfo.fetch(connection, "hstore") is None
