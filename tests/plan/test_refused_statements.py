"""Every statement that is refused: its number, what it names, and that nothing has changed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tidemill.config import Settings
from tidemill.errors import TidemillError
from tidemill.mill import Mill

VIEW = "CREATE MATERIALIZED VIEW new AS "

REFUSED = {
    # queries that Spark does not understand
    "syntax": (VIEW + "SELEC k FROM t", "TM2001", "SELEC"),
    "syntax in query": (VIEW + "SELECT k FROM t WHERE k >", "TM2001", "end of input"),
    "a number that is too long": (VIEW + f"SELECT {'1' * 39} AS n FROM t", "TM2001", "exceeds max precision"),
    "unclosed": (VIEW + "SELECT 'a FROM t", "TM2001", "line 1"),
    "unknown column": (VIEW + "SELECT k, nothing FROM t", "TM2004", "line 1, column 11 of the query: nothing"),
    "unknown column below": (VIEW + "SELECT k\nFROM t\nWHERE x1 > 2", "TM2004", "line 3, column 7 of the query: x1"),
    "unknown table": (VIEW + "SELECT k FROM nowhere", "TM2004", "nowhere"),
    "nothing to explain": ("EXPLAIN INCREMENTAL", "TM2001", "EXPLAIN INCREMENTAL alone"),
    "what Spark's analyser fails for": (
        VIEW + "SELECT l.x FROM t, LATERAL (SELECT s AS x FROM t u WHERE u.k = t.k ORDER BY grouping(1).k LIMIT 1) l",
        "TM2004",
        "unresolved",
    ),
    "unknown function": (VIEW + "SELECT frobnicate(k) FROM t", "TM2004", "frobnicate"),
    "wrong type": (VIEW + "SELECT sum(day) FROM t", "TM2004", "day"),
    "not grouped": (VIEW + "SELECT k, s FROM t GROUP BY k", "TM2004", '"s"'),
    "itself": (VIEW + "SELECT k FROM new", "TM2019", "new reads new"),
    "replaced by itself": ("CREATE OR REPLACE MATERIALIZED VIEW v AS SELECT k, c FROM v", "TM2019", "v reads v"),
    "in a circle": (
        "CREATE OR REPLACE MATERIALIZED VIEW v AS SELECT c AS k, c FROM over",
        "TM2019",
        "v reads over reads v",
    ),
    "place in a script": (
        "-- a comment\n\n  CREATE MATERIALIZED VIEW\n new AS\n  SELECT k,\n    nope FROM t",
        "TM2004",
        "line 2, column 5 of the query: nope (line 6, column 5 of the script)",
    ),
    "division by a constant": (VIEW + "SELECT k, 1 / 0 AS z FROM t", "TM2004", "DIVIDE_BY_ZERO"),
    "overflow of constants": (VIEW + "SELECT 2147483647 + 1 AS z, k FROM t", "TM2004", "OVERFLOW"),
    "cast of a constant": (VIEW + "SELECT cast('x' AS INT) AS z, k FROM t", "TM2004", "CAST"),
    # what is not maintained
    "a plan that is too large": (
        VIEW
        + "SELECT k FROM t WHERE CASE "
        + " ".join(f"WHEN (k, x) NOT IN (SELECT k + {i}, x FROM t) THEN s = '{i}'" for i in range(4))
        + " END",
        "TM2902",
        "20,000 at most",
    ),
    "limit": (VIEW + "SELECT k FROM t LIMIT 3", "TM2105", "LIMIT 3"),
    "offset": (VIEW + "SELECT k FROM t OFFSET 3", "TM2105", "OFFSET 3"),
    "a type that Spark's analyser forgets": (
        VIEW + "SELECT nanvl(cast(k AS FLOAT), 0D) AS o FROM t QUALIFY dense_rank() OVER (ORDER BY k) <= 1",
        "TM2103",
        "o of type double, read as float",
    ),
    "map of several rows": (VIEW + "SELECT k, (SELECT map(1, s) FROM t) AS m FROM u", "TM2103", "several rows"),
    "map of several rows for a row": (
        VIEW + "SELECT k, (SELECT map(1, t.s) FROM t WHERE t.k = u.k) AS m FROM u",
        "TM2104",
        "several rows",
    ),
    "limit of a subquery": (
        VIEW + "SELECT u.k, l.x FROM u, LATERAL (SELECT x FROM t WHERE t.k = u.k LIMIT 2) l",
        "TM2105",
        "LIMIT or OFFSET in a correlated subquery",
    ),
    "limit of a scalar subquery": (
        VIEW + "SELECT k, (SELECT x FROM t WHERE t.k = u.k LIMIT 1) AS x FROM u",
        "TM2105",
        "LIMIT or OFFSET in a correlated subquery",
    ),
    "limit by a constant": (
        VIEW + "SELECT k, (SELECT x FROM t WHERE t.k = u.k ORDER BY 'a' LIMIT 1) AS x FROM u",
        "TM2105",
        "row_number",
    ),
    "limit of a partition's order": (
        VIEW + "SELECT x FROM (SELECT k, x FROM t SORT BY k) LIMIT 3",
        "TM2105",
        "LIMIT 3",
    ),
    "limit of a sorted join": (
        VIEW + "SELECT t.x FROM (SELECT * FROM t ORDER BY x) t JOIN u ON t.k = u.k LIMIT 3",
        "TM2105",
        "LIMIT 3",
    ),
    "limit of a sorted union": (
        VIEW + "(SELECT k FROM t ORDER BY x) UNION ALL (SELECT k FROM u) LIMIT 3",
        "TM2105",
        "LIMIT 3",
    ),
    "number without order": (
        VIEW + "SELECT k, x, row_number() OVER (PARTITION BY k ORDER BY NULL) AS r FROM t",
        "TM2105",
        "row_number, at line 1, column 14 of the query",
    ),
    "lag without order": (VIEW + "SELECT x, lag(x) OVER (ORDER BY (SELECT 1)) AS r FROM t", "TM2105", "lag"),
    "first without order": (
        VIEW + "SELECT first_value(x) OVER (PARTITION BY k) AS f FROM t",
        "TM2105",
        "first_value",
    ),
    "rows without order": (
        VIEW + "SELECT sum(x) OVER (PARTITION BY k ROWS 1 PRECEDING) AS s FROM t",
        "TM2105",
        "a frame of ROWS",
    ),
    "list in an order": (
        VIEW + "SELECT k, collect_list(x) AS l FROM (SELECT k, x FROM t ORDER BY s) GROUP BY k",
        "TM2105",
        "collect_list over rows in an order, at line 1, column 11",
    ),
    "list in a descending order": (
        VIEW + "SELECT collect_list(x) AS l FROM (SELECT x FROM t ORDER BY x DESC LIMIT 3)",
        "TM2105",
        "collect_list over rows in an order",
    ),
    "list in the order of a partition": (
        VIEW + "SELECT k, array_agg(x) AS l FROM (SELECT k, x FROM t DISTRIBUTE BY k SORT BY x) GROUP BY k",
        "TM2105",
        "collect_list over rows in an order",
    ),
    "list of elements in an order": (
        VIEW + "SELECT collect_list(e) AS l FROM (SELECT explode(array(x)) AS e FROM (SELECT x FROM t ORDER BY k))",
        "TM2105",
        "collect_list over rows in an order",
    ),
    "list of a lateral in an order": (
        VIEW + "SELECT u.k, l.c FROM u, LATERAL (SELECT collect_list(x) AS c FROM (SELECT x FROM t WHERE t.k = u.k "
        "ORDER BY day DESC LIMIT 3)) l",
        "TM2105",
        "collect_list over rows in an order",
    ),
    "first of a correlated subquery in an order": (
        VIEW + "SELECT u.k, (SELECT first(x) FROM (SELECT x FROM t WHERE t.k = u.k ORDER BY day, x LIMIT 2)) AS f "
        "FROM u",
        "TM2105",
        "first over rows in an order",
    ),
    "texts of a lateral in an order": (
        VIEW + "SELECT u.k, l.c FROM u LEFT JOIN LATERAL (SELECT listagg(s, ',') AS c FROM (SELECT s FROM t "
        "WHERE t.k = u.k ORDER BY day DESC LIMIT 3)) l",
        "TM2105",
        "listagg over rows in an order",
    ),
    "list of the first rows of a window": (
        VIEW + "SELECT k AS g, collect_list(x) AS l FROM (SELECT k, x, row_number() OVER (PARTITION BY k ORDER BY day) "
        "AS r FROM t) WHERE r <= 3 GROUP BY k",
        "TM2105",
        "collect_list over rows in an order",
    ),
    "interval as JSON": (
        VIEW + "SELECT to_json(named_struct('d', day - DATE '2020-01-01')) AS j FROM t",
        "TM2101",
        "to_json of interval day to second",
    ),
    "window of distinct": (
        VIEW + "SELECT count(DISTINCT x) OVER (PARTITION BY k) AS c FROM t",
        "TM2004",
        "DISTINCT_WINDOW",
    ),
    "window without order": (VIEW + "SELECT row_number() OVER (PARTITION BY k) AS r FROM t", "TM2004", "row_number"),
    "window of first with filter": (
        VIEW + "SELECT first_value(x) FILTER (WHERE k > 1) OVER (PARTITION BY s ORDER BY k) AS f FROM t",
        "TM2106",
        "first_value with FILTER",
    ),
    "range over a wide decimal": (
        VIEW + "SELECT count(*) OVER (ORDER BY CAST(k AS DECIMAL(38, 10)) RANGE 1 PRECEDING) AS c FROM t",
        "TM2106",
        "decimal",
    ),
    "range over a string": (
        VIEW + "SELECT count(*) OVER (ORDER BY s RANGE 1 PRECEDING) AS c FROM t",
        "TM2004",
        "STRING",
    ),
    "window in a condition": (VIEW + "SELECT k FROM t WHERE row_number() OVER (ORDER BY k) < 3", "TM2004", "WHERE"),
    "watermark clause": (
        VIEW + "SELECT k FROM t WATERMARK CAST(day AS TIMESTAMP) AS ts DELAY OF INTERVAL 10 MINUTES",
        "TM2103",
        "WATERMARK",
    ),
    "split at a possessive pattern": (VIEW + "SELECT split(s, 'a++') AS p FROM t", "TM2101", "possessive"),
    "a key and a watermark": (
        "CREATE TABLE w (id INT PRIMARY KEY, at TIMESTAMP) USING csv OPTIONS (path '{data}', watermark 'at')",
        "TM2022",
        "watermark 'at'",
    ),
    "no table": (VIEW + "SELECT 1 AS one", "TM2103", "only constants"),
    "no table and a condition": (VIEW + "SELECT 1 AS one WHERE 1 > 2", "TM2103", "constants"),
    "count of no table": (VIEW + "SELECT count(*) AS c", "TM2103", "only constants"),
    "recursion over no table": (
        VIEW + "WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r WHERE n < 5) SELECT n FROM r",
        "TM2103",
        "only constants",
    ),
    "recursion with distinct": (
        VIEW
        + "WITH RECURSIVE r(n) AS (SELECT k FROM t UNION ALL SELECT DISTINCT n + 1 FROM r WHERE n < 5) SELECT n FROM r",
        "TM2109",
        "DISTINCT",
    ),
    "recursion with a condition of an outer join": (
        VIEW
        + "WITH RECURSIVE r(n) AS (SELECT k FROM t UNION ALL SELECT u.k FROM r LEFT JOIN u ON u.k > n) SELECT n FROM r",
        "TM2109",
        "another condition than equal columns",
    ),
    "recursion with other rows": (
        VIEW + "WITH RECURSIVE r(n) AS (SELECT k FROM t UNION ALL SELECT m FROM "
        "(SELECT n + 1 AS m FROM r UNION ALL SELECT k FROM u)) SELECT n FROM r",
        "TM2109",
        "rows beside those of the level before",
    ),
    "recursion of other types": (
        VIEW + "WITH RECURSIVE r(n) AS (SELECT k FROM t UNION ALL SELECT n * 1.5BD FROM r) SELECT n FROM r",
        "TM2004",
        "CANNOT_MERGE_INCOMPATIBLE_DATA_TYPE",
    ),
    "recursion with union": (
        VIEW + "WITH RECURSIVE r(n) AS (SELECT k FROM t UNION SELECT n + 1 FROM r WHERE n < 5) SELECT n FROM r",
        "TM2004",
        "UNION_NOT_SUPPORTED_IN_RECURSIVE_CTE",
    ),
    "limit of a recursion": (
        VIEW + "WITH RECURSIVE r(n) AS (SELECT k FROM t UNION ALL SELECT n + 1 FROM r) SELECT n FROM r LIMIT 5",
        "TM2105",
        "LIMIT 5",
    ),
    "sample": (
        VIEW + "SELECT k\nFROM t TABLESAMPLE (10 PERCENT)",
        "TM2105",
        "at line 2, column 8 of the query: TABLES",
    ),
    "sample of a subquery": (
        VIEW + "SELECT k FROM (SELECT k FROM t) TABLESAMPLE (BUCKET 1 OUT OF 3) REPEATABLE (5)",
        "TM2105",
        "TABLESAMPLE",
    ),
    "file": (VIEW + "SELECT k FROM csv.`/nowhere/x.csv`", "TM2006", "nowhere"),
    # places in the text, from Catalyst's origins
    "place of a group": (VIEW + "SELECT k,\n s FROM t GROUP BY k", "TM2004", "line 2, column 2 of the query: s"),
    "place of a cube": (VIEW + "SELECT count(*), x, s FROM t GROUP BY CUBE(s)", "TM2004", "column 18 of the query: x"),
    "place of a condition": (VIEW + "SELECT k FROM t\nWHERE s", "TM2004", "line 2, column 7 of the query: s"),
    "place of an aggregate": (
        VIEW + "SELECT k FROM t WHERE sum( x)  > 3",
        "TM2004",
        "column 23 of the query: sum( x) > 3",
    ),
    "place of an order": (
        VIEW + "SELECT k,\nrank() OVER () AS r FROM t",
        "TM2004",
        "line 2, column 1 of the query: rank",
    ),
    "place of a function": (
        VIEW + "SELECT k,\n  sentences(s) AS x FROM t",
        "TM2101",
        "line 2, column 3 of the query: sentences",
    ),
    "place of a sketch": (
        VIEW + "SELECT k, 2 * corr(DISTINCT x, k) AS c FROM t GROUP BY k",
        "TM2102",
        "column 15 of the query: corr(DISTINCT",
    ),
    "place of a limit": (VIEW + "SELECT k FROM t\n LIMIT 3", "TM2105", "line 2, column 2 of the query: LIMIT 3"),
    "place of rand": (VIEW + "SELECT k,\n rand() AS r FROM t", "TM2105", "line 2, column 2 of the query: rand()"),
    "place of now": (VIEW + "SELECT k FROM t WHERE day <\nnow()", "TM2105", "line 2, column 1 of the query: now()"),
    "place of a subquery": (
        VIEW + "SELECT k FROM t WHERE s = (SELECT map(1, s) FROM u)[1]",
        "TM2103",
        "column 27 of the query: (SELECT",
    ),
    "place of a window": (
        VIEW + "SELECT first(x) FILTER (WHERE k > 1) OVER (ORDER BY k) AS f FROM t",
        "TM2106",
        "column 8 of the query: first(x)",
    ),
    "place of a syntax error": (
        "CREATE MATERIALIZED VIEW new AS\n SELECT k FROM t t t",
        "TM2001",
        "at line 2, column 20",
    ),
    "values": (VIEW + "SELECT * FROM VALUES (1) AS v(a)", "TM2103", "only constants"),
    "range": (VIEW + "SELECT id FROM range(5)", "TM2103", "only constants"),
    "histogram": (VIEW + "SELECT histogram_numeric(CAST(k AS DECIMAL(9,2)), 5) AS h FROM t", "TM2102", "decimal(9,2)"),
    "distinct corr": (VIEW + "SELECT corr(DISTINCT x, k) AS c FROM t", "TM2102", "corr(DISTINCT"),
    "months and days": (
        VIEW + "SELECT sequence(day, day, make_interval(0, 1, 0, 2)) AS d FROM t",
        "TM2101",
        "1 months 2 days",
    ),
    "distinct percentile": (VIEW + "SELECT median(DISTINCT CAST(k AS BIGINT)) AS p FROM t", "TM2102", "bigint"),
    "lists with nulls": (VIEW + "SELECT collect_list(x) RESPECT NULLS AS l FROM t", "TM2102", "RESPECT NULLS"),
    "scalar function": (VIEW + "SELECT sentences(s) AS x FROM t", "TM2101", "getSentences"),
    "scalar function in a condition": (VIEW + "SELECT k FROM t WHERE size(sentences(s)) = 1", "TM2101", "getSentences"),
    "rand": (VIEW + "SELECT k, rand() AS r FROM t", "TM2105", "rand()"),
    "uuid": (VIEW + "SELECT k, uuid() AS r FROM t", "TM2105", "uuid()"),
    "now": (VIEW + "SELECT k FROM t WHERE day < current_timestamp()", "TM2105", "current_timestamp()"),
    "name of the file": (VIEW + "SELECT k, input_file_name() AS f FROM t", "TM2105", "metadataColumn '_metadata'"),
    "block of the file": (VIEW + "SELECT input_file_block_start() AS f FROM t", "TM2105", "input_file_block_start()"),
    "today": (VIEW + "SELECT k FROM t WHERE day < current_date()", "TM2105", "current_date()"),
    "monotonic id": (VIEW + "SELECT monotonically_increasing_id() AS i FROM t", "TM2105", "monotonically"),
    # names and properties
    "taken by a view": ("CREATE MATERIALIZED VIEW v AS SELECT k FROM t", "TM2010", "v"),
    "taken by a table": ("CREATE MATERIALIZED VIEW t AS SELECT k FROM u", "TM2010", "t"),
    "taken by errors": ("CREATE MATERIALIZED VIEW t__errors AS SELECT k FROM u", "TM2010", "t__errors"),
    "two parts": ("CREATE MATERIALIZED VIEW a.b AS SELECT k FROM t", "TM2008", "a.b"),
    "property": ("CREATE MATERIALIZED VIEW new TBLPROPERTIES ('speed' = 'high') AS SELECT k FROM t", "TM2014", "speed"),
    "drop a table in use": ("DROP TABLE t", "TM2013", "v"),
    "drop a view in use": ("DROP VIEW v", "TM2013", "over"),
    "drop nothing": ("DROP VIEW vv", "TM2012", "vv"),
    "drop a table as a view": ("DROP VIEW t", "TM2012", "t"),
    "drop a view as a table": ("DROP TABLE over", "TM2012", "over"),
    "describe nothing": ("DESCRIBE nowhere", "TM2012", "nowhere"),
    "create view": ("CREATE VIEW new AS SELECT 1", "TM2003", "CREATE VIEW"),
    "other columns": ("CREATE OR REPLACE MATERIALIZED VIEW v AS SELECT k FROM u", "TM2018", "read by over"),
    "columns that may be null": (
        "CREATE OR REPLACE MATERIALIZED VIEW v AS SELECT k, sum(k) AS c FROM u GROUP BY k",
        "TM2018",
        "`c` bigint NOT NULL",
    ),
    "bad replacement": ("CREATE OR REPLACE MATERIALIZED VIEW over AS SELECT nope FROM u", "TM2004", "nope"),
    "value of a property": (
        "CREATE MATERIALIZED VIEW new TBLPROPERTIES ('emptySum' = 'zer') AS SELECT k FROM t",
        "TM2014",
        "'zero'",
    ),
    "name of a property": (
        "CREATE MATERIALIZED VIEW new TBLPROPERTIES ('emptysums' = 'zero') AS SELECT k FROM t",
        "TM2014",
        "'emptySum'",
    ),
    "insert": ("INSERT INTO t VALUES (1)", "TM2003", "INSERT"),
    "update": ("UPDATE t SET k = 1", "TM2003", "UPDATE"),
    # tables
    "table taken": ("CREATE TABLE u (k INT) USING csv OPTIONS (path '{data}')", "TM2010", "u"),
    "table without format": ("CREATE TABLE new (k INT)", "TM2007", "CREATE TABLE new"),
    "table without columns": ("CREATE TABLE new USING native OPTIONS (path '{data}')", "TM2009", "new"),
    "table of intervals": ("CREATE TABLE new (k INTERVAL DAY) USING csv OPTIONS (path '{data}')", "TM2002", "interval"),
    "view of months": (VIEW + "SELECT make_ym_interval(k) AS m FROM t", "TM2002", "year to month"),
    "table of a type": ("CREATE TABLE new (k INTERVAL) USING csv OPTIONS (path '{data}')", "TM2002", "interval"),
    "same column twice": ("CREATE TABLE new (k INT, K INT) USING csv OPTIONS (path '{data}')", "TM2005", "k"),
    "unknown format": ("CREATE TABLE new (k INT) USING cvs OPTIONS (path '{data}')", "TM4001", "csv"),
    "unknown option": ("CREATE TABLE new (k INT) USING csv OPTIONS (path '{data}', heder true)", "TM4005", "header"),
    "bad option": ("CREATE TABLE new (k INT) USING csv OPTIONS (path '{data}', header 'maybe')", "TM4003", "maybe"),
    "option without quotes": (
        "CREATE TABLE new (k INT) USING csv OPTIONS (path '{data}', header x)",
        "TM4003",
        "quotes",
    ),
    "option that is NULL": ("CREATE TABLE new (k INT) USING csv OPTIONS (path '{data}', sep NULL)", "TM4003", "NULL"),
    "no path": ("CREATE TABLE new (k INT) USING csv", "TM5005", "new"),
    "missing path": ("CREATE TABLE new (k INT) USING csv OPTIONS (path '{data}/none')", "TM5001", "none"),
    "unknown connector": ("CREATE TABLE new (k INT) USING csv OPTIONS (path 'ftp://x/y')", "TM5002", "ftp://x/y"),
    "operation column": (
        "CREATE TABLE new (k INT, o INT) USING csv OPTIONS (path '{data}', opColumn 'o')",
        "TM2011",
        "o",
    ),
    # keyed tables
    "key without column": (
        "CREATE TABLE new (k INT, PRIMARY KEY (kk)) USING csv OPTIONS (path '{data}')",
        "TM2030",
        "k",
    ),
    "key column twice": (
        "CREATE TABLE new (k INT, PRIMARY KEY (k, K)) USING csv OPTIONS (path '{data}')",
        "TM2030",
        "k",
    ),
    "key is the operation": (
        "CREATE TABLE new (k INT, o STRING, PRIMARY KEY (o)) USING csv OPTIONS (path '{data}', opColumn 'o')",
        "TM2030",
        "o",
    ),
    "unique": ("CREATE TABLE new (k INT, UNIQUE (k)) USING csv OPTIONS (path '{data}')", "TM2033", "Unique"),
    "debezium without key": ("CREATE TABLE new (k INT) USING debezium OPTIONS (path '{data}')", "TM2031", "new"),
    "debezium with opColumn": (
        "CREATE TABLE new (k INT PRIMARY KEY) USING debezium OPTIONS (path '{data}', opColumn 'op')",
        "TM2032",
        "op",
    ),
    "debezium binary": (
        "CREATE TABLE new (k INT PRIMARY KEY, b BINARY) USING debezium OPTIONS (path '{data}')",
        "TM4004",
        "binary",
    ),
    "no book": ("CREATE TABLE new USING orderbook OPTIONS (path '{data}')", "TM4003", "asks"),
    "bad book": ("CREATE TABLE new USING orderbook OPTIONS (path '{data}', book 'bid')", "TM4003", "bids"),
    "book with other columns": (
        "CREATE TABLE new (id BIGINT, price DOUBLE) USING orderbook OPTIONS (path '{data}', book 'bids')",
        "TM4030",
        "broker_id",
    ),
    "book with another key": (
        "CREATE TABLE new (t DOUBLE, id BIGINT, b INT, v DOUBLE, p DOUBLE, PRIMARY KEY (t)) USING orderbook "
        "OPTIONS (path '{data}', book 'bids')",
        "TM2034",
        "id",
    ),
    "book option": (
        "CREATE TABLE new USING orderbook OPTIONS (path '{data}', book 'asks', broker 3)",
        "TM4005",
        "brokers",
    ),
}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("data")
    (directory / "1.csv").write_text("1,a,2.5,2020-01-01\n2,b,,\n")
    return directory


@pytest.fixture(scope="module")
def mill(spark: object, data: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mill]:
    with Mill(tmp_path_factory.mktemp("root"), spark=spark, settings=Settings(partitions=2)) as made:  # type: ignore[arg-type]
        for name in ("t", "u"):
            made.sql(f"CREATE TABLE {name} (k INT, s STRING, x DOUBLE, day DATE) USING csv OPTIONS (path '{data}')")
        made.sql("CREATE MATERIALIZED VIEW v AS SELECT k, count(*) AS c FROM t GROUP BY k")
        made.sql("CREATE MATERIALIZED VIEW over AS SELECT c FROM v WHERE c > 0")
        yield made


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str, mill: Mill, data: Path) -> None:
    statement, number, named = REFUSED[name]
    before = mill.snapshot()
    with pytest.raises(TidemillError) as caught:
        mill.sql(statement.replace("{data}", str(data)))
    error = caught.value
    assert error.number == number, str(error)
    assert named in f"{error.got}\n{error.hint}", str(error)
    after = mill.snapshot()
    assert after.catalog is before.catalog and after.version is before.version


def test_a_mill_goes_on_after_refusals(mill: Mill, data: Path) -> None:
    """Nothing is left behind: names stay free, and views can be made and filled."""
    with pytest.raises(TidemillError, match="TM2105"):
        mill.sql(VIEW + "SELECT k FROM t LIMIT 3")
    with pytest.raises(TidemillError, match="TM2012"):
        mill.read("new")
    mill.sql(VIEW + "SELECT k FROM t")
    list(mill.drain())
    assert sorted(r["k"] for r in mill.read("new").to_pylist()) == [1, 2]
    assert mill.read("over").to_pylist() == [{"c": 1}, {"c": 1}]
    mill.sql("DROP VIEW new")


def test_names_of_columns_that_are_alike(mill: Mill) -> None:
    """As in a SELECT of Spark there may be such columns; all but the first have a number in the view."""
    mill.sql(VIEW + "SELECT t.*, u.k, u.x AS K_1, u.s AS S, u.day FROM t JOIN u ON t.k = u.k")
    assert [f.name for f in mill.snapshot().schema("new")] == ["k", "s", "x", "day", "k_2", "K_1", "S_1", "day_1"]
    list(mill.drain())
    assert sorted(r["k_2"] for r in mill.read("new").to_pylist()) == [1, 2]
    mill.sql("DROP VIEW new")


def test_statements_one_at_a_time(mill: Mill) -> None:
    with pytest.raises(TidemillError, match="TM7001"):
        mill.sql("SHOW VIEWS; SHOW TABLES")


def test_if_exists_and_if_not_exists(mill: Mill, data: Path) -> None:
    before = mill.snapshot()
    mill.sql("DROP VIEW IF EXISTS nothing")
    mill.sql("CREATE MATERIALIZED VIEW IF NOT EXISTS v AS SELECT k FROM u")
    mill.sql(f"CREATE TABLE IF NOT EXISTS t (z INT) USING csv OPTIONS (path '{data}')")
    assert mill.snapshot().catalog is before.catalog


def test_a_query_over_views_that_does_not_resolve(mill_factory: Callable[..., Mill]) -> None:
    empty = mill_factory()
    with pytest.raises(TidemillError, match="TM2004"):
        empty.query("SELECT * FROM nowhere")
    with pytest.raises(TidemillError, match="TM2001"):
        empty.query("SELEC 1")
    with pytest.raises(TidemillError, match="TM2012"):
        empty.read("nowhere")


def test_a_spark_table_of_somebody_else(mill_factory: Callable[..., Mill]) -> None:
    mill = mill_factory()
    rows = mill.spark.sparkContext.parallelize([(1,)])
    mill.spark.createDataFrame(rows, "id int").createOrReplaceGlobalTempView("strangers")
    with pytest.raises(TidemillError, match="TM2006"):
        mill.sql(VIEW + "SELECT id FROM global_temp.strangers")
    mill.spark.catalog.dropGlobalTempView("strangers")
