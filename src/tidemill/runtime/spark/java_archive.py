"""An archive of Java classes that makes Spark start in less time.

Spark loads, checks and links about ten thousand classes from its jars before the first job has run. Java can keep
them in a file as they are in memory (class data sharing): a session then takes half the processor time to start. The
archive is 160 MB below ``XDG_CACHE_HOME``. Sessions use it when it is there; ``make prepare``, or
``python -m tidemill.runtime.spark.java_archive``, makes it. Java itself refuses an archive of other jars or of another
Java, and goes on without it.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pyspark

_SECONDS = 120
_QUIET = "-Xshare:auto -Xlog:cds=off -Xlog:cds+dynamic=off -Xlog:class+path=off"
_QUERIES = (
    "SELECT s, sum(i) AS a, count(DISTINCT d) AS b, max(at) AS c FROM t WHERE i > 3 GROUP BY s HAVING sum(i) > 1",
    "SELECT x.i, y.s, x.m * 2 AS m FROM t x JOIN u y ON x.i = y.i AND x.d < y.d LEFT JOIN u z ON y.s = z.s",
    "SELECT i, rank() OVER (PARTITION BY s ORDER BY d, i) AS r FROM t WHERE i IN (SELECT i FROM u) ORDER BY i LIMIT 3",
    "SELECT upper(s) AS s, CASE WHEN b THEN 1 ELSE i END AS n FROM t UNION ALL SELECT s, size(collect_list(i)) FROM u "
    "GROUP BY s",
    "SELECT i FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.i = t.i) AND d > (SELECT avg(d) FROM u) EXCEPT "
    "SELECT i FROM u",
)
_COLUMNS, _ROW = "i, d, m, s, b, at", "(1, 2.5D, 1.25, 'a', true, TIMESTAMP '2024-01-31 10:11:12')"


def archive_path() -> Path | None:
    """Where the archive of this Java and this PySpark is, or would be; None when there is no Java or no home."""
    home = os.environ.get("JAVA_HOME")
    java = shutil.which(str(Path(home) / "bin" / "java")) if home else shutil.which("java")
    if java is None:
        return None
    jars = Path(pyspark.__file__).parent / "jars"
    digest = hashlib.sha256()
    for path in (Path(java).resolve(), jars):
        status = path.stat()
        digest.update(f"{path} {status.st_size} {status.st_mtime_ns}\n".encode())
    try:
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    except RuntimeError:
        return None
    return base / "tidemill" / f"java-{digest.hexdigest()[:16]}.jsa"


def java_options() -> str:
    """What makes Java use the archive; empty when there is none."""
    path = archive_path()
    return f'"-XX:SharedArchiveFile={path}" {_QUIET}' if path is not None and path.exists() else ""


def make_archive() -> Path | None:
    """Make the archive unless it is there: a process of its own runs a few queries, some 20 seconds.

    Returns
    -------
    Path or None
        None when it could not be made. Nothing depends on it but speed.
    """
    path = archive_path()
    if path is None or path.exists():
        return path
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=path.parent) as place:
            made = Path(place) / path.name
            command = [sys.executable, "-m", "tidemill.runtime.spark.java_archive", str(made)]
            subprocess.run(command, check=True, capture_output=True, timeout=_SECONDS)
            made.replace(path)
    except (OSError, subprocess.SubprocessError):
        return None
    return path


def _record(path: str) -> None:
    """Start Spark, let it do a little of everything, and wait until Java has written what it loaded."""
    from pyspark import SparkContext

    from tidemill.config import Settings
    from tidemill.runtime.spark.session import create_session

    conf = {
        "spark.driver.extraJavaOptions": f'"-XX:ArchiveClassesAtExit={path}" -XX:TieredStopAtLevel=1 {_QUIET}',
        "spark.driver.memory": "1g",
        "spark.python.daemon.module": "pyspark.daemon",
    }
    spark = create_session(Settings(master="local[2]", spark_conf=conf))
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
