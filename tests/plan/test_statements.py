"""Scripts cut into statements, and what the head of a statement says."""

from __future__ import annotations

import pytest

from tidemill.errors import TidemillError
from tidemill.plan.sql.statement_words import check_script
from tidemill.plan.sql.statements import Describe, Drop, Explain, Query, Show, Source, classify, split_script


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("", []),
        ("  ;;  ; -- nothing\n", []),
        ("SELECT 1", [("SELECT 1", 1)]),
        ("SELECT 1;", [("SELECT 1", 1)]),
        ("SELECT 1;\nSELECT 2 ;\n", [("SELECT 1", 1), ("SELECT 2", 2)]),
        ("-- first\nSELECT 1; -- then\n\n/* more;\n*/ SELECT 2", [("SELECT 1", 2), ("SELECT 2", 5)]),
        ("SELECT ';' AS a; SELECT 2", [("SELECT ';' AS a", 1), ("SELECT 2", 1)]),
        ("SELECT 'it''s; so', \"a;b\", `c;d`", [("SELECT 'it''s; so', \"a;b\", `c;d`", 1)]),
        (r"SELECT 'a\';b'; SELECT 2", [(r"SELECT 'a\';b'", 1), ("SELECT 2", 1)]),
        ("SELECT 1 -- ; not here\n+ 2; SELECT 3", [("SELECT 1 -- ; not here\n+ 2", 1), ("SELECT 3", 2)]),
        ("SELECT 1 /* ; ' */ + 2", [("SELECT 1 /* ; ' */ + 2", 1)]),
        ("SELECT 'two\nlines;' ; SELECT 2", [("SELECT 'two\nlines;'", 1), ("SELECT 2", 2)]),
        ("SELECT 4 / 2; SELECT 4-2", [("SELECT 4 / 2", 1), ("SELECT 4-2", 1)]),
    ],
)
def test_split(script: str, expected: list[tuple[str, int]]) -> None:
    assert [(s.text, s.line) for s in split_script(script)] == expected


@pytest.mark.parametrize(
    ("script", "line"),
    [
        ("SELECT 'a", 1),
        ("SELECT 1;\nSELECT '\ud800'", 2),
        ('SELECT 1;\nSELECT "b', 2),
        ("SELECT `c", 1),
        ("\n\n/* never", 3),
    ],
)
def test_what_is_not_closed_is_an_error_with_its_line(script: str, line: int) -> None:
    with pytest.raises(TidemillError, match="TM2001") as caught:
        split_script(script)
    assert f"line {line}" in caught.value.got


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("EXPLAIN INCREMENTAL SELECT a FROM t", Explain("SELECT a FROM t")),
        ("explain  incremental\nSELECT 1", Explain("SELECT 1")),
        ("SHOW TABLES", Show("tables")),
        ("show views", Show("views")),
        ("DESCRIBE t", Describe("t")),
        ("DESC `My View`", Describe("my view")),
        ("describe table T", Describe("t")),
        ("DROP VIEW v", Drop("view", "v", False)),
        ("DROP MATERIALIZED VIEW V", Drop("view", "v", False)),
        ("drop table if exists T", Drop("table", "t", True)),
        ("DROP MATERIALIZED VIEW IF EXISTS `a b`", Drop("view", "a b", True)),
        ("DROP VIEW v -- the view\n;", Drop("view", "v", False)),
        ("/* c */ SELECT 1", Query("/* c */ SELECT 1")),
        ("with x as (select 1) select * from x", Query("with x as (select 1) select * from x")),
        ("CREATE TABLE t (a INT) USING csv", None),
        ("CREATE MATERIALIZED VIEW v AS SELECT 1", None),
    ],
)
def test_classify(text: str, expected: object) -> None:
    assert classify(Source(text)) == expected


@pytest.mark.parametrize(
    "text", ["CREATE VIEW v AS SELECT 1", "CREATE OR REPLACE VIEW v AS SELECT 1", "CREATE DATABASE d"]
)
def test_other_kinds_of_create_are_refused(text: str) -> None:
    with pytest.raises(TidemillError, match="TM2003"):
        classify(Source(text))


@pytest.mark.parametrize("name", ['"v"', "v CASCADE", "public.v", "v, w", "a-b", "`a", ""])
def test_a_drop_of_anything_but_one_name(name: str) -> None:
    """With IF EXISTS it would be a statement that does nothing."""
    with pytest.raises(TidemillError, match="TM2001"):
        classify(Source(f"DROP VIEW IF EXISTS {name}"))


@pytest.mark.parametrize(
    ("script", "place", "hint"),
    [
        ("CREATE MATERIALIZED VIEW v AS SELEC k FROM t", "line 1, column 31", "did you mean 'SELECT'?"),
        ("DROP VIEW a;\nCREATE OR REPLACE MATERIALIZED VIEW v\nAS t", "line 3, column 4", "begins with SELECT"),
        ("CREATE MATERIALIZED VIEW v AS", "line 1, column 28", "begins with SELECT"),
        ("CREATE MATERIALIZED VIEW v AS SELECT (k + (1) FROM t", "line 1, column 38", "is not closed"),
        ("CREATE MATERIALIZED VIEW v AS SELECT ')' + k) FROM t", "line 1, column 45", "closes nothing"),
        ("CREATE TABLE t (k INT USING csv", "line 1, column 16", "is not closed"),
    ],
)
def test_what_needs_no_parser_of_spark(script: str, place: str, hint: str) -> None:
    with pytest.raises(TidemillError, match="TM2001") as caught:
        check_script(script)
    assert caught.value.got.startswith(place) and hint in str(caught.value.hint)


@pytest.mark.parametrize(
    "script",
    [
        "CREATE MATERIALIZED VIEW v TBLPROPERTIES ('a' = '(') AS (SELECT 1 AS `a)` FROM t)",
        "create materialized view if not exists v as with x as (select 1) select * from x -- )",
        "CREATE MATERIALIZED VIEW v AS /*+ ( */ FROM t SELECT CAST(k AS INT)",
        "CREATE TABLE t (k STRUCT<a: DECIMAL(1,0)>) USING csv OPTIONS (path ')', sep '(')",
    ],
)
def test_scripts_that_may_be_parsed(script: str) -> None:
    assert [s.text for s in check_script(script)] == [script]
