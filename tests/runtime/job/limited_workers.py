"""A mill whose Python workers have little memory, with views of every kind of operator; prints what came out, as JSON.

Run by test_limited_workers.py in a process of its own: ``limited_workers.py <directory>``. Views that can be computed
equal Spark's answers; those that need more memory than there is are TM3020, until they need less.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyarrow import csv
from pyspark.sql import SparkSession

import tidemill as tm
from job_status import failed_tasks
from tidemill.testing import difference

MEMORY_BYTES = 4 << 20
ROOM_MB = 200
"""What a worker may have beside what it begins with."""
ROWS, OTHERS = 30_000, 120
COLUMNS = {"t": "id INT, k INT, g INT, v INT, s STRING", "u": "id INT, g INT, w INT"}

VIEWS = {
    # groups: many, some large ones, one that is everything
    "sums": "SELECT g, COUNT(*) AS n, SUM(v) AS v, MIN(s) AS low, MAX(s) AS high FROM t GROUP BY g",
    "many_groups": "SELECT COUNT(*) AS n, SUM(v) AS v FROM (SELECT id, s, MAX(v) AS v FROM t GROUP BY id, s)",
    "differents": "SELECT g, COUNT(DISTINCT s) AS s, COUNT(DISTINCT id) AS ids, SUM(DISTINCT v) AS v FROM t GROUP BY g",
    "medians": "SELECT g, percentile(v, array(0.1, 0.5)) AS p, mode(if(id % 3 = 0, -1, k)) AS m, bit_xor(id) AS x "
    "FROM t GROUP BY g",
    "median": "SELECT percentile(id, 0.5) AS p, percentile_approx(id, 0.9, 10000000) AS q, "
    "mode(if(id % 3 = 0, -1, v)) AS m, bit_or(id) AS o FROM t",
    "lists": "SELECT SUM(size(l)) AS n, MAX(array_sort(l)) AS x "
    "FROM (SELECT k, collect_list(v) AS l FROM t GROUP BY k)",
    "latest": "SELECT g, max_by(s, id) AS s, min_by(s, id) AS t FROM t GROUP BY g",
    "distinct_rows": "SELECT COUNT(*) AS n FROM (SELECT DISTINCT s FROM t)",
    # joins
    "joined": "SELECT t.g, COUNT(*) AS n, SUM(greatest(t.v, u.w)) AS x FROM t JOIN u ON t.g = u.g GROUP BY t.g",
    "crossed": "SELECT COUNT(*) AS n, SUM(least(t.v, u.w)) AS x FROM t CROSS JOIN u WHERE t.g = 1",
    "left_joined": "SELECT COUNT(*) AS n, COUNT(w) AS w, SUM(greatest(v, w)) AS x FROM t LEFT JOIN u ON t.v = u.id",
    "products": "SELECT t.g, SUM(t.v * u.w) AS x FROM t JOIN u ON t.g = u.g GROUP BY t.g",
    "smaller": "SELECT u.id, (SELECT SUM(t.v) FROM t WHERE t.v < u.w) AS x FROM u",
    "with_others": "SELECT COUNT(*) AS n, SUM(v) AS v FROM t WHERE k IN (SELECT id FROM u)",
    "without_others": "SELECT COUNT(*) AS n, SUM(v) AS v FROM t WHERE k NOT IN (SELECT id FROM u)",
    # sets of rows, rows
    "all_rows": "SELECT id, k, g, s FROM t",
    "both": "SELECT COUNT(*) AS n FROM (SELECT v, g FROM t INTERSECT ALL SELECT v, g FROM t WHERE id % 2 = 0)",
    "exploded": "SELECT x, COUNT(*) AS n FROM (SELECT explode(sequence(1, v % 50 + 1)) AS x FROM t) GROUP BY x",
    "first_rows": "SELECT id, v, s FROM t ORDER BY v, id LIMIT 10 OFFSET 7000",
    # windows
    "running": "SELECT k, SUM(x) AS x FROM (SELECT k, SUM(v) OVER (PARTITION BY k ORDER BY id) AS x FROM t) GROUP BY k",
    "ranks": "SELECT * FROM (SELECT g, id, rank() OVER (PARTITION BY g ORDER BY v, id) AS r FROM t) WHERE r <= 3",
    "slices": "SELECT SUM(r) AS r, SUM(x) AS x, MAX(y) AS y FROM (SELECT rank() OVER w AS r, SUM(id) OVER w AS x, "
    "lag(id) OVER w + lead(id, 3) OVER w AS y FROM t WINDOW w AS (PARTITION BY g % 2 ORDER BY lpad(s, 600, 'ab'), id))",
    # functions that make much of little
    "texts": "SELECT SUM(length(repeat(s, 100))) AS a, SUM(length(lpad(s, 1000, 'ab'))) AS b, "
    "SUM(length(concat(space(v), s))) AS c, SUM(size(array_repeat(s, 100))) AS d FROM t",
    "lambdas": "SELECT SUM(size(transform(sequence(1, v % 100), x -> concat(s, x)))) AS a FROM t",
    "read_again": "SELECT g, SUM(n) AS n FROM sums GROUP BY g",
}
LARGE = {
    "large_list": "SELECT g, size(collect_list(s)) AS n FROM t GROUP BY g",
    "long_text": "SELECT id, length(repeat(s, if(g = 0, 10000000, 2))) AS n FROM t WHERE k = 2",
    "large_frames": "SELECT g, id, size(collect_list(s) OVER (PARTITION BY g ORDER BY id)) AS n FROM t",
    "large_partition": "SELECT g, id, percent_rank() OVER (PARTITION BY g ORDER BY lpad(s, 500, 'ab'), id) AS r FROM t",
}
"""Views that need more memory than there is as long as such rows are there."""


def write(directory: Path, name: str, number: int, columns: dict[str, object]) -> None:
    """A file of changes: ``op`` is the last column."""
    csv.write_csv(pa.table(columns), directory / name / f"{number}.csv", csv.WriteOptions(include_header=False))


def rows(first: int, count: int, op: str, *, large: bool) -> dict[str, object]:
    """Rows of ``t``; with ``large`` half of them have the same ``g``."""
    ids = np.arange(first, first + count)
    g = np.where(ids % 2 == 0, 0, ids % 1000) if large else ids % 1000
    texts = pa.array(ids * 7919 % 1_000_003).cast(pa.string())
    s = pa.compute.binary_join_element_wise("the text that has the number ", texts, "")
    return {"id": ids, "k": ids % 5000, "g": g, "v": ids * 31 % 1009, "s": s, "op": pa.repeat(op, count)}


def others(first: int, count: int, op: str) -> dict[str, object]:
    """Rows of ``u``, half of which have ``g`` 0."""
    ids = np.arange(first, first + count)
    return {"id": ids, "g": np.where(ids % 2 == 0, 0, ids % 1000), "w": ids * 17 % 1013, "op": pa.repeat(op, count)}


def change(directory: Path, number: int) -> None:
    """The input of an epoch: everything, then a little more and most of the large group away."""
    if not number:
        write(directory, "t", 0, rows(0, ROWS, "I", large=True))
        write(directory, "u", 0, others(0, OTHERS, "I"))
        return
    gone = {name: np.asarray(values)[::2] for name, values in rows(0, ROWS, "D", large=True).items()}
    write(directory, "t", 1, gone)
    write(directory, "t", 2, rows(ROWS, 1000, "I", large=False))
    write(directory, "u", 1, others(OTHERS, 10, "I"))


def differences(mill: tm.Mill, session: SparkSession, names: list[str]) -> dict[str, str]:
    """What is wrong with each view: how it differs from Spark's answer, or its status."""
    found = {}
    status = {name: state for name, state, _, _ in mill.status()}
    for name in names:
        query = {**VIEWS, **LARGE}[name]
        if status[name] != "fresh":
            found[name] = status[name]
        elif name == "all_rows":
            here, there = mill.read(name).sort_by("id"), session.sql(query).toArrow().sort_by("id")
            found |= {} if here.equals(there.cast(here.schema)) else {name: "differs"}
        else:
            wrong = difference(mill.read(name), session.sql(query).toArrow())
            found |= {name: wrong} if wrong else {}
    return found


def main(directory: Path) -> None:
    """Run, and compare after each change."""
    for name in COLUMNS:
        (directory / name).mkdir()
    os.environ["TIDEMILL_TEST_ROOM_MB"] = str(ROOM_MB)
    os.environ |= {"ARROW_DEFAULT_MEMORY_POOL": "system", "MALLOC_MMAP_THRESHOLD_": "262144"}  # what is freed goes back
    os.environ["PYTHONPATH"] = os.pathsep.join([str(Path(__file__).parent), *sys.path])
    conf = {"spark.python.daemon.module": "limited_daemon", "spark.driver.memory": "1g"}
    settings = tm.Settings(master="local[1]", partitions=2, memory_bytes=MEMORY_BYTES, compact_after=1, spark_conf=conf)
    found: dict[str, object] = {}
    with tm.Mill(directory / "root", settings=settings) as mill:
        for name, columns in COLUMNS.items():
            mill.sql(f"CREATE TABLE {name} ({columns}) USING csv OPTIONS (path '{directory / name}', opColumn 'op')")
        for name, query in {**VIEWS, **LARGE}.items():
            mill.sql(f"CREATE MATERIALIZED VIEW {name} AS {query}")
        session = mill.spark.newSession()
        session.conf.set("spark.sql.ansi.enabled", "true")
        session.conf.set("spark.sql.shuffle.partitions", "1")
        spilled = 0
        for number in range(2):
            change(directory, number)
            spilled += sum(report.spilled_bytes for report in mill.drain())
            session.catalog.clearCache()
            for name, columns in COLUMNS.items():
                read = session.read.schema(f"{columns}, op STRING").csv(str(directory / name)).createOrReplaceTempView
                read(f"changes_of_{name}")
                gone = f"SELECT id FROM changes_of_{name} WHERE op = 'D'"
                rows_left = session.sql(f"SELECT * FROM changes_of_{name} c LEFT ANTI JOIN ({gone}) d ON c.id = d.id")
                rows_left.drop("op").cache().createOrReplaceTempView(name)
            session.sql("SELECT * FROM (" + VIEWS["sums"] + ")").createOrReplaceTempView("sums")
            compared = [*VIEWS, *LARGE] if not number else ["sums", "medians", "lists", "joined", "running", *LARGE]
            found[f"wrong {number}"] = differences(mill, session, compared)
            found[f"errors {number}"] = {name: text for name, state, _, text in mill.status() if state != "fresh"}
        found["spilled"] = spilled
        found["failed tasks"] = failed_tasks(mill.spark, 0)
    print(json.dumps(found))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
