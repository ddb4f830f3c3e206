"""Makes the archive of Java classes that :mod:`tidemill.runtime.spark.java_archive` describes."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from pyspark import SparkContext

from tidemill.config import Settings
from tidemill.plan.catalyst.analyser import Catalyst
from tidemill.plan.sql.statements import CreateTable, CreateView, split_script
from tidemill.runtime.spark.java_archive import QUIET, archive_path
from tidemill.runtime.spark.java_process import begin
from tidemill.runtime.spark.session import create_session

_SECONDS = 120
_QUERIES = (
    "SELECT s, sum(i) AS a, count(DISTINCT d) AS b, max(at) AS c FROM t WHERE i > 3 GROUP BY s HAVING sum(i) > 1",
    "SELECT x.i, y.s, x.m * 2 AS m FROM t x JOIN u y ON x.i = y.i AND x.d < y.d LEFT JOIN u z ON y.s = z.s",
    "SELECT i, rank() OVER (PARTITION BY s ORDER BY d, i) AS r FROM t WHERE i IN (SELECT i FROM u) ORDER BY i LIMIT 3",
    "SELECT upper(s) AS s, CASE WHEN b THEN 1 ELSE i END AS n FROM t UNION ALL SELECT s, size(collect_list(i)) FROM u "
    "GROUP BY s",
    "SELECT i FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.i = t.i) AND d > (SELECT avg(d) FROM u) EXCEPT "
    "SELECT i FROM u",
)
_SCRIPT = """
CREATE TABLE a (i INT NOT NULL, d DOUBLE, m DECIMAL(12, 2), s STRING, b BOOLEAN, at TIMESTAMP, PRIMARY KEY (i))
  USING csv OPTIONS (path 'a', header true);
CREATE STATIC TABLE c (i INT, s STRING, more STRUCT<x: INT, y: ARRAY<STRING>>) USING json OPTIONS (path 'c');
CREATE MATERIALIZED VIEW v AS
  SELECT s, count(*) AS n, avg(d) AS a, max(d) AS x, sum(CASE WHEN d > 1 THEN 1 ELSE 0 END) * 100.0 / count(*) AS p
  FROM a GROUP BY s;
CREATE MATERIALIZED VIEW w AS
  SELECT c.s, round(v.a, 2) AS a, count(DISTINCT c.i) AS n FROM v JOIN c ON v.s = c.s WHERE v.n >= 10 GROUP BY c.s, v.a
  HAVING count(*) > 2;
CREATE MATERIALIZED VIEW l AS SELECT a.i, c.more.x AS x FROM a LEFT JOIN c ON a.i = c.i WHERE a.at IS NOT NULL;
CREATE MATERIALIZED VIEW t AS SELECT window(at, '5 minutes') AS t, sum(m) AS m FROM a GROUP BY 1;
CREATE MATERIALIZED VIEW f AS SELECT s, i FROM a ORDER BY i DESC LIMIT 3;
"""
_COLUMNS, _ROW = "i, d, m, s, b, at", "(1, 2.5D, 1.25, 'a', true, TIMESTAMP '2024-01-31 10:11:12')"


def make_archive() -> Path | None:
    """Make the archive unless it is there: a process of its own runs a few queries, some 20 seconds.

    Returns
    -------
    Path or None
        None when it could not be made. Only speed depends on it.
    """
    path = archive_path()
    if path is None or path.exists():
        return path
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=path.parent) as place:
            made = Path(place) / path.name
            command = [sys.executable, "-m", "tidemill.runtime.spark.make_java_archive", str(made)]
            subprocess.run(command, check=True, capture_output=True, timeout=_SECONDS)
            made.replace(path)
    except (OSError, subprocess.SubprocessError):
        return None
    return path


def _record(path: str) -> None:
    """Start Spark, run typical queries, and wait until Java has written the archive."""
    conf = {
        "spark.driver.extraJavaOptions": f'"-XX:ArchiveClassesAtExit={path}" -XX:TieredStopAtLevel=1 {QUIET}',
        "spark.driver.memory": "1g",
        "spark.python.daemon.module": "pyspark.daemon",
    }
    begin({"spark.master": "local[2]", **conf}, ml=False)
    spark = create_session(Settings(master="local[2]", spark_conf=conf))
    catalyst = Catalyst(spark)
    for source in split_script(_SCRIPT):
        statement = catalyst.parse(source)
        if isinstance(statement, CreateTable):
            catalyst.register(statement.name, statement.schema)
        elif isinstance(statement, CreateView):
            catalyst.register(statement.name, catalyst.plan(statement.query).schema)
    spark.conf.set("spark.sql.adaptive.enabled", "false")
    for name in ("t", "u"):
        spark.sql(f"SELECT * FROM VALUES {_ROW} AS r({_COLUMNS})").createOrReplaceTempView(name)
    for query in _QUERIES:
        spark.sql(f"EXPLAIN EXTENDED {query}").collect()
        spark.sql(query).toArrow()
    pairs = spark.sparkContext.parallelize([(1, b"a"), (2, b"b")], 2)
    pairs.partitionBy(2, int).mapPartitions(list).collect()
    gateway = SparkContext._gateway
    spark.stop()
    assert gateway is not None
    gateway.shutdown()
    java = gateway.proc
    java.stdin.close()
    java.wait(_SECONDS)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        _record(sys.argv[1])
    else:
        print(make_archive() or "the archive could not be made")
