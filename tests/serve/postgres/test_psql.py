"""Debian's psql: queries, its commands about relations, scripts and errors."""

from __future__ import annotations

import pytest
from postgres_server import PostgresServer


def answer(server: PostgresServer, *commands: str) -> str:
    """What psql prints, without alignment."""
    found = server.psql(*commands, options=("-At",))
    assert found.returncode == 0, found.stderr
    assert not found.stderr
    return found.stdout.strip()


def test_queries(server: PostgresServer) -> None:
    assert answer(server, "SELECT * FROM spending ORDER BY 1") == "1|2|6.50\n2|1|3.00\n3|1|0.25"
    assert (
        answer(server, "TABLE spending ORDER BY n DESC, 1 LIMIT 1", "VALUES (1, 'a'), (2, NULL)") == "1|2|6.50\n1|a\n2|"
    )
    joined = "SELECT c.name, s.amount FROM customers c JOIN spending s USING (customer) WHERE s.amount > 1 ORDER BY 1"
    assert answer(server, joined) == "c1|6.50\nc2|3.00"
    assert answer(server, "WITH spending AS (SELECT 5 AS a) SELECT a FROM spending") == "5"
    assert answer(server, 'SELECT "customer" FROM public."spending" WHERE "n" = 2') == "1"
    assert answer(server, "SELECT COUNT(*) FROM tidemill.orders__files WHERE error IS NULL") == "1"
    assert answer(server, "SELECT COUNT(*) FROM orders__errors") == "0"
    assert answer(server, "SELECT 7 / 2, -7 / 2, 7.0 / 2, 7 % -2 + 0, 1 / 3.0 > 0.33") == "3|-3|3.5|1|t"


def test_names_of_columns(server: PostgresServer) -> None:
    query = (
        "SELECT COUNT(*), SUM(n) + 1, MAX(amount), 1, 'x', n::text, CASE WHEN true THEN 1 END, now() > '2000-01-01' "
    )
    found = server.psql(query + "FROM spending GROUP BY n LIMIT 1", options=("-A",))
    assert found.stdout.splitlines()[0] == "count|?column?|max|?column?|?column?|n|case|?column?", found.stderr


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("version()", "version"),
        ("pg_catalog.version()", "version"),
        ("to_char(now(), 'YYYY')", "to_char"),
        ("date_part('year', now())", "date_part"),
        ("EXTRACT(year FROM now())", "extract"),
        ("lpad('a', 3)", "lpad"),
        ("strpos('a', 'b')", "strpos"),
        ("mod(5, 2)", "mod"),
        ("5 % 2", "?column?"),
        ("power(2, 3)", "power"),
        ("2 ^ 3", "?column?"),
        ("percentile_cont(0.5) WITHIN GROUP (ORDER BY n)", "percentile_cont"),
        ("COUNT(*) FILTER (WHERE n > 1)", "count"),
        ("string_agg('a', ',')", "string_agg"),
        ("trim('a')", "btrim"),
        ("now()", "now"),
        ("CURRENT_DATE", "current_date"),
        ("CURRENT_TIMESTAMP", "current_timestamp"),
        ("CAST(1 AS int)", "int4"),
        ("('{}'::json) #>> '{a}'", "?column?"),
        ("octet_length('é')", "octet_length"),
    ],
)
def test_functions_name_columns_as_they_are_written(server: PostgresServer, written: str, name: str) -> None:
    found = server.psql(f"SELECT {written} FROM (SELECT 1 AS n) AS t", options=("-A",))
    assert found.stdout.splitlines()[:1] == [name], found.stderr


def test_functions_that_have_other_arguments_in_duckdb(server: PostgresServer) -> None:
    assert answer(server, "SELECT version()").startswith("PostgreSQL 15.")
    assert answer(server, "SELECT octet_length('aé'), octet_length('\\xAA5C'::bytea), octet_length(NULL)") == "3|2|"
    paths = """SELECT x #>> '{a,b c,0}', x #> '{a}', x #>> '{"b","c"}' FROM (SELECT '{"a": {"b c": [5]}}'::json AS x)"""
    assert answer(server, paths + " AS t") == '5|{"b c":[5]}|'
    assert answer(server, """SELECT '{"b,c": {"d": 7}}'::json #>> '{ "b,c" , d }'""") == "7"


def test_several_statements_at_once_are_one_transaction(server: PostgresServer) -> None:
    both = "SELECT tidemill_epoch(); SELECT tidemill_epoch() -- a comment; and 'more'\n;/* nested /* ; */ */ SELECT ';'"
    first, second, third = answer(server, both).splitlines()
    assert first == second and third == ";"
    assert answer(server, "BEGIN; SELECT 1; COMMIT", "START TRANSACTION READ ONLY", "ROLLBACK") == (
        "BEGIN\n1\nCOMMIT\nSTART TRANSACTION\nROLLBACK"
    )
    failed = server.psql("SELECT 1; SELECT * FROM nope; SELECT 2", options=("-At",))
    assert failed.stdout.strip() == "1" and "TM2012" in failed.stderr


def test_cursors(server: PostgresServer) -> None:
    script = "DECLARE c CURSOR FOR SELECT customer FROM spending ORDER BY 1"
    found = answer(
        server, "BEGIN", script, "FETCH 2 FROM c", "FETCH FORWARD ALL FROM c", "FETCH c", "CLOSE c", "COMMIT"
    )
    assert found.split() == ["BEGIN", "DECLARE", "CURSOR", "1", "2", "3", "CLOSE", "CURSOR", "COMMIT"]
    assert "TM8115" in server.psql(script).stderr
    assert answer(server, script.replace("FOR", "WITH HOLD FOR"), "FETCH 1 FROM c", "CLOSE ALL").split()[2] == "1"


def test_relations_are_listed(server: PostgresServer) -> None:
    assert answer(server, r"\dv").splitlines() == [
        f"public|{v}|view|tidemill" for v in ("customers", "everything", "spending")
    ]
    assert answer(server, r"\dt") == "public|orders|table|tidemill\npublic|things|table|tidemill"
    assert len(answer(server, r"\d").splitlines()) == 5
    assert "spending" in answer(server, r"\dv sp*") and answer(server, r"\dv+ spending").startswith("public|spending")
    assert "tidemill|orders__files|view|tidemill" in answer(server, r"\dv *.*")


def test_a_relation_is_described(server: PostgresServer) -> None:
    assert answer(server, r"\d spending").splitlines() == ["customer|integer|||", "n|bigint||not null|",
                                                           "amount|numeric(22,2)|||"]  # fmt: skip
    types = [line.split("|")[1] for line in answer(server, r"\d everything").splitlines()]
    assert types == ["integer", "boolean", "smallint", "smallint", "bigint", "real", "double precision",
                     "numeric(20,4)", "numeric(38,10)", "text", "bytea", "date", "timestamp with time zone",
                     "timestamp without time zone", "integer[]", "text[]", "json", "json"]  # fmt: skip
    assert "SELECT customer, COUNT(*) AS n" in server.psql(r"\d+ spending").stdout
    assert answer(server, r"\sv spending").startswith("CREATE OR REPLACE VIEW public.spending AS")
    assert "nope" in server.psql(r"\d nope").stderr


OTHERS = (
    r"\l \dn \du \df \dT \di \ds \dm \dE \dp \dx \db \dD \dC \do \dy \dRp \dA \dconfig \conninfo \des \dF \dP \dX \z"
)


@pytest.mark.parametrize("command", OTHERS.split())
def test_other_commands_have_an_answer(server: PostgresServer, command: str) -> None:
    found = server.psql(command)
    assert found.returncode == 0 and "TM" not in found.stderr, found.stderr


def test_settings(server: PostgresServer) -> None:
    assert answer(server, "SHOW server_encoding", "SHOW TIME ZONE", "SET TIME ZONE 'UTC'", "SHOW TimeZone") == (
        "UTF8\nEurope/Berlin\nSET\nUTC"
    )
    assert answer(server, "SET my.own = 5", "SELECT current_setting('my.own')", "RESET ALL", "DISCARD ALL") == (
        "SET\n5\nRESET\nDISCARD ALL"
    )
    assert "tidemill.epoch|1|" in answer(server, "SHOW ALL")
    assert answer(server, "SELECT current_database(), current_user, current_schema()") == "tidemill|somebody|public"


def test_explain_tells_who_answers(server: PostgresServer) -> None:
    assert answer(server, "EXPLAIN SELECT * FROM spending").startswith("DuckDB answers: the views have ")


def test_errors_have_a_number_and_what_to_do(server: PostgresServer) -> None:
    found = server.psql("SELECT * FROM spendin", options=("-v", "VERBOSITY=verbose"))
    assert found.returncode == 1
    assert found.stderr.splitlines() == [
        "ERROR:  42P01: TM2012: there is no table or view of this name",
        "DETAIL:  spendin",
        "HINT:  did you mean 'spending'?",
    ]


def test_a_script_of_many_statements(server: PostgresServer, tmp_path: object) -> None:
    found = server.psql(*[f"SELECT {i}" for i in range(50)], options=("-At",))
    assert found.stdout.split() == [str(i) for i in range(50)]
