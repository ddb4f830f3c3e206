"""Random statements: those that are right, and what becomes of them when tokens are lost, swapped, doubled or odd."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from pathlib import Path

from fuzz_queries import QueryMaker
from fuzz_tables import FuzzTable
from queries import ALL

from tidemill.task.functions.columns.registry import every_function

_TOKEN = re.compile(r"\s+|'(?:[^'\\]|\\.)*'|`[^`]*`|\w+|<=>|<=|>=|<>|->|::|.", re.DOTALL)
_ODD = (
    "", "(", ")", ",", ";", "'", '"', "`", "*", ".", "..", "-", "--", "/*", "*/", "\\", "?", ":a", "$", "@", "%",
    "<=>", "->", "::", "\x00", "\t", "\u00a0", "\u200b", "\ufeff", "é", "日本", "😀", "ß", "\ud7ff", "NULL", "TRUE",
    "1", "0", "-1", "1.", ".5", "1e400", "-0.0D", "1e-400D", "9223372036854775808",
    "123456789012345678901234567890123456789", "1L", "1Y", "1.5BD", "X'1'", "X'0F'", "''", "'a'", "'NaN'",
    "'\\u0000'", "DATE'2020-02-30'", "DATE'0000-01-01'", "DATE'2020-01-01'", "TIMESTAMP'99999-01-01'",
    "TIMESTAMP_NTZ'2020-01-01 00:00:00'", "INTERVAL '1' DAY", "INTERVAL 1 MONTH", "INTERVAL '1-2' YEAR TO MONTH",
    "TIME'12:00:00'", "array()", "map()", "array(NULL)", "struct(1)", "named_struct('a', 1)", "CAST(NULL AS VOID)",
    "CAST(1 AS DECIMAL(38, 38))", "CAST('x' AS BINARY)", "parse_json('1')", "VARIANT", "SELECT", "FROM", "WHERE",
    "GROUP", "BY", "ORDER", "LIMIT", "OFFSET", "HAVING", "QUALIFY", "UNION", "ALL", "DISTINCT", "JOIN", "LEFT",
    "LATERAL", "VIEW", "ON", "USING", "AS", "WITH", "OVER", "PARTITION", "ROWS", "RANGE", "BETWEEN", "AND", "OR",
    "NOT", "IN", "EXISTS", "IS", "LIKE", "RLIKE", "CASE", "WHEN", "THEN", "ELSE", "END", "CAST", "ROLLUP", "CUBE",
    "PIVOT", "UNPIVOT", "VALUES", "TABLESAMPLE (5 PERCENT)", "TABLESAMPLE (3 ROWS)", "WATERMARK", "RECURSIVE",
    "CLUSTER", "SORT", "DISTRIBUTE", "WINDOW", "LIMIT 0", "LIMIT -1", "LIMIT NULL", "LIMIT 9999999999", "OFFSET 2",
    "ORDER BY 1", "ORDER BY ALL", "GROUP BY ALL", "IGNORE NULLS", "count(*)", "count(DISTINCT *)", "sum(1)",
    "max(NULL)", "first(1)", "collect_list(1)", "row_number() OVER (ORDER BY 1)", "rank() OVER ()",
    "lag(1) OVER (ORDER BY NULL)", "grouping(1)", "grouping_id()", "explode(array(1, 2))", "stack(2, 1, 2)",
    "rand()", "now()", "uuid()", "input_file_name()", "current_user()", "window(NOW(), '1 day')", "x -> x",
    "transform(array(1), y -> y)", "sequence(1, 3)", "element_at(array(1), 5)", "1 / 0", "assert_true(false)",
    "raise_error('a')", "repeat('a', 3)", "(SELECT 1)", "(SELECT max(1) FROM t0)", "EXISTS (SELECT 1)",
    "/*+ BROADCAST(t0) */", "/*+ REPARTITION(3) */", "range(3)", "INT", "BIGINT", "DOUBLE", "STRING", "DECIMAL(5,2)",
    "DECIMAL(39,2)", "ARRAY<INT>", "MAP<STRING,INT>", "STRUCT<a:INT>", "CHAR(3)", "VARCHAR(-1)", "t0", "t0.*", "t1",
    "q0", "nowhere", "t0__errors", "t0__files", "_metadata", "a.b.c", "`a b`",
)  # fmt: skip
_CONSTANTS = tuple(t for t in _ODD if re.match(r"[-\d.'A-Z]+['\d]|NULL|TRUE|array|map|struct|CAST|\(SELECT", t))
_CALLS = tuple(
    sorted({*every_function(), "sum", "max", "count", "first", "collect_list", "explode", "rank", "lag", "window"})
)
_ALIKE = (
    ("SUM", "MAX", "COUNT", "MIN", "AVG"), ("LEFT", "RIGHT", "FULL", "CROSS", "LEFT SEMI", "LEFT ANTI", "NATURAL"),
    ("AND", "OR"), ("=", "<", ">", "<=", ">=", "<>", "<=>", "+", "-", "*", "/", "%", "||", "div"), ("ROWS", "RANGE"),
    ("PRECEDING", "FOLLOWING"), ("UNION", "INTERSECT", "EXCEPT", "MINUS"), ("LIMIT", "OFFSET"), ("IN", "NOT IN"),
    ("ROLLUP", "CUBE", "GROUPING SETS"), ("ASC", "DESC"), ("WHERE", "HAVING", "QUALIFY"), ("ALL", "DISTINCT"),
    ("INT", "BIGINT", "DOUBLE", "STRING", "DATE", "TIMESTAMP", "BOOLEAN", "BINARY", "FLOAT", "DECIMAL(3,1)", "VARIANT"),
)  # fmt: skip
_KINDS = frozenset(word for kind in _ALIKE for word in kind)
_TYPES = (
    "INT", "BIGINT", "TINYINT", "SMALLINT", "FLOAT", "DOUBLE", "DECIMAL(10,2)", "DECIMAL(38,38)", "DECIMAL(40,1)",
    "STRING", "BINARY", "BOOLEAN", "DATE", "TIMESTAMP", "TIMESTAMP_NTZ", "TIME", "INTERVAL DAY",
    "INTERVAL YEAR TO MONTH", "ARRAY<INT>", "ARRAY<ARRAY<STRUCT<a:INT>>>", "MAP<STRING, INT>",
    "MAP<MAP<INT,INT>,INT>", "STRUCT<>", "STRUCT<a:INT,A:INT>", "VARIANT", "VOID", "CHAR(3)", "VARCHAR(10)",
    "STRING COLLATE UTF8_LCASE", "GEOMETRY", "INTT", "ARRAY", "DECIMAL", "INT NOT NULL", "INT DEFAULT 1",
    "INT GENERATED ALWAYS AS (1)", "INT COMMENT 'c'", "INT PRIMARY KEY", "OBJECT", "STRUCT<`a b`:INT>",
)  # fmt: skip
_FORMATS = (
    "csv", "json", "parquet", "arrow", "orc", "native", "frames", "debezium", "orderbook", "text", "csvv", "delta",
    "jdbc",
)  # fmt: skip
_OPTIONS = (
    "header", "sep", "delimiter", "quote", "escape", "mode", "nullValue", "static", "opColumn", "watermark",
    "watermarkDelay", "maxErrors", "maxErrorRatio", "maxFilesPerTrigger", "maxBytesPerTrigger", "allowOverwrites",
    "allowAppends", "multiLine", "lineSep", "compression", "dateFormat", "timestampFormat", "cleanSource",
    "fileAttempts", "broadcast", "field.a", "book", "brokers", "metadataColumn", "rescuedDataColumn",
    "schemaEvolutionMode", "useNotifications", "retainBytes", "readMode", "hedaer", "pathGlobFilter",
    "modifiedAfter", "encoding", "comment", "bufferSize", "deletes", "columns",
)  # fmt: skip
_VALUES = (
    "true", "false", "1", "0", "-1", "", "a", ",", "||", "'", "\\n", "1e9", "99999999999999999999", "NaN", "k",
    "10 minutes", "1 month", "PERMISSIVE", "FAILFAST", "yyyy-MM-dd", "yyyy-MM-dd'T", "gzip", "none", "delete",
    "*.csv", "[", "{a,b", "UTF-16", "😀", "async", "2020-01-01", "addNewColumns", "1k",
)  # fmt: skip


_NAMES = (
    "q0", "Q1", "`q2`", "`q 0`", "`é``x`", "`select`", "`a.b`", "a.b", "a.b.c.d", "spark_catalog.default.q0", "1a",
    "_x", "😀", "`😀`", "``", "`", "q0__errors", "q0__x", "t0", "T0", "`\n`", "`\t`", "'q0'", '"q0"', "default.q0",
    "q0 q1", "q0.", ".q0", "`q0", "x" * 300, "-q0", "q-0", "current_date", "`*`", "``q0``", "IDENTIFIER('q0')", "ｑ０",
    "q\u03020",
)  # fmt: skip
"""Names as people write them, and as nobody does."""
_READING = (
    "SELECT * FROM {n}", "SELECT count(*) AS c, max(1) FROM {n}", "SELECT * FROM {n} ORDER BY 1 DESC LIMIT 3",
    "SELECT * FROM {n} WHERE 1 / 0 > 1", "SELECT DISTINCT * FROM {n} LIMIT 2 OFFSET 1", "TABLE {n}", "FROM {n}",
    "SELECT *, * FROM {n}", "SELECT nothing FROM {n}", "SELECT {n}.* FROM {n} LIMIT -1",
    "SELECT 1 AS a, 2 AS a FROM {n}", "SELECT * FROM {n} x NATURAL JOIN {n} y", "SELECT * FROM {n} VERSION AS OF 1",
    "SELECT * FROM {n} TIMESTAMP AS OF '2020-01-01'", "SELECT * FROM csv.`/nowhere`", "SELECT * FROM parquet.`{n}`",
    "SELECT ?", "SELECT :a", "SELECT * FROM range(3)", "SELECT raise_error('a')", "SELECT assert_true(false)",
    "SELECT 1 / 0", "SELECT CAST('a' AS INT)", "SELECT uuid()",
    "SELECT java_method('java.lang.System', 'exit', 1 / 0)", "SELECT explode(array(1, 2))",
    "VALUES (1, 'a'), (NULL, 'b')", "SELECT parse_json('{{')", "SELECT INTERVAL '1' MONTH", "SELECT X'00FF'",
    "SELECT map(1, 2), array(), struct(1)", "SELECT TIMESTAMP'0001-01-01'", "SELECT DATE'9999-12-31' + 1000000",
    "SELECT CAST(NULL AS VOID)", "SELECT TIME'12:00:00'", "SELECT TIMESTAMP_NTZ'2020-01-01'",
    "SELECT CAST(1 AS CHAR(3))", "SELECT 'a' COLLATE UNICODE_CI", "SHOW FUNCTIONS", "SHOW FUNCTIONS LIKE 'ab*'",
    "SHOW DATABASES", "SHOW SCHEMAS LIKE 'x'", "SHOW CATALOGS", "SHOW COLUMNS IN {n}",
    "SHOW COLUMNS FROM {n} IN nowhere", "SHOW CREATE TABLE {n}", "SHOW TBLPROPERTIES {n}", "SHOW PARTITIONS {n}",
    "SHOW TABLES LIKE 'q*'", "SHOW TABLES IN nowhere", "SHOW TABLE EXTENDED LIKE '*'", "SHOW VIEWS IN nowhere",
    "SHOW VIEWS LIKE 'q*'", "SHOW CURRENT NAMESPACE", "SHOW MATERIALIZED VIEWS", "DESCRIBE EXTENDED {n}",
    "DESCRIBE FORMATTED {n}", "DESCRIBE {n} a", "DESCRIBE QUERY SELECT * FROM {n}", "DESCRIBE FUNCTION abs",
    "DESCRIBE FUNCTION EXTENDED nothing", "DESCRIBE DATABASE default", "DESCRIBE TABLE EXTENDED {n} AS JSON",
    "DESCRIBE", "DESC {n}", "DESCRIBE VIEW {n}", "DESCRIBE SELECT 1", "DESCRIBE QUERY", "DESCRIBE TABLE",
    "DESCRIBE TABLE {n};", "EXPLAIN SELECT * FROM {n}", "EXPLAIN EXTENDED SELECT * FROM {n}",
    "EXPLAIN FORMATTED TABLE {n}", "EXPLAIN COST SELECT 1", "EXPLAIN CODEGEN SELECT 1", "EXPLAIN DROP VIEW {n}",
    "EXPLAIN INCREMENTAL SELECT * FROM {n}", "EXPLAIN INCREMENTAL DROP VIEW {n}", "EXPLAIN",
    "EXPLAIN EXPLAIN SELECT 1", "EXPLAIN INCREMENTAL EXPLAIN SELECT 1", "EXPLAIN INCREMENTAL TABLE {n}",
    "WITH a AS (SELECT * FROM {n}) SELECT count(*) FROM a", "SELECT (SELECT count(*) FROM {n})",
    "SELECT * FROM {n}, {n}", "INSERT INTO {n} SELECT 1", "INSERT OVERWRITE {n} VALUES (1)",
    "DELETE FROM {n} WHERE true", "UPDATE {n} SET a = 1",
    "MERGE INTO {n} USING {n} x ON true WHEN NOT MATCHED THEN INSERT *", "REPLACE TABLE {n} (a INT)",
    "TRUNCATE TABLE {n}", "DROP VIEW {n}", "DROP VIEW IF EXISTS {n}", "DROP TABLE {n}", "DROP MATERIALIZED VIEW {n}",
    "DROP VIEW {n} CASCADE", "DROP VIEW", "DROP", "DROP DATABASE default", "DROP VIEW {n}, {n}",
    "CREATE MATERIALIZED VIEW {n} AS SELECT 1 AS a FROM t0",
    "CREATE MATERIALIZED VIEW IF NOT EXISTS {n} AS SELECT count(*) AS c FROM t0",
    "CREATE OR REPLACE VIEW {n} AS SELECT 1", "CREATE MATERIALIZED VIEW {n} (a, b) AS SELECT k, k FROM t0",
    "CREATE MATERIALIZED VIEW {n} COMMENT 'c' AS SELECT k FROM t0",
    "CREATE MATERIALIZED VIEW {n} PARTITIONED BY (k) AS SELECT k FROM t0", "CREATE MATERIALIZED VIEW {n}", "CREATE",
    "CREATE MATERIALIZED VIEW {n} AS TABLE t0", "CREATE MATERIALIZED VIEW {n} AS VALUES (1)",
    "CREATE MATERIALIZED VIEW {n} AS (SELECT k FROM t0)", "CREATE MATERIALIZED VIEW {n} AS FROM t0 SELECT k",
    "CREATE MATERIALIZED VIEW {n} AS WITH a AS (SELECT k FROM t0) SELECT * FROM a",
    "CREATE MATERIALIZED VIEW {n} AS SELECT k AS {n} FROM t0", "CREATE MATERIALIZED VIEW {n} AS SELECT * FROM {n}",
    "CREATE MATERIALIZED VIEW q3 AS SELECT k AS `a b`, k AS `é`, k AS `x.y`, k AS ```` FROM t0",
    "CREATE MATERIALIZED VIEW q3 AS SHOW TABLES", "CREATE MATERIALIZED VIEW {n} AS INSERT INTO t0 VALUES (1)",
    "CREATE MATERIALIZED VIEW {n} AS SELECT :a FROM t0", "CREATE TABLE {n} LIKE t0",
    "CREATE TABLE {n} (a INT) USING csv", "CREATE TABLE {n} (a INT) USING csv LOCATION '/nowhere'",
    "CREATE TABLE {n} (a INT) USING csv OPTIONS (path '/nowhere') PARTITIONED BY (a)", "ALTER TABLE {n} RENAME TO y",
    "ALTER TABLE {n} UNSET OPTIONS (a)", "ALTER TABLE {n} SET TBLPROPERTIES ('a' = 'b')",
    "ALTER TABLE {n} SET OPTIONS ()", "ALTER TABLE {n}", "ALTER VIEW {n} AS SELECT 1", "COMMENT ON TABLE {n} IS 'c'",
    "REFRESH TABLE {n}", "GRANT SELECT ON {n} TO x", "SELECT 1; SELECT 2", "SELECT 1;", "; SELECT 1", "SELECT 'a;b'",
    "SELECT 1 -- ;", "SELECT /* ; */ 1", "EXECUTE IMMEDIATE 'SELECT 1'",
)  # fmt: skip


class StatementMaker:
    """Makes statements over the tables of a mill, with some views ``q0``, ``q1``... that come and go."""

    def __init__(self, rng: random.Random, tables: Sequence[FuzzTable], data: Path) -> None:
        self._rng = rng
        self._tables = [t.name for t in tables]
        self._queries = QueryMaker(rng, tables)
        self._data = data
        self._corpus = list(ALL.values())

    def statement(self) -> str:
        """One statement; two thirds of them are not what somebody meant."""
        rng = self._rng
        text = self._right()
        for _ in range(rng.choice((0, 1, 1, 1, 2, 3, 8))):
            text = self._of_its_kind(text) if rng.random() < 0.7 else self._mutated(text)
        return text

    def _of_its_kind(self, text: str) -> str:
        """One token replaced by another of its kind, so that the statement can be parsed more often than not."""
        rng = self._rng
        tokens = _TOKEN.findall(text)
        names = [i for i, t in enumerate(tokens) if re.fullmatch(r"[a-z_]\w*", t)]
        called = [i for i in names if tokens[i + 1 : i + 2] == ["("]]
        constants = [i for i, t in enumerate(tokens) if re.fullmatch(r"\d+|'.*'", t)]
        words = [i for i, t in enumerate(tokens) if t in _KINDS]
        among = rng.choice([kind for kind in (names, called, constants, words) if kind] or [[]])
        if not among:
            return self._mutated(text)
        at = rng.choice(among)
        if among is called:
            tokens[at] = rng.choice(_CALLS)
        elif among is constants:
            tokens[at] = rng.choice(_CONSTANTS)
        elif among is words:
            tokens[at] = rng.choice(next(kind for kind in _ALIKE if tokens[at] in kind))
        else:
            tokens[at] = tokens[rng.choice(names)]
        return "".join(tokens)

    def _right(self) -> str:
        rng = self._rng
        form = rng.randrange(24)
        if form > 19:
            return self.reading()
        name = f"q{rng.randrange(4)}"
        anything = rng.choice((*self._tables, name, name, "nowhere", f"{self._tables[0]}__errors"))
        if form < 9:
            head = rng.choice(("", "OR REPLACE ", "OR REPLACE "))
            return f"CREATE {head}MATERIALIZED VIEW {name} {self._properties()}AS {self._query()}"
        if form < 12:
            return f"EXPLAIN INCREMENTAL {self._query()}"
        if form < 13:
            return self._query()
        if form < 15:
            return self._table()
        if form < 16:
            option = f"{rng.choice(_OPTIONS)} '{rng.choice(_VALUES)}'"
            return f"ALTER TABLE {anything} SET OPTIONS ({option})"
        if form < 17:
            return f"{rng.choice(('DESCRIBE', 'DESCRIBE TABLE', 'DESC'))} {anything}"
        if form < 18:
            return rng.choice(("SHOW TABLES", "SHOW VIEWS", "SHOW", "SHOW COLUMNS IN t0", "SHOW CREATE TABLE t0"))
        if form < 19:
            kind = rng.choice(("VIEW", "MATERIALIZED VIEW", "TABLE"))
            return f"DROP {kind} {rng.choice(('', 'IF EXISTS '))}{rng.choice((name, 'nowhere'))}"
        return self._strange()

    def reading(self) -> str:
        """One of the many ways to ask or tell something of a name."""
        return self._rng.choice(_READING).replace("{{", "{").replace("{n}", self._rng.choice(_NAMES))

    def _query(self) -> str:
        if self._rng.random() < 0.3:
            return self._rng.choice(self._corpus)
        return str(self._queries.query(self._rng.choice((0, 1, 2))).part)

    def _properties(self) -> str:
        rng = self._rng
        name, value = rng.choice(("emptySum", "speed", "a.b")), rng.choice(("zero", "null", ""))
        return f"TBLPROPERTIES ('{name}' = '{value}') " if rng.random() < 0.1 else ""

    def _table(self) -> str:
        rng = self._rng
        columns = [
            f"{rng.choice(('a', 'b', 'k', 'A', '`x y`', 'é'))} {rng.choice(_TYPES)}" for _ in range(rng.randrange(4))
        ]
        if rng.random() < 0.2:
            columns.append(rng.choice(("PRIMARY KEY (a)", "PRIMARY KEY (k, b)", "UNIQUE (a)", "CHECK (a > 0)")))
        listed = f"({', '.join(columns)})" if columns else ""
        options = [f"{rng.choice(_OPTIONS)} '{rng.choice(_VALUES)}'" for _ in range(rng.choice((0, 0, 1, 2, 3)))]
        place = rng.choice(
            (f"'{self._data}'", f"'{self._data}'", f"'{self._data}/none'", "'ftp://h/x'", "5", "NULL", "'generate://'")
        )
        options.insert(0, f"path {place}")
        using = f"USING {rng.choice(_FORMATS)}" if rng.random() < 0.95 else ""
        head = rng.choice(
            ("CREATE TABLE", "CREATE STATIC TABLE", "CREATE TABLE IF NOT EXISTS", "CREATE OR REPLACE TABLE")
        )
        return f"{head} made{rng.randrange(3)} {listed} {using} OPTIONS ({', '.join(options)})"

    def _strange(self) -> str:
        """Nothing, very long, very deep, other statements."""
        rng = self._rng
        many = rng.choice((50, 300, 1500))
        return rng.choice((
            "", " ", ";", ";;", "\n\n", "-- nothing", "/* nothing */", "/* open", "\x00", "\ufeff", "é", "😀" * 20,
            "a" * 100_000, "SELECT " + " + ".join(["1"] * many) + " AS a FROM t0",
            "CREATE MATERIALIZED VIEW q0 AS SELECT " + "(" * many + "1" + ")" * many + " AS a FROM t0",
            "CREATE MATERIALIZED VIEW q1 AS SELECT " + ", ".join(f"{i} AS a{i}" for i in range(many // 5)) + " FROM t0",
            "CREATE MATERIALIZED VIEW q2 AS " + " UNION ALL ".join(["SELECT 1 AS a FROM t0"] * (many // 20)),
            f"CREATE MATERIALIZED VIEW q3 AS SELECT count(*) c FROM t0 WHERE 1 IN ({', '.join(map(str, range(many)))})",
            "INSERT INTO t0 VALUES (1)", "DELETE FROM t0", "UPDATE t0 SET k = 1",
            "MERGE INTO t0 USING t1 ON true WHEN MATCHED THEN DELETE", "CREATE VIEW v AS SELECT 1",
            "CREATE TEMPORARY VIEW v AS SELECT 1", "CREATE SCHEMA s", "CREATE FUNCTION f AS 'a.B'", "SET x = 1",
            "CREATE TABLE made9 USING parquet AS SELECT 1 AS a", "USE s", "EXPLAIN SELECT 1", "EXPLAIN INCREMENTAL",
            "EXPLAIN INCREMENTAL q0", "REFRESH MATERIALIZED VIEW q0", "ALTER TABLE t0 ADD COLUMNS (z INT)",
            "ALTER VIEW q0 RENAME TO q9", "CACHE TABLE t0", "TRUNCATE TABLE t0",
            "ANALYZE TABLE t0 COMPUTE STATISTICS", "BEGIN SELECT 1; END", "DECLARE x INT", "CALL p()", "VALUES (1)",
            "FROM t0 SELECT *", "TABLE t0", "(SELECT 1)", "WITH a AS (SELECT 1 AS b) SELECT * FROM a",
            "SELECT * FROM t0 |> WHERE true",
        ))  # fmt: skip

    def _mutated(self, text: str) -> str:
        rng = self._rng
        tokens = _TOKEN.findall(text)
        solid = [i for i, t in enumerate(tokens) if not t.isspace()]
        if not solid:
            return text + rng.choice(_ODD)
        at = rng.choice(solid)
        form = rng.randrange(8)
        match form:
            case 0:
                del tokens[at]
            case 1:
                other = rng.choice(solid)
                tokens[at], tokens[other] = tokens[other], tokens[at]
            case 2:
                tokens.insert(at, tokens[at] + " ")
            case 3 | 4:
                tokens[at] = f" {rng.choice(_ODD)} "
            case 5:
                tokens.insert(at, f" {rng.choice(_ODD)} ")
            case 6:
                tokens[at] = tokens[rng.choice(solid)]
            case _:
                end = rng.choice(solid)
                tokens = tokens[: min(at, end)] + tokens[max(at, end) :] if rng.random() < 0.6 else tokens[:at]
        return "".join(tokens)
