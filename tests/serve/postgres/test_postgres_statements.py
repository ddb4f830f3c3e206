"""How texts are divided into statements, and settings are set."""

from __future__ import annotations

import pytest

from tidemill.errors import TidemillError
from tidemill.serve.postgres.protocol.errors import sql_state
from tidemill.serve.postgres.session.set_and_show import set_from
from tidemill.serve.postgres.session.settings import ConnectionSettings, options_of
from tidemill.serve.postgres.session.statements import Kind, statements_of


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ("", [Kind.EMPTY]),
        (" ; ;; -- x", [Kind.EMPTY]),
        ("/* a /* b */ ; */ SELECT 1", [Kind.QUERY]),
        ("SELECT ';' ; SELECT $$;$$, $a$ ; $$ ; $a$, \";\", E'\\';'", [Kind.QUERY, Kind.QUERY]),
        ("begin;select 1;commit;", [Kind.BEGIN, Kind.QUERY, Kind.COMMIT]),
        ("(SELECT 1) UNION (SELECT 2)", [Kind.QUERY]),
        ("set x = ';'; SHOW x", [Kind.SET, Kind.SHOW]),
        ("SHOW VIEWS", [Kind.MILL]),
        ("show server_version", [Kind.SHOW]),
        ("CREATE MATERIALIZED VIEW v AS SELECT 'it\\'s; ' FROM t; DROP VIEW w", [Kind.MILL, Kind.MILL]),
        ("DECLARE c CURSOR FOR SELECT 1; FETCH ALL FROM c; CLOSE c", [Kind.DECLARE, Kind.FETCH, Kind.CLOSE]),
        (
            "DEALLOCATE ALL; DISCARD ALL; RESET ALL; UNLISTEN *",
            [Kind.DEALLOCATE, Kind.DISCARD, Kind.RESET, Kind.IGNORED],
        ),
        ("EXPLAIN SELECT 1; EXPLAIN INCREMENTAL SELECT 1", [Kind.EXPLAIN, Kind.MILL]),
        ("-- create and drop\nSELECT 1", [Kind.QUERY]),
        ("/* drop */ SELECT 1", [Kind.QUERY]),
        ("-- select\nDROP VIEW v", [Kind.MILL]),
        ("DROP VIEW v; SELECT 7 / 2; SHOW x", [Kind.MILL, Kind.QUERY, Kind.SHOW]),
    ],
)
def test_statements(text: str, kinds: list[Kind]) -> None:
    assert [s.kind for s in statements_of(text)] == kinds


@pytest.mark.parametrize("text", ["SELECT 'x", 'SELECT "x', "/* x", "/* /* */", "SELECT $a$ x $b$ '", "x"])
def test_what_has_no_end(text: str) -> None:
    with pytest.raises(TidemillError, match="TM8123"):
        statements_of(text)


def test_many_texts_without_an_end() -> None:
    """The first one is the error: the rest is not searched once for each of them, which would take hours."""
    with pytest.raises(TidemillError, match=r"\$a0\$"):
        statements_of("SELECT " + " ".join(f"$a{i}$" for i in range(500_000)))


def settings(*statements: str) -> ConnectionSettings:
    found = ConnectionSettings("Europe/Berlin", "me")
    for text in statements:
        (statement,) = statements_of(text)
        set_from(statement, found)
    return found


@pytest.mark.parametrize(
    ("text", "name", "value"),
    [
        ("SET TimeZone TO 'UTC'", "timezone", "UTC"),
        ("SET TIME ZONE 'America/New_York'", "timezone", "America/New_York"),
        ("SET TIME ZONE -5", "timezone", "-05:00"),
        ("SET TIME ZONE +5.5", "timezone", "+05:30"),
        ("SET TIME ZONE LOCAL", "timezone", "Europe/Berlin"),
        ("SET SESSION DateStyle = ISO, DMY", "datestyle", "ISO, MDY"),
        ("SET NAMES 'utf-8'", "client_encoding", "UTF8"),
        ("SET extra_float_digits = 3", "extra_float_digits", "3"),
        ("SET search_path TO a, b", "search_path", "a, b"),
        ("SET application_name = 'it''s'", "application_name", "it's"),
        ("SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY", "transaction_read_only", "on"),
        ("SET TRANSACTION ISOLATION LEVEL SERIALIZABLE", "transaction_isolation", "repeatable read"),
        ("SET statement_timeout = '1min'", "statement_timeout", "1min"),
    ],
)
def test_set(text: str, name: str, value: str) -> None:
    assert settings(text).get(name) == value


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("SET DateStyle = German", "TM8119"),
        ("SET server_version = '9'", "TM8119"),
        ("SET statement_timeout = 'soon'", "TM8119"),
        ("SET standard_conforming_strings = off", "TM8119"),
        ("SET bytea_output = escape", "TM8119"),
        ("SET x", "TM8123"),
    ],
)
def test_what_cannot_be_set(text: str, number: str) -> None:
    with pytest.raises(TidemillError) as error:
        settings(text)
    assert error.value.number == number and len(sql_state(error.value)) == 5


def test_time_limits() -> None:
    assert settings("SET statement_timeout = 1500").statement_seconds(0) == 1.5
    assert settings("SET statement_timeout = '2s'").statement_seconds(1) == 1
    assert settings("SET statement_timeout = 0").statement_seconds(600) == 600
    assert settings().statement_seconds(0) == 0


def test_options_of_the_start() -> None:
    assert list(options_of("-c statement_timeout=5s --search-path=a\\ b -cx=1")) == [
        ("statement_timeout", "5s"), ("search_path", "a b"), ("x", "1"),
    ]  # fmt: skip
